"""Kubernetes Events: each happening copied once, through ends of a watch, 410, refusals and restarts."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo_pipeline.collect.kubernetes.events import MESSAGE_CHARACTERS_MAX, kubernetes_row
from slo_pipeline.collect.kubernetes.members import Belonging, Members
from slo_pipeline.collect.kubernetes.pods import PodBook
from slo_pipeline.collect.scraping.event_rows import EventError
from slo_pipeline.schemas import EVENTS
from testkit.fakes.kubernetes_pages import FakeCluster, cluster_pod, cluster_served, kubernetes_event
from testkit.products.collector_in_process import asked, collecting, taken, until

Row = dict[str, Any]


@pytest.fixture
async def cluster(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeCluster]:
    monkeypatch.setattr("slo_pipeline.collect.kubernetes.watching.RETRY_S_MIN", 0.02)
    monkeypatch.setattr("slo_pipeline.collect.kubernetes.watching.RETRY_S_MAX", 0.05)
    async with cluster_served() as one:
        yield one


def _row(event: dict[str, Any], members: Members | None = None) -> Row:
    row = dict(zip(EVENTS.names, kubernetes_row(event, members or Members()), strict=True))
    return row | {"attrs": dict(row["attrs"])}


def _kept(directory: Path) -> list[str]:
    paths = directory.glob("out/events/day=*/[!.]*.parquet")
    return sorted(one for path in paths for one in pq.ParquetFile(path).read()["event_id"].to_pylist())


def test_an_event_of_a_pod_becomes_a_row_of_its_group() -> None:
    members = Members()
    members.remember("mq", "orders-0", Belonging("main", "orders"))
    event = kubernetes_event("u1")
    event["metadata"]["resourceVersion"] = "731"
    row = _row(event, members)
    assert (row["event_id"], row["sequence"], row["source"], row["kind"]) == (
        "kubernetes/u1/1",
        731,
        "kubernetes",
        "KubernetesEvent",
    )
    assert (row["cluster"], row["group"], row["namespace"]) == ("main", "orders", "mq")
    assert row["ts_ns"] == 1_795_262_405_000_000_000
    assert row["clock_id"] == "kubelet/node1"
    assert row["attrs"]["reason"] == "Killing"
    assert row["attrs"]["object_name"] == "orders-0"


def test_an_event_of_the_newer_api_has_its_time_in_microseconds_and_counts_by_its_series() -> None:
    newer = {"count": None, "firstTimestamp": None, "lastTimestamp": None, "source": None}
    first = _row(kubernetes_event("u1", **newer, eventTime="2026-11-21T12:00:00.250000Z"))
    assert (first["event_id"], first["ts_ns"] % 10**9) == ("kubernetes/u1/1", 250_000_000)
    series = {"count": 3, "lastObservedTime": "2026-11-21T12:00:07.500000Z"}
    again = _row(kubernetes_event("u1", **newer, eventTime="2026-11-21T12:00:00.250000Z", series=series))
    assert (again["event_id"], again["ts_ns"] % 10**9) == ("kubernetes/u1/3", 500_000_000)


def test_an_event_of_the_operator_belongs_to_the_group_that_it_names() -> None:
    about = {"kind": "BrokerGroup", "namespace": "mq", "name": "orders", "uid": "g"}
    row = _row(kubernetes_event("u1", involvedObject=about, reason="MemberRestarted"))
    assert (row["cluster"], row["group"]) == ("", "orders")


async def test_a_member_that_is_gone_is_still_known_and_a_name_alone_proves_nothing() -> None:
    book, known = PodBook(["mq"]), Belonging("main", "orders")
    members = book.members
    pods = book.namespaces["mq"]
    await pods.take(cluster_pod("orders-0"))
    await pods.drop(cluster_pod("orders-0"))
    assert book.of(["mq"]) == []
    assert members.of_object("mq", "PersistentVolumeClaim", "data-orders-0") == known
    assert members.of_object("mq", "StatefulSet", "orders") == known
    assert members.of_object("shop", "Pod", "orders-0").group == ""
    assert members.of_object("mq", "Pod", "orders-1").group == ""


def test_names_are_remembered_up_to_a_bound() -> None:
    members = Members(members_max=30)
    for number in range(100):
        members.remember("mq", f"g{number}-0", Belonging("main", f"g{number}"))
    assert members.of_pod("mq", "g0-0").group == ""
    assert members.of_pod("mq", "g99-0").group == "g99"


@pytest.mark.parametrize(
    "changes",
    [
        {"metadata": None},
        {"metadata": {"name": "no uid"}},
        {"involvedObject": None},
        {"involvedObject": {"kind": ["Pod"], "name": {}}},
        {"lastTimestamp": "yesterday"},
        {"lastTimestamp": "2026-11-21T12:00:00"},
        {"lastTimestamp": 5},
        {"lastTimestamp": None, "firstTimestamp": None},
        {"count": "many"},
        {"reason": 7},
        {"message": "\ud800"},
    ],
)
def test_what_is_no_event_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(EventError):
        kubernetes_row(kubernetes_event("u1", **changes), Members())


FIELDS = [*kubernetes_event("u1"), "series"]
RUBBISH = st.sampled_from([None, 5, -1, 2**70, 1.5, True, "", "x", "\ud800", [], ["a"], {}, {"count": "x"}])


@given(st.dictionaries(st.sampled_from(FIELDS), RUBBISH))
def test_rubbish_in_any_field_is_taken_or_refused(changes: dict[str, Any]) -> None:
    with contextlib.suppress(EventError):
        kubernetes_row(kubernetes_event("u1", **changes), Members())


def test_a_message_is_cut() -> None:
    row = _row(kubernetes_event("u1", message="x" * 5_000))
    assert len(row["attrs"]["message"]) == MESSAGE_CHARACTERS_MAX


async def test_every_event_of_the_list_and_of_the_watch_is_copied_once(
    tmp_path: Path, cluster: FakeCluster
) -> None:
    for number in range(5):
        await cluster.events.put(kubernetes_event(f"old{number}"))
    async with collecting(tmp_path, [], cluster=cluster.settings(tmp_path / "token")) as metrics:
        await until(lambda: taken(metrics) == 5)
        assert cluster.events.lists == 3
        await until(lambda: len(cluster.events.watched_from) == 1)
        await cluster.events.put(kubernetes_event("new"))
        await cluster.events.put(kubernetes_event("new", count=4))
        # The same state once more, and the end of an Event's hour, tell nothing new.
        await cluster.events.put(kubernetes_event("new", count=4))
        await cluster.events.remove("old0")
        await cluster.events.put(kubernetes_event("last"))
        await until(lambda: taken(metrics) == 8)
        assert taken(metrics, "known") == 1
    expected = [f"kubernetes/old{number}/1" for number in range(5)]
    assert _kept(tmp_path) == [
        "kubernetes/last/1",
        "kubernetes/new/1",
        "kubernetes/new/4",
        *expected,
    ]


async def test_a_watch_that_ends_goes_on_where_it_was_without_a_list(
    tmp_path: Path, cluster: FakeCluster
) -> None:
    await cluster.events.put(kubernetes_event("a"))
    async with collecting(tmp_path, [], cluster=cluster.settings(tmp_path / "token")) as metrics:
        await until(lambda: len(cluster.events.watched_from) == 1)
        await cluster.events.put(kubernetes_event("b"))
        await cluster.events.bookmark()
        await until(lambda: taken(metrics) == 2)
        await cluster.events.cut()
        await until(lambda: len(cluster.events.watched_from) == 2)
        await cluster.events.put(kubernetes_event("c"))
        await until(lambda: taken(metrics) == 3)
        assert taken(metrics, "known") == 0
    assert cluster.events.lists == 1
    # The bookmark's version, beyond the last Event's.
    assert cluster.events.watched_from == ["101", "103"]


@pytest.mark.parametrize("within", [False, True])
async def test_a_forgotten_version_leads_to_a_list_that_doubles_nothing(
    tmp_path: Path, cluster: FakeCluster, within: bool
) -> None:
    await cluster.events.put(kubernetes_event("a"))
    async with collecting(tmp_path, [], cluster=cluster.settings(tmp_path / "token")) as metrics:
        await until(lambda: len(cluster.events.watched_from) == 1)
        # Written without a watch, and in no history: only a list returns it.
        await cluster.events.forget(within=within)
        await cluster.events.put(kubernetes_event("b"))
        await until(lambda: asked(metrics, "events", "expired") >= 1 and taken(metrics) == 2)
        await cluster.events.put(kubernetes_event("c"))
        await until(lambda: taken(metrics) == 3)
    assert cluster.events.lists >= 2
    assert _kept(tmp_path) == ["kubernetes/a/1", "kubernetes/b/1", "kubernetes/c/1"]


async def test_a_collector_that_starts_again_copies_only_what_is_new(
    tmp_path: Path, cluster: FakeCluster
) -> None:
    await cluster.events.put(kubernetes_event("a"))
    async with collecting(tmp_path, [], cluster=cluster.settings(tmp_path / "token")) as metrics:
        await until(lambda: taken(metrics) == 1)
    await cluster.events.put(kubernetes_event("b"))
    async with collecting(tmp_path, [], cluster=cluster.settings(tmp_path / "token")) as metrics:
        await until(lambda: taken(metrics) == 1)
        assert taken(metrics, "known") == 1
    assert _kept(tmp_path) == ["kubernetes/a/1", "kubernetes/b/1"]


async def test_without_the_right_everything_else_is_measured_and_the_refusal_is_counted(
    tmp_path: Path, cluster: FakeCluster
) -> None:
    cluster.status = 403
    page = f"http://127.0.0.1:{cluster.port}/metrics/cadvisor"
    cluster.page = "sent_total 1\n"
    targets = [{"name": "m", "kind": "metrics", "url": page}]
    async with collecting(tmp_path, targets, cluster=cluster.settings(tmp_path / "token")) as metrics:
        await until(lambda: asked(metrics, "events", "refused") >= 3)
        await until(lambda: asked(metrics, "pods", "refused") >= 2)
        ok = {"result": "ok"}
        await until(
            lambda: (metrics.registry.get_sample_value("rmqha_collector_scrapes_total", ok) or 0.0) >= 2
        )
        # Given the right later, it copies.
        cluster.status = 200
        await cluster.events.put(kubernetes_event("a"))
        await until(lambda: taken(metrics) == 1)


async def test_the_token_is_read_anew_for_each_request_and_shown_to_the_cluster_only(
    tmp_path: Path, cluster: FakeCluster
) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    async with collecting(tmp_path, [], cluster=cluster.settings(token)):
        pods = "/api/v1/namespaces/mq/pods"
        await until(lambda: cluster.tokens.get(pods) == {"Bearer first"})
        token.write_text("second\n")
        await cluster.cut()
        await until(lambda: cluster.tokens[pods] == {"Bearer first", "Bearer second"})


async def test_lines_of_a_watch_that_are_none_lead_to_a_list(
    tmp_path: Path, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cluster.events.put(kubernetes_event("a"))
    async with collecting(tmp_path, [], cluster=cluster.settings(tmp_path / "token")) as metrics:
        await until(lambda: len(cluster.events.watched_from) == 1)
        await cluster.events.put({"metadata": {"uid": "no object"}})
        await cluster.events.put(kubernetes_event("b"))
        await until(lambda: taken(metrics) == 2)
        assert taken(metrics, "malformed") == 1
