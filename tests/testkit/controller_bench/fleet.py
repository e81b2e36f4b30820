"""Many broker groups that exist only for controllers.

They are registered, live by heartbeats, and die by closed connections.

What a controller sees of a broker is a connection and requests over it. So a fleet of a thousand groups is a
thousand connections to each controller, one for each master, and no broker. Slaves share one. As brokers do,
members beat to every controller and ask the leader. Each member has a loopback address of its own
(127.x.y.z), where one listener takes the notices of new masters: a controller that cannot tell a broker
would be measured at failing to.

RocketMQ's other controllers answer nothing but heartbeats; when the leader changes, the
fleet asks the new one again.

A controller takes 10,000 connections, and so does a fleet's listener, to which every controller connects for
each address. Larger fleets have several masters on each of their connections. From 1,400 groups on, several
groups share their addresses; of the notices for one address the newest counts.
"""

import asyncio
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from controller_core.channel import ChannelError, Connection, Server, connect, serve
from controller_core.remoting import headers
from controller_core.remoting.bodies import BrokerReplicasInfo, SyncStateSet, encode_names
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand

CLUSTER = "fleet"
MASTER_ID = 1
SLAVE_ID = 2
_ALIVE_MS = 600_000
_CALL_TIMEOUT_S = 30.0
_PREPARED_AT_ONCE = 64
_LEADERS_MAX = 100
_ASKED_AT_ONCE = 50
_POLL_S = 0.02
_PLACES_MAX = 1_400
"""Groups with addresses of their own: two members each, to which three controllers connect."""
_DEAD_POLL_S = 0.01


class FleetError(Exception):
    """The controllers refused a preparation, or did not do the expected thing in time."""


async def find_leader(controllers: Sequence[str], timeout_s: float = 60.0) -> str:
    """Return the address of the controller that leads.

    Raises:
        TimeoutError: no controller does in time.
    """
    async with asyncio.timeout(timeout_s):
        while True:
            for address in controllers:
                answer = await _ask(
                    address, RemotingCommand.request(RequestCode.CONTROLLER_GET_METADATA_INFO)
                )
                if answer is not None:
                    header = headers.GetMetaDataResponseHeader.from_ext(answer.ext)
                    if header.controller_leader_address:
                        return header.controller_leader_address
            await asyncio.sleep(_POLL_S)


async def wait_for_read(controllers: Sequence[str], name: str, timeout_s: float) -> None:
    """Wait until one of the controllers names the master of a group (1004).

    Raises:
        TimeoutError: none does in time.
    """
    request = RemotingCommand.request(
        RequestCode.CONTROLLER_GET_REPLICA_INFO, headers.GetReplicaInfoRequestHeader(name).to_ext()
    )
    async with asyncio.timeout(timeout_s):
        while True:
            for address in controllers:
                answer = await _ask(address, request)
                if answer is not None and answer.code == ResponseCode.SUCCESS:
                    header = headers.GetReplicaInfoResponseHeader.from_ext(answer.ext)
                    if header.master_broker_id:
                        return
            await asyncio.sleep(_DEAD_POLL_S)


