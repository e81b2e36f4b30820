"""Bugs of RocketMQ's releases as scenarios of whole controllers.

Each scenario holds here, and fails on a planted copy of the bug.

Where the bug was the broker's, it is planted in the modelled broker, and the scenario shows that the
controller's part of the agreement is enough for a broker without it. Every scenario ends as a simulated run
does: healed, recovered, judged.

Source: apache/rocketmq issues, by number. Not here: 9942 and 10666, of a broker's own files, and 4800, a
needless but harmless election when only the leading controller and the master do not hear each other.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from msgspec.structs import replace as with_fields

from controller_core.groups import state
from controller_core.groups.commands import ElectMaster
from controller_core.groups.elections import election
from controller_core.groups.elections.policy import elect
from controller_core.groups.group import Change, Group
from controller_core.groups.liveness import scan
from controller_core.groups.liveness import table as liveness_table
from controller_core.groups.members import sync_state
from controller_core.raft.raw_node import RawNode
from controller_core.raft.tracker.tracker import ProgressTracker
from controller_core.remoting import headers
from controller_core.remoting.bodies import SyncStateSet
from controller_core.remoting.codes import RequestCode
from controller_core.remoting.command import RemotingCommand
from controller_core.server.elections import leader_elections
from controller_core.server.requests.handlers import Handlers
from controller_core.server.write_guards.write_guard import WriteGuards
from testkit.sim.brokers.broker_set import FORGETS_PROPOSALS, SHRINKS_ALONE
from testkit.sim.runs.scene import NAME, Play, Scene, perform
from testkit.sim.runs.world import CLUSTER, Shape

Plant = Callable[[pytest.MonkeyPatch], None]


async def lost_answer_to_an_expansion(scene: Scene) -> None:
    """5663: {1} grows to {1, 2}, the answer is lost, 2 falls silent, 1 dies: what did 1 acknowledge alone?"""
    for broker in scene.world.brokers[NAME]:
        broker.in_sync_min = 1
    scene.kill(2)
    await scene.until(lambda: scene.group.sync_state_set == (1,), 10, "the set shrinks")
    scene.cut(scene.controllers(), [scene.broker(1).host], both=False)
    scene.start(2)
    await scene.until(lambda: scene.group.sync_state_set == (1, 2), 10, "the set grows")
    scene.cut([scene.broker(1).host], [scene.broker(2).host], both=False)
    await asyncio.sleep(1.5)
    scene.kill(1)
    await scene.until(lambda: scene.group.master_id == 2, 5, "2 is elected")
    await asyncio.sleep(1)


async def master_and_slave_cut_off_together(scene: Scene) -> None:
    """6662: 1 and 2 see only each other, 3 is elected: later writes that 1 and 2 alone hold are lost."""
    others = [*scene.controllers(), scene.broker(3).host]
    scene.cut([scene.broker(2).host], others)
    await asyncio.sleep(2.5)  # else 2 would seem to live a little longer, win, and be out of reach
    scene.cut([scene.broker(1).host], others)
    await scene.until(lambda: scene.group.master_id == 3, 10, "3 is elected")
    await asyncio.sleep(10)


async def master_cut_off_with_its_controller(scene: Scene) -> None:
    """7017: the leading controller and the master see only each other; the rest goes on without them."""
    leader = scene.leader
    side = [leader.host, scene.broker(1).host]
    others = [*scene.controllers(without=leader), scene.broker(2).host, scene.broker(3).host]
    scene.cut(side, others)
    await scene.until(lambda: scene.group.master_id in (2, 3), 15, "the majority elects")
    await asyncio.sleep(10)


async def leader_and_master_killed_together(scene: Scene) -> None:
    """7689: both at once; the next leader saw the master's connection end, and waits for nothing."""
    leader = scene.leader
    leader.kill()
    scene.kill(1)
    await scene.until(lambda: scene.group.master_id in (2, 3), 2.5, "a new master")
    assert scene.group.master_epoch == 2
    scene.start(1)
    await asyncio.sleep(2)
    assert scene.group.master_epoch == 2, "its return costs no epoch"


async def elections_of_a_living_master(scene: Scene) -> None:
    """9689: a request for a master while the group has one changes nothing."""
    for broker_id, designate in ((1, True), (2, False), (3, False), (1, False)):
        header = headers.ElectMasterRequestHeader(NAME, CLUSTER, broker_id, designate)
        answer = await scene.ask(RequestCode.CONTROLLER_ELECT_MASTER, header)
        assert answer.code == 2011
    assert (scene.group.master_id, scene.group.master_epoch) == (1, 1)


