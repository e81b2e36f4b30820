"""What a watch brings and to whom it goes; and how the process starts and ends without a Kubernetes."""

import itertools
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import kopf
import pytest

from rocketmq_operator.api.names import BROKERS_FINALIZER, SWITCHOVER_ANNOTATION
from rocketmq_operator.clients.reflection import KINDS
from rocketmq_operator.handlers.metrics import HealthServer, Metrics
from rocketmq_operator.handlers.operator import (
    Changes,
    EndlessDelays,
    Watched,
    apply_settings,
    note_pod,
    registry_for,
)
from rocketmq_operator.handlers.takeover import Takeover
from rocketmq_operator.handlers.work import Resource, Work
from testkit.memory.kubernetes import MemoryKube


class _Work(Work):
    """Remembers wake-ups."""

    def __init__(self) -> None:
        self.woken: list[Resource] = []
        self.told: list[bool] = []

    def wake(self, resource: Resource, *, told: bool = True) -> None:
        self.woken.append(resource)
        self.told.append(told)


class _Clusters:
    """Remembers clusters."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def there(self, namespace: str, name: str, body: Mapping[str, Any]) -> None:
        self.names.add(f"{namespace}/{name}")

    def gone(self, namespace: str, name: str) -> None:
        self.names.discard(f"{namespace}/{name}")


def _watched() -> tuple[Watched, _Work, _Clusters]:
    work, clusters = _Work(), _Clusters()
    takeover = Takeover(MemoryKube(), lambda: True, lambda *_: None)
    return Watched(work, takeover, clusters), work, clusters


def _handlers(registry: kopf.OperatorRegistry) -> dict[str, Any]:
    return {handler.fn.__name__: handler.fn for handler in registry._watching.get_all_handlers()}


def _body(
    name: str,
    generation: int,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    uid: str = "uid-1",
) -> kopf.Body:
    metadata = {
        "name": name,
        "namespace": "shop",
        "uid": uid,
        "generation": generation,
        "labels": labels or {},
        "annotations": annotations or {},
    }
    return kopf.Body({"metadata": metadata, "spec": {}, "status": {}})  # type: ignore[typeddict-item]  # enough of one


def test_a_new_spec_wakes_and_our_own_status_does_not() -> None:
    watched, work, _ = _watched()
    changes = Changes(watched)
    for generation in (1, 1, 2):
        changes.note("BrokerGroup", _body("orders", generation), gone=False)
    assert work.woken == [Resource("BrokerGroup", "shop", "orders")] * 2


def test_a_switchover_that_is_asked_for_wakes_once() -> None:
    watched, work, _ = _watched()
    changes = Changes(watched)
    for asked in ({}, {SWITCHOVER_ANNOTATION: "7"}, {SWITCHOVER_ANNOTATION: "7", "other": "x"}):
        changes.note("BrokerGroup", _body("orders", 1, annotations=asked), gone=False)
    assert len(work.woken) == 2


def test_a_group_that_is_deleted_and_made_again_is_looked_at() -> None:
    watched, work, _ = _watched()
    changes = Changes(watched)
    for gone in (False, True, False):
        changes.note("BrokerGroup", _body("orders", 1), gone=gone)
    assert len(work.woken) == 3


def test_a_group_that_was_made_again_unseen_is_looked_at() -> None:
    watched, work, _ = _watched()
    changes = Changes(watched)
    for uid in ("uid-1", "uid-2"):
        changes.note("BrokerGroup", _body("orders", 1, uid=uid), gone=False)
    assert len(work.woken) == 2


def test_a_clusters_controllers_are_followed_while_it_is_there() -> None:
    watched, _, clusters = _watched()
    changes = Changes(watched)
    changes.note("RocketMQCluster", _body("main", 1), gone=False)
    assert clusters.names == {"shop/main"}
    changes.note("RocketMQCluster", _body("main", 1), gone=True)
    assert clusters.names == set()


def test_kopf_watches_only_kinds_that_every_kubernetes_has() -> None:
    handlers = registry_for(_watched()[0])._watching.get_all_handlers()
    assert {handler.fn.__name__ for handler in handlers} == {"on_pod", "on_run"}


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
async def test_a_child_wakes_whose_it_is_when_what_is_kept_has_the_change(
    labels: dict[str, str], woken: tuple[str, str, str]
) -> None:
    watched, work, _ = _watched()
    body = dict(_body("some-0", 1, labels))
    note_pod(watched, body, gone=False)
    assert work.woken == [], "the cache may not have it yet"
    changes = Changes(watched)
    changes.note("Pod", body, gone=False)
    assert (work.woken, work.told) == ([Resource(*woken)], [False])
    changes.note("Failover", body, gone=False)
    assert len(work.woken) == 1, "a record is written by the operator itself"


def test_what_the_operator_makes_pods_with_is_followed() -> None:
    assert {"StatefulSet", "Deployment", "Pod"} <= set(KINDS)


async def test_a_report_is_looked_at_when_a_run_of_it_changes() -> None:
    watched, work, _ = _watched()
    on_run = _handlers(registry_for(watched))["on_run"]
    await on_run(body=_body("weekly-1", 1, {"rocketmq-ha.dev/slo-report": "weekly"}))
    assert work.woken == [Resource("SLOReport", "shop", "weekly")]


@pytest.mark.parametrize("kind", ["RocketMQCluster", "BrokerGroup", "SLOReport", "Topic", "ConsumerGroup"])
def test_each_kind_of_ours_is_followed_and_looked_at_when_its_spec_changes(kind: str) -> None:
    watched, work, _ = _watched()
    changes = Changes(watched)
    for generation in (1, 1, 2):
        changes.note(kind, _body("prices", generation), gone=False)
    assert work.woken == [Resource(kind, "shop", "prices")] * 2
    assert kind in KINDS


def test_the_finalizer_of_topics_is_not_the_one_that_kopf_takes_away() -> None:
    settings = kopf.OperatorSettings()
    apply_settings(settings)
    assert settings.persistence.finalizer != BROKERS_FINALIZER


def test_kopf_keeps_to_our_prefix_and_never_gives_up() -> None:
    settings = kopf.OperatorSettings()
    apply_settings(settings)
    assert settings.persistence.finalizer.startswith("rocketmq-ha.dev/")
    assert settings.peering.standalone
    assert not hasattr(EndlessDelays(), "__len__")
    assert list(itertools.islice(EndlessDelays(), 1_000))[-1] == 30.0


async def test_health_and_metrics_are_served() -> None:
    ready, alive = False, True
    metrics = Metrics(lambda: True)
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