class Fleet:
    """Some groups; an async context manager that closes what it opened."""

    def __init__(
        self,
        controllers: Sequence[str],
        name: str,
        groups: int,
        *,
        port: int = 0,
        address_of: Callable[[int, int], str] | None = None,
        masters_a_connection: int = 1,
    ) -> None:
        """Describe groups `<name>-<i>`; `prepare` makes them.

        Args:
            controllers: their addresses.
            name: what the groups' names begin with.
            groups: how many.
            port: where notices are taken; 0 for any.
            address_of: the host of a member by the group's number and the member's id,
                where it is not on loopback.
            masters_a_connection: how many masters share a connection to each controller.
        """
        self._port = port
        self._address_of = address_of
        self.names = [f"{name}-{index}" for index in range(groups)]
        self._controllers = list(controllers)
        self._leading = 0
        self._one_address = False
        self._notices: Server | None = None
        self._shared: list[Connection] = []
        self._masters_a_connection = masters_a_connection
        self._masters: dict[int, asyncio.Task[list[Connection]]] = {}
        self._awaited_notices: dict[str, asyncio.Future[None]] = {}

    async def __aenter__(self) -> Self:
        """Listen for notices and connect."""
        self._notices = await serve("0.0.0.0", self._port, self._listen)  # noqa: S104 - all of 127.0.0.0/8, on a port of our own
        self._shared = await self._dial_all()
        self._leading = self._controllers.index(await find_leader(self._controllers))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close everything."""
        dialled = await asyncio.gather(*self._masters.values(), return_exceptions=True)
        for connections in (*dialled, self._shared):
            if not isinstance(connections, BaseException):
                for connection in connections:
                    connection.close()
        if self._notices is not None:
            await self._notices.close()

    @property
    def shared_address(self) -> str:
        """An address on which this fleet takes notices, for members that share one."""
        return f"127.0.0.1:{0 if self._notices is None else self._notices.port}"

    async def prepare(self, *, slaves: bool) -> None:
        """Make every group with a living master, and with `slaves` a living slave in its SyncStateSet.

        Without slaves, masters share a connection to each controller, and one address.
        """
        self._one_address = not slaves
        gate = asyncio.Semaphore(_PREPARED_AT_ONCE)

        async def one(index: int) -> None:
            async with gate:
                await self._prepare(index, slaves=slaves)

        await asyncio.gather(*(one(index) for index in range(len(self.names))))

    async def prepare_one(self, index: int) -> None:
        """Make one group with a living master and a living slave in its SyncStateSet."""
        await self._prepare(index, slaves=True)

    def lose_masters(self) -> None:
        """Close the connections of all masters at once."""
        masters, self._masters = self._masters, {}
        for dialled in masters.values():
            for connection in dialled.result():
                connection.abort()

    async def replace_master(self, index: int, timeout_s: float) -> float:
        """Close the connections of one master; return the seconds until its slave has its first notice.

        Raises:
            TimeoutError: no notice came in time.
        """
        loop = asyncio.get_running_loop()
        told = self._awaited_notices[self._address(index, SLAVE_ID)] = loop.create_future()
        begun_s = loop.time()
        for connection in self._masters.pop(index).result():
            connection.abort()
        async with asyncio.timeout(timeout_s):
            await told
        return loop.time() - begun_s

    async def wait_re_elected(self, timeout_s: float) -> None:
        """Wait until the slave is master of every group, as the leader serves the state (1006).

        It asks about few groups at a time: the cost of asking must not distort the measurement.

        Raises:
            FleetError: some groups are without a master in time; the text says how many.
        """
        missing = list(reversed(self.names))
        try:
            async with asyncio.timeout(timeout_s):
                while missing:
                    body = encode_names(missing[-_ASKED_AT_ONCE:])
                    answer = await self._must(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, None, body)
                    table = BrokerReplicasInfo.decode(answer.body).replicas_info_table
                    done = {name for name, info in table.items() if info.master_broker_id == SLAVE_ID}
                    missing = [name for name in missing if name not in done]
                    await asyncio.sleep(0 if done else _POLL_S)
        except TimeoutError as error:
            raise FleetError(f"{len(missing)} groups without a new master after {timeout_s} s") from error

    async def _prepare(self, index: int, *, slaves: bool) -> None:
        name = self.names[index]
        # A registration over another connection than the heartbeats' would make that one hold the member.
        connections = await self._dial_master(index) if slaves else self._shared
        await self._register(index, MASTER_ID, connections)
        if slaves:
            await self._register(index, SLAVE_ID, self._shared)
            await self._beat(index, SLAVE_ID, self._shared, 0)
        await self._beat(index, MASTER_ID, connections, 0)
        elect = headers.ElectMasterRequestHeader(broker_name=name, cluster_name=CLUSTER, broker_id=MASTER_ID)
        answer = await self._must(RequestCode.CONTROLLER_ELECT_MASTER, elect.to_ext(), over=connections)
        header = headers.ElectMasterResponseHeader.from_ext(answer.ext)
        await self._beat(index, MASTER_ID, connections, header.master_epoch or 0)
        if not slaves:
            return
        alter = headers.AlterSyncStateSetRequestHeader(name, MASTER_ID, header.master_epoch or 0)
        wanted = SyncStateSet.of((MASTER_ID, SLAVE_ID), header.sync_state_set_epoch or 0).encode()
        await self._must(
            RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, alter.to_ext(), wanted, over=connections
        )

    async def _register(self, index: int, member: int, over: Sequence[Connection]) -> None:
        name, address = self.names[index], self._address(index, member)
        claim = headers.ApplyBrokerIdRequestHeader(CLUSTER, name, member, f"{address};1")
        await self._must(RequestCode.CONTROLLER_APPLY_BROKER_ID, claim.to_ext(), over=over)
        register = headers.RegisterBrokerToControllerRequestHeader(CLUSTER, name, member, address)
        await self._must(RequestCode.CONTROLLER_REGISTER_BROKER, register.to_ext(), over=over)

    def _address(self, index: int, member: int) -> str:
        port = 0 if self._notices is None else self._notices.port
        if self._address_of is not None:
            return f"{self._address_of(index, member)}:{port}"
        if self._one_address:
            return self.shared_address
        place = index % _PLACES_MAX
        return f"127.{member}.{place >> 8}.{place & 255}:{port}"

    async def _beat(self, index: int, member: int, connections: Sequence[Connection], epoch: int) -> None:
        """Let a member beat once, for long, to every controller."""
        ext = headers.BrokerHeartbeatRequestHeader(
            CLUSTER,
            self._address(index, member),
            self.names[index],
            member,
            epoch=epoch,
            max_offset=0,
            confirm_offset=0,
            heartbeat_timeout_mills=_ALIVE_MS,
        ).to_ext()
        request = RemotingCommand.request(RequestCode.BROKER_HEARTBEAT, ext)
        for connection in connections:
            await connection.call(request, _CALL_TIMEOUT_S)

    async def _dial_master(self, index: int) -> list[Connection]:
        """Return the connections of a master, which it may share."""
        place = index // self._masters_a_connection
        if place not in self._masters:
            self._masters[place] = asyncio.create_task(self._dial_all())
        return await self._masters[place]

    async def _dial_all(self) -> list[Connection]:
        """Connect to every controller."""
        return [await _dial(address) for address in self._controllers]

    def _listen(self, connection: Connection) -> None:
        connection.on_request = self._take

    def _take(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        told = self._awaited_notices.pop(connection.local, None)
        if told is not None and not told.done():
            told.set_result(None)
        return None if request.is_oneway else RemotingCommand.response_to(request, ResponseCode.SUCCESS)

    async def _must(
        self,
        code: int,
        ext: dict[str, str] | None,
        body: bytes = b"",
        *,
        over: Sequence[Connection] | None = None,
    ) -> RemotingCommand:
        """Ask the leader, over one of these connections to the controllers."""
        connections = over or self._shared
        request = RemotingCommand.request(code, ext, body)
        answer = await connections[self._leading].call(request, _CALL_TIMEOUT_S)
        for _ in range(_LEADERS_MAX):
            if answer.code != ResponseCode.CONTROLLER_NOT_LEADER:
                break
            await asyncio.sleep(_POLL_S)
            self._leading = self._controllers.index(await find_leader(self._controllers))
            answer = await connections[self._leading].call(request, _CALL_TIMEOUT_S)
        if answer.code not in (ResponseCode.SUCCESS, ResponseCode.CONTROLLER_MASTER_STILL_EXIST):
            raise FleetError(f"request {int(code)} was answered {answer.code}: {answer.remark}")
        return answer


async def _dial(address: str) -> Connection:
    host, _, port = address.rpartition(":")
    return await connect(host, int(port), _CALL_TIMEOUT_S)


async def _ask(address: str, request: RemotingCommand) -> RemotingCommand | None:
    """Ask one controller over a connection of its own; None if it does not answer soon."""
    host, _, port = address.rpartition(":")
    try:
        connection = await connect(host, int(port), 1.0)
    except ChannelError:
        return None
    try:
        return await connection.call(request, 1.0)
    except ChannelError:
        return None
    finally:
        connection.close()