async def two_slaves_cut_at_once(scene: Scene) -> None:
    """9897: both slaves are gone; a set that keeps one is refused, and the master is left alone in it."""
    lost = [scene.broker(2).host, scene.broker(3).host]
    scene.cut(lost, [*scene.controllers(), scene.broker(1).host])
    await asyncio.sleep(5)
    wish = SyncStateSet.of((1, 3), scene.group.set_epoch).encode()
    header = headers.AlterSyncStateSetRequestHeader(NAME, 1, scene.group.master_epoch)
    answer = await scene.ask(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, header, wish, as_broker=1)
    assert answer.code == 2006, f"a dead member was taken: {answer.code}"
    await scene.until(lambda: scene.group.sync_state_set == (1,), 12, "the master is alone in the set")


async def slave_dies(scene: Scene) -> None:
    """8380: the death of a slave does not cause an election."""
    scene.kill(2)
    await asyncio.sleep(7)
    assert (scene.group.master_id, scene.group.master_epoch) == (1, 1)


async def master_dies_after_the_leader_changed(scene: Scene) -> None:
    """10812: a new leader has received the heartbeats all along, and knows the living brokers."""
    scene.leader.kill()
    await scene.until(lambda: scene.world.leader() is not None, 5, "a new leader")
    scene.kill(1)
    await scene.until(lambda: scene.group.master_id in (2, 3), 2, "a new master")


async def master_dies_while_no_controller_runs(scene: Scene) -> None:
    """10875: no controller saw it die; the scan finds it, once silence may count."""
    for controller in scene.world.controllers:
        controller.kill()
    scene.kill(1)
    for controller in scene.world.controllers:
        controller.start()
    await scene.until(lambda: scene.group.master_id in (2, 3), 17, "the scan elects")


async def only_a_stale_broker_is_left(scene: Scene) -> None:
    """4771: 3 was left behind, the others die, 3 returns: it must not become master."""
    scene.kill(3)
    await scene.until(lambda: scene.group.sync_state_set == (1, 2), 10, "the set shrinks")
    await asyncio.sleep(2)
    scene.kill(1, 2)
    scene.start(3)
    await asyncio.sleep(14)
    assert scene.group.master_id is None, f"{scene.group.master_id} was elected"


async def master_falls_silent(scene: Scene) -> None:
    """9717: no connection ends, nothing is said: after its own time-out a frozen master is dead."""
    scene.broker(1).process.freeze()
    await scene.until(lambda: scene.group.master_id in (2, 3), 5, "a new master")


async def set_member_returns_alone(scene: Scene) -> None:
    """6382: an election failed as the whole set was gone; once a member is back, one is held at once."""
    scene.kill(1, 2, 3)
    await scene.until(lambda: scene.group.master_id is None, 5, "the dead master is struck off")
    await asyncio.sleep(1)
    back = scene.group.sync_state_set[0]  # whom deaths in turn left in the set
    scene.start(back)
    await scene.until(lambda: scene.group.master_id == back, 4, "it is elected")


async def winner_dies_in_its_election(scene: Scene) -> None:
    """No upstream number: the winner dies before its election is applied, and is removed from the set too.

    These scenarios found it.
    """
    for controller in scene.world.controllers:
        controller.fsync_s = (0.2, 0.3)  # so that the election lasts
    scene.kill(1)
    await asyncio.sleep(0.1)
    scene.kill(2, 3)
    await scene.until(lambda: scene.group.master_epoch >= 2, 2, "somebody dead is elected")
    await scene.until(lambda: scene.group.master_id is None, 3, "no dead broker stays recorded")


# The planted copies.


def lead_and_read_without_a_quorum(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProgressTracker, "quorum_active", lambda _self: True)
    patch.setattr(RawNode, "has_valid_lease", lambda self: self.is_leader)


