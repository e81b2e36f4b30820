"""Find the master of the group in the name server's route.

Problem: a client learns of a new master from the name server only, and only when it asks; the time from
election to that answer is a phase of every failover. Shape: the canary asks the name server five times per
second, and at once after a failed operation. A change of the address of brokerId 0 calls `on_change`. If the
name server does not know the topic yet, the master can still be found: then the canary requests the list of
all groups. Never: an answer that did not come changes the route; a client keeps what it last heard, too.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from controller_core.access.signing import Sign
from controller_core.channel import ChannelError, Connection, connect
from controller_core.remoting import lenient_json
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.errors import RemotingProtocolError
from controller_core.remoting.routes import BrokerData, ClusterInfo, TopicRouteData
from slo_pipeline.canary.requests import route_request

POLL_S = 0.2
CALL_TIMEOUT_S = 1.0
_PERM_WRITE = 2

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Route:
    """What the name server says of the group.

    Attributes:
        master: host:port of brokerId 0, "" without a master.
        cluster: the group's cluster, "" if not known.
        queues: queues of the topic that may be written on this group; 0 if the topic is not there.
    """

    master: str = ""
    cluster: str = ""
    queues: int = 0


class RouteWatcher:
    """Asks for the route until cancelled.

    Attributes:
        route: the last one heard.
    """

    def __init__(
        self,
        name_servers: Sequence[tuple[str, int]],
        group: str,
        topic: str,
        on_change: Callable[[Route, Route], None],
        sign: Sign | None = None,
    ) -> None:
        """Describe the watcher.

        Args:
            name_servers: host and port of each.
            group: brokerName.
            topic: the canary's topic.
            on_change: called with the old and the new route when the master's address changed.
            sign: signs the questions.
        """
        self.route = Route()
        self._name_servers = name_servers
        self._group = group
        self._topic = topic
        self._on_change = on_change
        self._sign = sign
        self._poke = asyncio.Event()
        self._connection: Connection | None = None
        self._at = 0

    def poke(self) -> None:
        """Ask at once: something failed."""
        self._poke.set()

    async def run(self) -> None:
        """Ask for the route, again and again, until cancelled."""
        try:
            while True:
                self._poke.clear()
                await self._ask_once()
                try:
                    async with asyncio.timeout(POLL_S):
                        await self._poke.wait()
                    # Many failures poke, one question answers them; a name server is not to be flooded.
                    await asyncio.sleep(POLL_S / 10)
                except TimeoutError:
                    continue
        finally:
            if self._connection is not None:
                self._connection.abort()
                await self._connection.wait_closed()

    async def _ask_once(self) -> None:
        try:
            route = await self._ask()
        except (ChannelError, RemotingProtocolError) as error:
            _log.info("name server: %s", error)
            if self._connection is not None:
                self._connection.abort()
                self._connection = None
            self._at = (self._at + 1) % len(self._name_servers)
            return
        before, self.route = self.route, route
        if before.master != route.master:
            self._on_change(before, route)

    async def _ask(self) -> Route:
        answer = await self._call(route_request(self._topic))
        if answer.code == ResponseCode.SUCCESS:
            route = topic_route(answer.body, self._group)
            if route.master and route.queues:
                return route
        return group_route(
            (await self._call(RemotingCommand.request(RequestCode.GET_BROKER_CLUSTER_INFO))).body, self._group
        )

    async def _call(self, request: RemotingCommand) -> RemotingCommand:
        if self._connection is None or self._connection.is_closed:
            host, port = self._name_servers[self._at]
            self._connection = await connect(host, port, CALL_TIMEOUT_S, sign=self._sign)
        return await self._connection.call(request, CALL_TIMEOUT_S)


def topic_route(body: bytes, group: str) -> Route:
    """Return the group's route from the answer to a route request.

    Raises:
        RemotingProtocolError: the body is not a route.
    """
    data = lenient_json.decode(body, TopicRouteData)
    queues = sum(
        queue.write_queue_nums
        for queue in data.queue_datas
        if queue.broker_name == group and queue.perm & _PERM_WRITE
    )
    return _route_of(next((one for one in data.broker_datas if one.broker_name == group), None), queues)


def group_route(body: bytes, group: str) -> Route:
    """Return the group's route, without queues, from the list of all groups.

    Raises:
        RemotingProtocolError: the body is not such a list.
    """
    return _route_of(lenient_json.decode(body, ClusterInfo).broker_addr_table.get(group), 0)


def _route_of(data: BrokerData | None, queues: int) -> Route:
    if data is None:
        return Route()
    return Route(data.master_address or "", data.cluster or "", queues)
