"""A broker that only speaks to controllers: registers, beats, asks for a role, hears the notices.

It does over real connections what a Java broker in controller mode does, in the same order, without a store:
enough to see what a controller decides and how fast. `fall_silent` keeps the connections open, `die` closes
them. It lets a write guard be set: it reports and accepts settings, and its slaves have all of its log.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from controller_core.channel.connection import Connection
from controller_core.channel.endpoints import Server, connect, serve
from controller_core.channel.errors import ChannelError
from controller_core.remoting import headers
from controller_core.remoting.bodies import (
    EpochEntryBody,
    EpochEntryCache,
    HAClientRuntimeInfo,
    HAConnectionRuntimeInfo,
    HARuntimeInfo,
    SyncStateSet,
)
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.header import Header
from controller_core.server.settings import properties
from controller_core.tls.dialling import ClientTls

_CALL_TIMEOUT_S = 30.0
_DIAL_TIMEOUT_S = 30.0
SLAVES_MAX = 16


@dataclass(frozen=True, slots=True)
class Notice:
    """One 1008 as it came in, and when (the loop's time)."""

    at_s: float
    header: headers.NotifyBrokerRoleChangedRequestHeader
    sync_state_set: SyncStateSet


class FakeBroker:
    """One member of a broker group; an async context manager that claims an id, registers and beats."""

    def __init__(
        self,
        controllers: Sequence[str],
        group: str,
        *,
        cluster: str = "c1",
        broker_id: int | None = None,
        beat_interval_s: float = 0.1,
        timeout_ms: int = 10_000,
        log_replica: bool = False,
    ) -> None:
        """Describe the broker; `broker_id` None claims the next free one."""
        self.controllers = list(controllers)
        self.group = group
        self.cluster = cluster
        self.broker_id = broker_id or 0
        self.timeout_ms = timeout_ms
        self._kind = headers.REPLICA_KIND_LOG if log_replica else None
        self.epoch = 0
        self.max_offset = 0
        # Its brokerElectionPriority; None for the default.
        self.priority: int | None = None
        self.notices: list[Notice] = []
        # Whether it still says (906) that it is master.
        self.clings_to_its_role = False
        # Where it says (906) that its log is served, host:port; None while it serves none.
        self.ha_address: str | None = None
        # What it answers about its role (907).
        self.acts_as_master = False
        # Its answer about its epochs (1007): pairs of epoch and start offset; None while it does not answer.
        self.epoch_starts: tuple[tuple[int, int], ...] | None = ()
        # What it says to 1007 instead; empty if it answers.
        self.epochs_refusal = "its epochs are a secret"
        # Its setting of that name; None if it tells no settings.
        self.min_in_sync_replicas: int | None = 2
        # TLS of its connections to controllers; None for plain TCP.
        self.client_tls: ClientTls | None = None
        self._beat_interval_s = beat_interval_s
        self._connections: dict[str, Connection] = {}
        self._server: Server | None = None
        self._beating: asyncio.Task[None] | None = None
        self._heard = asyncio.Event()

    @property
    def address(self) -> str:
        """Where it listens for notices."""
        return f"127.0.0.1:{self._server.port if self._server else 0}"

    async def start(self, *, register: bool = True) -> None:
        """Listen, dial every controller, claim an id, register, beat."""
        self._server = await serve("127.0.0.1", 0, self._on_connection)
        await self.dial()
        if register:
            await self.register()
            self._beating = asyncio.create_task(self._beat_for_ever())

    async def dial(self) -> None:
        """Dial every controller that is not connected; those that cannot be reached are left out."""
        for address in self.controllers:
            connection = self._connections.get(address)
            if connection is None or connection.is_closed:
                host, _, port = address.rpartition(":")
                with contextlib.suppress(ChannelError):
                    self._connections[address] = await connect(
                        host.strip("[]"),
                        int(port),
                        _DIAL_TIMEOUT_S,
                        client_tls=self.client_tls,
                    )

    async def register(self, controller: int = 0) -> RemotingCommand:
        """Claim an id if still without one (1012, 1013) and register (1003); return the answer to 1003."""
        if not self.broker_id:
            ask = headers.GetNextBrokerIdRequestHeader(self.cluster, self.group)
            answer = await self.must(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, ask, controller=controller)
            self.broker_id = headers.GetNextBrokerIdResponseHeader.from_ext(answer.ext).next_broker_id or 0
        claim = headers.ApplyBrokerIdRequestHeader(
            self.cluster, self.group, self.broker_id, f"check-{self.group}-{self.broker_id};1"
        )
        await self.must(RequestCode.CONTROLLER_APPLY_BROKER_ID, claim, controller=controller)
        register = headers.RegisterBrokerToControllerRequestHeader(
            self.cluster, self.group, self.broker_id, self.address, replica_kind=self._kind
        )
        return await self.must(RequestCode.CONTROLLER_REGISTER_BROKER, register, controller=controller)

    async def announce(self, controller: int = 0) -> RemotingCommand:
        """Register (1003) with its id, as a broker that finds its identity on disk; return the answer."""
        register = headers.RegisterBrokerToControllerRequestHeader(
            self.cluster, self.group, self.broker_id, self.address, replica_kind=self._kind
        )
        return await self.call(RequestCode.CONTROLLER_REGISTER_BROKER, register, controller=controller)

    async def elect(self, *, controller: int = 0) -> RemotingCommand:
        """Ask for a master in its own name (1002)."""
        header = headers.ElectMasterRequestHeader(self.group, self.cluster, self.broker_id)
        return await self.call(RequestCode.CONTROLLER_ELECT_MASTER, header, controller=controller)

    async def alter(self, members: Sequence[int], set_epoch: int, *, controller: int = 0) -> RemotingCommand:
        """Ask, as master of its epoch, for another SyncStateSet (1001)."""
        header = headers.AlterSyncStateSetRequestHeader(self.group, self.broker_id, self.epoch)
        body = SyncStateSet.of(members, set_epoch).encode()
        return await self.call(
            RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, header, body, controller=controller
        )

    async def replica_info(
        self, *, controller: int = 0
    ) -> tuple[headers.GetReplicaInfoResponseHeader, SyncStateSet]:
        """Return master and SyncStateSet (1004)."""
        answer = await self.must(
            RequestCode.CONTROLLER_GET_REPLICA_INFO,
            headers.GetReplicaInfoRequestHeader(self.group),
            controller=controller,
        )
        return headers.GetReplicaInfoResponseHeader.from_ext(answer.ext), SyncStateSet.decode(answer.body)

    async def replica_info_or_refusal(self, *, controller: int = 0) -> RemotingCommand:
        """Return the answer to 1004 whatever it is; a controller holds it until somebody leads."""
        header = headers.GetReplicaInfoRequestHeader(self.group)
        return await self.call(RequestCode.CONTROLLER_GET_REPLICA_INFO, header, controller=controller)

    async def call(
        self, code: int, header: Header | None = None, body: bytes = b"", *, controller: int = 0
    ) -> RemotingCommand:
        """Ask one controller, by its place in the list."""
        connection = self._connections[self.controllers[controller]]
        request = RemotingCommand.request(code, header.to_ext() if header else None, body)
        return await connection.call(request, _CALL_TIMEOUT_S)

    async def must(
        self, code: int, header: Header | None = None, body: bytes = b"", *, controller: int = 0
    ) -> RemotingCommand:
        """As `call`, for an answer that must be a success.

        Raises:
            AssertionError: it is another one.
        """
        answer = await self.call(code, header, body, controller=controller)
        if answer.code != ResponseCode.SUCCESS:
            raise AssertionError(f"request {int(code)} was answered {answer.code}: {answer.remark}")
        return answer

    def beat(self) -> None:
        """Send one heartbeat to every connected controller."""
        header = headers.BrokerHeartbeatRequestHeader(
            self.cluster,
            self.address,
            self.group,
            self.broker_id,
            epoch=self.epoch,
            max_offset=self.max_offset,
            confirm_offset=self.max_offset,
            heartbeat_timeout_mills=self.timeout_ms,
            election_priority=self.priority,
        )
        request = RemotingCommand.request(RequestCode.BROKER_HEARTBEAT, header.to_ext(), oneway=True)
        for connection in self._connections.values():
            if not connection.is_closed:
                connection.send_oneway(request)

    async def wait_notice(self, epoch: int, timeout_s: float = 30.0) -> Notice:
        """Wait for a notice of at least this master epoch.

        Raises:
            TimeoutError: none came.
        """
        async with asyncio.timeout(timeout_s):
            while True:
                for notice in self.notices:
                    if (notice.header.master_epoch or 0) >= epoch:
                        return notice
                self._heard.clear()
                await self._heard.wait()

    async def fall_silent(self) -> None:
        """Stop beating; the connections stay open."""
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)
            self._beating = None

    def disconnect_without_closing(self) -> list[Connection]:
        """Forget the connections, which stay open; return them. `dial` makes new ones."""
        old = list(self._connections.values())
        self._connections.clear()
        return old

    async def die(self) -> None:
        """Stop beating, close every connection and the port, as a killed process does."""
        await self.fall_silent()
        for connection in self._connections.values():
            connection.abort()
        self._connections.clear()
        if self._server is not None:
            await self._server.close()
            self._server = None

    async def _beat_for_ever(self) -> None:
        while True:
            await self.dial()
            self.beat()
            await asyncio.sleep(self._beat_interval_s)

    def _on_connection(self, connection: Connection) -> None:
        connection.on_request = self._on_request

    def _on_request(self, _connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        if request.code == RequestCode.EXCHANGE_BROKER_HA_INFO:
            header = headers.ExchangeHAInfoResponseHeader(
                master_address=self.address if self.clings_to_its_role else None,
                master_ha_address=self.ha_address,
            )
            return RemotingCommand.response_to(request, ResponseCode.SUCCESS, header.to_ext())
        if request.code == RequestCode.GET_BROKER_EPOCH_CACHE:
            return self._epochs_answer(request)
        if request.code != RequestCode.NOTIFY_BROKER_ROLE_CHANGED:
            return self._administered(request)
        notice = headers.NotifyBrokerRoleChangedRequestHeader.from_ext(request.ext)
        at_s = asyncio.get_running_loop().time()
        self.notices.append(Notice(at_s, notice, SyncStateSet.decode(request.body)))
        # As a broker: the new master opens an epoch entry, a slave gets it by the handshake.
        self.epoch = max(self.epoch, notice.master_epoch or 0)
        self._heard.set()
        return None

    def _epochs_answer(self, request: RemotingCommand) -> RemotingCommand | None:
        if self.epochs_refusal:
            return RemotingCommand.response_to(request, ResponseCode.SYSTEM_ERROR, remark=self.epochs_refusal)
        if self.epoch_starts is None:
            return None
        # RocketMQ's list may carry an old end in memory: nobody may rely on it.
        entries = tuple(EpochEntryBody(2**63 - 1, epoch, start) for epoch, start in self.epoch_starts)
        cache = EpochEntryCache(self.broker_id, self.group, self.cluster, entries, self.max_offset)
        return RemotingCommand.response_to(request, ResponseCode.SUCCESS, body=cache.encode())

    def _administered(self, request: RemotingCommand) -> RemotingCommand:
        if self.min_in_sync_replicas is None:
            return RemotingCommand.response_to(request, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
        match request.code:
            case RequestCode.GET_BROKER_CONFIG:
                body = f"minInSyncReplicas={self.min_in_sync_replicas}\n".encode()
            case RequestCode.UPDATE_BROKER_CONFIG:
                self.min_in_sync_replicas, body = (
                    int(properties.parse(request.body.decode())["minInSyncReplicas"]),
                    b"",
                )
            case RequestCode.GET_BROKER_HA_STATUS:
                status = HARuntimeInfo(
                    HAClientRuntimeInfo(), self.caught_up(), 1, self.acts_as_master, self.max_offset
                )
                body = status.encode()
            case _:
                return RemotingCommand.response_to(request, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
        return RemotingCommand.response_to(request, ResponseCode.SUCCESS, body=body)

    def caught_up(self) -> tuple[HAConnectionRuntimeInfo, ...]:
        """Return more slaves than any group has, each with all of the log."""
        return (HAConnectionRuntimeInfo(in_sync=True, slave_ack_offset=self.max_offset),) * SLAVES_MAX

    async def __aenter__(self) -> Self:
        """Start it."""
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        await self.die()