def no_scan_on_gaining_leadership(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(leader_elections.LeaderElections, "wake", lambda _self: None)


def raise_the_epoch_of_a_master_that_stays(patch: pytest.MonkeyPatch) -> None:
    def elect_master(group: Group | None, command: ElectMaster, index: int, term: int) -> Change:
        change = election.elect_master(group, command, index, term)
        if group is None or change.reply.code != 2011:
            return change
        return replace(change, group=with_fields(group, master_epoch=group.master_epoch + 1))

    patch.setattr(state, "elect_master", elect_master)


def take_dead_members(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sync_state, "_unfit_member", lambda _group, _wanted, _command: None)


def elect_on_any_death(patch: pytest.MonkeyPatch) -> None:
    def on_deaths(self: leader_elections.LeaderElections, deaths: list[liveness_table.Death]) -> None:
        for death in deaths:
            group = self._machine.state.get(death.key.group)
            if group is not None and self._node.is_leader:
                self._start(leader_elections._need_after(group, death))

    async def unguarded(_self: WriteGuards, command: ElectMaster) -> ElectMaster:
        return command

    patch.setattr(leader_elections.LeaderElections, "on_deaths", on_deaths)
    patch.setattr(WriteGuards, "before", unguarded)  # which would not let a living master be replaced
    patch.setattr(
        election,
        "elect",
        lambda group, alive, preferred_id, **options: elect(
            with_fields(group, master_id=None),
            {key: one for key, one in alive.items() if key != group.master_id},
            preferred_id,
            **options,
        ),
    )


def followers_drop_heartbeats(patch: pytest.MonkeyPatch) -> None:
    heard = Handlers._heartbeat

    def heartbeat(self: Handlers, channel_id: int, request: RemotingCommand) -> RemotingCommand | None:
        return heard(self, channel_id, request) if self._node.is_leader else None

    patch.setattr(Handlers, "_heartbeat", heartbeat)


def scan_the_wrong_way_round(patch: pytest.MonkeyPatch) -> None:
    right = scan.election_need

    def wrong(group: Group, table: liveness_table.LivenessTable, **options: bool) -> scan.ElectionNeed | None:
        is_dead = right(group, table, **options) is not None
        if is_dead or group.master_id is None:
            return None
        return scan.ElectionNeed(
            group.key, group.master_id, group.master_epoch, scan.Cause.MASTER_MISSING, None
        )

    patch.setattr(scan, "election_need", wrong)
    patch.setattr(leader_elections, "election_need", wrong)


def silence_is_never_found(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(liveness_table.LivenessTable, "expire", lambda _self, _now_ms: [])


def forget_deaths_during_elections(patch: pytest.MonkeyPatch) -> None:
    def on_deaths(self: leader_elections.LeaderElections, deaths: list[liveness_table.Death]) -> None:
        for death in deaths:
            group = self._machine.state.get(death.key.group)
            if group is not None and group.master_id == death.key.broker_id and self._node.is_leader:
                self._start(leader_elections._need_after(group, death))

    patch.setattr(leader_elections.LeaderElections, "on_deaths", on_deaths)


def nobody_looks_when_a_member_returns(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(leader_elections.LeaderElections, "on_revival", lambda _self, _key: None)
    patch.setattr(leader_elections, "groups_needing_election", lambda *_args, **_options: [])
    patch.setattr(election, "_winner", lambda *_args, **_options: None)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A bug: how it comes about, and how to plant it."""

    number: str
    play: Play
    plant: Plant | None = None
    shape: Shape = field(default_factory=Shape)
    planted_shape: Shape | None = None


SCENARIOS = (
    Scenario(
        "5663",
        lost_answer_to_an_expansion,
        shape=Shape(brokers=2),
        planted_shape=Shape(brokers=2, flaws=frozenset((FORGETS_PROPOSALS,))),
    ),
    Scenario(
        "6662",
        master_and_slave_cut_off_together,
        planted_shape=Shape(flaws=frozenset((SHRINKS_ALONE,))),
    ),
    Scenario("7017", master_cut_off_with_its_controller, lead_and_read_without_a_quorum),
    Scenario("7689", leader_and_master_killed_together, no_scan_on_gaining_leadership),
    Scenario("9689", elections_of_a_living_master, raise_the_epoch_of_a_master_that_stays),
    Scenario("9897", two_slaves_cut_at_once, take_dead_members),
    Scenario("8380", slave_dies, elect_on_any_death),
    Scenario("10812", master_dies_after_the_leader_changed, followers_drop_heartbeats),
    Scenario("10875", master_dies_while_no_controller_runs, scan_the_wrong_way_round),
    Scenario(
        "4771",
        only_a_stale_broker_is_left,
        planted_shape=Shape(controller_keys={"enableElectUncleanMaster": "true"}),
    ),
    Scenario("9717", master_falls_silent, silence_is_never_found),
    Scenario("winner dies", winner_dies_in_its_election, forget_deaths_during_elections),
    Scenario("6382", set_member_returns_alone, nobody_looks_when_a_member_returns),
)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.number)
def test_the_scenario_holds(scenario: Scenario) -> None:
    assert perform(scenario.play, scenario.shape) == []


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.number)
def test_the_scenario_fails_on_a_planted_copy_of_the_bug(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    if scenario.plant is not None:
        scenario.plant(monkeypatch)
    assert perform(scenario.play, scenario.planted_shape or scenario.shape) != []
