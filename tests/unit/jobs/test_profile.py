"""A profile tells the cost of each step, and progress the number of rows read."""

import io

import pytest

from slo_pipeline.jobs.profile import Profile
from slo_pipeline.jobs.single_pass.plan import Task
from slo_pipeline.jobs.spark.workers import HERE_ROWS_MAX, Here, SparkWorkers, workers


def test_steps_are_rows_of_a_table_with_their_sum() -> None:
    profile = Profile()
    for name, count in (("times", 1_000), ("operations", 2_000)):
        with profile.step(name) as step:
            step.rows = count
    lines = profile.text().splitlines()
    assert [line.split()[0] for line in lines] == ["step", "times", "operations", "all"]
    assert lines[-1].endswith("3,000")


def test_a_step_does_not_count_the_steps_inside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 2.0, 7.0, 10.0])
    monkeypatch.setattr("slo_pipeline.jobs.profile.time.monotonic", lambda: next(clock))
    profile = Profile()
    with profile.step("tables"), profile.step("operations"):
        pass
    assert [(one.name, one.wall_s) for one in profile.steps] == [("operations", 5.0), ("tables", 5.0)]


def test_progress_is_one_line_of_rows_read_on_a_terminal() -> None:
    profile = Profile(terminal=io.StringIO())
    with profile.step("operations") as step:
        profile.show(step, 1_200, 4_000)
        profile.hide()
    assert profile.terminal is not None
    assert isinstance(profile.terminal, io.StringIO)
    assert profile.terminal.getvalue() == "\r\033[Koperations: 1,200 of 4,000 rows\r\033[K"


def test_nothing_is_shown_without_a_terminal() -> None:
    profile = Profile()
    with profile.step("operations") as step:
        profile.show(step, 1, 2)
        profile.hide()


def test_workers_of_this_process_count_their_step() -> None:
    profile = Profile()
    task = Task("samples", (), 0, 1, 7)
    assert list(Here(profile).run("samples", [task, task], lambda one: one.rows)) == [7, 7]
    assert (profile.steps[0].tasks, profile.steps[0].rows) == (2, 14)


def test_workers_of_this_process_show_on_a_terminal_how_many_rows_are_read() -> None:
    profile = Profile(terminal=io.StringIO())
    task = Task("samples", (), 0, 1, 7)
    assert len(list(Here(profile).run("samples", [task, task], lambda one: one.rows))) == 2
    assert isinstance(profile.terminal, io.StringIO)
    shown = profile.terminal.getvalue()
    assert "samples: 0 of 14 rows" in shown
    assert "samples: 7 of 14 rows" in shown
    assert shown.endswith("\r\033[K")


def test_only_large_input_or_a_cluster_needs_spark() -> None:
    assert isinstance(workers("local[*]", HERE_ROWS_MAX, Profile()), Here)
    assert isinstance(workers("local[*]", HERE_ROWS_MAX + 1, Profile()), SparkWorkers)
    assert isinstance(workers("local-cluster[2,1,1024]", 1, Profile()), SparkWorkers)
    assert isinstance(workers("k8s://https://host", 1, Profile()), SparkWorkers)
