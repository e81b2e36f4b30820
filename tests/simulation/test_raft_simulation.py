"""Schedules of failures drawn from a seed: nothing unsafe happens, and after healing the group works again.

A failure names its seed; `RAFT_SIM_SEED=n pytest tests/simulation/test_raft_simulation.py` replays that one,
and `RAFT_SIM_COUNT=n` runs more of them.
"""

import os

import pytest

from controller_core.raft.types import Message, MessageType
from testkit.check.errors import SafetyViolation
from testkit.sim.raft import raft_cluster
from testkit.sim.raft.raft_checks import SafetyChecks
from testkit.sim.raft.schedules import run_schedule

SCHEDULES = int(os.environ.get("RAFT_SIM_COUNT", "200"))
BATCH = 20
CANARY_SCHEDULES_MAX = 400
SEEDS = [int(os.environ["RAFT_SIM_SEED"])] if "RAFT_SIM_SEED" in os.environ else list(range(SCHEDULES))


@pytest.mark.parametrize(
    "seeds", [SEEDS[start : start + BATCH] for start in range(0, len(SEEDS), BATCH)], ids=str
)
def test_no_schedule_breaks_safety_and_every_group_recovers(seeds: list[int]) -> None:
    elections = reads = 0
    for seed in seeds:
        cluster = run_schedule(seed)
        elections += cluster.checks.elections
        reads += cluster.checks.reads
        applied = [data for node in cluster.nodes.values() for data in set(node.acknowledged)]
        assert applied, f"seed {seed} applied nothing"
    assert elections >= len(seeds)
    assert reads > 0


def test_the_same_seed_gives_the_same_run() -> None:
    first, again = run_schedule(7), run_schedule(7)
    assert first.checks.digest_at == again.checks.digest_at
    assert first.proposed == again.proposed
    assert first.random.random() == again.random.random()


def test_a_vote_that_is_forgotten_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The canary: a disk that does not keep votes must be caught, or the checks see nothing."""

    def forgetful(node: raft_cluster.SimNode) -> None:
        node.alive = False
        hard_state = node.store.initial_state()[0]
        node.store.set_hard_state(type(hard_state)(term=hard_state.term, commit=hard_state.commit))

    def run_many() -> None:
        for seed in range(CANARY_SCHEDULES_MAX):
            run_schedule(seed)

    monkeypatch.setattr(raft_cluster.SimNode, "crash", forgetful)
    with pytest.raises(SafetyViolation, match=r"voted for|two leaders|another state|lacks index"):
        run_many()


def test_two_votes_at_one_term_are_a_violation() -> None:
    checks = SafetyChecks()
    vote = {"from_": 1, "term": 3}
    checks.sends(Message(MessageType.VOTE_RESP, to=2, **vote))  # type: ignore[arg-type]
    with pytest.raises(SafetyViolation):
        checks.sends(Message(MessageType.VOTE_RESP, to=3, **vote))  # type: ignore[arg-type]
