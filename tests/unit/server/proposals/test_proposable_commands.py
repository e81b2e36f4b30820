"""What handlers and the leader itself propose fits the log, decodes, and applies everywhere.

This holds whatever a stranger sends.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_core.broker_settings import MIN_IN_SYNC
from controller_core.groups import commands
from controller_core.groups.commands import AnyCommand, Cause
from controller_core.groups.keys import GroupKey, ReplicaKey
from controller_core.groups.members.broker_ids import BROKER_ID_MAX
from controller_core.groups.replies import Outcome
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.errors import RemotingProtocolError
from controller_core.remoting.frame import PreparedAnswer
from controller_core.remoting.text_bounds import GROUP_MEMBERS_MAX, NAME_BYTES_MAX
from controller_core.server.clock import Clock
from controller_core.server.common.broker_questions import RefusedError
from controller_core.server.common.metrics import Metrics
from controller_core.server.elections import first_elections
from controller_core.server.elections.first_elections import FirstElections
from controller_core.server.elections.heartbeats import HeartbeatReceiver
from controller_core.server.node.state_machine import GroupsMachine
from controller_core.server.node.types import CommandDroppedError
from controller_core.server.notices.notice_order import RoleChanges
from controller_core.server.proposals.commands import CommandMaker
from controller_core.server.requests import unknown_members
from controller_core.server.requests.direct.direct_writes import DirectWrite
from controller_core.server.requests.direct.follower_answers import FollowerAnswers
from controller_core.server.requests.handlers import Handlers
from controller_core.server.settings import properties
from controller_core.server.settings.config import load
from controller_core.server.settings.live_config import LiveConfig
from controller_core.server.write_guards.write_guard import SwitchoverRefusedError, WriteGuards
from testkit.raft.groups import GroupsDriver, live

SETTINGS = {"controllerDLegerGroup": "unit", "controllerDLegerPeers": "n0-127.0.0.1:1"}
OF_A_SMALL_GROUP_BYTES_MAX = 16_384
"""What a command can have while the group has three members: the texts at their bounds,
and one full SyncStateSet."""
NUMBERS = ("1", "2", "3", "0", "-1", "2147483647", "2147483648", "-2147483649", "9223372036854775807")
BAD_NUMBERS = ("9223372036854775808", "-9223372036854775809", "9" * 400, "", "one", "1e400", "\uff11", "NaN")
LONG = tuple("x" * size for size in (NAME_BYTES_MAX, NAME_BYTES_MAX + 1, 20_000, 1_200_000))
ODD = (
    "",
    "/",
    "..",
    "a\nb",
    "\x1b[2J",
    "\u2028",
    "b\u00e9" * 100,
    "\x00",
    ";",
    "1;2;3",
    "1;" * 3_000,
    "h:1;1",
)

texts = st.one_of(st.sampled_from(LONG), st.sampled_from(ODD), st.text(st.characters(), max_size=80))
numbers = st.sampled_from(NUMBERS + BAD_NUMBERS)
ids = st.sampled_from(("1", "2", "3"))
GOOD: dict[str, st.SearchStrategy[str]] = {
    "clusterName": st.just("c1"),
    "brokerName": st.just("b1"),
    "rmqhaCluster": st.just("c1"),
    "brokerAddr": st.just("h:1"),
    "brokerAddress": st.sampled_from(("h:1", "h:2")),
    "registerCheckCode": st.just("h:1;1"),
    "replicaKind": st.sampled_from(("log", "")),
    "brokerControllerIdsToClean": st.sampled_from(("", "1", "2;3")),
    "isCleanLivingBroker": st.sampled_from(("true", "false")),
    "designateElect": st.sampled_from(("true", "false")),
}
NUMBER_FIELDS = (
    "brokerId",
    "appliedBrokerId",
    "masterBrokerId",
    "masterEpoch",
    "epoch",
    "maxOffset",
    "confirmOffset",
    "heartbeatTimeoutMills",
    "electionPriority",
)
SPOILED = st.one_of(
    st.dictionaries(st.sampled_from(sorted(GOOD)), texts, min_size=1, max_size=2),
    st.dictionaries(st.sampled_from(NUMBER_FIELDS), numbers, max_size=2),
)
SETS = st.one_of(
    st.lists(st.integers(1, 3), max_size=4),
    st.lists(st.integers(-(2**64), 2**64), max_size=4),
    st.just(list(range(2**40, 2**40 + 5 * GROUP_MEMBERS_MAX))),
)
CODES = (904, 1001, 1002, 1003, 1004, 1006, 1011, 1012, 1013)


@st.composite
def requests(draw: st.DrawFn) -> RemotingCommand:
    """Return a request that names groups, good or with a field or two that are not."""
    code = draw(st.sampled_from(CODES))
    ext = {name: draw(good) for name, good in GOOD.items()}
    ext |= dict.fromkeys(NUMBER_FIELDS, draw(ids))
    ext |= draw(SPOILED)
    body = b""
    if code == RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET:
        epoch = draw(st.sampled_from((1, 2, 3, 2**31)))
        body = f'{{"syncStateSet":{draw(SETS)},"syncStateSetEpoch":{epoch}}}'.encode()
    return RemotingCommand.request(code, ext, body)


async def no_broker(address: str, _request: RemotingCommand, _timeout_s: float) -> RemotingCommand:
    """Answer for brokers that tell nothing."""
    raise RefusedError(f"{address} tells nothing")


@pytest.fixture(autouse=True, scope="module")
def _no_wait() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(first_elections, "BEAT_WITHIN_S", 0.001)
        yield


class ApplyingLeader:
    """A node that leads and applies proposals at once; it keeps every answer that is not a success."""

    is_leader = True
    leader_id = 1

    def __init__(self) -> None:
        config = LiveConfig(load(SETTINGS)[0], SETTINGS)
        clock = Clock("unit")
        self.machine = GroupsMachine()
        self.heartbeats = HeartbeatReceiver(self.machine.state, clock)
        self.changes = RoleChanges(None)  # type: ignore[arg-type] # sends no notices here
        self.maker = CommandMaker(clock, self.heartbeats.alive_of, self.heartbeats.alive_ids_of, lambda: True)
        self.handlers = Handlers(
            node=self,
            machine=self.machine,
            heartbeats=self.heartbeats,
            submitter=self,
            direct=lambda _request, _command: None,
            followers=FollowerAnswers(self, self.machine.state, lambda _channel, _name: "", clock, Metrics()),
            rule=self,  # type: ignore[arg-type] # serves here, as the rule does on a leader
            maker=self.maker,
            first_elections=FirstElections(self.machine.state, self.heartbeats, clock, no_broker, lambda: 0),
            config=config,
            clock=clock,
        )
        self.applied = 0

    def has_read_lease(self) -> bool:
        """Allow every read."""
        return True

    async def read_barrier(self) -> None:
        """Allow every read."""

    def read_for(self, _waiter: object) -> None:
        """Serve no read of a follower."""

    def saw_epoch(self, key: ReplicaKey, epoch: int, *, is_beat: bool) -> None:
        """Watch for nothing."""

    async def serve(
        self,
        _request: RemotingCommand,
        here: Callable[[], Awaitable[RemotingCommand]],
        _cluster: object,
        _begun: object,
    ) -> RemotingCommand:
        """Serve a request here."""
        return await here()

    def submit_for(self, _command: AnyCommand, _waiter: object) -> Outcome | None:
        """Take nothing without a task."""
        raise CommandDroppedError

    async def submit(self, command: AnyCommand) -> Outcome:
        """Check that a command can be proposed, and apply it."""
        data = commands.encode(command)
        assert len(data) <= OF_A_SMALL_GROUP_BYTES_MAX
        assert commands.decode(data) == command
        self.applied += 1
        outcome = self.machine.apply(self.applied, 1, data)
        assert self.machine.skipped == 0
        return outcome

    async def ask(self, request: RemotingCommand) -> RemotingCommand | None:
        """Return the answer; a refusal is one with a remark."""
        try:
            answer = self.handlers.handle(1, request)
            if isinstance(answer, PreparedAnswer):
                return answer.command
            if answer is None or isinstance(answer, RemotingCommand):
                return answer
            assert not isinstance(answer, DirectWrite)
            return await answer
        except RemotingProtocolError as error:
            return RemotingCommand.response_to(request, ResponseCode.SYSTEM_ERROR, remark=str(error))


@given(st.lists(requests(), min_size=1, max_size=6))
def test_every_request_is_refused_with_a_remark_or_becomes_a_command_that_every_node_applies(
    asked: list[RemotingCommand],
) -> None:
    async def run() -> ApplyingLeader:
        leader = ApplyingLeader()
        claim = {
            "clusterName": "c1",
            "brokerName": "b1",
            "appliedBrokerId": "1",
            "registerCheckCode": "h:1;1",
        }
        await leader.ask(RemotingCommand.request(RequestCode.CONTROLLER_APPLY_BROKER_ID, claim))
        for request in asked:
            answer = await leader.ask(request)
            assert answer is None or answer.code == ResponseCode.SUCCESS or answer.remark
            assert answer is None or len(answer.remark or "") < 20_000
        for group in list(leader.machine.state.groups()):
            await leader.submit(leader.maker.elect_after(group.key, Cause.HEARTBEAT_TIMEOUT, None))
        return leader

    leader = asyncio.run(run())
    other = GroupsMachine()
    other.restore(leader.machine.snapshot())
    assert other.state.digest() == leader.machine.state.digest()


ID_FIELDS = ("appliedBrokerId", "brokerId", "masterBrokerId", "brokerControllerIdsToClean")
IDS = st.sampled_from((*range(-1, 5), *range(BROKER_ID_MAX - 2, BROKER_ID_MAX + 4), 2**31, 2**62, 2**63 - 1))


@st.composite
def well_formed_requests(draw: st.DrawFn) -> RemotingCommand:
    """Return a request for one group in which only the ids are odd."""
    code = draw(st.sampled_from(CODES))
    ext = {name: draw(good) for name, good in GOOD.items()} | dict.fromkeys(NUMBER_FIELDS, "1")
    ext |= {field: str(draw(IDS)) for field in ID_FIELDS}
    body = b""
    if code == RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET:
        body = f'{{"syncStateSet":{draw(st.lists(IDS, max_size=3))},"syncStateSetEpoch":1}}'.encode()
    return RemotingCommand.request(code, ext, body)


@given(st.lists(well_formed_requests(), max_size=12))
def test_whatever_ids_are_sent_the_next_broker_still_gets_an_id(asked: list[RemotingCommand]) -> None:
    async def run() -> None:
        leader = ApplyingLeader()
        for request in asked:
            answer = await leader.ask(request)
            assert answer is None or answer.code == ResponseCode.SUCCESS or answer.remark
        for group in leader.machine.state.groups():
            assert group.next_broker_id <= BROKER_ID_MAX + 1 + len(asked)
            assert max(group.replicas) < group.next_broker_id
        name = {"clusterName": "c1", "brokerName": "b1"}
        told = await leader.ask(RemotingCommand.request(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, name))
        assert told is not None
        next_id = int((told.ext or {})["nextBrokerId"])
        claim = name | {"appliedBrokerId": str(next_id), "registerCheckCode": "new:1;9"}
        claimed = await leader.ask(RemotingCommand.request(RequestCode.CONTROLLER_APPLY_BROKER_ID, claim))
        assert claimed is not None
        assert claimed.code == ResponseCode.SUCCESS, claimed.remark
        recorded = leader.machine.state.get(GroupKey("c1", "b1"))
        assert recorded is not None
        assert next_id in recorded.replicas

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unknown_members, "TAKE_UP_AFTER_MS", 0)
        asyncio.run(run())


@pytest.mark.parametrize("setting", ["1" + "0" * 9, "9" * 40, "9" * 5_000, "-1", "", "two", "1_0", "\uff11"])
async def test_a_write_guard_notes_only_a_setting_that_fits_the_log(setting: str) -> None:
    driver = GroupsDriver().group_of_three()
    noted: list[AnyCommand] = []

    async def ask(_address: str, request: RemotingCommand, _timeout_s: float) -> RemotingCommand:
        body = properties.write({MIN_IN_SYNC: setting}).encode()
        return RemotingCommand.response_to(request, ResponseCode.SUCCESS, body=body)

    async def propose(command: AnyCommand) -> Outcome:
        noted.append(command)
        return driver.apply(command)

    guards = WriteGuards(
        state=driver.state,
        clock=Clock("unit"),
        ask=ask,
        forget=lambda _address: None,
        propose=propose,
        alive_of=lambda _cluster, _name: live(1, 2, 3),
        changes=RoleChanges(None),  # type: ignore[arg-type] # sends no notices here
        leads=lambda: True,
    )
    election = driver.election(1, 2, 3, by=2, designate=True)
    with pytest.raises(SwitchoverRefusedError):
        await guards.before(election)
    assert noted == []
