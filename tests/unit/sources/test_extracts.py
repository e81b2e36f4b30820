"""Extracts: the rows that a report reads, all and unchanged, and each scrape at least as a scrape."""

import ast
import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slo_pipeline import transforms
from slo_pipeline.schemas.segments import PROBE_OPS, SAMPLES
from slo_pipeline.sources import extracts
from slo_pipeline.transforms.sli import METRICS
from testkit.generators.segment_rows import send
from testkit.generators.synthetic import write_rows

DAY = dt.date(2026, 11, 20)


def _samples(*scrapes: tuple[str, int, tuple[str, ...]]) -> pa.Table:
    """Return samples of scrapes: the pod, the time (s), the samples."""
    rows = [
        {"ts": at_s * 1_000_000, "metric": name, "labels": [], "value": float(at_s), "instance": instance}
        | {"instance_uid": "", "embedded_ts": None}
        for instance, at_s, names in scrapes
        for name in names
    ]
    return pa.Table.from_pylist(rows, schema=SAMPLES)


def _kept(samples: pa.Table) -> list[tuple[str, int, str]]:
    found: list[dict[str, Any]] = samples.filter(extracts.needed(samples, {"lag", "up"})).to_pylist()
    return [(row["instance"], row["ts"].second, row["metric"]) for row in found]


SCRAPES = _samples(
    ("a", 1, ("cpu", "lag", "size", "up")),
    ("b", 1, ("lag", "cpu")),
    ("a", 2, ("cpu", "disk")),
    ("b", 2, ("cpu", "up")),
)


def test_of_a_scrape_the_named_samples_stay_and_where_there_are_none_one_that_says_that_it_was() -> None:
    assert _kept(SCRAPES) == [
        ("a", 1, "lag"),
        ("a", 1, "up"),
        ("b", 1, "lag"),
        ("a", 2, "cpu"),
        ("b", 2, "up"),
    ]


def test_the_order_of_rows_is_no_matter() -> None:
    """The collector's segments are ordered by metric, so that a scrape's samples are far from each other."""
    assert sorted(_kept(SCRAPES.sort_by("metric"))) == sorted(_kept(SCRAPES))


@pytest.mark.parametrize("samples", [_samples(), _samples(("a", 1, ("cpu",)))])
def test_few_rows_are_no_special_case(samples: pa.Table) -> None:
    assert samples.filter(extracts.needed(samples, {"lag"})).equals(samples)


def test_segments_with_and_without_ids_of_series_are_one_extract(tmp_path: Path) -> None:
    folder, scratch = tmp_path / "samples" / f"day={DAY}", tmp_path / "scratch"
    folder.mkdir(parents=True)
    scratch.mkdir()
    pq.write_table(SCRAPES.drop_columns(["series"]), folder / "older.parquet")
    ids = pa.array([7] * SCRAPES.num_rows, pa.int64())
    pq.write_table(SCRAPES.set_column(SCRAPES.num_columns - 1, "series", ids), folder / "with-ids.parquet")
    names = [f"samples/day={DAY}/{name}.parquet" for name in ("older", "with-ids")]
    extracts.write(tmp_path, names, {"lag", "up"}, scratch)
    found = pq.read_table(scratch / "extract_samples.parquet")
    assert found.schema.equals(SAMPLES)
    assert found["series"].to_pylist() == [None] * 5 + [7] * 5


def test_samples_are_kept_across_batches_of_a_large_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extracts, "ROWS_HELD_MAX", 3)
    folder = tmp_path / "samples" / f"day={DAY}"
    folder.mkdir(parents=True)
    by_metric = SCRAPES.sort_by("metric")
    pq.write_table(by_metric, folder / "one.parquet")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    extracts.write(tmp_path, [f"samples/day={DAY}/one.parquet"], {"lag", "up"}, scratch)
    made = pq.read_table(scratch / "extract_samples.parquet")
    assert made.equals(by_metric.filter(extracts.needed(by_metric, {"lag", "up"})))


def test_every_metric_that_a_report_reads_is_kept() -> None:
    """A new indicator that reads another sample must say so in METRICS, or closed days would not have it."""
    (folder,) = transforms.__path__
    texts = {
        node.value
        for path in Path(folder).glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert {text for text in texts if text.startswith(("rmqha_", "rocketmq_"))} <= METRICS


def test_many_segments_become_one_file_a_kind_with_every_row_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extracts, "ROWS_HELD_MAX", 4)
    names = []
    for number in range(5):
        write_rows(tmp_path, "probe_ops", [send(3 * number + one, 1_000 * number) for one in range(3)])
        folder = tmp_path / "probe_ops" / f"day={DAY}"
        (folder / f"synthetic-{DAY}.parquet").rename(folder / f"{number}.parquet")
        names.append(f"probe_ops/day={DAY}/{number}.parquet")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    extracts.write(tmp_path, names, METRICS, scratch)
    (made,) = scratch.iterdir()
    file = pq.ParquetFile(made)
    assert (made.name, file.metadata.num_row_groups) == ("extract_probe_ops.parquet", 3)
    assert file.schema_arrow.equals(PROBE_OPS)
    assert file.read()["seq"].to_pylist() == list(range(15))


def test_a_closed_day_without_an_extract_is_read_from_its_segments(tmp_path: Path) -> None:
    made = tmp_path / "extract_events" / f"day={DAY}" / "day.parquet"
    made.parent.mkdir(parents=True)
    made.touch()
    found = extracts.extracts_of(tmp_path, [DAY, DAY + dt.timedelta(days=1)])
    assert found.days == {DAY}
    assert (found.files("events"), found.files("samples")) == ([made], [])
    assert found.hold(Path(f"samples/day={DAY}"))
    assert not found.hold(Path("samples/day=2026-11-21"))
