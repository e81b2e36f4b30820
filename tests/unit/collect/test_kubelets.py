"""Kubelets: a few lines of a large page, and a failing node that does not delay the others."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from slo_pipeline.collect.kubernetes import cadvisor
from slo_pipeline.collect.kubernetes.api import ClusterApi, NoClusterError
from slo_pipeline.collect.kubernetes.cadvisor import PageFilter, TooMuchError, member_samples
from slo_pipeline.collect.kubernetes.members import Belonging, Members
from slo_pipeline.formats.exposition import ExpositionParser
from testkit.fakes.kubernetes_pages import CGROUP, POD_UID, FakeCluster, cluster_pod, cluster_served
from testkit.products.collector_in_process import asked, collecting, samples, until

STAMP_MS = 1_795_262_400_123
OWN = {"cluster": "main", "group": "orders", "namespace": "mq", "pod": "orders-0", "pod_uid": POD_UID}


def _line(metric: str, value: float, stamp_ms: int = STAMP_MS, **labels: str) -> str:
    named = {"container": "broker", "id": CGROUP, "image": "rocketmq", "name": "ab", "namespace": "mq"}
    named |= {"pod": "orders-0", **labels}
    shown = ",".join(f'{key}="{text}"' for key, text in named.items())
    return f"{metric}{{{shown}}} {value} {stamp_ms}"


PAGE = [
    "# HELP container_cpu_usage_seconds_total Cumulative cpu time consumed in seconds.",
    "# TYPE container_cpu_usage_seconds_total counter",
    _line("container_cpu_usage_seconds_total", 12.5, cpu="total"),
    _line("container_cpu_usage_seconds_total", 3.0, cpu="cpu00"),
    _line("container_cpu_usage_seconds_total", 13.0, container="", cpu="total"),
    _line("container_cpu_usage_seconds_total", 9.0, pod="shop-0"),
    _line("container_cpu_usage_seconds_total", 9.0, namespace="other"),
    _line("container_cpu_cfs_throttled_periods_total", 4.0),
    _line("container_memory_working_set_bytes", 2.5e8),
    _line("container_memory_rss", 2.4e8),
    _line("container_network_receive_bytes_total", 777.0, container="", interface="eth0"),
    'machine_cpu_cores{boot_id="x"} 4',
    'container_cpu_usage_seconds_total{id="/"} 5000 1',
]


def _members() -> Members:
    members = Members()
    members.remember("mq", "orders-0", Belonging("main", "orders"))
    return members


def _picked(lines: list[str]) -> list[tuple[str, dict[str, str], float, int | None]]:
    kept = PageFilter(["mq"])
    for line in lines:
        kept.add(line.encode())
    samples, malformed = member_samples(ExpositionParser(), kept.text(), _members())
    assert malformed == 0
    return [(one.series.metric, dict(one.series.labels), one.value, one.timestamp_ms) for one in samples]


def test_only_the_members_containers_and_networks_are_kept_and_nothing_is_counted_twice() -> None:
    broker, network = OWN | {"container": "broker"}, OWN | {"interface": "eth0"}
    assert _picked(PAGE) == [
        ("container_cpu_usage_seconds_total", broker, 12.5, STAMP_MS),
        ("container_cpu_cfs_throttled_periods_total", broker, 4.0, STAMP_MS),
        ("container_memory_working_set_bytes", broker, 2.5e8, STAMP_MS),
        ("container_network_receive_bytes_total", network, 777.0, STAMP_MS),
    ]


def test_of_a_container_that_restarts_the_later_measurement_counts() -> None:
    metric = "container_cpu_usage_seconds_total"
    old = _line(metric, 900.0, STAMP_MS - 9_000, id=CGROUP + "/old", name="old")
    new = _line(metric, 0.5, STAMP_MS, id=CGROUP + "/new", name="new")
    for lines in ([old, new], [new, old]):
        assert [value for _, _, value, _ in _picked(lines)] == [0.5]


def test_a_pod_of_the_same_name_is_another_series() -> None:
    metric = "container_cpu_usage_seconds_total"
    # The cgroup driver of systemd writes "_" where the other writes "-".
    other = "/kubepods/burstable/pod00000000-0b1c-4f5d-9e8f-001122334455/ab"
    found = _picked([_line(metric, 9.0), _line(metric, 1.0, id=other)])
    assert [labels["pod_uid"] for _, labels, _, _ in found] == [
        POD_UID,
        "00000000-0b1c-4f5d-9e8f-001122334455",
    ]


def test_a_page_that_says_too_much_of_our_namespaces_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cadvisor, "KEPT_BYTES_MAX", 10_000)
    kept = PageFilter(["mq"])
    for number in range(10_000):
        kept.add(_line("container_cpu_usage_seconds_total", 1.0, namespace=f"other{number}").encode())
    assert kept.text() == ""
    line = _line("container_cpu_usage_seconds_total", 1.0).encode()
    for _ in range(10_000 // len(line)):
        kept.add(line)
    with pytest.raises(TooMuchError):
        kept.add(line)


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with cluster_served() as one:
        one.page = "\n".join(PAGE) + "\n"
        yield one


async def test_a_node_that_does_not_answer_is_counted_and_costs_no_other(
    tmp_path: Path, cluster: FakeCluster
) -> None:
    # The second node's address is unbound.
    await cluster.pods.put(cluster_pod("orders-1", node="node2", node_address="127.0.0.2"))
    async with collecting(tmp_path, [], cluster=cluster.settings(tmp_path / "token")) as metrics:
        await until(lambda: asked(metrics, "kubelet", "ok") >= 3 and asked(metrics, "kubelet", "error") >= 3)
    rows = samples(tmp_path)
    up = {(row["instance"], row["value"]) for row in rows if row["metric"] == "up"}
    assert up == {("kubelet-node1", 1.0), ("kubelet-node2", 0.0)}
    cpu = [row for row in rows if row["metric"] == "container_cpu_usage_seconds_total"]
    assert {(row["instance"], row["value"]) for row in cpu} == {("kubelet-node1", 12.5)}
    assert dict(cpu[0]["labels"]) == OWN | {"container": "broker"}
    assert cpu[0]["embedded_ts"].timestamp() == STAMP_MS / 1_000


async def test_a_silent_kubelet_is_given_up_in_time(
    tmp_path: Path, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slo_pipeline.collect.kubernetes.kubelets.KUBELET_TIMEOUT_S", 0.1)
    cluster.page = None
    async with collecting(tmp_path, [], cluster=cluster.settings(tmp_path / "token")) as metrics:
        await until(lambda: asked(metrics, "kubelet", "timeout") >= 2)
        # Events and pods do not wait for it.
        assert asked(metrics, "pods", "ok") >= 1


async def test_a_node_without_members_is_not_asked_any_more(tmp_path: Path, cluster: FakeCluster) -> None:
    async with collecting(tmp_path, [], cluster=cluster.settings(tmp_path / "token")) as metrics:
        await cluster.pods.put(cluster_pod("orders-1", node="node2", node_address="127.0.0.2"))
        await until(lambda: asked(metrics, "kubelet", "error") >= 1 and asked(metrics, "kubelet", "ok") >= 1)
        await cluster.pods.remove("orders-0")
        # At most one more, of those that were on their way.
        refused, answered = asked(metrics, "kubelet", "error"), asked(metrics, "kubelet", "ok")
        await until(lambda: asked(metrics, "kubelet", "error") >= refused + 5)
        assert asked(metrics, "kubelet", "ok") <= answered + 2


async def test_pods_that_cannot_be_asked_for_leave_the_nodes_that_were_known(
    tmp_path: Path, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slo_pipeline.collect.kubernetes.watching.RETRY_S_MIN", 0.02)
    async with collecting(tmp_path, [], cluster=cluster.settings(tmp_path / "token")) as metrics:
        await until(lambda: asked(metrics, "kubelet", "ok") >= 1)
        cluster.status = 500
        await cluster.cut()
        await until(lambda: asked(metrics, "pods", "error") >= 2)
        answered = asked(metrics, "kubelet", "ok")
        await until(lambda: asked(metrics, "kubelet", "ok") >= answered + 2)


def test_outside_a_pod_the_api_server_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(NoClusterError, match="--api-server"):
        ClusterApi.of_pod()
    assert ClusterApi.of_pod("http://127.0.0.1:8001/").url == "http://127.0.0.1:8001"


def test_the_authority_of_the_cluster_must_be_there_in_a_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    with pytest.raises(NoClusterError, match=r"ca\.crt"):
        ClusterApi.of_pod()


def test_kubelets_must_show_a_certificate_unless_told_otherwise() -> None:
    trusting = ClusterApi.of_pod("http://127.0.0.1:8001", kubelet_certificates=False).kubelets
    strict = ClusterApi.of_pod("http://127.0.0.1:8001").kubelets
    assert trusting is not None
    assert strict is not None
    assert (strict.check_hostname, trusting.check_hostname) == (True, False)


def test_an_address_of_ipv6_is_put_in_brackets(tmp_path: Path) -> None:
    api = ClusterApi("https://api", tmp_path)
    assert api.kubelet_url("fd00::1", "/metrics") == "https://[fd00::1]:10250/metrics"
