"""Nodes whose logs hold a committed entry that no node can apply: they start, agree and serve again."""

import asyncio
import hashlib
from pathlib import Path
from typing import Any

from controller_core.groups import commands
from controller_core.groups.commands import ApplyBrokerId
from controller_core.groups.replies import Outcome
from controller_core.remoting.codes import ResponseCode
from controller_core.server.node.state_machine import GroupsMachine
from testkit.raft.groups import stamp
from testkit.raft.nodes import ClusterNode, NodeCluster
from testkit.raft.poisoned_stores import POISON_INDEX, write_poisoned_store

NODES = 3
WRITTEN_BY_OLDER_RELEASE = {
    "log-0000000001-00000000000000000002.wal": (
        "f0484024c4f65ec33ffcdaa079c15a230e745736950ab61f3a85c6e47c277caf"
    ),
    "snapshot-00000000000000000001.snap": "e7763be902e0ba33f69d90dc3a4382c70a54eb6d7a7fb315b8fc731bdc0764b9",
}
"""SHA-256 of the files that the last release without bounds wrote for this script of claims."""
WITHIN_S = 60.0


def _machine(member: ClusterNode) -> GroupsMachine:
    machine: Any = member.machine
    assert isinstance(machine, GroupsMachine)
    return machine


def _make_machine() -> Any:
    return GroupsMachine()


async def _claim(cluster: NodeCluster, name: str) -> int:
    """Have the leader take a claim; return the index up to which all nodes have applied then."""
    claim = ApplyBrokerId(cluster="c1", broker_name=name, stamp=stamp(1), broker_id=1, check_code="h:1;1")
    leader = await cluster.leader()
    outcome = await leader.node.propose(commands.encode(claim))
    assert isinstance(outcome, Outcome)
    assert outcome.reply.code == ResponseCode.SUCCESS
    index = leader.node.applied_index
    async with asyncio.timeout(WITHIN_S):
        while any(member.node.applied_index < index for member in cluster.members.values()):  # noqa: ASYNC110 - without a notification
            await asyncio.sleep(0.005)
    return index


def test_the_poisoned_store_is_byte_for_byte_what_the_older_release_wrote(tmp_path: Path) -> None:
    write_poisoned_store(tmp_path, "test/1", NODES)
    written = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in tmp_path.iterdir()}
    assert {name: digest for name, digest in written.items() if name != "LOCK"} == WRITTEN_BY_OLDER_RELEASE


async def test_nodes_of_poisoned_stores_agree_serve_and_start_again_from_a_snapshot(tmp_path: Path) -> None:
    for node_id in range(1, NODES + 1):
        write_poisoned_store(tmp_path / f"n{node_id}", f"test/{node_id}", NODES)
    async with NodeCluster(NODES, tmp_path, make_machine=_make_machine) as cluster:
        assert await _claim(cluster, "first") > POISON_INDEX
        machines = [_machine(member) for member in cluster.members.values()]
        assert [machine.skipped for machine in machines] == [1] * NODES
        assert len({machine.state.digest() for machine in machines}) == 1
        names = {group.key.broker_name for group in machines[0].state.groups()}
        assert names == {"before", "behind", "first"}
        # One node starts again from a snapshot, the others from the log: what they
        # passed over makes no difference.
        await cluster.members[1].node.make_snapshot()
        for node_id in cluster.ids:
            await cluster.stop(node_id)
        for node_id in cluster.ids:
            await cluster.start(node_id)
        await _claim(cluster, "second")
        machines = [_machine(member) for member in cluster.members.values()]
        assert [machine.skipped for machine in machines] == [0, 1, 1]
        assert len({machine.state.digest() for machine in machines}) == 1
        assert not any(member.fatal for member in cluster.members.values())
