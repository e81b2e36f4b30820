"""What a watch brings and to whom it goes; and how the process starts and ends without a Kubernetes."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from rocketmq_operator.api.names import SWITCHOVER_ANNOTATION
from rocketmq_operator.clients.reflection import KINDS, Reflection
from rocketmq_operator.handlers.changes import ChangeReceivers, ChangeRouter
from rocketmq_operator.handlers.metrics import HealthServer, OperatorMetrics
from rocketmq_operator.handlers.observing.clusters_and_groups import observe_group
from rocketmq_operator.handlers.scheduler import PassScheduler, ResourceName
from rocketmq_operator.handlers.takeover import HELD_AFTER_DELETION_S, Takeover
from testkit.memory.kubernetes import MemoryKube
from testkit.worlds.operator import OperatorWorld

Json = dict[str, Any]
IN_THE_FUTURE = "2026-11-20T10:00:00Z"


class _Work(PassScheduler):
    """Remembers wake-ups."""

    def __init__(self) -> None:
        self.woken: list[ResourceName] = []
        self.told: list[bool] = []

    def wake(self, resource: ResourceName, *, changed: bool = True) -> None:
        self.woken.append(resource)
        self.told.append(changed)


class _Clusters:
    """Remembers clusters."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def cluster_exists(self, namespace: str, name: str, body: Mapping[str, Any]) -> None:
        self.names.add(f"{namespace}/{name}")

    def cluster_gone(self, namespace: str, name: str) -> None:
        self.names.discard(f"{namespace}/{name}")


def _watched() -> tuple[ChangeReceivers, _Work, _Clusters]:
    work, clusters = _Work(), _Clusters()
    takeover = Takeover(MemoryKube(), lambda: True, lambda *_: None)
    return ChangeReceivers(work, takeover, clusters), work, clusters


def _body(
    name: str,
    generation: int,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    uid: str = "uid-1",
) -> Json:
    metadata = {
        "name": name,
        "namespace": "shop",
        "uid": uid,
        "generation": generation,
        "labels": labels or {},
        "annotations": annotations or {},
    }
    return {"metadata": metadata, "spec": {}, "status": {}}


def test_a_new_spec_wakes_and_our_own_status_does_not() -> None:
    watched, work, _ = _watched()
    changes = ChangeRouter(watched)
    for generation in (1, 1, 2):
        changes.route("BrokerGroup", _body("orders", generation), gone=False)
    assert work.woken == [ResourceName("BrokerGroup", "shop", "orders")] * 2


def test_a_switchover_that_is_asked_for_wakes_once() -> None:
    watched, work, _ = _watched()
    changes = ChangeRouter(watched)
    for asked in ({}, {SWITCHOVER_ANNOTATION: "7"}, {SWITCHOVER_ANNOTATION: "7", "other": "x"}):
        changes.route("BrokerGroup", _body("orders", 1, annotations=asked), gone=False)
    assert len(work.woken) == 2


def test_a_group_that_is_deleted_and_made_again_is_looked_at() -> None:
    watched, work, _ = _watched()
    changes = ChangeRouter(watched)
    for gone in (False, True, False):
        changes.route("BrokerGroup", _body("orders", 1), gone=gone)
    assert len(work.woken) == 3


def test_a_group_that_was_made_again_unseen_is_looked_at() -> None:
    watched, work, _ = _watched()
    changes = ChangeRouter(watched)
    for uid in ("uid-1", "uid-2"):
        changes.route("BrokerGroup", _body("orders", 1, uid=uid), gone=False)
    assert len(work.woken) == 2


def test_a_clusters_controllers_are_followed_while_it_is_there() -> None:
    watched, _, clusters = _watched()
    changes = ChangeRouter(watched)
    changes.route("RocketMQCluster", _body("main", 1), gone=False)
    assert clusters.names == {"shop/main"}
    changes.route("RocketMQCluster", _body("main", 1), gone=True)
    assert clusters.names == set()


