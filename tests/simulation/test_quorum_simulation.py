"""Quorum acknowledgements in the simulated log: the rule loses nothing, and what it replaced does.

A few seeds run here, thousands with `make sim-ha`.
"""

from collections.abc import Callable

import pytest

from controller_core.groups.elections import log_ends
from testkit.check.errors import SafetyViolation
from testkit.ha_sim.quorum import (
    NUMBERS,
    QuorumGroup,
    QuorumNumbers,
    by_heartbeats,
    by_log_ends,
    run_quorum_schedule,
    with_copies,
)

SEEDS = 40
SEEDS_OF_FIVE = 40
SEEDS_TO_CATCH = 200
TWO_OF_THREE, THREE_OF_FIVE, TWO_OF_FIVE = QuorumNumbers(3, 2), QuorumNumbers(5, 3), QuorumNumbers(5, 2)


def run_seeds(first: int, count: int, numbers: QuorumNumbers) -> None:
    for seed in range(first, first + count):
        try:
            run_quorum_schedule(seed, numbers=numbers)
        except SafetyViolation as violation:
            pytest.fail(f"{numbers}, seed {seed}: {violation}")


@pytest.mark.parametrize("first", range(0, SEEDS, 10))
def test_an_elected_master_has_every_message_that_two_of_three_had(first: int) -> None:
    run_seeds(first, 10, TWO_OF_THREE)


@pytest.mark.parametrize("numbers", [THREE_OF_FIVE, TWO_OF_FIVE])
def test_an_elected_master_has_every_message_that_some_of_five_had(numbers: QuorumNumbers) -> None:
    run_seeds(0, SEEDS_OF_FIVE, numbers)


def test_a_seed_draws_its_numbers() -> None:
    drawn = {QuorumGroup(seed, by_log_ends).numbers for seed in range(30)}
    assert drawn == set(NUMBERS) == {TWO_OF_THREE, THREE_OF_FIVE, TWO_OF_FIVE}


def test_a_file_that_a_cut_removed_before_its_process_ended_does_not_return() -> None:
    run_quorum_schedule(130, numbers=TWO_OF_THREE)


def elect_by_heartbeats(_patch: pytest.MonkeyPatch) -> object:
    """The rule of earlier releases."""
    return by_heartbeats


def pass_over_log_replicas(patch: pytest.MonkeyPatch) -> object:
    """A broker is elected although a log replica is ahead."""
    return _without(patch, log_ends.LOG_REPLICA_AHEAD)


def elect_among_too_few(patch: pytest.MonkeyPatch) -> object:
    """A broker is elected although the members that are away may be all that have a message."""
    return _without(patch, log_ends.LOGS_UNKNOWN)


def pass_over_members_outside(patch: pytest.MonkeyPatch) -> object:
    """A broker is elected although a slave is ahead that the controllers have not recorded yet."""
    patch.setattr(log_ends, "_outside", lambda *_arguments: "")
    return by_log_ends


def _without(patch: pytest.MonkeyPatch, reason: str) -> object:
    objection = log_ends._objection

    def objected(*arguments: object) -> str:
        found = objection(*arguments)  # type: ignore[arg-type]  # the same arguments
        return "" if found == reason else found

    patch.setattr(log_ends, "_objection", objected)
    return by_log_ends


@pytest.mark.parametrize(
    ("bug", "numbers"),
    [
        (elect_by_heartbeats, TWO_OF_THREE),
        (pass_over_log_replicas, TWO_OF_THREE),
        (pass_over_members_outside, TWO_OF_THREE),
        (elect_among_too_few, THREE_OF_FIVE),
    ],
)
def test_a_planted_rule_loses_acknowledged_messages(
    bug: Callable[[pytest.MonkeyPatch], object], numbers: QuorumNumbers, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_loses(bug(monkeypatch), numbers)


def count_one_copy_more(group: QuorumGroup) -> int | None:
    """One silent member too many is let pass."""
    return with_copies(group, group.numbers.copies + 1)


@pytest.mark.parametrize("rule", [by_heartbeats, count_one_copy_more])
def test_a_planted_rule_loses_what_three_of_five_had(rule: object) -> None:
    assert_loses(rule, THREE_OF_FIVE)


def assert_loses(rule: object, numbers: QuorumNumbers) -> None:
    """Check that a schedule finds an acknowledged message gone."""

    def run_many() -> None:
        for seed in range(SEEDS_TO_CATCH):
            run_quorum_schedule(seed, rule, numbers)  # type: ignore[arg-type]  # a rule

    with pytest.raises(SafetyViolation, match="acknowledged bytes"):
        run_many()
