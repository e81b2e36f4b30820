"""Five different faults on a real cluster, and the report that has to find each of them, and nothing else.

A fault log holds each fault with its time; the report does not get it: it finds changes of master by itself.
From what the canary wrote the seconds in which a send failed are counted once more, apart from the pipeline.
"""

import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from testkit.kube.failover.faulting import CUT, DELETE, FREEZE, KILL, NODE_FAULT_S, inject
from testkit.kube.failover.placement import nodes_of_pods
from testkit.kube.group import GroupView, KubeGroup
from testkit.kube.kubectl import Cluster
from testkit.kube.measurements import US_PER_S, bad_seconds, put_aside, sends, until_read, until_written
from testkit.kube.release import Release, measure
from testkit.kube.reports import KubeReport, Row
from testkit.kube.stack import tool, without_provisioner
from testkit.processes.fault_log import FaultLog

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(1_500),
    pytest.mark.skipif(not tool(), reason="the nodes of this cluster are not ours to harm"),
]

SWITCHOVER = "switchover"
PERIOD_US = US_PER_S
"""Of the collector's scrapes and of the seconds that are judged."""
CAUSES = {
    KILL: ("failover", "ConnectionClosed"),
    DELETE: ("failover", "ConnectionClosed"),
    FREEZE: ("failover", "HeartbeatTimeout"),
    CUT: ("failover", "HeartbeatTimeout"),
    SWITCHOVER: ("switchover", "ConnectionClosed"),
}
"""The faults in order, and the expected report of each: the kind of change, and
the reason of the election."""
NAME = "five-faults"
SILENCE_US = 1_500_000
"""After so much of it the controllers hold a broker for dead, as the operator sets it up."""
HARD = (KILL, FREEZE, CUT)
"""Faults without a handover before them."""


@dataclass(frozen=True, slots=True)
class Done:
    """One entry of the fault log; times are UTC nanoseconds.

    Attributes:
        fault: the fault injected.
        before: the group when it was done.
        after: the group when it was whole again.
        injected_ns: when it was done.
        undone_ns: when a node resumed; for the others, when the injecting command had ended.
        whole_ns: when the group was whole again, its addresses with its members.
    """

    fault: str
    before: GroupView
    after: GroupView
    injected_ns: int
    undone_ns: int
    whole_ns: int

    @property
    def injected_us(self) -> int:
        """When it was done."""
        return self.injected_ns // 1_000


async def _do(group: KubeGroup, fault: str, log: FaultLog) -> Done:
    """Do a fault to a group whose addresses are with its members, and wait until it is so again."""
    before = await group.until_at_home()
    node = (await nodes_of_pods(group.cluster))[before.master]
    injected_ns = log.injected(fault, before.master, group.name)
    if fault == SWITCHOVER:
        (other,) = set(before.brokers) - {before.master}
        await group.cluster.plugin("switchover", group.name, "--to", other)
    else:
        injected_ns = await inject(group, before.master, fault, node, NODE_FAULT_S)
    undone_ns = log.healed(fault, before.master, group.name)
    await group.until_epoch_above(before.epoch)
    after = await group.until_at_home()
    return Done(fault, before, after, injected_ns, undone_ns, whole_ns=time.time_ns())


async def _addresses(cluster: Cluster, brokers: tuple[str, ...]) -> dict[str, str]:
    """Return the member of each address that a broker announces."""
    services = {one["metadata"]["name"]: one["spec"]["clusterIP"] for one in await cluster.find("services")}
    return {services[broker]: broker for broker in brokers}


def _check_phases(found: Row, done: Done, until_us: int) -> None:
    """Hold a change's marks against the fault log: each within a period of the fault."""
    where = f"{done}: {found}"
    injected_us = done.injected_us
    assert injected_us - PERIOD_US <= found["interval_start"] <= found["interval_end"] <= until_us, where
    assert injected_us <= found["elected_ts"] <= found["role_taken_ts"], where
    assert found["elected_ts"] <= found["redundancy_ts"] <= done.whole_ns // 1_000 + PERIOD_US, where
    if done.fault != SWITCHOVER:
        # A person's order does not count as a suspicion.
        assert 0 <= found["elected_ts"] - found["suspected_ts"] <= PERIOD_US, where
    if done.fault in HARD:
        # The last acknowledgement before the gap and the last heartbeat are of the fault's own second.
        assert abs(found["gap_start_ts"] - injected_us) <= PERIOD_US, where
        assert abs(found["last_heartbeat_ts"] - injected_us) <= PERIOD_US, where
        silence_us = 0 if done.fault == KILL else SILENCE_US
        assert abs(found["suspected_ts"] - injected_us - silence_us) <= PERIOD_US, where
    if done.fault in (FREEZE, CUT):
        assert found["redundancy_ts"] >= done.undone_ns // 1_000 - PERIOD_US, where


