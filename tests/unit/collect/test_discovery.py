"""Targets found by pods' labels: the collector's source of each pod.

Targets follow when pods and watches go.
"""

import argparse
import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo_pipeline.cli import main
from slo_pipeline.collect.command import add_arguments, cluster_settings
from slo_pipeline.collect.kubernetes.api import ExpiredError, NoClusterError
from slo_pipeline.collect.kubernetes.cluster import NAMESPACES_MAX
from slo_pipeline.collect.kubernetes.discovery import merged, targets_of
from slo_pipeline.collect.kubernetes.pods import PodBook, PodError, pod_of
from slo_pipeline.collect.scraping.metrics import CollectorMetrics
from slo_pipeline.collect.scraping.targets import TARGETS_MAX, Target
from testkit.fakes.kubernetes_pages import NAMESPACE, FakeCluster, cluster_pod, cluster_served
from testkit.products.collector_in_process import asked, collecting, samples, until

Json = dict[str, Any]
DISCOVER = {"events": (), "kubelets": (), "discover": (NAMESPACE,)}


def _found(*pods: Json, listed: tuple[Target, ...] = (), **more: Any) -> list[tuple[str, str, str]]:
    found = merged(listed, map(pod_of, pods), **more)
    return [(target.name, target.kind, target.url) for target in found.targets]


def test_a_controller_is_a_page_and_the_stream_of_its_cluster() -> None:
    pod = cluster_pod("main-controller-0", "controller", group=None, address="10.0.0.7", uid="u7")
    assert targets_of(pod_of(pod)) == [
        Target("main-controller-0", "http://10.0.0.7:9880/metrics", "metrics", "u7"),
        Target("main-controller-0", "http://10.0.0.7:9880/v1/events", "events", "u7", "main"),
    ]


def test_a_broker_is_its_own_page_and_its_companions_page_and_events() -> None:
    assert targets_of(pod_of(cluster_pod("orders-0", address="10.0.0.8", uid="u8"))) == [
        Target("orders-0-broker", "http://10.0.0.8:5557/metrics", "metrics", "u8"),
        Target("orders-0", "http://10.0.0.8:9882/metrics", "metrics", "u8"),
        Target("orders-0", "http://10.0.0.8:9882/v1/events", "events", "u8"),
    ]


def test_a_cluster_without_controllers_is_followed_with_those_that_it_uses() -> None:
    pods = [
        cluster_pod("main-controller-0", "controller", group=None, cluster="main"),
        cluster_pod("orders-log-0", "log-replica", cluster="main"),
        cluster_pod("bills-log-0", "log-replica", cluster="second"),
    ]
    assert {name for name, *_ in _found(*pods, cluster="second")} == {"bills-log-0"}
    shared = {name for name, *_ in _found(*pods, cluster="second", controllers_of="main")}
    assert shared == {"bills-log-0", "main-controller-0"}


def test_a_learner_has_no_companion() -> None:
    assert targets_of(pod_of(cluster_pod("orders-learner-0", "learner", address="10.0.0.8", uid="u8"))) == [
        Target("orders-learner-0-broker", "http://10.0.0.8:5557/metrics", "metrics", "u8")
    ]


def test_a_log_replica_is_a_page_and_events_and_an_address_of_ipv6_is_put_in_brackets() -> None:
    assert targets_of(pod_of(cluster_pod("orders-log-0", "log-replica", address="fd00::9", uid="u9"))) == [
        Target("orders-log-0", "http://[fd00::9]:9881/metrics", "metrics", "u9"),
        Target("orders-log-0", "http://[fd00::9]:9881/v1/events", "events", "u9"),
    ]


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(cluster_pod("orders-0", address=None), id="no-address-yet"),
        pytest.param(cluster_pod("orders-0", phase="Succeeded"), id="finished"),
        pytest.param(cluster_pod("orders-0", phase="Failed"), id="failed"),
        pytest.param(cluster_pod("main-nameserver-0", "nameserver", group=None), id="name-server"),
        pytest.param(cluster_pod("main-proxy-x", "proxy", group=None), id="proxy"),
        pytest.param(cluster_pod("orders-0", cluster=""), id="of-no-cluster"),
    ],
)
def test_a_pod_that_cannot_be_asked_or_is_none_of_ours_is_no_target(pod: Json) -> None:
    assert targets_of(pod_of(pod)) == []


def test_only_pods_of_the_cluster_that_is_named_are_targets() -> None:
    pods = [
        cluster_pod("main-controller-0", "controller"),
        cluster_pod("b-controller-0", "controller", cluster="b"),
    ]
    assert [name for name, _, _ in _found(*pods, cluster="b")] == ["b-controller-0", "b-controller-0"]
    assert len(_found(*pods)) == 4


