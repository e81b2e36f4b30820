"""Spark's workers run tasks in rounds, so that the driver holds the results of a few."""

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from slo_pipeline.jobs.profile import Profile
from slo_pipeline.jobs.single_pass.plan import Task
from slo_pipeline.jobs.spark.workers import ROUND_TASKS, ROUNDS_AT_ONCE, SparkWorkers
from slo_pipeline.sources.layout import SegmentUnusableError

WITHIN_S = 60.0


class Job:
    """The tasks of one job."""

    def __init__(self, tasks: Sequence[Any], counted: "CountedJobs") -> None:
        self._tasks = list(tasks)
        self._counted = counted

    def map(self, function: Callable[[Any], Any]) -> "Job":
        """Carry them out."""
        self._tasks = [function(task) for task in self._tasks]
        return self

    def collect(self) -> list[Any]:
        """Return the results, once the jobs before are counted."""
        self._counted.count(len(self._tasks))
        return self._tasks


class CountedJobs:
    """A context that carries out tasks at once and counts those of each job."""

    defaultParallelism = 2

    def __init__(self) -> None:
        self.jobs: list[int] = []
        self._counted = threading.Condition()

    def accumulator(self, start: int) -> Any:
        """Return what tasks add their rows to."""

        class Added:
            value = start

            def add(self, more: int) -> None:
                self.value += more

        return Added()

    def parallelize(self, tasks: Sequence[Any], partitions: int) -> Job:
        """Take the tasks of a job."""
        assert partitions == len(tasks)
        return Job(tasks, self)

    def count(self, tasks: int) -> None:
        """Count a job."""
        with self._counted:
            self.jobs.append(tasks)
            self._counted.notify_all()

    def wait_jobs(self, count: int) -> None:
        """Wait until so many jobs ran."""
        with self._counted:
            assert self._counted.wait_for(lambda: len(self.jobs) >= count, WITHIN_S)


def rounds(count: int, fails_at: int | None = None) -> tuple[Iterator[int], CountedJobs, Profile]:
    context, profile = CountedJobs(), Profile()
    made = SparkWorkers("local[2]", profile)
    made._context = context
    tasks = [Task("samples", (), number, number + 1, 5) for number in range(count)]

    def of_task(task: Task) -> int:
        if task.start_us == fails_at:
            raise SegmentUnusableError(f"task {fails_at}")
        return task.start_us

    return made.run("samples", tasks, of_task), context, profile


def test_results_come_in_the_order_of_the_tasks_round_by_round() -> None:
    found, context, profile = rounds(10)
    assert list(found) == list(range(10))
    assert sorted(context.jobs) == [2, 4, 4]
    assert (profile.steps[0].tasks, profile.steps[0].rows) == (10, 50)


def test_one_round_runs_while_the_results_of_another_are_taken_and_no_third_one() -> None:
    found, context, _ = rounds(20)
    assert next(found) == 0
    context.wait_jobs(ROUNDS_AT_ONCE)
    assert [next(found) for _ in range(ROUND_TASKS * 2 - 1)] == [1, 2, 3]
    assert context.jobs == [4, 4]
    assert next(found) == 4
    context.wait_jobs(3)
    assert list(found) == list(range(5, 20))


def test_a_fault_ends_the_rounds_and_no_further_one_begins() -> None:
    found, context, _ = rounds(40, fails_at=2)
    with pytest.raises(SegmentUnusableError, match="task 2"):
        list(found)
    assert len(context.jobs) <= ROUNDS_AT_ONCE
