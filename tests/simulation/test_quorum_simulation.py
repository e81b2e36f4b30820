"""Quorum acknowledgements in the simulated log: the rule loses nothing, and what it replaced does.

A few seeds run here, thousands with `make sim-ha`.
"""

from collections.abc import Callable

import pytest

from controller_core.groups.elections import log_ends
from testkit.check.errors import SafetyViolation
from testkit.ha_sim.quorum import by_heartbeats, by_log_ends, run_quorum_schedule

SEEDS = 40
SEEDS_TO_CATCH = 200


@pytest.mark.parametrize("first", range(0, SEEDS, 10))
def test_an_elected_master_has_every_message_that_two_of_three_had(first: int) -> None:
    for seed in range(first, first + 10):
        try:
            run_quorum_schedule(seed)
        except SafetyViolation as violation:
            pytest.fail(f"{violation}; replay: make sim-ha SEEDS=1 FIRST={seed}")


def test_a_file_that_a_cut_removed_before_its_process_ended_does_not_return() -> None:
    run_quorum_schedule(130)


def elect_by_heartbeats(_patch: pytest.MonkeyPatch) -> object:
    """The rule of earlier releases."""
    return by_heartbeats


def pass_over_log_replicas(patch: pytest.MonkeyPatch) -> object:
    """A broker is elected although a log replica is ahead."""
    return _without(patch, log_ends.LOG_REPLICA_AHEAD)


def elect_among_too_few(patch: pytest.MonkeyPatch) -> object:
    """A broker is elected although the members that are away may be all that have a message."""
    return _without(patch, log_ends.LOGS_UNKNOWN)


def _without(patch: pytest.MonkeyPatch, reason: str) -> object:
    objection = log_ends._objection

    def objected(*arguments: object) -> str:
        found = objection(*arguments)  # type: ignore[arg-type]  # the same arguments
        return "" if found == reason else found

    patch.setattr(log_ends, "_objection", objected)
    return by_log_ends


@pytest.mark.parametrize("bug", [elect_by_heartbeats, pass_over_log_replicas, elect_among_too_few])
def test_a_planted_rule_loses_acknowledged_messages(
    bug: Callable[[pytest.MonkeyPatch], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = bug(monkeypatch)

    def run_many() -> None:
        for seed in range(SEEDS_TO_CATCH):
            run_quorum_schedule(seed, rule)  # type: ignore[arg-type]  # a rule

    with pytest.raises(SafetyViolation, match="acknowledged bytes"):
        run_many()