def test_what_is_listed_has_its_name_before_any_pod() -> None:
    own = Target("orders-0-broker", "http://127.0.0.1:1/metrics", "metrics")
    found = merged([own], [pod_of(cluster_pod("orders-0"))])
    assert [(target.name, target.kind) for target in found.targets] == [
        ("orders-0-broker", "metrics"),
        ("orders-0", "metrics"),
        ("orders-0", "events"),
    ]
    assert found.targets[0] is own
    assert found.taken == {"orders-0-broker"}


def test_a_cluster_of_the_same_name_in_a_later_namespace_is_left_out_whole() -> None:
    # Its controllers' events are another sequence: to read it from the place of the
    # first would leave events out.
    here = cluster_pod("main-controller-0", "controller", namespace="a", address="10.0.0.1")
    there = [
        cluster_pod(f"main-controller-{number}", "controller", namespace="b", address="10.0.1.1")
        for number in range(2)
    ]
    found = merged([], map(pod_of, [here, *there]))
    assert {target.url.split(":")[1] for target in found.targets} == {"//10.0.0.1"}
    assert found.taken == {"main-controller-0", "main-controller-1"}


def test_targets_beyond_the_bound_are_left_out_and_counted() -> None:
    pods = [cluster_pod(f"orders-{number}", address="10.0.0.1") for number in range(4)]
    found = merged([Target("own", "http://x/metrics", "metrics")], map(pod_of, pods), targets_max=5)
    assert [target.name for target in found.targets] == [
        "own",
        "orders-0-broker",
        "orders-0",
        "orders-0",
        "orders-1-broker",
    ]
    assert (found.beyond, found.taken) == (8, frozenset())
    assert TARGETS_MAX == 5_000


PARTS = ("metadata", "spec", "status")
FIELDS = [
    *((part,) for part in PARTS),
    *(("metadata", name) for name in ("name", "namespace", "uid", "labels")),
    ("metadata", "labels", "rocketmq-ha.dev/cluster"),
    ("metadata", "labels", "rocketmq-ha.dev/group"),
    ("metadata", "labels", "app.kubernetes.io/component"),
    ("spec", "nodeName"),
    *(("status", name) for name in ("phase", "podIP", "hostIP")),
]
RUBBISH = st.sampled_from(
    [None, 5, -1, 1.5, True, "", "x y", "\ud800", "10.0.0.1/x", "a" * 999, [], ["a"], {}, {"a": 1}]
)


@given(st.sampled_from(FIELDS), RUBBISH)
def test_rubbish_in_any_field_makes_a_pod_that_can_be_used_or_none(
    field: tuple[str, ...], value: Any
) -> None:
    pod = cluster_pod("orders-0")
    part = pod
    for name in field[:-1]:
        part = part[name]
    part[field[-1]] = value
    with contextlib.suppress(PodError):
        for target in targets_of(pod_of(pod)):
            assert target.name.isascii()
            assert target.url in {
                f"http://127.0.0.9:{port}/{path}"
                for port, path in ((5557, "metrics"), (9882, "metrics"), (9882, "v1/events"))
            }


@pytest.mark.parametrize("value", ["x", None, 3, [], {"metadata": []}, {"metadata": {"namespace": "mq"}}])
async def test_what_is_no_pod_is_left_out_of_a_list_and_asks_for_one_in_a_watch(value: Any) -> None:
    pods = PodBook([NAMESPACE]).namespaces[NAMESPACE]
    await pods.begin()
    await pods.take(value)
    await pods.take(cluster_pod("orders-0"))
    await pods.end()
    assert list(pods.known) == ["orders-0"]
    for hears in (pods.take, pods.drop):
        with pytest.raises(ExpiredError):
            await hears(value)
    assert list(pods.known) == ["orders-0"]


async def test_a_list_replaces_what_was_known_only_when_it_is_whole() -> None:
    book = PodBook([NAMESPACE])
    pods = book.namespaces[NAMESPACE]
    await pods.take(cluster_pod("orders-0"))
    book.changed.clear()
    await pods.begin()
    await pods.take(cluster_pod("orders-1"))
    assert (list(pods.known), book.changed.is_set()) == (["orders-0"], False)
    # A list that broke off begins again.
    await pods.begin()
    await pods.take(cluster_pod("orders-2"))
    await pods.end()
    assert (list(pods.known), book.changed.is_set()) == (["orders-2"], True)


async def test_a_pod_of_which_nothing_is_told_that_matters_changes_nothing() -> None:
    book = PodBook([NAMESPACE])
    pods = book.namespaces[NAMESPACE]
    await pods.take(cluster_pod("orders-0"))
    book.changed.clear()
    await pods.take(cluster_pod("orders-0") | {"kind": "Pod"})
    assert not book.changed.is_set()


