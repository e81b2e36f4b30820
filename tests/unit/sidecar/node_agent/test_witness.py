"""The heartbeats of a node agent: which members they name, who gets them, and how often."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from controller_core import limits
from controller_core.channel import Connection, Server, serve
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.nodes.bodies import NamedMember, read_heartbeat
from ha_sidecar.address import host_port
from ha_sidecar.common.controllers import Controllers
from ha_sidecar.common.options import ConfigError
from ha_sidecar.decisions.broker_facts import GroupName
from ha_sidecar.node_agent import witness
from ha_sidecar.node_agent.config import from_texts
from ha_sidecar.node_agent.metrics import NodeAgentMetrics
from ha_sidecar.node_agent.replaced import LocatedMember
from ha_sidecar.node_agent.witness import NodeWitness
from testkit.products.collector_in_process import until

ORDERS = GroupName("c1", "orders")
HERE, ELSEWHERE = "10.244.1.5", "10.244.2.5"
LIVING = (
    LocatedMember(ORDERS, 2, HERE),
    LocatedMember(ORDERS, 1, ELSEWHERE),
    LocatedMember(GroupName("c1", "x"), 1, "a-name"),
)
INTERVAL_S = 0.02


@dataclass
class AgentTaker:
    """One controller.

    Attributes:
        token: it takes heartbeats with this token only.
        is_older: whether it knows no such request.
        members: as the newest heartbeat that it took names them.
        oneway: heartbeats that want no answer.
        asked: those that want one.
        codes: of all requests.
    """

    token: str = ""
    is_older: bool = False
    members: tuple[NamedMember, ...] = ()
    oneway: int = 0
    asked: int = 0
    codes: set[int] = field(default_factory=set)
    server: Server | None = None

    @property
    def address(self) -> str:
        """Where it listens."""
        assert self.server is not None
        return f"127.0.0.1:{self.server.port}"

    def accept(self, connection: Connection) -> None:
        """Serve a connection."""
        connection.on_request = self._answer

    def _answer(self, _connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        self.codes.add(request.code)
        if request.is_oneway:
            self.oneway += 1
        else:
            self.asked += 1
        if self.is_older or request.code != RequestCode.NODE_HEARTBEAT:
            return RemotingCommand.response_to(request, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
        if (request.ext or {}).get("rmqhaToken", "") != self.token:
            return RemotingCommand.response_to(request, ResponseCode.NO_PERMISSION, remark="wrong token")
        self.members = read_heartbeat(request.body).members
        return None if request.is_oneway else RemotingCommand.response_to(request, ResponseCode.SUCCESS)


@contextlib.asynccontextmanager
async def _takers(count: int, token: str = "") -> AsyncIterator[list[AgentTaker]]:
    """Run so many of them."""
    takers = [AgentTaker(token) for _ in range(count)]
    async with contextlib.AsyncExitStack() as stack:
        for taker in takers:
            taker.server = await serve("127.0.0.1", 0, taker.accept)
            stack.push_async_callback(taker.server.close)
        yield takers


async def _here(hosts: Iterable[str]) -> frozenset[str]:
    return frozenset(hosts) & {HERE}


@contextlib.asynccontextmanager
async def _sending(
    takers: list[AgentTaker], token_file: Path | None = None
) -> AsyncIterator[tuple[NodeWitness, NodeAgentMetrics]]:
    controllers = Controllers([host_port(taker.address) for taker in takers])
    metrics = NodeAgentMetrics()
    sending = NodeWitness(controllers, _here, metrics, INTERVAL_S, token_file)
    controllers.start()
    await sending.learn(LIVING)
    task = asyncio.create_task(sending.run())
    try:
        yield sending, metrics
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await controllers.stop()


async def _until(condition: object) -> None:
    async with asyncio.timeout(30):
        await until(condition)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check often."""
    monkeypatch.setattr(witness, "CHECK_S", 0.05)


async def test_every_controller_learns_of_the_members_on_the_node() -> None:
    async with _takers(3) as takers, _sending(takers) as (_, metrics):
        await _until(lambda: all(taker.oneway >= 5 for taker in takers))
        assert {taker.members for taker in takers} == {(NamedMember("orders", 2, HERE, "c1"),)}
        text = metrics.text().decode()
        assert "rmqha_node_agent_members 1.0" in text
        assert "rmqha_node_agent_heartbeat_takers 3.0" in text


async def test_a_member_that_moved_away_is_named_no_more() -> None:
    async with _takers(1) as takers, _sending(takers) as (sending, _):
        await _until(lambda: takers[0].members)
        await sending.learn([LocatedMember(ORDERS, 2, ELSEWHERE)])
        await _until(lambda: takers[0].members == ())


async def test_more_members_than_the_bound_are_cut_to_it() -> None:
    async with _takers(1) as takers, _sending(takers) as (sending, _):
        await sending.learn(LocatedMember(ORDERS, number, HERE) for number in range(1_000))
        await _until(lambda: len(takers[0].members) == limits.NODE_MEMBERS_MAX)


async def test_a_controller_that_refuses_gets_no_heartbeats_until_the_token_is_right(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    token_file = tmp_path / "token"
    async with _takers(1, token="right") as takers, _sending(takers, token_file):  # noqa: S106 - made up
        with caplog.at_level(logging.WARNING):
            await _until(lambda: takers[0].asked >= 3)
        assert takers[0].oneway == 0
        assert sum("does not take heartbeats" in line for line in caplog.messages) == 1
        token_file.write_text("right\n")
        await _until(lambda: takers[0].oneway > 3)


async def test_a_controller_of_an_earlier_release_gets_no_heartbeats() -> None:
    async with _takers(1) as takers:
        takers[0].is_older = True
        async with _sending(takers):
            await _until(lambda: takers[0].asked >= 3)
            assert takers[0].oneway == 0


async def test_heartbeats_keep_their_interval_when_sending_takes_time() -> None:
    loop = asyncio.get_running_loop()
    async with _takers(1) as takers, _sending(takers):
        await _until(lambda: takers[0].oneway > 0)
        began_s, before = loop.time(), takers[0].oneway
        await _until(lambda: takers[0].oneway >= before + 10)
        assert loop.time() - began_s < 30 * INTERVAL_S + 2, "a busy machine may pause"
    assert takers[0].codes == {RequestCode.NODE_HEARTBEAT}


@pytest.mark.parametrize("interval_ms", ["19", "5001", "x"])
def test_an_interval_out_of_range_is_refused(interval_ms: str) -> None:
    texts = {"controllers": "h:1", "controllers_http": "h:2", "http": "h:3"}
    assert from_texts(texts | {"token_file": "/x/token"}).token_file == Path("/x/token")
    with pytest.raises(ConfigError, match="heartbeat-interval-ms"):
        from_texts(texts | {"heartbeat_interval_ms": interval_ms})
