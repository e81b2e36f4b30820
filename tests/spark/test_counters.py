"""Pair increments: what a counter counted, across resets, restarts and gaps."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from slo_pipeline.jobs.gather import rows
from slo_pipeline.jobs.increase import account, footers
from slo_pipeline.jobs.profile import Profile
from slo_pipeline.jobs.single_pass.increases import IncreaseLook
from slo_pipeline.jobs.spark.workers import Here
from slo_pipeline.schemas.series_ids import series_id
from slo_pipeline.transforms.counters import births, increase, increments
from slo_pipeline.transforms.timing import US_PER_S
from testkit.generators.segment_rows import Row, inputs, sample, us
from testkit.generators.synthetic import write_rows

WINDOW_S = 60


def _total(spark: Any, directory: Any, samples: list[Row], window_s: int = WINDOW_S) -> dict[int, float]:
    """Return the increase by window, as seconds after the beginning."""
    found = both_ways(spark, directory, samples, window_s)
    return {(row["window_start"] - us(0)) // US_PER_S: row["increase"] for row in found if row["increase"]}


def both_ways(
    spark: Any, directory: Path, samples: list[Row], window_s: int, by: tuple[str, ...] = ()
) -> list[Row]:
    """Return the rows that the frames and the pass over arrays agree on."""
    read = inputs(spark, directory, samples=samples).samples
    counters = read.where(F.col("metric") == "x_total")
    slow = rows(increase(increments(counters, births(read)), window_us=window_s * US_PER_S, by=by))
    for has_ids, cores in ((False, 1), (True, 7)):
        if has_ids:
            write_rows(directory, "samples", [_with_id(row) for row in samples])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("slo_pipeline.jobs.single_pass.plan.TASK_ROWS_MIN", 1)
            patch.setattr(Here, "cores", cores)
            look = IncreaseLook("x_total", by, window_s * US_PER_S)
            fast = account(footers(directory, "x_total", Profile()), look, "local", Profile())
        assert in_order(fast) == in_order(slow), f"ids: {has_ids}"
    return slow


def in_order(found: list[Row]) -> list[list[tuple[str, Any]]]:
    """Return rows that can be compared: what sums in another order may differ in is rounded."""
    kept = (row | {"increase": float(f"{row['increase']:.9g}"), "metric": ""} for row in found)
    return sorted((sorted(row.items(), key=repr) for row in kept), key=repr)


def _with_id(row: Row) -> Row:
    return row | {"series": series_id(row["metric"], dict(row["labels"]).items())}


RULES = {
    "a difference belongs to the window of the later sample": ([(50, 10), (70, 17)], {60: 7}),
    "a sample on a border belongs to the window that begins there": ([(59, 1), (60, 3)], {60: 2}),
    "a value below its predecessor is a reset and counts whole": ([(10, 100), (20, 4)], {0: 4}),
    "the first sample of the input counts nothing": ([(10, 100)], {}),
    "a gap over five minutes is spread evenly": ([(0, 0), (360, 36)], dict.fromkeys(range(0, 360, 60), 6)),
}


def test_each_rule_of_the_account(spark: SparkSession, tmp_path: Path) -> None:
    samples = [
        sample(at_s, value, instance=name, labels={"rule": name}, instance_uid="1")
        for name, (points, _) in RULES.items()
        for at_s, value in points
    ]
    found = both_ways(spark, tmp_path, samples, WINDOW_S, by=("rule",))
    by_rule: dict[str, dict[int, float]] = defaultdict(dict)
    for row in found:
        if row["increase"]:
            by_rule[row["labels"]["rule"]][(row["window_start"] - us(0)) // US_PER_S] = row["increase"]
    assert {name: by_rule[name] for name in RULES} == {name: want for name, (_, want) in RULES.items()}


def test_another_process_is_a_reset_even_when_the_value_went_up(spark: SparkSession, tmp_path: Path) -> None:
    samples = [sample(10, 5, instance_uid="first"), sample(20, 9, instance_uid="second")]
    assert _total(spark, tmp_path, samples) == {0: 9}


def test_a_process_that_becomes_known_is_no_other_one(spark: SparkSession, tmp_path: Path) -> None:
    samples = [
        sample(10, 5, instance_uid=""),
        sample(20, 9, instance_uid="first"),
        sample(30, 10, instance_uid=""),
    ]
    assert _total(spark, tmp_path, samples) == {0: 5}


def test_a_series_that_appears_late_counts_from_zero(spark: SparkSession, tmp_path: Path) -> None:
    samples = [sample(10, 1, metric="up"), sample(20, 1, metric="up"), sample(20, 3)]
    assert _total(spark, tmp_path, samples) == {0: 3}


def test_replicas_with_the_same_labels_are_different_series(spark: SparkSession, tmp_path: Path) -> None:
    samples = [sample(at, value, instance=name) for name, points in (("a", (1, 5)), ("b", (100, 101)))
               for at, value in zip((10, 20), points, strict=True)]  # fmt: skip
    assert _total(spark, tmp_path, samples) == {0: 5}


def _reference(samples: list[tuple[int, int, str]]) -> float:
    """Add up a series by hand: (second, value, process) in order of time."""
    total, previous = 0.0, None
    for _, value, process in samples:
        if previous is not None:
            before, of = previous
            total += value if process != of or value < before else value - before
        previous = (value, process)
    return total


SERIES = st.lists(
    st.tuples(st.integers(1, 200), st.integers(0, 50), st.sampled_from("pq")), min_size=1, max_size=12
).map(lambda steps: _timed(steps))


def _timed(steps: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    at = 0
    timed = []
    for gap_s, value, process in steps:
        at += gap_s
        timed.append((at, value, process))
    return timed


def test_labels_and_instances_are_kept_alike(spark: SparkSession, tmp_path: Path) -> None:
    series: list[tuple[str, dict[str, str]]] = [
        ("a", {"p": "1"}),
        ("a", {"q": "1"}),
        ("b", {"p": "1", "instance": "c"}),
        ("b", {}),
        ("b", {"p": ""}),
    ]
    samples = [
        sample(at_s, value * at_s, instance=instance, labels=labels)
        for at_s in (10, 40, 70, 100, 800)
        for value, (instance, labels) in enumerate(series)
    ]
    found = both_ways(spark, tmp_path, samples, WINDOW_S, by=("p", "instance"))
    assert len({tuple(row["labels"].items()) for row in found}) == 4


@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(many=st.lists(SERIES, min_size=5, max_size=20))
def test_the_sum_of_windows_is_what_adding_by_hand_gives(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, many: list[list[tuple[int, int, str]]]
) -> None:
    samples = [
        sample(at_s, value, instance=f"i{number}", instance_uid=process)
        for number, series in enumerate(many)
        for at_s, value, process in series
    ]
    found = _total(spark, tmp_path_factory.mktemp("series"), samples, window_s=300)
    # A process that comes back is one that was seen before: its first samples count nothing new.
    assert sum(found.values()) == pytest.approx(sum(_reference(series) for series in many))
