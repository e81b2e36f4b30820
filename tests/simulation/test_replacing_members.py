"""Three members are replaced by three others in one joint change, even if the leader fails in it."""

import pytest

from controller_core.raft.confchange.changes import ConfChange, ConfChangeType
from controller_core.raft.errors import ProposalDroppedError
from controller_core.raft.types import ConfState, NodeId
from controller_core.server.membership.replacement import replacement
from testkit.sim.raft.raft_cluster import RaftCluster, RaftPlan, SimNode
from testkit.sim.raft.schedules import assert_works

OLD, NEW = (1, 2, 3), (4, 5, 6)
KNOWN = {f"n{node - 1}": node for node in (*OLD, *NEW)}
ROUND_TICKS = 30.0
ROUNDS_MAX = 20


def plan(loss: float) -> RaftPlan:
    settings: dict[str, object] = {"pre_vote": True, "check_quorum": True, "step_down_on_removal": True}
    return RaftPlan(6, 3, loss, 0.05, changes_membership=False, settings=settings)


def state_of(node: SimNode) -> ConfState:
    return node.raw.status().conf_state


def is_done(cluster: RaftCluster) -> bool:
    leader = cluster.leader()
    return (
        leader is not None
        and leader.id in NEW
        and state_of(leader) == ConfState(voters=tuple(map(NodeId, NEW)))
    )


def step(cluster: RaftCluster) -> None:
    """Do what the command does next: add the missing members, then ask for the change unless it is made."""
    leader = cluster.leader()
    if leader is None or leader.raw.conf_change_pending:
        return
    state = state_of(leader)
    missing = [node for node in NEW if node not in (*state.voters, *state.learners)]
    try:
        if missing:
            leader.raw.propose_conf_change(ConfChange(ConfChangeType.ADD_LEARNER_NODE, NodeId(missing[0])))
        elif set(state.voters) != set(NEW):
            names = [f"n{node - 1}" for node in NEW], [f"n{node - 1}" for node in OLD]
            leader.raw.propose_conf_change(replacement(state, KNOWN, *names).change())
    except ProposalDroppedError:
        pass  # leadership is being handed over; the next round tries again
    leader.work()


def let_pass(cluster: RaftCluster, ticks: float) -> None:
    """Let time pass; no member may ever see a membership between the old and the new one."""
    until = cluster.scheduler.now + ticks
    while cluster.scheduler.now < until:
        cluster.run(cluster.scheduler.now + 0.5)
        for node in cluster.nodes.values():
            assert set(state_of(node).voters) in (set(), set(OLD), set(NEW)), f"{node.id}: {state_of(node)}"


@pytest.mark.parametrize("seed", range(40))
def test_it_is_done_or_not_at_all_and_the_new_ones_go_on(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RaftPlan, "draw", classmethod(lambda _cls, random: plan(random.choice((0.0, 0.1)))))
    cluster = RaftCluster(seed)
    for _ in range(ROUNDS_MAX):
        step(cluster)
        let_pass(cluster, cluster.random.uniform(0, 4))
        leader = cluster.leader()
        if leader is not None and cluster.random.random() < 0.5:
            cluster.propose(leader)
            leader.crash()
            let_pass(cluster, ROUND_TICKS)
            leader.start()
        let_pass(cluster, ROUND_TICKS)
        if is_done(cluster):
            break
    cluster.heal()
    let_pass(cluster, ROUND_TICKS)
    assert is_done(cluster), f"seed {seed}: {[state_of(node) for node in cluster.nodes.values()]}"
    for node in OLD:  # They are not needed any more.
        if cluster.nodes[node].alive:
            cluster.nodes[node].crash()
    assert_works(cluster)
    cluster.checks.logs_match(cluster.nodes[node].store for node in NEW)
