"""The command `import`: it reads RocketMQ's controllers, waits until they can decide nothing, and imports."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from controller_core.channel import Connection, Server, serve
from controller_core.groups.members.imported_groups import EPOCH_MARGIN
from controller_core.remoting.bodies import BrokerReplicasInfo, ReplicaIdentity, ReplicasInfo, decode_names
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.headers import GetMetaDataResponseHeader, GetNextBrokerIdResponseHeader
from controller_core.remoting.routes import ClusterInfo
from controller_core.server.cli import java_controllers
from controller_core.server.cli.main import main
from controller_core.tls.dialling import dial_in_tls
from controller_core.tls.serving import MemberTls, ServerTls
from testkit.fakes.broker import FakeBroker
from testkit.processes.certificates import Authority
from testkit.products.one_controller import OneNode
from testkit.products.store_commands import status_in_thread

HOST = "127.0.0.1"


@pytest.fixture
def given() -> dict[str, str]:
    """Stand by."""
    return {"controllerStandby": "true"}


@dataclass
class ThreeJavaControllers:
    """Servers that answer as RocketMQ's controllers and name server do; the first one leads."""

    broker: FakeBroker
    epochs: list[int] = field(default_factory=lambda: [3])
    """Epochs of the answers to 1006, one after another; the last one stays."""
    leads: bool = True
    servers: list[Server] = field(default_factory=list)
    connections: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    """One for each connection to the leader."""

    @property
    def addresses(self) -> list[str]:
        """Where the controllers listen."""
        return [f"{HOST}:{server.port}" for server in self.servers[:3]]

    @property
    def name_server(self) -> str:
        """Where the name server listens."""
        return f"{HOST}:{self.servers[3].port}"

    async def start(self, tls: ServerTls | None = None) -> None:
        """Listen."""
        for index in range(4):

            def accept(connection: Connection, index: int = index) -> None:
                if index == 0:
                    self.connections.release()
                connection.on_request = lambda _connection, request: self._answer(index, request)

            self.servers.append(await serve(HOST, 0, accept, tls=tls))

    async def looked_at(self, times: int) -> None:
        """Wait until the leader was connected to so many times more."""
        for _ in range(times):
            await self.connections.acquire()

    async def stop(self, *indexes: int) -> None:
        """Stop these controllers."""
        for index in indexes:
            await self.servers[index].close()

    def _answer(self, index: int, request: RemotingCommand) -> RemotingCommand:
        ext, body = None, b""
        match request.code:
            case RequestCode.GET_BROKER_CLUSTER_INFO:
                body = ClusterInfo(cluster_addr_table={"c1": ("b1", "static")}).encode()
            case RequestCode.CONTROLLER_GET_METADATA_INFO:
                peers = "".join(f"n{number}:{address};" for number, address in enumerate(self.addresses))
                leads = self.leads and index == 0
                leader = self.addresses[0] if self.leads else ""
                ext = GetMetaDataResponseHeader("java", "n0", leader, leads, peers).to_ext()
            case RequestCode.CONTROLLER_GET_SYNC_STATE_DATA:
                assert decode_names(request.body) == ["b1", "static"]
                epoch = self.epochs.pop(0) if len(self.epochs) > 1 else self.epochs[0]
                body = BrokerReplicasInfo({"b1": self._group(epoch)}).encode()
            case RequestCode.CONTROLLER_GET_NEXT_BROKER_ID:
                ext = GetNextBrokerIdResponseHeader("c1", "b1", 2).to_ext()
        return RemotingCommand.response_to(request, ResponseCode.SUCCESS, ext, body=body)

    def _group(self, epoch: int) -> ReplicasInfo:
        alive = ReplicaIdentity(True, self.broker.address, 1, "b1")
        gone = ReplicaIdentity(False, "10.0.0.9:1", 7, "b1")
        return ReplicasInfo((alive,), self.broker.address, 1, epoch, (gone,), None, 5)


