"""The single pass and the frames compute the same: pages and tables, byte by byte."""

import io
import os
import random
import re
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from slo_pipeline.jobs import gather
from slo_pipeline.jobs.gold import gold
from slo_pipeline.jobs.period import Period
from slo_pipeline.jobs.profile import Profile
from slo_pipeline.jobs.report import write_tables
from slo_pipeline.jobs.single_pass import driver
from slo_pipeline.jobs.single_pass.plan import Task
from slo_pipeline.jobs.spark.workers import Here, SparkWorkers, TasksFailedError, Workers
from slo_pipeline.jobs.survey import surveyed
from slo_pipeline.objectives.file import load
from slo_pipeline.reports.page.document import render
from slo_pipeline.schemas.segments import SEGMENTS
from slo_pipeline.sources.layout import SegmentUnusableError
from slo_pipeline.sources.segments import read_inputs
from testkit.generators import synthetic
from testkit.generators.segment_rows import Row, elected, event, read, sample, send, us

DAYS: Final = 30
Tables = dict[str, list[Row]]


class InWindows(Here):
    """Workers that cut an input into many tasks, however few its rows are."""

    cores = 7


@pytest.fixture(autouse=True)
def _small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slo_pipeline.jobs.single_pass.plan.TASK_ROWS_MIN", 50)


