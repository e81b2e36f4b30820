"""Indicators, budgets and burn rates from a story and from single slices.

Pages come exactly when arithmetic by hand says so.
"""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from slo_pipeline.jobs.gather import rows
from slo_pipeline.objectives.file import load
from slo_pipeline.objectives.model import Objectives
from slo_pipeline.schemas.frames import struct_type
from slo_pipeline.schemas.tables import SLI_COUNTS
from slo_pipeline.transforms import burn, sli
from slo_pipeline.transforms.timing import US_PER_S
from testkit.generators.segment_rows import Row, inputs, sample, us

MINUTE_US = 60 * US_PER_S


def _slo(name: str) -> Any:
    return next(slo for slo in load().slos if slo.name == name)


def _judged(frame: Any) -> dict[int, str]:
    """Return each slice's verdict by its second."""
    return {
        (row["ts"] - us(0)) // US_PER_S: next(state for state in ("good", "bad", "unknown") if row[state])
        for row in rows(frame)
    }


def _counts(spark: Any, bad: dict[int, int], hours: int) -> Any:
    """Return counts of 60 slices a minute, of which some minutes have bad ones."""
    from pyspark.sql import functions as F

    made = [
        (
            "write-availability",
            "orders",
            us(0) + minute * MINUTE_US,
            60 - bad.get(minute, 0),
            bad.get(minute, 0),
            0,
        )
        for minute in range(hours * 60)
    ]  # fmt: skip
    plain = spark.createDataFrame(
        made, "slo string, group string, ts long, good long, bad long, unknown long"
    )
    frame = plain.withColumn("ts", F.timestamp_micros("ts"))
    assert frame.schema.names == struct_type(SLI_COUNTS).names
    return frame.localCheckpoint()


def _by_hand(bad: dict[int, int], hours: int, objectives: Objectives) -> set[tuple[float, int]]:
    """Return (threshold, minute) of every minute in which an alert fires, added up naively."""
    allowed = objectives.slos[0].allowed
    widths = {"5m": 5, "30m": 30, "1h": 60, "2h": 120, "6h": 360, "1d": 1_440, "3d": 4_320}

    def ratio(minute: int, window: str) -> float:
        held = range(max(0, minute - widths[window] + 1), minute + 1)
        return sum(bad.get(one, 0) for one in held) / (60 * len(held))

    return {
        (alert.threshold, minute)
        for minute in range(hours * 60)
        for alert in objectives.alerting
        if ratio(minute, alert.lookbackWindow) > alert.threshold * allowed
        and ratio(minute, alert.shortWindow) > alert.threshold * allowed
    }