@pytest.mark.parametrize(
    ("labels", "woken"),
    [
        (
            {"rocketmq-ha.dev/cluster": "main", "rocketmq-ha.dev/group": "orders"},
            ("BrokerGroup", "shop", "orders"),
        ),
        ({"rocketmq-ha.dev/cluster": "main"}, ("RocketMQCluster", "shop", "main")),
    ],
)
def test_a_child_wakes_its_owner_if_that_exists(labels: dict[str, str], woken: tuple[str, str, str]) -> None:
    watched, work, _ = _watched()
    changes = ChangeRouter(watched)
    body = _body("some-0", 1, labels)
    changes.route("Pod", body, gone=False)
    assert work.woken == [], "the list of pods may come before that of their owners"
    changes.route(woken[0], _body(woken[2], 1), gone=False)
    work.woken.clear()
    work.told.clear()
    changes.route("Pod", body, gone=False)
    assert (work.woken, work.told) == ([ResourceName(*woken)], [False])
    changes.route("Failover", body, gone=False)
    assert len(work.woken) == 1, "a record is written by the operator itself"


def test_the_children_and_the_runs_that_the_operator_makes_are_followed() -> None:
    assert {"StatefulSet", "Deployment", "Pod", "Job"} <= set(KINDS)


def test_a_report_is_looked_at_when_a_run_of_it_changes() -> None:
    watched, work, _ = _watched()
    changes = ChangeRouter(watched)
    changes.route("SLOReport", _body("weekly", 1), gone=False)
    work.woken.clear()
    for gone in (False, True):
        changes.route("Job", _body("weekly-1", 1, {"rocketmq-ha.dev/slo-report": "weekly"}), gone=gone)
        changes.route("Job", _body("backup-1", 1), gone=gone)
    assert work.woken == [ResourceName("SLOReport", "shop", "weekly")] * 2


class _Watch:
    """`Stream` of one pod.

    Its watch brings one event and runs a check as soon as the reflection asks for the next one.
    """

    def __init__(self, listed: Json, event: tuple[str, Json], check: Callable[[], None]) -> None:
        self._listed = listed
        self._event = event
        self._check = check
        self.checked = asyncio.Event()

    async def list(self, kind: str, namespace: str, label: str) -> tuple[list[Json], str]:
        return [self._listed], "1"

    async def watch(
        self, kind: str, namespace: str, label: str, version: str
    ) -> AsyncIterator[tuple[str, Json]]:
        yield self._event
        self._check()
        self.checked.set()
        await asyncio.Event().wait()


async def test_a_pods_event_is_with_the_takeover_before_the_watch_reads_on() -> None:
    world = OperatorWorld({"logReplicas": 1})
    await world.settle()
    observed = await observe_group(world.pass_context().environment, "shop", "orders")
    assert observed is not None
    held: list[tuple[str, float]] = []
    work = _Work()
    takeover = Takeover(
        world.kube, lambda: True, lambda *_: None, hold=lambda _, group, hold_s: held.append((group, hold_s))
    )
    takeover.note_group(observed)
    pod = world.get("Pod", "orders-0")
    ending = pod | {
        "metadata": pod["metadata"] | {"deletionTimestamp": IN_THE_FUTURE, "resourceVersion": "9"}
    }

    def check() -> None:
        assert held == [("orders", HELD_AFTER_DELETION_S)], (
            "no pass begins before clients have another master"
        )
        assert takeover.moving, "the address already leads to the companion"

    watch = _Watch(pod, ("MODIFIED", ending), check)
    changes = ChangeRouter(ChangeReceivers(work, takeover, _Clusters()))
    following = asyncio.create_task(
        Reflection(watch, "Pod", "shop", asyncio.get_running_loop().time, changes.route).run()
    )
    checked = asyncio.create_task(watch.checked.wait())
    await asyncio.wait([following, checked], return_when=asyncio.FIRST_COMPLETED)
    assert watch.checked.is_set(), following.exception()
    following.cancel()
    await asyncio.gather(*takeover.moving)