@pytest.fixture
async def java(one: OneNode, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ThreeJavaControllers]:
    """Three controllers, with a broker that beats there and here."""
    monkeypatch.setattr(java_controllers, "SETTLE_S", 0.02)
    monkeypatch.setattr(java_controllers, "_POLL_S", 0.02)
    broker = FakeBroker([one.remoting], "b1", broker_id=1, beat_interval_s=0.02)
    broker.epoch = 3
    await broker.start(register=False)
    broker._beating = asyncio.create_task(broker._beat_for_ever())
    running = ThreeJavaControllers(broker)
    await running.start()
    async with asyncio.timeout(60.0):
        while not len(one.heartbeats.unregistered):  # noqa: ASYNC110 - heartbeats are not told here
            await asyncio.sleep(0.005)
    yield running
    await broker.die()
    await asyncio.gather(*(server.close() for server in running.servers))


async def _run(
    capsys: pytest.CaptureFixture[str], one: OneNode, java: ThreeJavaControllers, *more: str
) -> tuple[int, str, str]:
    arguments = ["import", "--server", one.http, "--from", ";".join(java.addresses)]
    status = await status_in_thread(main, *arguments, "--name-servers", java.name_server, *more)
    printed = capsys.readouterr()
    return status, printed.out, printed.err


async def test_controllers_in_tls_are_read_with_their_authorities(
    one: OneNode, java: ThreeJavaControllers, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    await java.stop(0, 1, 2, 3)
    java.servers.clear()
    await java.start(MemberTls(authority.member("java"), "enforcing").server())
    try:
        status, _, _ = await _run(capsys, one, java, "--dry-run")
        assert status == 1
        status, out, err = await _run(capsys, one, java, "--dry-run", f"--java-cacert={authority.trust}")
    finally:
        dial_in_tls(None)
    assert (status, err) == (0, "")
    assert out.splitlines()[1] == "these groups can be imported"


async def test_a_dry_run_shows_the_groups_and_changes_nothing(
    one: OneNode, java: ThreeJavaControllers, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = await _run(capsys, one, java, "--dry-run")
    assert (status, err) == (0, "")
    members = f"1 {java.broker.address}, 7 10.0.0.9:1"
    assert out.splitlines()[0] == f"c1/b1  master 1  epoch 3  in sync 1  members {members}"
    assert out.splitlines()[1] == "these groups can be imported"
    assert one.machine.state.is_new


async def test_the_state_after_the_majority_stopped_is_the_one_that_counts(
    one: OneNode, java: ThreeJavaControllers, capsys: pytest.CaptureFixture[str]
) -> None:
    java.epochs = [3, 8, 9]  # 3 before they stop; 9 was applied between the two reads after that
    running = asyncio.create_task(_run(capsys, one, java))
    await java.looked_at(2)
    await java.stop(1)
    looking = asyncio.create_task(java.looked_at(3))
    await asyncio.wait({running, looking}, return_when=asyncio.FIRST_COMPLETED)
    assert not running.done(), "two of three decide"
    assert one.machine.state.is_new
    await java.stop(2)
    status, out, err = await running
    assert (status, out.splitlines()[-1]) == (0, "imported")
    assert f"stop RocketMQ's controllers now, but not {java.addresses[0]}" in err
    assert f"stop {java.addresses[0]} too" in err
    group = one.group()
    assert (group.master_epoch, group.next_broker_id) == (9 + EPOCH_MARGIN, 8)


async def test_if_none_leads_after_they_stopped_nothing_changes(
    one: OneNode, java: ThreeJavaControllers, capsys: pytest.CaptureFixture[str]
) -> None:
    running = asyncio.create_task(_run(capsys, one, java))
    await java.looked_at(2)
    java.leads = False
    await java.stop(1, 2)
    status, _, err = await running
    assert status == 1
    assert "start RocketMQ's controllers again, and repeat this command" in err
    assert one.machine.state.is_new


async def test_what_makes_an_import_impossible_is_named(
    one: OneNode, java: ThreeJavaControllers, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, err = await _run(capsys, one, java, "--timeout", "100ms")
    assert (status, "not stopped within 0.1 s, nothing was changed" in err) == (1, True)
    arguments = ["import", "--server", one.http, "--name-servers", java.name_server]
    for named, words in (
        (java.addresses[:2], "name all of them"),
        (java.addresses[:1], "a single controller"),
    ):
        assert await asyncio.to_thread(main, [*arguments, "--from", ",".join(named), "--dry-run"]) == 1
        assert words in capsys.readouterr().err
    status, _, err = await _run(capsys, one, java, "--silent-groups", "b1", "--dry-run")
    assert (status, "expected CLUSTER/GROUP" in err) == (1, True)