def test_pages_come_in_exactly_the_minutes_that_adding_up_by_hand_gives(spark: SparkSession) -> None:
    objectives, hours = load(), 30
    bad = {600: 20, 601: 20, 602: 20, 603: 20, 900: 3, 1_500: 60, 1_501: 60} | dict.fromkeys(
        range(1_000, 1_240), 1
    )
    by_minute = burn.minutes(_counts(spark, bad, hours)).localCheckpoint()
    found = {
        (row["burn_rate"], (at_us - us(0)) // MINUTE_US)
        for row in rows(burn.pages(by_minute, objectives))
        for at_us in range(row["start_ts"], row["end_ts"], MINUTE_US)
    }
    expected = _by_hand(bad, hours, objectives)
    assert {threshold for threshold, _ in expected} == {14.4, 6.0, 3.0, 1.0}
    assert found == expected


def test_a_minute_without_counts_burns_nothing_and_the_rate_at_the_end_is_of_its_window(
    spark: SparkSession,
) -> None:
    counts = _counts(spark, {0: 6, 1: 6}, 2)
    row = rows(burn.status(counts, burn.minutes(counts), load()))[0]
    assert (row["good"], row["bad"], row["attained"]) == (7_188, 12, 7_188 / 7_200)
    assert row["burn_1h"] == 0.0
    assert row["burn_6h"] == pytest.approx(12 / 7_200 / 0.0005)


def _gauge(metric: str, at_s: float, value: float, instance: str = "a", **labels: str) -> Row:
    return sample(at_s, value, metric, instance=instance, labels=labels)


def test_the_lag_of_a_replica_that_is_not_in_sync_does_not_count(spark: SparkSession, tmp_path: Path) -> None:
    who = {"group": "orders", "broker_id": "3"}
    points = [(0, 5.0, 1.0), (10, 2e8, 1.0), (20, 2e8, 0.0), (50, 0.0, 1.0)]
    samples = [
        row
        for at_s, lag, in_sync in points
        for row in (
            _gauge("rmqha_ha_lag_bytes", at_s, lag, **who),
            _gauge("rmqha_ha_in_sync", at_s, in_sync, **who),
        )
    ]
    read = inputs(spark, tmp_path, samples=samples).samples
    assert _judged(sli.replication_lag(read, _slo("replication-lag"))) == {
        0: "good", 10: "bad", 20: "unknown", 30: "unknown", 40: "unknown", 50: "good",
    }  # fmt: skip


def test_the_in_sync_ratio_is_what_the_leader_says(spark: SparkSession, tmp_path: Path) -> None:
    who = {"cluster": "main", "group": "orders"}
    samples = [
        row
        for at_s, size, role in ((0, 3, 3), (10, 1, 2), (20, 1, 3), (30, 2, 3))
        for row in (
            _gauge("rmqha_controller_role", at_s, role),
            _gauge("rmqha_group_sync_state_set_size", at_s, size, **who),
            _gauge("rmqha_group_replicas", at_s, 3, **who),
        )
    ]
    read = inputs(spark, tmp_path, samples=samples).samples
    judged = _judged(sli.in_sync_ratio(read, _slo("in-sync-ratio")))
    assert judged == {0: "good", 10: "unknown", 20: "bad", 30: "good"}


def test_somebody_must_lead_and_never_two_in_one_term(spark: SparkSession, tmp_path: Path) -> None:
    told = {  # second -> role and term of each controller, None: it does not answer
        0: ((3, 1), (2, 1)),
        5: ((2, 1), (2, 1)),
        10: ((3, 1), (3, 2)),
        15: ((3, 2), (3, 2)),
        20: (None, None),
    }
    samples = []
    for at_s, nodes in told.items():
        for name, said in zip("ab", nodes, strict=True):
            samples.append(_gauge("up", at_s, float(said is not None), name))
            if said is not None:
                samples.append(_gauge("rmqha_controller_role", at_s, said[0], name))
                samples.append(_gauge("rmqha_controller_term", at_s, said[1], name))
    read = inputs(spark, tmp_path, samples=samples).samples
    judged = _judged(sli.controller_leader(read, _slo("controller-leader")))
    assert judged == {0: "good", 5: "bad", 10: "good", 15: "bad", 20: "bad"}


def test_the_story_is_judged_by_every_objective_it_has_data_for(told: Any) -> None:
    found = {(row["slo"], row["group"]): row for row in told.tables["slo_status"]}
    assert {slo for slo, _ in found} == {
        "write-availability", "send-latency", "replication-lag",
        "failover-duration", "durability", "election-health",
    }  # fmt: skip
    windows = {row["group"]: row for row in told.tables["sli_window"]}
    for group, window in windows.items():
        row = found["write-availability", group]
        assert (row["good"], row["bad"], row["unknown"]) == (
            window["good_s"],
            window["bad_s"],
            window["unknown_s"],
        )
    assert (found["failover-duration", "orders"]["good"], found["failover-duration", "orders"]["bad"]) == (
        2,
        0,
    )
    lost = {row["group"]: row["lost"] for row in told.tables["durability"]}
    assert {group: found["durability", group]["bad"] for group in lost} == lost
    assert any(page["slo"] == "write-availability" for page in told.tables["pages"])
