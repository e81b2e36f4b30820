"""Slices, latency and durability from single probe operations."""

from pathlib import Path

from pyspark.sql import SparkSession

from slo_pipeline.jobs.gather import rows
from slo_pipeline.transforms import durability, latency, quality, slices
from testkit.generators.segment_rows import inputs, read, sample, send, us


def test_a_send_counts_in_the_second_in_which_it_was_intended(spark: SparkSession, tmp_path: Path) -> None:
    ops = [send(1, 999, took_ms=5), send(2, 1_000, "timeout", None), send(3, 3_100)]
    found = rows(slices.slices_1s(inputs(spark, tmp_path, probe_ops=ops).probe_ops).orderBy("slice_start"))
    assert [(row["slice_start"] - us(0), row["state"]) for row in found] == [
        (0, "good"),
        (1_000_000, "bad"),
        (2_000_000, "unknown"),
        (3_000_000, "good"),
    ]


def test_one_failed_send_makes_its_second_bad(spark: SparkSession, tmp_path: Path) -> None:
    ops = [send(seq, seq * 100, "timeout" if seq == 3 else "ok") for seq in range(10)]
    found = rows(slices.slices_1s(inputs(spark, tmp_path, probe_ops=ops).probe_ops))
    assert [(row["attempts"], row["failed"], row["state"]) for row in found] == [(10, 1, "bad")]


def test_latency_runs_from_the_intended_time_and_failures_have_none(
    spark: SparkSession, tmp_path: Path
) -> None:
    ops = [send(1, 0, took_ms=30, start_ts=us(20)), send(2, 100, "refused", 1)]
    points = latency.latency_points(inputs(spark, tmp_path, probe_ops=ops).probe_ops)
    row = rows(latency.latency(points))[0]
    assert (row["acknowledged"], row["failed"], row["p50_ms"], row["max_ms"]) == (1, 1, 30.0, 30.0)
    assert [(one["le_ms"], one["sends"]) for one in rows(latency.latency_histogram(points))] == [(50.0, 1)]


def test_every_send_gets_exactly_one_verdict(spark: SparkSession, tmp_path: Path) -> None:
    ops = [
        send(1, 0), read(1, 50),
        send(2, 100), read(2, 900, "missing"),
        send(3, 200, "timeout", None), read(3, 300),
        send(4, 300, "timeout", None),
        send(5, 400, "refused", 1),
        send(6, 500),
        send(7, 100_000),
        send(8, 600, clock_id="canary/0"),
        send(9, 200_000), read(9, 200_100),
    ]  # fmt: skip
    judged = durability.verdicts(inputs(spark, tmp_path, probe_ops=ops).probe_ops)
    assert {row["seq"]: row["verdict"] for row in rows(judged)} == {
        1: "read_back",
        2: "lost",
        3: "ambiguous_found",
        4: "ambiguous",
        5: "refused",
        6: "lost",
        7: "pending",
        8: "pending",
        9: "read_back",
    }


def test_a_group_that_nobody_reads_has_no_verdict_at_all(spark: SparkSession, tmp_path: Path) -> None:
    judged = durability.verdicts(inputs(spark, tmp_path, probe_ops=[send(1, 0)]).probe_ops)
    assert rows(durability.durability(judged)) == []


def test_a_failed_scrape_is_no_coverage(spark: SparkSession, tmp_path: Path) -> None:
    samples = [sample(second, 0.0 if second == 4 else 1.0, metric="up") for second in range(10)]
    row = rows(quality.coverage(inputs(spark, tmp_path, samples=samples).samples))[0]
    assert (row["scrapes"], row["expected"], row["gaps"]) == (9, 10, 0)
