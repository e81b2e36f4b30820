"""RocketMQ's gRPC client outside any pod, at a listener of node ports, beside a client in a pod.

Its proxy is a pod of its own, and it knows nothing but the address of the listener. Node agents run.

Not here: a proxy on the lost node. It is lost with it, and its clients wait for Kubernetes.
"""

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from testkit.kube import stack
from testkit.kube.failover.agents import node_agents, until_judged
from testkit.kube.failover.faulting import (
    CUT,
    DELETE,
    FREEZE,
    GRPC,
    INSIDE,
    KILL,
    ROLL,
    measured_by_clients,
)
from testkit.kube.failover.placement import LOG_REPLICA_LABELS
from testkit.kube.outside.listening import OutsideClients, outside_clients
from testkit.kube.release import ROCKETMQ_IMAGE, Release
from testkit.rocketmq.load import LoadSettings

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(1_200),
    pytest.mark.skipif(not stack.tool(), reason=f"{stack.VARIABLE} names no tool: nodes are elsewhere"),
]

PACE: Final = LoadSettings(threads=2, rate=50)
FIRST_RUN: Final = 200
"""For names of pods and topics: other tests of the same faults number theirs from 0 and 100."""


@pytest.fixture
async def outside(release: Release, tmp_path: Path) -> AsyncIterator[OutsideClients]:
    await release.group.until_at_home()
    async with (
        node_agents(release.cluster, f"main/{release.group.name}"),
        outside_clients(release.cluster, tmp_path, LOG_REPLICA_LABELS) as clients,
    ):
        yield clients


@pytest.mark.flaky(reruns=1)
async def test_a_grpc_client_outside_fails_over_as_one_in_a_pod_does(
    release: Release, outside: OutsideClients
) -> None:
    for number, fault in enumerate((KILL, DELETE, ROLL, FREEZE, CUT), FIRST_RUN):
        if fault in {FREEZE, CUT}:
            await until_judged(release.group)
        costs = await measured_by_clients(
            *(release.group, ROCKETMQ_IMAGE, "main-nameserver:9876", fault, number),
            settings=PACE,
            clients=(INSIDE, GRPC),
            outside=outside,
        )
        for cost in costs:
            sys.stdout.write(f"{fault}, {cost.client}: {cost.gap_ms:.0f} ms, {cost.failed} failed\n")
            assert (cost.acknowledged > 0, cost.lost) == (True, 0)
            # A lost node is silent: on busy cores it may be noticed too late for the sends in flight.
            failed_max = PACE.threads if fault in {FREEZE, CUT} else 0
            assert cost.failed <= failed_max, (cost.client, fault, cost.problems)
