"""The leader's scan for lost nodes: a majority of the controllers must agree, each of this release."""

import asyncio
from dataclasses import dataclass, field

import pytest

from controller_core.channel.errors import ConnectError
from controller_core.groups.keys import BrokerId, ReplicaKey
from controller_core.groups.liveness.entries import Death
from controller_core.groups.liveness.node_agents import TRUST_MS
from controller_core.groups.state import GroupsState
from controller_core.raft.types import ConfState, NodeId
from controller_core.remoting.codes import ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.nodes.bodies import NodeAnswer, NodeQuestion
from controller_core.server.clock import Clock
from controller_core.server.elections import node_losses
from controller_core.server.elections.heartbeats import HeartbeatReceiver
from controller_core.server.elections.node_losses import NodeLosses
from controller_core.server.settings.config import load
from controller_core.server.settings.live_config import LiveConfig

KEY = ReplicaKey("c1", "b1", BrokerId(1))
AGENT = 7
PEERS = "n0-127.0.0.1:1;n1-127.0.0.1:11;n2-127.0.0.1:21"


class SetClock(Clock):
    """Tells the time that a test sets."""

    def __init__(self) -> None:
        super().__init__("test")
        self.ms = 0

    def now_ms(self) -> int:
        """Return it."""
        return self.ms


@dataclass
class Leader:
    """A node that leads three controllers."""

    is_leader: bool = True
    conf_state: ConfState = field(default_factory=lambda: ConfState(voters=(NodeId(1), NodeId(2), NodeId(3))))


@dataclass
class Others:
    """The other controllers: the verdict of each, a code that is not success, or None for silence."""

    verdicts: dict[int, str | int | None] = field(default_factory=lambda: {2: "lost", 3: "lost"})
    asked: list[int] = field(default_factory=list)

    async def ask(self, node_id: int, request: RemotingCommand, timeout_s: float) -> RemotingCommand:
        """Answer with the same verdict about all members."""
        self.asked.append(node_id)
        verdict = self.verdicts[node_id]
        if verdict is None:
            await asyncio.sleep(10 * timeout_s)
            raise ConnectError("silent")
        if isinstance(verdict, int):
            return RemotingCommand.response_to(request, verdict)
        count = len(NodeQuestion.decode(request.body).members)
        body = NodeAnswer((verdict,) * count).encode()
        return RemotingCommand.response_to(request, ResponseCode.SUCCESS, body=body)


class LeaderStory:
    """A leader that hears an agent and a member until it hears neither."""

    def __init__(self, node_timeout_ms: int = 500) -> None:
        self.clock, self.node, self.others = SetClock(), Leader(), Others()
        self.deaths: list[Death] = []
        self.heartbeats = HeartbeatReceiver(GroupsState(), self.clock)
        self.heartbeats.on_deaths = self.deaths.extend
        given = {
            "controllerDLegerGroup": "g",
            "controllerDLegerPeers": PEERS,
            "nodeTimeoutMs": str(node_timeout_ms),
        }
        self.losses = NodeLosses(
            node=self.node,
            own_id=1,
            heartbeats=self.heartbeats,
            others=self.others,
            config=LiveConfig(load(given)[0], given),
            clock=self.clock,
        )
        table, agents = self.heartbeats.table, self.heartbeats.agents
        for ms in range(0, 2 * TRUST_MS + 1, 100):
            self.clock.ms = ms
            table.beat(KEY, 1, ms, timeout_ms=60_000)
            agents.member_heard(KEY, ms)
            agents.beat(AGENT, (KEY,), ms)
        entry = table.get(KEY)
        assert entry is not None
        entry.starting_until_ms = 0

    def pass_by(self, silent_ms: int) -> None:
        """Let time pass in which the leader is awake and hears nothing."""
        for _ in range(0, silent_ms, 50):
            self.clock.ms += 50
            self.heartbeats.agents.tick(self.clock.ms)

    async def scan(self) -> None:
        """Scan once, as `run` does."""
        if suspects := self.losses._suspects():
            await self.losses._judge(suspects)


async def test_a_majority_of_the_controllers_lets_the_member_die() -> None:
    story = LeaderStory()
    story.pass_by(600)
    await story.scan()
    assert [(death.key, death.cause) for death in story.deaths] == [(KEY, "NodeLost")]
    assert not story.heartbeats.table.is_alive(KEY)


async def test_the_log_tells_the_pauses_that_a_lost_node_was_awaited_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    story = LeaderStory()
    story.pass_by(250)
    story.heartbeats.agents.beat(AGENT, (KEY,), story.clock.ms)
    story.pass_by(650)
    await story.scan()
    (fields,) = [vars(one)["rmqha_fields"] for one in caplog.records if one.message == "a node is lost"]
    assert (fields["member_longest_pause_ms"], fields["agent_longest_pause_ms"]) == (100, 250)


@pytest.mark.parametrize(
    ("verdicts", "dies"),
    [
        ({2: "heard", 3: "heard"}, False),
        ({2: "unknown", 3: "unknown"}, False),
        ({2: None, 3: None}, False),
        ({2: "heard", 3: None}, False),
        ({2: "lost", 3: "heard"}, True),
        ({2: None, 3: "lost"}, True),
    ],
)
async def test_a_node_that_is_cut_off_from_one_controller_is_not_lost(
    verdicts: dict[int, str | int | None], dies: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_losses, "ASK_S", 0.05)
    story = LeaderStory()
    story.others.verdicts = verdicts
    story.pass_by(600)
    await story.scan()
    assert bool(story.deaths) is dies


async def test_nothing_is_asked_while_the_member_or_its_agent_is_heard() -> None:
    story = LeaderStory()
    story.pass_by(400)
    await story.scan()
    assert story.others.asked == []
    assert not story.deaths


async def test_no_node_is_lost_while_a_controller_of_an_earlier_release_answers() -> None:
    story = LeaderStory()
    story.others.verdicts[2] = int(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
    async for _ in story.losses._answers(()):
        pass
    story.pass_by(600)
    await story.scan()
    assert not story.deaths
    story.others.verdicts[2] = "lost"
    await story.scan()
    assert story.deaths


async def test_a_member_that_is_heard_during_the_question_lives() -> None:
    story = LeaderStory()
    story.pass_by(600)
    suspects = story.losses._suspects()
    story.heartbeats.table.beat(KEY, 1, story.clock.ms, timeout_ms=60_000)
    await story.losses._judge(suspects)
    assert not story.deaths


async def test_a_controller_that_leads_no_more_lets_nobody_die() -> None:
    story = LeaderStory()
    story.pass_by(600)
    suspects = story.losses._suspects()
    story.node.is_leader = False
    await story.losses._judge(suspects)
    assert not story.deaths


async def test_a_timeout_of_zero_turns_the_rule_off() -> None:
    story = LeaderStory(node_timeout_ms=0)
    story.pass_by(60_000)
    await story.scan()
    assert not story.deaths