async def test_a_deletion_that_began_during_a_gap_of_the_watch_holds_the_group() -> None:
    world = OperatorWorld({"logReplicas": 1})
    await world.settle()
    observed = await observe_group(world.pass_context().environment, "shop", "orders")
    assert observed is not None
    held = asyncio.Event()
    takeover = Takeover(world.kube, lambda: False, lambda *_: None, hold=lambda *_: held.set())
    takeover.note_group(observed)
    pod = world.get("Pod", "orders-0")
    ending = pod | {
        "metadata": pod["metadata"] | {"deletionTimestamp": IN_THE_FUTURE, "resourceVersion": "9"}
    }
    changes = ChangeRouter(ChangeReceivers(_Work(), takeover, _Clusters()))
    first_list = _Watch(ending, ("BOOKMARK", ending), lambda: None)
    following = asyncio.create_task(
        Reflection(first_list, "Pod", "shop", asyncio.get_running_loop().time, changes.route).run()
    )
    async with asyncio.timeout(30):
        await held.wait()
    following.cancel()


@pytest.mark.parametrize("kind", ["RocketMQCluster", "BrokerGroup", "SLOReport", "Topic", "ConsumerGroup"])
def test_each_kind_of_ours_is_followed_and_looked_at_when_its_spec_changes(kind: str) -> None:
    watched, work, _ = _watched()
    changes = ChangeRouter(watched)
    for generation in (1, 1, 2):
        changes.route(kind, _body("prices", generation), gone=False)
    assert work.woken == [ResourceName(kind, "shop", "prices")] * 2
    assert kind in KINDS


@pytest.mark.parametrize("end", ["awake", "gone"])
def test_the_metrics_tell_which_groups_hibernate(end: str) -> None:
    watched, _, _ = _watched()
    metrics = OperatorMetrics(lambda: True)
    changes = ChangeRouter(replace(watched, on_group=metrics.note_group))
    series = 'rmqha_operator_group_hibernated{group="prices",namespace="shop"} 1.0'
    asleep = _body("prices", 2) | {"spec": {"hibernated": True}}
    changes.route("BrokerGroup", _body("prices", 1), gone=False)
    assert series not in metrics.text().decode()
    changes.route("BrokerGroup", asleep, gone=False)
    assert series in metrics.text().decode()
    changes.route("BrokerGroup", asleep if end == "gone" else _body("prices", 3), gone=end == "gone")
    assert series not in metrics.text().decode()


async def test_health_and_metrics_are_served() -> None:
    ready, alive = False, True
    metrics = OperatorMetrics(lambda: True)
    metrics.steps.labels(step="Apply").inc()
    missing: list[str] = []
    server = HealthServer(metrics, lambda: ready, lambda: alive, lambda: missing)
    port = await server.start("127.0.0.1", 0)
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        assert (await session.get("/livez")).status == 200
        assert (await session.get("/readyz")).status == 503
        ready = True
        assert (await session.get("/readyz")).status == 200
        missing.append("Topic")
        answer = await session.get("/readyz")
        assert (answer.status, await answer.text()) == (
            503,
            "no kind Topic: apply the chart's definitions (crds/)\n",
        )
        assert (await session.get("/livez")).status == 200, "a restart brings no definition"
        alive = False
        assert (await session.get("/livez")).status == 503, "a dead watch is mended by a restart"
        text = await (await session.get("/metrics")).text()
    await server.stop()
    assert 'rmqha_operator_steps_total{step="Apply"} 1.0' in text
    assert "rmqha_operator_leading 1.0" in text


def test_an_operator_without_a_kubernetes_ends_and_says_why(tmp_path: Path) -> None:
    environment = {"KUBECONFIG": str(tmp_path / "none"), "HOME": str(tmp_path), "PATH": ""}
    command = [
        sys.executable,
        "-c",
        "from rocketmq_operator.cli import main; raise SystemExit(main(['run']))",
    ]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert ended.returncode == 1
    assert "no configuration for Kubernetes" in ended.stderr
