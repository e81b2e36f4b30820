"""Controllers on loopback that answer as a test says: they agree, lie or are silent.

They keep no state of their own.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

from controller_core.channel import Connection, Server, serve
from controller_core.remoting.bodies import BrokerReplicasInfo, ReplicaIdentity, ReplicasInfo, SyncStateSet
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.headers import GetMetaDataResponseHeader, GetReplicaInfoResponseHeader

HOST = "127.0.0.1"
GROUP = "g"


@dataclass
class Said:
    """A group's state in a controller's words.

    Attributes:
        master_id: 0: without a master.
        direct: addresses of members' own processes by id; the announced one if missing.
    """

    epoch: int
    master_id: int = 1
    address: str = "10.0.0.1:1"
    members: tuple[int, ...] = (1, 2)
    set_epoch: int = 1
    alive: tuple[int, ...] = (1, 2)
    direct: Mapping[int, str] = field(default_factory=dict)


@dataclass
class ScriptedController:
    """One controller.

    Attributes:
        said: its report on the group; None: it refuses like a controller without a leader.
        leader: address that it names as the leader's; empty for none.
        count: how many controllers it says there are.
        is_mute: whether it answers nothing at all.
        is_held: whether it keeps its answer to 1004 to itself.
        delay_s: for how long it keeps each answer.
        settings: its answer to 1010.
        asked: the codes of all requests so far.
    """

    said: Said | None = None
    leader: str = ""
    leads: bool = False
    count: int = 3
    is_mute: bool = False
    is_held: bool = False
    delay_s: float = 0.0
    settings: str = "enableElectUncleanMaster=false\n"
    asked: list[int] = field(default_factory=list)
    server: Server | None = None
    heard: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def address(self) -> str:
        """Where it listens."""
        assert self.server is not None
        return f"{HOST}:{self.server.port}"

    def accept(self, connection: Connection) -> None:
        """Serve a connection."""
        connection.on_request = self._answer

    def _answer(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        answer = self._answer_now(request)
        if answer is None or not self.delay_s:
            return answer
        asyncio.get_running_loop().call_later(self.delay_s, connection.send, answer)
        return None

    def _answer_now(self, request: RemotingCommand) -> RemotingCommand | None:
        self.asked.append(request.code)
        self.heard.set()
        if self.is_mute:
            return None
        if request.code == RequestCode.CONTROLLER_GET_METADATA_INFO:
            peers = "".join(f"n{number}:h:1;" for number in range(self.count))
            header = GetMetaDataResponseHeader(
                controller_leader_address=self.leader, is_leader=self.leads, peers=peers
            )
            return RemotingCommand.response_to(request, ResponseCode.SUCCESS, header.to_ext())
        said = self.said
        if said is None:
            return RemotingCommand.response_to(request, ResponseCode.CONTROLLER_NOT_LEADER)
        match request.code:
            case RequestCode.CONTROLLER_GET_REPLICA_INFO:
                return None if self.is_held else _replica_info(request, said)
            case RequestCode.CONTROLLER_GET_SYNC_STATE_DATA:
                return _sync_state_data(request, said)
            case RequestCode.GET_CONTROLLER_CONFIG:
                return RemotingCommand.response_to(request, ResponseCode.SUCCESS, body=self.settings.encode())
            case _:
                return RemotingCommand.response_to(request, ResponseCode.SUCCESS)


def _replica_info(request: RemotingCommand, said: Said) -> RemotingCommand:
    header = GetReplicaInfoResponseHeader(
        master_broker_id=said.master_id or None,
        master_address=said.address if said.master_id else None,
        master_epoch=said.epoch,
    )
    body = SyncStateSet.of(said.members, said.set_epoch).encode()
    return RemotingCommand.response_to(request, ResponseCode.SUCCESS, header.to_ext(), body=body)


def _sync_state_data(request: RemotingCommand, said: Said) -> RemotingCommand:
    everyone = [
        ReplicaIdentity(
            broker_id in said.alive, f"10.0.0.{broker_id}:1", broker_id, GROUP, said.direct.get(broker_id)
        )
        for broker_id in said.members
    ]
    info = ReplicasInfo(
        tuple(everyone), said.address, said.master_id or None, said.epoch, sync_state_set_epoch=said.set_epoch
    )
    body = BrokerReplicasInfo({GROUP: info}).encode()
    return RemotingCommand.response_to(request, ResponseCode.SUCCESS, body=body)


@contextlib.asynccontextmanager
async def scripted(count: int = 3, said: Said | None = None) -> AsyncIterator[list[ScriptedController]]:
    """Start so many that say the same; the first one leads, and all say so."""
    made = [ScriptedController(said=said, count=count) for _ in range(count)]
    for one in made:
        one.server = await serve(HOST, 0, one.accept)
    made[0].leads = True
    for one in made:
        one.leader = made[0].address
    try:
        yield made
    finally:
        for one in made:
            if one.server is not None:
                await one.server.close()
