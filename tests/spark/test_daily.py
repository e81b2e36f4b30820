"""Days add up: two days say what the whole says, across midnight, and late rows are noticed."""

import csv
import datetime as dt
import io
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from slo_pipeline.cli import main
from slo_pipeline.jobs.daily import AROUND_US, TABLES, DayJob
from slo_pipeline.jobs.days import late_rows, late_segments, run_days
from slo_pipeline.jobs.gather import rows
from slo_pipeline.jobs.gold import gold
from slo_pipeline.jobs.period import Period
from slo_pipeline.jobs.report import WRITTEN
from slo_pipeline.jobs.single_pass import plan
from slo_pipeline.jobs.survey import surveyed
from slo_pipeline.objectives.file import load
from slo_pipeline.sources.segments import read_inputs, read_segments
from testkit.generators import synthetic
from testkit.generators.segment_rows import event, send, us
from testkit.generators.synthetic import write_rows

US_PER_S = 1_000_000
MIDNIGHT_US = 1_795_219_200 * US_PER_S  # 2026-11-21


def _rows(tables: Path, name: str) -> list[dict[str, Any]]:
    return ds.dataset(str(tables / name), format="parquet").to_table().to_pylist()


def _sums(found: list[dict[str, Any]]) -> dict[tuple[str, str], tuple[int, int, int]]:
    keys = {(row["slo"], row["group"]) for row in found}
    return {
        key: tuple(
            sum(row[state] for row in found if (row["slo"], row["group"]) == key)
            for state in ("good", "bad", "unknown")
        )  # type: ignore[misc] # three states, three sums
        for key in keys
    }