async def test_the_end_of_a_pod_that_was_replaced_does_not_take_its_successor(tmp_path: Path) -> None:
    pods = PodBook([NAMESPACE]).namespaces[NAMESPACE]
    await pods.take(cluster_pod("orders-0", uid="new"))
    await pods.drop(cluster_pod("orders-0", uid="old"))
    assert list(pods.known) == ["orders-0"]


@pytest.fixture
async def cluster(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeCluster]:
    monkeypatch.setattr("slo_pipeline.collect.kubernetes.watching.RETRY_S_MIN", 0.02)
    monkeypatch.setattr("slo_pipeline.collect.kubernetes.watching.RETRY_S_MAX", 0.05)
    async with cluster_served() as one:
        yield one


def _targets(metrics: CollectorMetrics, kind: str = "metrics") -> float:
    return metrics.registry.get_sample_value("rmqha_collector_targets", {"kind": kind}) or 0.0


def _scraped(directory: Path) -> set[tuple[str, str]]:
    return {(row["instance"], row["instance_uid"]) for row in samples(directory) if row["metric"] == "up"}


async def test_a_pod_becomes_a_target_when_the_watch_tells_of_it_and_ends_as_one_with_it(
    tmp_path: Path, cluster: FakeCluster
) -> None:
    async with collecting(tmp_path, [], cluster=cluster.settings(tmp_path / "token", **DISCOVER)) as metrics:
        await until(lambda: _targets(metrics) == 2)
        await cluster.pods.put(cluster_pod("main-controller-0", "controller", group=None, address=None))
        await cluster.pods.put(cluster_pod("main-controller-0", "controller", group=None, uid="c0"))
        await until(lambda: (_targets(metrics), _targets(metrics, "events")) == (3, 2))
        await cluster.pods.remove("orders-0")
        await until(lambda: _targets(metrics) == 1)
        await until(lambda: ("main-controller-0", "c0") in _scraped(tmp_path))
        await cluster.pods.put(cluster_pod("main-controller-0", "controller", uid="c0", phase="Failed"))
        await until(lambda: _targets(metrics) == 0)


@pytest.mark.parametrize("forgotten", [False, True], ids=["history-known", "history-forgotten"])
async def test_a_pod_that_was_replaced_while_nobody_watched_replaces_its_target(
    tmp_path: Path, cluster: FakeCluster, forgotten: bool
) -> None:
    async with collecting(tmp_path, [], cluster=cluster.settings(tmp_path / "token", **DISCOVER)) as metrics:
        await until(lambda: _targets(metrics) == 2 and len(cluster.pods.watched_from) == 1)
        cluster.status = 500
        await cluster.pods.cut()
        await until(lambda: asked(metrics, "pods", "error") >= 1)
        await cluster.pods.remove("orders-0")
        await cluster.pods.put(cluster_pod("orders-0", uid="second", address="127.0.0.10"))
        if forgotten:
            await cluster.pods.forget()
        # The API server is down: known pods stay.
        await until(lambda: asked(metrics, "pods", "error") >= 3)
        assert _targets(metrics) == 2
        cluster.status = 200
        await until(lambda: {("orders-0", "second"), ("orders-0-broker", "second")} <= _scraped(tmp_path))
        assert _targets(metrics) == 2
    assert cluster.pods.lists == (2 if forgotten else 1)


async def test_a_history_that_is_forgotten_within_a_watch_leads_to_a_list(
    tmp_path: Path, cluster: FakeCluster
) -> None:
    async with collecting(tmp_path, [], cluster=cluster.settings(tmp_path / "token", **DISCOVER)) as metrics:
        await until(lambda: len(cluster.pods.watched_from) == 1)
        await cluster.pods.forget(within=True)
        await cluster.pods.put(cluster_pod("orders-1"))
        await until(lambda: _targets(metrics) == 4)
    assert cluster.pods.lists == 2


@pytest.mark.parametrize("line", ["{", '{"type":"ADDED","object":{"metadata":{}}}', "x" * 300_000])
async def test_what_a_watch_tells_in_no_form_we_know_leads_to_a_list(
    tmp_path: Path, cluster: FakeCluster, line: str
) -> None:
    async with collecting(tmp_path, [], cluster=cluster.settings(tmp_path / "token", **DISCOVER)) as metrics:
        await until(lambda: len(cluster.pods.watched_from) == 1)
        await cluster.pods.say(line)
        await until(lambda: cluster.pods.lists == 2)
        await cluster.pods.put(cluster_pod("orders-1"))
        await until(lambda: _targets(metrics) == 4)


