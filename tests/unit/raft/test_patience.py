"""A node that suspected a living one waits longer from then on, and no longer than it must."""

from typing import Any, Final

import pytest

from controller_core.raft.patience import CALM, WINDOW, Patience
from controller_core.raft.raw_node import RawNode
from controller_core.raft.types import StateType
from testkit.raft.group import RaftGroup

TICKS = 10
FACTOR_MAX = 4
SETTINGS: Final[dict[str, Any]] = {
    "election_ticks": TICKS,
    "patience_factor_max": FACTOR_MAX,
    "pre_vote": True,
    "check_quorum": True,
    "jitter": lambda _bound: 0,
}


def patience_of(node: RawNode) -> Patience:
    return node._raft.patience


@pytest.fixture
def patience() -> Patience:
    return Patience(TICKS, FACTOR_MAX)


def test_a_wrong_suspicion_doubles_the_wait_up_to_the_greatest(patience: Patience) -> None:
    waits = []
    for tick in (100, 200, 300):
        patience.suspect((2,), tick)
        patience.heard(2, tick + 1)
        waits.append(patience.ticks)
    assert waits == [2 * TICKS, 4 * TICKS, FACTOR_MAX * TICKS]


def test_a_node_that_comes_back_late_was_suspected_rightly(patience: Patience) -> None:
    patience.suspect((2,), 100)
    patience.heard(2, 101 + WINDOW * TICKS)
    assert patience.ticks == TICKS
    assert not patience.has_suspects


@pytest.mark.parametrize("gone_tick", [95, 101], ids=["before", "after"])
def test_a_process_that_ended_teaches_nothing_when_another_takes_its_place(
    patience: Patience, gone_tick: int
) -> None:
    for event in sorted([gone_tick, 100]):
        if event == gone_tick:
            patience.gone(2, event)
        else:
            patience.suspect((2,), event)
    patience.heard(2, 110)
    assert patience.ticks == TICKS


def test_a_connection_that_broke_long_ago_excuses_no_wrong_suspicion(patience: Patience) -> None:
    patience.gone(2, 100 - 2 * TICKS)
    patience.suspect((2,), 100)
    patience.heard(2, 110)
    assert patience.ticks == 2 * TICKS


def test_one_pause_of_all_is_one_lesson(patience: Patience) -> None:
    patience.suspect((2, 3), 100)
    patience.heard(2, 101)
    patience.heard(3, 102)
    assert patience.ticks == 2 * TICKS


def test_calm_shortens_the_wait_step_by_step(patience: Patience) -> None:
    for _ in range(2):
        patience.suspect((2,), 0)
        patience.heard(2, 0)
    assert not patience.calm(CALM * TICKS - 1)
    assert patience.calm(CALM * TICKS)
    assert patience.ticks == 2 * TICKS
    assert not patience.calm(CALM * TICKS + 1)
    assert patience.calm(2 * CALM * TICKS)
    assert (patience.ticks, patience.is_longer) == (TICKS, False)


def silent_leader(group: RaftGroup) -> None:
    """Let the leader, node 1, be silent until node 2 leads."""
    group[3].set_randomized_election_ticks(10 * TICKS)
    group.isolate(1)
    group.tick(TICKS, 2, 3)
    assert group.leaders() == [1, 2]
    group.heal()


def test_a_follower_whose_leader_lived_waits_twice_as_long_for_the_next() -> None:
    group = RaftGroup(1, 2, 3, **SETTINGS)
    group.elect(1)
    silent_leader(group)
    assert patience_of(group[2]).ticks == TICKS
    group.tick(1, 1, 2)
    assert group.leaders() == [2]
    assert patience_of(group[2]).ticks == 2 * TICKS


def test_a_leader_waits_as_long_for_its_followers_before_it_steps_down() -> None:
    group = RaftGroup(1, 2, 3, **SETTINGS)
    group.elect(1)
    patience_of(group[1]).suspect((2,), 0)
    patience_of(group[1]).heard(2, 0)
    group.isolate(1)
    group.tick(2 * TICKS - 1, 1)
    assert group[1].status().role == StateType.LEADER
    group.tick(2 * TICKS + 1, 1)
    assert group[1].status().role != StateType.LEADER


def test_a_leader_that_stepped_down_for_silence_learns_from_a_late_answer() -> None:
    group = RaftGroup(1, 2, 3, **SETTINGS)
    group.elect(1)
    group.isolate(1)
    group.tick(2 * TICKS, 1)
    assert group[1].status().role != StateType.LEADER
    group.heal()
    group.tick(TICKS, 2)
    group.pump()
    assert patience_of(group[1]).ticks == 2 * TICKS


def test_a_longer_wait_changes_no_promise_to_withhold_a_vote() -> None:
    group = RaftGroup(1, 2, 3, **SETTINGS)
    group.elect(1)
    patience_of(group[2]).suspect((1,), 0)
    patience_of(group[2]).heard(1, 0)
    patience_of(group[2]).suspect((), 0)
    group[2].set_randomized_election_ticks(2 * TICKS)
    group.isolate(1)
    group.tick(TICKS, 2, 3)
    assert group[2].status().role == StateType.FOLLOWER, "it waits"
    assert group.leaders() == [1, 3], "and votes for another"


def test_without_a_factor_the_wait_stays_as_configured() -> None:
    patience = Patience(TICKS, 1)
    patience.suspect((2,), 0)
    patience.heard(2, 0)
    assert (patience.ticks, patience.is_longer) == (TICKS, False)
