"""One schedule from its seed to its verdict: disturb, heal, and the group must work again.

Every safety check is made on the way; a violation names its seed, which is all
that is needed to see it again.
"""

from controller_core.raft.errors import RaftError
from testkit.check.errors import SafetyViolation
from testkit.sim.raft.raft_cluster import RaftCluster

DISTURBED_TICKS = 100
HEAL_TICKS = 80
SETTLE_TICKS = 15


def run_schedule(seed: int) -> RaftCluster:
    """Run one schedule to its end.

    Raises:
        SafetyViolation: with the seed in its text.
    """
    cluster = RaftCluster(seed)
    try:
        cluster.disturb(DISTURBED_TICKS)
        cluster.heal()
        cluster.run(cluster.scheduler.now + HEAL_TICKS)
        while cluster.retire_removed_leader():
            cluster.run(cluster.scheduler.now + HEAL_TICKS)
        assert_works(cluster)
        cluster.checks.logs_match(node.store for node in cluster.nodes.values())
    except (AssertionError, RaftError) as error:
        raise SafetyViolation(
            f"seed {seed} ({cluster.plan}) at {cluster.scheduler.now:.1f}: {error}"
        ) from error
    return cluster


def assert_works(cluster: RaftCluster) -> None:
    """A leader exists, and its voters and learners (except a retired one) apply what it proposes."""
    leader = cluster.leader()
    assert leader is not None, "no leader after healing"
    data = cluster.propose(leader)
    assert data is not None, "the leader drops proposals after healing"
    cluster.run(cluster.scheduler.now + SETTLE_TICKS)
    conf_state = leader.raw.status().conf_state
    members = [cluster.nodes[node] for node in (*conf_state.voters, *conf_state.learners)]
    assert data in leader.acknowledged, "a proposal is not committed after healing"
    assert {node.digest for node in members if node.alive} == {leader.digest}, "members differ after healing"
