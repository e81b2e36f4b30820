"""A fake master with settings and slaves, for what the controllers ask before they replace it."""

import asyncio
from dataclasses import dataclass, field

from controller_core.channel import Connection
from controller_core.remoting import headers
from controller_core.remoting.bodies import HAClientRuntimeInfo, HAConnectionRuntimeInfo, HARuntimeInfo
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.server.settings import properties
from testkit.fakes.broker import FakeBroker
from testkit.products.one_controller import OneNode


@dataclass
class GuardedStore:
    """The master's answers about its log and settings, and the requests it received."""

    setting: int = 2
    sends_from_ms: int = 0
    end: int = 100
    slave_acks: list[int] = field(default_factory=lambda: [100])
    grows: bool = False
    slave_lag: int = 0
    refuses: set[int] = field(default_factory=set)
    mute: set[int] = field(default_factory=set)
    refused: int = 0
    setting_text: str | None = None
    hangs_up: int = 0
    asked: list[str] = field(default_factory=list)
    lent_to: set[int] = field(default_factory=set)
    looked: asyncio.Event = field(default_factory=asyncio.Event)


class Master(FakeBroker):
    """A broker with settings and slaves."""

    store: GuardedStore
    accepted: list[Connection]

    def _on_connection(self, connection: Connection) -> None:
        self.accepted.append(connection)
        super()._on_connection(connection)

    async def stop_listening(self) -> None:
        """Go on beating, and admit no slave."""
        if self._server is not None:
            await self._server.close()
        for connection in self.accepted:
            connection.abort()

    def _on_request(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        if request.code in self.store.refuses:
            self.store.refused += 1
            return RemotingCommand.response_to(request, ResponseCode.NO_PERMISSION, remark="not you")
        if request.code in self.store.mute:
            return None
        if request.code == RequestCode.GET_BROKER_CONFIG and self.store.hangs_up:
            self.store.hangs_up -= 1
            connection.abort()
            return None
        body = b""
        match request.code:
            case RequestCode.GET_BROKER_CONFIG:
                self.store.asked.append("setting?")
                port = "1" if id(connection) in self.store.lent_to else self.address.rpartition(":")[2]
                value = self.store.setting if self.store.setting_text is None else self.store.setting_text
                body = (
                    f"brokerIP1=127.0.0.1\nlistenPort={port}\nminInSyncReplicas={value}\n"
                    f"startAcceptSendRequestTimeStamp={self.store.sends_from_ms}\n"
                ).encode()
            case RequestCode.UPDATE_BROKER_CONFIG:
                values = properties.parse(request.body.decode())
                self.store.sends_from_ms = int(values["startAcceptSendRequestTimeStamp"])
                if text := values.get("minInSyncReplicas"):
                    self.store.setting = int(text)
                    self.store.asked.append(f"set {self.store.setting}")
            case RequestCode.GET_BROKER_HA_STATUS:
                self.store.asked.append("slaves?")
                self.store.looked.set()
                if self.store.grows:
                    self.store.end += 10
                if self.store.slave_lag:
                    self.store.slave_acks = [self.store.end - self.store.slave_lag]
                slaves = tuple(
                    HAConnectionRuntimeInfo(in_sync=True, slave_ack_offset=ack)
                    for ack in self.store.slave_acks
                )
                body = HARuntimeInfo(
                    HAClientRuntimeInfo(), slaves, len(slaves), True, self.store.end
                ).encode()
            case RequestCode.NOTIFY_BROKER_ROLE_CHANGED:
                self.store.asked.append("told")
                return super()._on_request(connection, request)
            case _:
                return super()._on_request(connection, request)
        return RemotingCommand.response_to(request, ResponseCode.SUCCESS, body=body)


def master_of(one: OneNode) -> Master:
    """Return a master of group b1, which is not started yet."""
    master = Master([one.remoting], "b1", beat_interval_s=0.05)
    master.store, master.accepted = GuardedStore(), []
    return master


async def switch_over(asker: FakeBroker, to: int) -> RemotingCommand:
    """Designate a master as mqadmin does."""
    return await asker.call(
        RequestCode.CONTROLLER_ELECT_MASTER,
        headers.ElectMasterRequestHeader("b1", "c1", to, designate_elect=True),
    )


async def lifted(one: OneNode) -> None:
    """Wait until no guard is noted."""
    async with asyncio.timeout(60):
        while one.group().write_guards:
            await one.machine.news()