async def test_another_address_is_scraped_from_then_on(tmp_path: Path, cluster: FakeCluster) -> None:
    async with collecting(tmp_path, [], cluster=cluster.settings(tmp_path / "token", **DISCOVER)) as metrics:
        await until(lambda: _targets(metrics, "events") == 1)
        # The server of the fixture listens at 127.0.0.1 alone.
        await cluster.pods.put(cluster_pod("orders-0", address=None))
        await until(lambda: _targets(metrics, "events") == 0)
        await cluster.pods.put(cluster_pod("orders-0", address="127.0.0.1"))
        await until(lambda: _targets(metrics, "events") == 1)


@pytest.mark.parametrize("label", ["rocketmq-ha.dev/cluster", "app.kubernetes.io/component"])
async def test_a_pod_whose_label_is_taken_away_is_no_target_any_more(
    tmp_path: Path, cluster: FakeCluster, label: str
) -> None:
    async with collecting(tmp_path, [], cluster=cluster.settings(tmp_path / "token", **DISCOVER)) as metrics:
        await until(lambda: _targets(metrics) == 2)
        pod = cluster_pod("orders-0")
        del pod["metadata"]["labels"][label]
        await cluster.pods.put(pod)
        await until(lambda: _targets(metrics) == 0)
    assert cluster.pods.lists == 1


async def test_many_pods_come_on_pages(tmp_path: Path, cluster: FakeCluster) -> None:
    for number in range(1, 6):
        await cluster.pods.put(cluster_pod(f"orders-{number}"))
    async with collecting(tmp_path, [], cluster=cluster.settings(tmp_path / "token", **DISCOVER)) as metrics:
        await until(lambda: _targets(metrics) == 12)
    assert cluster.pods.lists == 3


async def test_a_listed_target_wins_and_that_is_said_once(
    tmp_path: Path, cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "slo_pipeline.collect.collector")
    own = {"name": "orders-0", "kind": "metrics", "url": "http://127.0.0.1:1/metrics", "uid": "listed"}
    async with collecting(
        tmp_path, [own], cluster=cluster.settings(tmp_path / "token", **DISCOVER)
    ) as metrics:
        await until(lambda: _targets(metrics, "events") == 1)
        await cluster.pods.put(cluster_pod("orders-1"))
        await until(lambda: _targets(metrics, "events") == 2)
        await until(lambda: ("orders-1", cluster_pod("x")["metadata"]["uid"]) in _scraped(tmp_path))
        left_out = "rmqha_collector_targets_left_out"
        assert metrics.registry.get_sample_value(left_out, {"why": "name"}) == 1
    assert {uid for name, uid in _scraped(tmp_path) if name == "orders-0"} == {"listed"}
    assert [record.message for record in caplog.records] == [
        "pods whose names others have are left out, 1 targets: orders-0"
    ]


async def test_without_the_right_listed_targets_are_collected_from_and_pods_as_soon_as_it_is_given(
    tmp_path: Path, cluster: FakeCluster
) -> None:
    cluster.status = 403
    own = {"name": "own", "kind": "metrics", "url": "http://127.0.0.1:1/metrics"}
    async with collecting(
        tmp_path, [own], cluster=cluster.settings(tmp_path / "token", **DISCOVER)
    ) as metrics:
        await until(lambda: asked(metrics, "pods", "refused") >= 2)
        assert _targets(metrics) == 1
        cluster.status = 200
        await until(lambda: _targets(metrics) == 3)


async def test_pods_of_namespaces_that_are_not_discovered_are_no_targets(
    tmp_path: Path, cluster: FakeCluster
) -> None:
    async with collecting(tmp_path, [], cluster=cluster.settings(tmp_path / "token")) as metrics:
        await until(lambda: asked(metrics, "kubelet", "ok") >= 1)
        assert _targets(metrics) == 0


def _args(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(["--out", "out", *words])


def test_namespaces_keep_their_order_and_are_followed_once() -> None:
    words = [
        "--discover=b",
        "--discover=a",
        "--discover=b",
        "--cluster=main",
        "--controllers-of=shared",
        "--api-server=http://127.0.0.1:1",
    ]
    asked_for = cluster_settings(_args(*words, "--kubernetes-events=a"))
    assert asked_for is not None
    assert (asked_for.discover, asked_for.cluster) == (("b", "a"), "main")
    assert asked_for.controllers_of == "shared"
    assert asked_for.namespaces == ["a", "b"]


def test_more_namespaces_than_are_served_are_refused() -> None:
    with pytest.raises(NoClusterError, match=f"at most {NAMESPACES_MAX}"):
        cluster_settings(_args(*(f"--discover=n{number}" for number in range(NAMESPACES_MAX + 1))))


def test_nobody_to_collect_from_is_one_line_and_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["collect", "--out=out", "--kubernetes-events=mq"]) == 2
    assert "expected --targets or --discover" in capsys.readouterr().err