def test_two_days_add_up_to_the_whole_across_midnight(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The freeze at 300 s and its failover fall on midnight.
    story = replace(synthetic.two_failovers_and_a_switchover(), begin_us=MIDNIGHT_US - 301 * US_PER_S)
    data, tables = tmp_path / "data", tmp_path / "tables"
    synthetic.write(story, data)
    whole, over, _ = surveyed(read_inputs(spark, data), story.us(3_600_000), 30, data)
    expected = gold(whole, over, load())
    sums = _sums(rows(expected.sli_counts))
    booked = Counter((row["group"], row["booking"], row["failover_id"]) for row in rows(expected.booked))
    daily = ["daily", "--input", str(data), "--tables", str(tables), "--now", "2026-11-21T12:00:00Z"]
    assert main(daily) == 0
    assert capsys.readouterr().out == "2026-11-20 closed: 3 segments\n2026-11-21 computed: 3 segments\n"
    assert _sums(_rows(tables, "sli_minutes")) == sums
    assert [path.name for path in (tables / "extract_samples").iterdir()] == ["day=2026-11-20"], (
        "the closed one"
    )
    found = Counter((row["group"], row["booking"], row["failover_id"]) for row in _rows(tables, "booked"))
    assert found == booked
    assert sorted(row["failover_id"] for row in _rows(tables, "failovers")) == [
        "demo/orders/2",
        "demo/orders/3",
        "demo/orders/4",
    ]
    status = _csv(capsys, ["slo", "--output=csv", "--tables", str(tables)])
    assert {
        (row["slo"], row["group"]): (int(row["good"]), int(row["bad"]), int(row["unknown"])) for row in status
    } == sums


def _controller_rows(story: synthetic.Story) -> list[dict[str, Any]]:
    """Return what a controller says every second, on a page with mostly samples that no report reads."""
    seen = {
        "up": 1.0,
        "rmqha_controller_role": 3.0,
        "rmqha_controller_term": 7.0,
        "process_cpu_seconds_total": 1.0,
    }
    of_group = {"rmqha_group_sync_state_set_size": 2.0, "rmqha_group_replicas": 3.0, "rmqha_group_epoch": 4.0}
    rows = []
    for second in range(story.duration_s):
        scrape = {
            "ts": story.us(second * 1_000 + 400),
            "instance": "controller-0",
            "instance_uid": "controller-0/1",
            "embedded_ts": None,
        }
        # A quarter of a minute without a leader, across midnight.
        led = {"rmqha_controller_role": 1.0} if 295 <= second < 310 else {}
        rows += [
            scrape | {"metric": name, "labels": {}, "value": value} for name, value in (seen | led).items()
        ]
        labels = {"cluster": story.cluster, "group": "orders"}
        rows += [
            scrape | {"metric": name, "labels": labels, "value": value} for name, value in of_group.items()
        ]
    return rows


def test_the_tables_of_a_day_are_those_of_the_frames(spark: SparkSession, tmp_path: Path) -> None:
    # The freeze at 300 s and its failover fall on midnight, and are judged by both days.
    story = replace(synthetic.two_failovers_and_a_switchover(), begin_us=MIDNIGHT_US - 301 * US_PER_S)
    synthetic.write(synthetic.with_losses(story, "orders", (2_990, 3_040)), tmp_path)
    paths = sorted(tmp_path.rglob("*.parquet"))
    for day in (dt.date(2026, 11, 20), dt.date(2026, 11, 21)):
        DayJob(tmp_path, dt.datetime(2026, 11, 21, 1, tzinfo=dt.UTC), load(), "local[2]").compute(
            day, tmp_path
        )
        begin_us = MIDNIGHT_US - (86_400 * US_PER_S if day.day == 20 else 0)
        over = Period(begin_us, begin_us + 86_400 * US_PER_S, AROUND_US)
        frames = gold(read_segments(spark, paths), over, load())
        found = {name: pq.read_table(tmp_path / f"{name}.parquet") for name in TABLES}
        counts: Counter[tuple[Any, ...]] = Counter()
        for row in rows(frames.sli_counts):
            minute = row["ts"] // (60 * US_PER_S) * 60 * US_PER_S
            for what in ("good", "bad", "unknown"):
                counts[row["slo"], row["group"], minute, what] += row[what]
        by_minute = found.pop("sli_minutes")
        by_minute = by_minute.set_column(2, "ts", by_minute["ts"].cast(pa.int64()))
        assert {
            (row["slo"], row["group"], row["ts"], what): row[what]
            for row in by_minute.to_pylist()
            for what in ("good", "bad", "unknown")
        } == counts
        for name, table in found.items():
            frame = getattr(frames, name)
            expected = frame.orderBy(*frame.columns[:3]).toArrow()
            assert table.schema.names == expected.schema.names
            assert table.schema.types == expected.schema.types, name
            assert table.to_pylist() == expected.to_pylist(), name


def test_a_report_of_extracts_says_what_the_one_of_segments_says_and_needs_no_segment_of_a_closed_day(
    spark: SparkSession, tmp_path: Path
) -> None:
    story = replace(synthetic.two_failovers_and_a_switchover(), begin_us=MIDNIGHT_US - 301 * US_PER_S)
    data, tables = tmp_path / "data", tmp_path / "tables"
    synthetic.write(story, data)
    write_rows(tmp_path / "controller", "samples", _controller_rows(story))
    for path in (tmp_path / "controller" / "samples").glob("*/*.parquet"):
        path.rename(data / "samples" / path.parent.name / "controller.parquet")
    daily = ["daily", "--input", str(data), "--tables", str(tables), "--now", "2026-11-21T12:00:00Z"]
    assert main([*daily, "--extracts-only"]) == 0
    assert not (tables / "sli_minutes").exists()
    kept = (
        ds.dataset(str(tables / "extract_samples"), format="parquet")
        .to_table()["metric"]
        .unique()
        .to_pylist()
    )
    assert {"rocketmq_messages_in_total", "process_cpu_seconds_total", "rmqha_group_epoch"} & set(
        kept
    ) == set()
    report = ["report", "--input", str(data)]
    assert main([*report, "--out", str(tmp_path / "segments")]) == 0
    for kind in ("samples", "events", "probe_ops"):
        shutil.rmtree(data / kind / "day=2026-11-20")
    assert main([*report, "--tables", str(tables), "--out", str(tmp_path / "extracts")]) == 0
    expected = sorted((tmp_path / "segments" / "tables").iterdir())
    assert len(expected) == len(WRITTEN)
    for path in expected:
        assert pq.read_table(tmp_path / "extracts" / "tables" / path.name).equals(pq.read_table(path)), (
            path.name
        )
    status = {
        row["slo"]: row for row in pq.read_table(tmp_path / "extracts/tables/slo_status.parquet").to_pylist()
    }
    assert len(status) == len(load().slos), "no objective is without a number"
    assert status["controller-leader"]["bad"] == 2, "a slice on each side of midnight"
    pages = [
        (tmp_path / which / "failovers" / "fo-demo.orders.3.html").read_bytes()
        for which in ("segments", "extracts")
    ]
    assert pages[0] == pages[1]


def test_a_report_leaves_out_what_came_too_late_and_counts_it(spark: SparkSession, tmp_path: Path) -> None:
    data, tables = tmp_path / "data", tmp_path / "tables"
    write_rows(data, "probe_ops", [send(seq, seq * 100) for seq in range(50)])
    write_rows(data, "events", [event("BrokerRegistered", 0, broker=1)])
    day = dt.datetime.fromtimestamp(us(0) / US_PER_S, tz=dt.UTC).date()
    closed = dt.datetime.combine(day + dt.timedelta(days=2), dt.time(), dt.UTC)

    def nothing(_: dt.date, __: Path) -> None:
        pass

    run_days(data, tables, closed, nothing)
    before = read_inputs(spark, data).probe_ops.count()
    (first,) = (data / "probe_ops").glob("day=*/*.parquet")
    late = first.with_name("too late@1+1 %.parquet")
    late.write_bytes(first.read_bytes())
    run_days(data, tables, closed, nothing)
    assert late_rows(tables) == {day: before}
    assert read_inputs(spark, data).probe_ops.count() == 2 * before
    kept = read_inputs(spark, data, late_segments(tables))
    assert (kept.probe_ops.count(), kept.events.count()) == (before, 1)
    assert plan.files(data, "probe_ops", late_segments(tables)) == [first]


def _csv(capsys: pytest.CaptureFixture[str], command: list[str]) -> list[dict[str, str]]:
    capsys.readouterr()
    assert main(command) in {0, 1}
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
