"""Spark's workers run tasks in rounds, so that the driver holds the results of a few."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from slo_pipeline.jobs.profile import Profile
from slo_pipeline.jobs.single_pass.plan import Task
from slo_pipeline.jobs.spark.workers import ROUND_TASKS, SparkWorkers


class CountedJobs:
    """A context that carries out tasks at once and counts those of each job."""

    defaultParallelism = 2

    def __init__(self) -> None:
        self.jobs: list[int] = []
        self._tasks: list[Any] = []

    def accumulator(self, start: int) -> Any:
        """Return what tasks add their rows to."""

        class Added:
            value = start

            def add(self, more: int) -> None:
                self.value += more

        return Added()

    def parallelize(self, tasks: Sequence[Any], partitions: int) -> "CountedJobs":
        """Take the tasks of a job."""
        assert partitions == len(tasks)
        self._tasks = list(tasks)
        return self

    def map(self, function: Callable[[Any], Any]) -> "CountedJobs":
        """Carry them out."""
        self._tasks = [function(task) for task in self._tasks]
        return self

    def collect(self) -> list[Any]:
        """Return the results."""
        self.jobs.append(len(self._tasks))
        return self._tasks


def rounds(count: int) -> tuple[Iterator[int], CountedJobs, Profile]:
    context, profile = CountedJobs(), Profile()
    made = SparkWorkers("local[2]", profile)
    made._context = context
    tasks = [Task("samples", (), number, number + 1, 5) for number in range(count)]
    return made.run("samples", tasks, lambda task: task.start_us), context, profile


def test_results_come_in_the_order_of_the_tasks_round_by_round() -> None:
    found, context, profile = rounds(20)
    assert list(found) == list(range(20))
    assert context.jobs == [8, 8, 4]
    assert (profile.steps[0].tasks, profile.steps[0].rows) == (20, 100)


def test_the_next_round_begins_when_the_results_of_the_last_one_were_taken() -> None:
    found, context, _ = rounds(20)
    taken = [next(found) for _ in range(ROUND_TASKS * 2)]
    assert taken == list(range(8))
    assert context.jobs == [8]
