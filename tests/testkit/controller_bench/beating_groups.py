"""Many broker groups whose members send heartbeats all the time, over a few connections.

They are the background of a measurement: three members a group, each with a heartbeat to every controller in
each interval, spread evenly over it. Frames are made once. As brokers do, members send them oneway; the
controllers' own counters show whether they keep up (`heartbeats_taken`).

All members share one address. So controllers hold one connection for notices to all of them, and a fleet of
ten thousand groups needs no more descriptors than one of ten.
"""

import asyncio
import itertools
import re
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

import aiohttp

from controller_core.remoting import headers
from controller_core.remoting.bodies import SyncStateSet
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import FLAG_ONEWAY, RemotingCommand
from controller_core.remoting.frame import encode
from controller_core.server.cli.load_connection import LoadConnection
from testkit.controller_bench.fleet import CLUSTER, FleetError, find_leader

MEMBERS: Final = 3
SLOT_S: Final = 0.01
_LANES: Final = 8
_ALIVE_MS: Final = 600_000
_PREPARED_AT_ONCE: Final = 64
_TRIES_MAX: Final = 50
_PAUSE_S: Final = 0.1
_DONE_BEFORE: Final = frozenset(
    {ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED, ResponseCode.CONTROLLER_MASTER_STILL_EXIST}
)
"""What a repetition is answered with if the first request was carried out after all."""
_TAKEN: Final = re.compile(r'^rmqha_requests_total\{code="904",result="oneway"\} (\S+)$', re.MULTILINE)


async def heartbeats_taken(http_address: str) -> float:
    """Return how many oneway heartbeats a controller has taken since its start, by its own counter."""
    async with aiohttp.ClientSession() as session, session.get(f"http://{http_address}/metrics") as response:
        found = _TAKEN.search(await response.text())
    return float(found[1]) if found else 0.0


class _Lane:
    """Connections to all controllers that hold the members of some groups."""

    def __init__(self, links: Sequence[LoadConnection], leading: int) -> None:
        self.links = links
        self._leading = leading
        self._opaques = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[int]] = {}
        links[leading].on_answer = self._answered

    async def must(self, code: int, ext: dict[str, str], body: bytes = b"") -> None:
        """Send a request to the leader, which must not refuse it; send it again while no controller leads."""
        for number in range(_TRIES_MAX):
            told = await self._ask(code, ext, body)
            if told == ResponseCode.SUCCESS or (number and told in _DONE_BEFORE):
                return
            if told != ResponseCode.CONTROLLER_NOT_LEADER:
                raise FleetError(f"request {int(code)} was answered {told}")
            await asyncio.sleep(_PAUSE_S)
        raise FleetError(f"request {int(code)}: no controller leads")

    async def _ask(self, code: int, ext: dict[str, str], body: bytes) -> int:
        opaque = next(self._opaques)
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting[opaque] = answer
        self.links[self._leading].send(encode(RemotingCommand(code, opaque, ext=ext, body=body)))
        return await answer

    def send(self, frames: bytes) -> None:
        """Send frames to every controller."""
        for link in self.links:
            link.send(frames)

    def _answered(self, opaque: int, code: int) -> None:
        waiting = self._waiting.pop(opaque, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(code)


class BeatingGroups:
    """Some groups; an async context manager that closes what it opened."""

    def __init__(self, controllers: Sequence[str], groups: int, interval_s: float, address: str) -> None:
        """Describe groups `beating-<i>` whose members announce `address`; `prepare` makes them."""
        self._controllers = list(controllers)
        self._groups = groups
        self._interval_s = interval_s
        self._address = address
        self._lanes: list[_Lane] = []
        self._beating: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Connect."""
        leading = self._controllers.index(await find_leader(self._controllers))
        for _ in range(_LANES):
            self._lanes.append(_Lane([await _dial(address) for address in self._controllers], leading))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the heartbeats and close everything."""
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)
        for lane in self._lanes:
            for link in lane.links:
                link.close()

    async def prepare(self) -> None:
        """Make every group, with its first member as master and all members in the SyncStateSet."""
        gate = asyncio.Semaphore(_PREPARED_AT_ONCE)

        async def one(group: int) -> None:
            async with gate:
                await self._prepare(self._lane(group), f"beating-{group}")

        await asyncio.gather(*(one(group) for group in range(self._groups)))

    def start(self) -> None:
        """Begin to send heartbeats."""
        self._beating = asyncio.create_task(self._beat())

    async def _prepare(self, lane: _Lane, name: str) -> None:
        members = range(1, MEMBERS + 1)
        for member in members:
            claim = headers.ApplyBrokerIdRequestHeader(CLUSTER, name, member, f"{self._address};{member}")
            await lane.must(RequestCode.CONTROLLER_APPLY_BROKER_ID, claim.to_ext())
            lane.send(self._heartbeat(name, member, epoch=0))
        elect = headers.ElectMasterRequestHeader(broker_name=name, cluster_name=CLUSTER, broker_id=1)
        await lane.must(RequestCode.CONTROLLER_ELECT_MASTER, elect.to_ext())
        lane.send(b"".join(self._heartbeat(name, member, epoch=1) for member in members))
        alter = headers.AlterSyncStateSetRequestHeader(name, 1, 1)  # a new group's first epochs are 1
        body = SyncStateSet.of(tuple(members), 1).encode()
        await lane.must(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, alter.to_ext(), body)

    async def _beat(self) -> None:
        slots = self._slots()
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        for slot in itertools.cycle(slots):
            for lane, frames in slot:
                lane.send(frames)
            due_s += self._interval_s / len(slots)
            await asyncio.sleep(due_s - loop.time())

    def _slots(self) -> list[list[tuple[_Lane, bytes]]]:
        """Return what to send in each slot of an interval."""
        count = max(1, round(self._interval_s / SLOT_S))
        slots: list[dict[_Lane, list[bytes]]] = [{} for _ in range(count)]
        members = ((group, member) for group in range(self._groups) for member in range(1, MEMBERS + 1))
        for number, (group, member) in enumerate(members):
            frames = slots[number % count].setdefault(self._lane(group), [])
            frames.append(self._heartbeat(f"beating-{group}", member, epoch=1))
        return [[(lane, b"".join(frames)) for lane, frames in slot.items()] for slot in slots]

    def _lane(self, group: int) -> _Lane:
        return self._lanes[group % _LANES]

    def _heartbeat(self, name: str, member: int, epoch: int) -> bytes:
        header = headers.BrokerHeartbeatRequestHeader(
            CLUSTER,
            self._address,
            name,
            member,
            epoch=epoch,
            max_offset=0,
            confirm_offset=0,
            heartbeat_timeout_mills=_ALIVE_MS,
        )
        return encode(RemotingCommand(RequestCode.BROKER_HEARTBEAT, flag=FLAG_ONEWAY, ext=header.to_ext()))


async def _dial(address: str) -> LoadConnection:
    host, _, port = address.rpartition(":")
    _, link = await asyncio.get_running_loop().create_connection(LoadConnection, host, int(port))
    return link