async def _measured(cluster: Cluster, group: KubeGroup, log: FaultLog) -> list[Done]:
    """Measure during the five faults, and copy the measurements."""
    watching = (await nodes_of_pods(cluster))[f"{group.name}-log-0"]
    # Who measures must not be on a node that is harmed.
    await measure(cluster, rf"measure.nodeSelector.kubernetes\.io/hostname={watching}")
    await until_read(cluster, time.time_ns())
    async with without_provisioner():
        told = [await _do(group, fault, log) for fault in CAUSES]
    await until_read(cluster, time.time_ns())
    await until_written(cluster, time.time_ns())
    # A report takes all CPU of a small machine: the time of its own run does not count.
    await put_aside(cluster, NAME)
    return told


async def _reported(cluster: Cluster) -> KubeReport:
    """Make a report of the copied measurements."""
    spec = {"schedule": "0 0 1 1 *", "suspend": True, "window": "1d", "source": {"path": NAME}}
    spec["resources"] = {"cpu": "250m", "memory": "2Gi"}
    meta = {"name": NAME, "namespace": cluster.namespace}
    await cluster.apply(
        {"apiVersion": "rocketmq-ha.dev/v1alpha1", "kind": "SLOReport", "metadata": meta, "spec": spec}
    )
    report = KubeReport(cluster, NAME)
    await report.until_acted_on()
    status = await report.run_now(f"{NAME}-now")
    assert status["lastResult"] == "Succeeded", status
    return report


async def test_a_report_finds_each_of_five_faults_and_books_every_lost_second(
    release: Release, tmp_path: Path
) -> None:
    cluster, group = release.cluster, release.group
    members = await _addresses(cluster, (await group.until_at_home()).brokers)
    told = await _measured(cluster, group, FaultLog(tmp_path / "faults.jsonl", "main"))
    report = await _reported(cluster)

    found = sorted(await report.table("failovers"), key=lambda row: int(row["elected_ts"]))
    listed = [
        (
            row["group"],
            row["epoch"],
            *[members[row[f"{which}_master_address"].partition(":")[0]] for which in ("old", "new")],
            row["booking"],
            row["cause"],
        )
        for row in found
    ]
    assert listed == [
        (group.name, one.after.epoch, one.before.master, one.after.master, *CAUSES[one.fault]) for one in told
    ]

    (window,) = await report.table("sli_window")
    untils_us = [*(one.injected_us for one in told[1:]), window["window_end"]]
    for row, one, until_us in zip(found, told, untils_us, strict=True):
        _check_phases(row, one, until_us)

    lost = bad_seconds(await sends(cluster, NAME), window["window_start"], window["window_end"])
    spent = {row["failover_id"]: row["bad_s"] for row in await report.table("budget")}
    assert set(spent) <= {row["failover_id"] for row in found}, f"not booked to a fault: {spent}, {lost}"
    assert sum(spent.values()) == window["bad_s"] == len(lost), (spent, window, lost)
    for row, one, until_us in zip(found, told, untils_us, strict=True):
        of_this = [second for second in lost if one.injected_us - PERIOD_US <= second < until_us - PERIOD_US]
        assert row["bad_s"] == spent.get(row["failover_id"], 0) == len(of_this), (one.fault, row, lost)
        assert row["lost_acknowledged"] == 0, row
        if one.fault in HARD:
            assert of_this, f"{one.fault} cost no second"
            assert of_this[0] <= one.injected_us + PERIOD_US, (one.fault, of_this)
    await cluster.kubectl("delete", "sloreport", NAME)
