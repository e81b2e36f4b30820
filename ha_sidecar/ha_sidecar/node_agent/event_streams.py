"""Follow the event streams of all controllers, and say which elections a majority of them tells.

    first connection    learn the last sequence number: what happened before is not the agent's concern
    later connection    continue after the last event that was read
    smaller number      the controller lost its state: begin again at its end
    unreadable line     counted, skipped; one that is nested too deeply too
    stream ends         dial again after a pause

A controller's silence does not matter while a majority of the streams is open.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeGuard

import aiohttp

from controller_core import bounded_json
from controller_core.channel.http_answers import EVENT_LINE_BYTES_MAX, newest_event, read_json, sequence_of
from controller_core.remoting.host_port import join_host_port
from ha_sidecar.address import HostPort
from ha_sidecar.decisions.broker_facts import GroupName
from ha_sidecar.node_agent.elections import (
    NAME_CHARS_MAX,
    Election,
    ElectionEventError,
    ElectionVotes,
    parse_election,
)
from ha_sidecar.node_agent.metrics import NodeAgentMetrics

LINE_BYTES_MAX: Final = EVENT_LINE_BYTES_MAX
GROUPS_MAX: Final = 1_000
"""Names of groups taken from one controller; one that lies must not fill the memory."""
RECONNECT_S: Final = 0.2
RECONNECT_S_MAX: Final = 2.0
_CONNECT_S: Final = 1.0
_READ_S: Final = 5.0
_KEEPALIVE_S: Final = 5
_KEEPALIVE_PROBES_MAX: Final = 3
_READ: Final = aiohttp.ClientTimeout(total=_READ_S, sock_connect=_CONNECT_S)
_FOLLOW: Final = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S)
_TROUBLE: Final = (aiohttp.ClientError, TimeoutError, ValueError)

_log = logging.getLogger(__name__)


class EventStreams:
    """The streams of all controllers.

    Attributes:
        open_count: how many streams are open.
    """

    def __init__(
        self,
        addresses: Sequence[HostPort],
        on_election: Callable[[Election], None],
        metrics: NodeAgentMetrics,
    ) -> None:
        """Take the controllers' HTTP addresses, and the receiver of elections that a majority tells."""
        self._addresses: Final = tuple(addresses)
        self._on_election: Final = on_election
        self._metrics: Final = metrics
        self._votes: Final = ElectionVotes(len(self._addresses))
        self._groups: Final = [set[GroupName]() for _ in self._addresses]
        self.open_count = 0

    def groups(self) -> frozenset[GroupName]:
        """Return the groups that any controller told; they may be wrong."""
        return frozenset[GroupName]().union(*self._groups)

    async def run(self) -> None:
        """Follow all streams until cancelled."""
        connector = aiohttp.TCPConnector(socket_factory=_lasting_socket)
        async with aiohttp.ClientSession(connector=connector) as session, asyncio.TaskGroup() as tasks:
            for number in range(len(self._addresses)):
                tasks.create_task(self._follow(session, number))

    async def _follow(self, session: aiohttp.ClientSession, number: int) -> None:
        last: int | None = None
        pause_s = RECONNECT_S
        host, port = self._addresses[number]
        url = f"http://{join_host_port(host, port)}"
        while True:
            try:
                self._note_groups(number, await self._listed_groups(session, url))
                newest = await newest_event(session, url, _READ)
                last = newest if last is None or newest < last else last
                async with session.get(
                    f"{url}/v1/events?after={last}",
                    timeout=_FOLLOW,
                    allow_redirects=False,
                    read_bufsize=LINE_BYTES_MAX,
                ) as response:
                    response.raise_for_status()
                    pause_s = RECONNECT_S
                    with self._counted():
                        async for line in response.content:
                            last = self._take(number, line, last)
            except _TROUBLE as error:
                _log.debug("events of %s: %r", url, error)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, RECONNECT_S_MAX)

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        self.open_count += 1
        self._metrics.streams.set(self.open_count)
        try:
            yield
        finally:
            self.open_count -= 1
            self._metrics.streams.set(self.open_count)

    def _take(self, number: int, line: bytes, last: int) -> int:
        """Take one line; return the sequence number to continue after."""
        if not line.strip():
            return last
        try:
            event = bounded_json.decode(line)
            sequence = sequence_of(event)
            self._note_groups(number, [(event.get("cluster"), event.get("group"))])
            election = parse_election(event)
        except ValueError as error:
            self._metrics.unreadable_events.inc()
            _log.warning("controller %s:%d: %s", *self._addresses[number], error)
            return last
        if election is not None and self._votes.vote(number, election):
            self._on_election(election)
        return max(last, sequence)

    async def _listed_groups(self, session: aiohttp.ClientSession, url: str) -> list[tuple[Any, Any]]:
        async with session.get(f"{url}/v1/groups", timeout=_READ, allow_redirects=False) as response:
            response.raise_for_status()
            answer = await read_json(response)
        groups = answer.get("groups") if isinstance(answer, dict) else None
        if not isinstance(groups, list):
            raise ElectionEventError("/v1/groups: expected an object with a list of groups")
        return [(group.get("cluster"), group.get("name")) for group in groups if isinstance(group, dict)]

    def _note_groups(self, number: int, names: Iterable[tuple[object, object]]) -> None:
        known = self._groups[number]
        for cluster, name in names:
            if _is_name(cluster) and _is_name(name) and len(known) < GROUPS_MAX:
                known.add(GroupName(cluster, name))


def _is_name(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and 0 < len(value) <= NAME_CHARS_MAX


def _lasting_socket(address: tuple[Any, ...]) -> socket.socket:
    """Return a socket whose connection ends if the other machine is gone: a stream may be quiet for hours."""
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_S)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_S)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _KEEPALIVE_PROBES_MAX)
    return made
