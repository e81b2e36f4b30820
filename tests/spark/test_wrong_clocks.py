"""Missing parts and wrong clocks: healthy groups keep their report, and the report names the faults."""

import csv
import datetime as dt
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from slo_pipeline.cli import main
from slo_pipeline.jobs import gather
from slo_pipeline.jobs.gold import gold
from slo_pipeline.jobs.period import Period
from slo_pipeline.jobs.survey import surveyed
from slo_pipeline.objectives.file import load
from slo_pipeline.reports.page.document import render
from slo_pipeline.reports.page.states import verdict
from slo_pipeline.sources.segments import InputError
from testkit.generators.segment_rows import event, inputs, sample, send, us

DAY_MS = 86_400_000
SECONDS = 70
NOW_US = us(SECONDS * 1_000)


def _sends(
    group: str, result: str = "ok", shift_ms: int = 0, clock: str = "canary/1"
) -> list[dict[str, Any]]:
    return [
        send(seq, seq * 500 + shift_ms, result, 2 if result == "ok" else None, group=group, clock_id=clock)
        for seq in range(2 * SECONDS)
    ]


def test_rows_of_wrong_clocks_are_counted_by_clock_and_move_no_period(
    spark: SparkSession, tmp_path: Path
) -> None:
    ahead_by_five_minutes = 300_000
    late_answer = send(9_001, 0, group="orders", clock_id="canary/3") | {"end_ts": us(DAY_MS)}
    found = inputs(
        spark,
        tmp_path,
        probe_ops=[
            *_sends("orders"),
            send(9_000, SECONDS * 1_000 + ahead_by_five_minutes, took_ms=0, group="stock"),
            late_answer,
            *_sends("payments", shift_ms=40 * DAY_MS, clock="canary/2"),
        ],
        events=[event("MasterElected", 3_650 * DAY_MS), event("MasterElected", 5)],
        samples=[sample(-1_795_176_000, 1.0), sample(1, 1.0)],
    )
    kept, over, tables = surveyed(found, NOW_US, 30, tmp_path)
    assert over == Period(us(0), us(SECONDS * 1_000 + ahead_by_five_minutes + 1_000))
    assert [
        (row["kind"], row["writer"], row["group"], row["ahead"], row["rows"]) for row in tables["apart"]
    ] == [
        ("events", "controller/1", "orders", True, 1),
        ("probe_ops", "canary/2", "payments", True, 2 * SECONDS),
        ("probe_ops", "canary/3", "orders", True, 1),
        ("samples", "a", "", False, 1),
    ]
    assert [row["group"] for row in tables["known_groups"]] == ["orders", "payments", "stock"]
    assert (kept.events.count(), kept.samples.count()) == (1, 1)


def test_an_input_whose_every_time_is_in_the_future_is_refused_with_the_reason(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = inputs(spark, tmp_path, probe_ops=[send(1, DAY_MS)])
    with pytest.raises(InputError, match=r"the times of all 1 rows .* the first is 2026-11-21 12:00:00 UTC"):
        surveyed(found, NOW_US, 30, tmp_path)


def test_a_group_without_an_acknowledged_send_and_one_set_apart_stand_beside_a_healthy_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = inputs(
        spark,
        tmp_path,
        probe_ops=[
            *_sends("orders"),
            *_sends("payments", "no_route"),
            *_sends("stock", shift_ms=40 * DAY_MS, clock="canary/2"),
        ],
    )
    kept, over, tables = surveyed(found, NOW_US, 30, tmp_path)
    collected = gather.collect(gold(kept, over, load())) | tables
    made = gather.report(collected, over, load(), "Down")
    assert {group.name: (group.good_s, group.bad_s) for group in made.groups} == {
        "orders": (SECONDS, 0),
        "payments": (0, SECONDS),
        "stock": (0, 0),
    }
    assert verdict(made) == ("Burning the error budget too fast, 0 s of 30 d measured in stock", False)
    writes = {one.group: one.is_measured for one in made.objectives if one.slo == "write-availability"}
    assert writes == {"orders": True, "payments": True, "stock": False}
    page = render(made)
    assert all(words in page for words in ("Sends to orders", "Sends to payments", "canary/2", "No event of"))
    assert made.absent == ("events", "samples")


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_subset_of_tables_and_rows_makes_a_page_with_every_group_that_it_names(
    told: Any, data: st.DataObject
) -> None:
    """The story's tables, collected once: whole tables, groups, and single rows are taken away."""
    gone = data.draw(st.sampled_from((None, "orders", "payments")))
    left: dict[str, list[gather.Row]] = {}
    for name, rows in told.tables.items():
        how = data.draw(st.sampled_from(("all", "none", "some")))
        if how == "none":
            continue
        kept = [row for row in rows if gone is None or row.get("group") != gone]
        left[name] = kept if how == "all" else kept[:: data.draw(st.integers(2, 9))]
    made = gather.report(left, told.over, load(), "Subset")
    page = render(made)
    assert all(f">{group.name}</td>" in page for group in made.groups)
    named = {row["group"] for name in gather.OF_GROUPS for row in left.get(name, ())}
    assert {group.name for group in made.groups} == named


def test_days_that_have_not_begun_are_left_alone_and_move_no_window(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, tables = tmp_path / "data", tmp_path / "tables"
    far = [*_sends("payments", shift_ms=3_650 * DAY_MS), send(9_000, 7_200_000, group="stock")]
    inputs(spark, data, probe_ops=[*_sends("orders"), *far])
    now = (dt.datetime(2026, 11, 20, 12, 2, tzinfo=dt.UTC)).isoformat()
    assert main(["daily", "--input", str(data), "--tables", str(tables), "--now", now]) == 0
    said = capsys.readouterr()
    assert said.out == "2026-11-20 computed: 1 segments\n2036-11-17 ahead: 1 segments\n"
    assert "set apart 1 rows of canary/1: times from 2026-11-20 14:00:00" in said.err
    assert main(["slo", "--output=csv", "--tables", str(tables), "--now", now]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {(row["slo"], row["group"]): row["answer"] for row in rows} == {
        ("write-availability", "orders"): "kept",
        ("send-latency", "orders"): "kept",
    }
