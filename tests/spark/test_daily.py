"""Days that add up: what two days say is what the whole says, across midnight, and late rows change nothing unseen."""

import csv
import datetime as dt
import io
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from slo_pipeline.jobs.cli import main
from slo_pipeline.jobs.days import late_rows, late_segments, run_days
from slo_pipeline.jobs.gather import rows
from slo_pipeline.jobs.gold import gold, period
from slo_pipeline.objectives.file import load
from slo_pipeline.sources.segments import read_inputs
from testkit import synthetic
from testkit.segment_rows import event, send, us
from testkit.synthetic import write_rows

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
    whole = read_inputs(spark, data)
    over = period(whole, 30)
    assert over is not None
    expected = gold(whole, over, load())
    sums = _sums(rows(expected.sli_counts))
    booked = Counter((row["group"], row["booking"], row["failover_id"]) for row in rows(expected.booked))
    daily = ["daily", "--input", str(data), "--tables", str(tables), "--now", "2026-11-21T12:00:00Z"]
    assert main(daily) == 0
    assert capsys.readouterr().out == "2026-11-20 closed: 3 segments\n2026-11-21 computed: 3 segments\n"
    assert _sums(_rows(tables, "sli_minutes")) == sums
    found = Counter((row["group"], row["booking"], row["failover_id"]) for row in _rows(tables, "booked"))
    assert found == booked
    assert sorted(row["failover_id"] for row in _rows(tables, "failovers")) == [
        "demo/orders/2",
        "demo/orders/3",
        "demo/orders/4",
    ]
    status = _csv(capsys, ["slo", "--tables", str(tables)])
    assert {
        (row["slo"], row["group"]): (int(row["good"]), int(row["bad"]), int(row["unknown"])) for row in status
    } == sums


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


def _csv(capsys: pytest.CaptureFixture[str], command: list[str]) -> list[dict[str, str]]:
    capsys.readouterr()
    assert main(command) in {0, 1}
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