@pytest.fixture
def tiny_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have seconds of more rows than a task may have."""
    monkeypatch.setattr("slo_pipeline.jobs.single_pass.plan.TASK_ROWS_MAX", 30)


def by_frames(spark: SparkSession, data: Path, now_us: int) -> tuple[Tables, Period]:
    inputs, over, found = surveyed(read_inputs(spark, data), now_us, DAYS, data)
    return gather.collect(gold(inputs, over, load())) | found, over


def by_single_pass(data: Path, now_us: int, workers: Workers | None = None) -> tuple[Tables, Period]:
    with pytest.MonkeyPatch.context() as patch:
        if workers is not None:
            patch.setattr(driver, "workers", lambda *_: workers)
        return driver.period_tables(data, load(), now_us, "local[2]", Profile())


def written(tables: Tables, over: Period, directory: Path) -> tuple[str, dict[str, bytes]]:
    directory.mkdir()
    write_tables(tables, directory)
    files = {path.name: path.read_bytes() for path in sorted(directory.iterdir())}
    return render(gather.report(tables, over, load(), "Same")), files


def assert_same(
    spark: SparkSession, data: Path, scratch: Path, now_us: int, workers: Workers | None = None
) -> None:
    slow, slow_over = by_frames(spark, data, now_us)
    fast, fast_over = by_single_pass(data, now_us, workers)
    assert fast_over == slow_over
    for name, rows in slow.items():
        assert in_order(fast[name]) == in_order(rows), name
    assert written(fast, fast_over, scratch / "fast") == written(slow, slow_over, scratch / "slow")


def in_order(rows: list[Row]) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in rows)


STORIES: Final[dict[str, Callable[[], synthetic.Story]]] = {
    "two failovers and a switchover": synthetic.two_failovers_and_a_switchover,
    "losses": lambda: synthetic.with_losses(
        synthetic.two_failovers_and_a_switchover(), "payments", (100, 101)
    ),
    "across midnight": lambda: replace(
        synthetic.two_failovers_and_a_switchover(),
        begin_us=synthetic.EPOCH_2026_US + (12 * 3_600 - 301) * 1_000_000,
    ),
    "two clusters without changes": lambda: synthetic.Story(
        groups=(synthetic.StoryGroup("a"), synthetic.StoryGroup("b", silent_ms=(0, 90_000))), duration_s=100
    ),
}


@pytest.mark.parametrize("workers", [Here(), InWindows()], ids=["one task", "many windows"])
@pytest.mark.parametrize("name", STORIES)
def test_every_story_has_the_same_page_and_tables(
    name: str, workers: Workers, spark: SparkSession, tmp_path: Path
) -> None:
    story = STORIES[name]()
    synthetic.write(story, tmp_path / "data")
    assert_same(spark, tmp_path / "data", tmp_path, story.us(story.duration_s * 1_000), workers)


@pytest.mark.usefixtures("tiny_tasks")
def test_seconds_divided_by_groups_have_the_same_page_and_tables(spark: SparkSession, tmp_path: Path) -> None:
    story = STORIES["losses"]()
    synthetic.write(story, tmp_path / "data")
    assert_same(spark, tmp_path / "data", tmp_path, story.us(story.duration_s * 1_000), InWindows())


def a_month() -> dict[str, list[Row]]:
    """Return thirty days: a send every ten minutes, a scrape every hour, three changes of master."""
    day_ms, chance = 86_400_000, random.Random(3)
    sends = [
        send(seq, seq * 600_000, chance.choice(["ok"] * 9 + ["timeout"]), took_ms=chance.expovariate(0.3))
        for seq in range(30 * 144)
    ]
    reads = [read(row["seq"], row["seq"] * 600_000 + 90) for row in sends if row["result"] == "ok"]
    changes = [elected(at * day_ms + 600_000 * 7, at, at, at + 1) for at in (3, 4, 25)]
    samples = [
        sample(hour * 3_600 + place, value, metric, instance=f"n{place}", labels=labels)
        for hour in range(30 * 24)
        for place in range(2)
        for metric, value, labels in (
            ("up", float(hour % 50 > 0), {}),
            ("rmqha_controller_role", 3.0 if place == hour % 2 else 2.0, {}),
            ("rmqha_controller_term", float(hour // 100), {}),
            ("rmqha_ha_lag_bytes", hour * 1e5, {"group": "orders", "broker_id": f"{place}"}),
            ("rmqha_ha_in_sync", 1.0, {"group": "orders", "broker_id": f"{place}"}),
        )
    ]
    return {"probe_ops": sends + reads[5:], "events": changes, "samples": samples}


def test_a_month_has_the_same_page_and_tables(spark: SparkSession, tmp_path: Path) -> None:
    for kind, rows in a_month().items():
        synthetic.write_rows(tmp_path / "data", kind, rows)
    slow, slow_over = by_frames(spark, tmp_path / "data", us(30 * 86_400_000))
    expected = written(slow, slow_over, tmp_path / "slow")
    for rows_max in (10**6, 250):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("slo_pipeline.jobs.single_pass.plan.TASK_ROWS_MAX", rows_max)
            fast, over = by_single_pass(tmp_path / "data", us(30 * 86_400_000), InWindows())
        assert written(fast, over, tmp_path / f"fast {rows_max}") == expected, rows_max


def test_sparks_workers_compute_the_same_as_this_process(spark: SparkSession, tmp_path: Path) -> None:
    story = STORIES["losses"]()
    synthetic.write(story, tmp_path / "data")
    profile = Profile()
    assert_same(
        spark,
        tmp_path / "data",
        tmp_path,
        story.us(story.duration_s * 1_000),
        SparkWorkers("local[2]", profile),
    )
    assert sum(step.tasks for step in profile.steps if step.name == "operations") >= 2


def test_damaged_data_in_a_sparks_task_is_named_with_the_words_of_every_reader(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_files(tmp_path, "probe_ops", [send(seq, seq * 100) for seq in range(300)], 1)
    (path,) = tmp_path.rglob("*.parquet")
    content = bytearray(path.read_bytes())
    content[4:400] = b"x" * 396
    path.write_bytes(content)
    with pytest.raises(SegmentUnusableError, match=re.escape(f"{path}: unusable segment: damaged Parquet")):
        by_single_pass(tmp_path, us(60_000), SparkWorkers("local[2]"))


def test_sparks_workers_show_how_many_rows_they_have_read(spark: SparkSession, tmp_path: Path) -> None:
    write_files(tmp_path, "probe_ops", [send(seq, seq * 100) for seq in range(300)], 1)
    profile = Profile(terminal=io.StringIO())
    by_single_pass(tmp_path, us(60_000), SparkWorkers("local[2]", profile))
    step = next(one for one in profile.steps if one.name == "operations")
    assert (step.rows, step.tasks) == (300, 2)
    assert step.tasks_s > 0.0


def _killed(_: Task) -> None:
    """Die as a task does that the kernel kills for its memory."""
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_worker_fails_the_command_with_sparks_words(spark: SparkSession) -> None:
    with pytest.raises(TasksFailedError, match="Python worker exited unexpectedly"):
        list(SparkWorkers("local[2]").run("samples", [Task("samples", (), 0, 1, 1)], _killed))


def _pairs(row: Row) -> Row:
    return {name: list(value.items()) if isinstance(value, dict) else value for name, value in row.items()}


def write_files(data: Path, kind: str, rows: list[Row], files: int) -> None:
    """Write rows to several segments in the given order."""
    for number in range(files):
        own = [_pairs(row) for row in rows[number::files]]
        folder = data / kind / "day=2026-11-20"
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(own, schema=SEGMENTS[kind]), folder / f"part-{number}.parquet")


def _every_row() -> dict[str, list[Row]]:
    story = synthetic.with_losses(synthetic.two_failovers_and_a_switchover(), "payments", (100, 101))
    rows = {
        "probe_ops": [row for group in story.groups for row in synthetic.probe_rows(story, group)],
        "events": [row for group in story.groups for row in synthetic.event_rows(story, group)],
        "samples": [row for group in story.groups for row in synthetic.sample_rows(story, group)],
    }
    rows["events"] += [
        event("RolloutStarted", 130_000, attrs={"reason": "config"}),
        event("RolloutFinished", 131_000),
        event("FaultInjected", 419_000, group="payments", broker=1, attrs={"action": "cut", "target": "x"}),
        event("FaultHealed", 421_000, group="payments", broker=1, attrs={"action": "cut", "target": "x"}),
        event(
            "KubernetesEvent",
            477_000,
            attrs={
                "reason": "MemberRestarted",
                "object_kind": "BrokerGroup",
                "object_name": "orders",
                "message": "delete Pod orders-1 (older revision; it hands over first)",
            },
        ),
        elected(200_000, 7, 2, 2, cluster="other", sync_state_set_before=" 2, 1"),
        event("ElectionFailed", 201_000, epoch=8),
        event("MasterElected", 202_000, epoch=9, attrs={"old_master_id": "x", "suspected_ns": "rubbish"}),
        event("MasterElected", 0, ts=1, ts_ns=1_000),
    ]
    rows["samples"] += [
        sample(at, value, metric, instance=f"controller-{number}", labels=labels)
        for at in range(0, 600, 7)
        for number in range(3)
        for metric, value, labels in (
            ("rmqha_controller_role", 3.0 if number == at // 200 or at % 70 == 0 else 2.0, {}),
            ("rmqha_controller_term", float(at // 200), {}),
            ("up", 1.0 if at % 21 else 0.0, {}),
            ("rmqha_group_sync_state_set_size", float(1 + at % 3), {"group": "orders", "cluster": "demo"}),
            ("rmqha_group_replicas", 3.0, {"group": "orders", "cluster": "demo"}),
            (
                "rmqha_ha_lag_bytes",
                float("nan") if at == 70 else at * 1e4,
                {"group": "orders", "broker_id": "2"},
            ),
            ("rmqha_ha_in_sync", float(at % 2), {"group": "orders", "broker_id": "2"}),
        )
    ]
    rows["probe_ops"] += [
        send(100_001, 610_000, took_ms=None),
        send(100_002, -1e9),
        send(100_003, 1e9),
        read(100_004, 1e9 + 5, clock_id="canary/ahead"),
    ]
    return rows


EVERY_ROW: Final = _every_row()


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32),
    shares=st.tuples(*[st.sampled_from([0.0, 0.02, 0.3, 0.9, 1.0])] * 3),
    files=st.integers(1, 4),
)
def test_random_subsets_of_rows_in_any_files_have_the_same_page_and_tables(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    shares: tuple[float, float, float],
    files: int,
) -> None:
    scratch, chance = tmp_path_factory.mktemp("subset"), random.Random(seed)
    for (kind, rows), share in zip(EVERY_ROW.items(), shares, strict=True):
        kept = [row for row in rows if chance.random() < share]
        # The first one is credible, so that there is a period.
        write_files(scratch / "data", kind, kept or rows[:1], files)
    assert_same(spark, scratch / "data", scratch, us(620_000), InWindows())
