"""Ids of series: equal exactly for equal series, and the same whether a writer or a reader computes them."""

import dataclasses
import hashlib
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo_pipeline.formats.exposition import Sample, Series
from slo_pipeline.jobs.single_pass import plan, series
from slo_pipeline.schemas.series_ids import instance_digest, series_id
from slo_pipeline.writing.buffers import SampleBuffer
from slo_pipeline.writing.segment_store import SegmentStore
from testkit.generators.segment_rows import sample
from testkit.generators.synthetic import write_rows

TEXTS = st.text(st.characters(codec="utf-8"), max_size=4)
LABELS = st.dictionaries(TEXTS, TEXTS, max_size=4)
ONE = st.tuples(TEXTS, LABELS)


@given(ONE, ONE)
def test_ids_are_equal_for_equal_metrics_and_labels_and_for_no_others(
    one: tuple[str, dict[str, str]], other: tuple[str, dict[str, str]]
) -> None:
    ids = [series_id(metric, labels.items()) for metric, labels in (one, other)]
    assert (ids[0] == ids[1]) == (one == other)
    assert series_id(one[0], reversed(one[1].items())) == ids[0]
    assert -(1 << 63) <= ids[0] < 1 << 63


def test_the_id_is_the_documented_digest() -> None:
    texts = b"\0\0\0\x02up" + b"\0\0\0\x01a" + b"\0\0\0\x011" + b"\0\0\0\x01b" + b"\0\0\0\x012"
    digest = hashlib.blake2b(texts, digest_size=8, person=b"series").digest()
    assert series_id("up", [("b", "2"), ("a", "1")]) == int.from_bytes(digest, "big", signed=True)


def test_texts_that_touch_are_not_taken_for_others() -> None:
    labels = [("m", [("a", "bc")]), ("m", [("ab", "c")]), ("ma", [("b", "c")])]
    assert len({series_id(metric, one) for metric, one in labels}) == 3


@pytest.mark.parametrize("has_ids", [True, False], ids=["segments with ids", "older segments"])
def test_a_reader_has_the_ids_of_the_writer(tmp_path: Path, has_ids: bool) -> None:
    buffer = SampleBuffer()
    every = [
        Series("x_total", (("b", "2"), ("a", "1"))),
        Series("x_total", (("a", "1"),)),
        Series("x_total", ()),
        Series("y_total", (("a", "1"),)),
    ]
    for second in range(5):
        for instance in ("n1", "n2"):
            samples = [Sample(dataclasses.replace(one), float(second), None) for one in every]
            buffer.add(1_795_176_000_000_000 + second, instance, "uid", samples)
    ((day, parts),) = buffer.take().tables()
    with SegmentStore(tmp_path, "collector") as store:
        path = store.write("samples", day, parts)
    if not has_ids:
        pq.write_table(pq.ParquetFile(path).read().drop_columns(["series"]), path)
    groups = plan.row_groups("samples", [path], metric="x_total")
    (task,) = plan.every_window("samples", groups, 1)
    (found,) = series.points(task, "x_total", labels=False)
    wanted = {
        series_id(one.metric, one.labels) ^ instance_digest(name)
        for one in every[:3]
        for name in ("n1", "n2")
    }
    assert set(found.series.tolist()) == wanted
    assert [found.series.tolist().count(one) for one in sorted(wanted)] == [5] * 6


def test_a_metric_without_labels_and_an_instance_of_its_name_differ() -> None:
    assert series_id("a", []) ^ instance_digest("a") != series_id("b", []) ^ instance_digest("b")


def test_rows_in_any_order_get_the_ids_of_their_series(tmp_path: Path) -> None:
    labels: list[dict[str, str]] = [
        {"a": "1"},
        {"b": "1"},
        {"a": "1", "b": "1"},
        {"a": "1"},
        {},
        {"b": "1", "a": "1"},
    ]
    rows = [sample(at, at, labels=list(one.items())) for at, one in enumerate(labels)]
    write_rows(tmp_path, "samples", rows)
    (task,) = plan.every_window("samples", plan.row_groups("samples", plan.files(tmp_path, "samples")), 1)
    (found,) = series.points(task, "x_total", labels=False)
    assert found.series.tolist() == [
        series_id("x_total", one.items()) ^ instance_digest("a") for one in labels
    ]


def test_row_groups_without_a_metric_are_not_read(tmp_path: Path) -> None:
    write_rows(tmp_path, "samples", [sample(1, 1, metric="b"), sample(2, 2, metric="d")])
    paths = plan.files(tmp_path, "samples")
    found = {metric: len(plan.row_groups("samples", paths, metric=metric)) for metric in "abcde"}
    assert found == {"a": 0, "b": 1, "c": 1, "d": 1, "e": 0}
