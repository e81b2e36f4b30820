"""Where the tasks of a single pass run: in this process, or in Spark's Python workers.

Problem: a JVM and its Python workers take seconds to start, and a report of a day can be ready before. Shape:
on this machine, input of at most HERE_ROWS_MAX rows is read in this process, one task after the other; any
other input goes to Spark, one partition a task, in rounds of a few tasks for each core. The driver adds up
the results of a round while Spark runs the next one, and never holds those of more than two, so that a longer
period takes more time and not more memory. The tasks are the same functions. Never: a shuffle, a data frame,
or generated code.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped] # Spark ships no types of it
from pyspark.errors import PySparkException

from slo_pipeline.jobs.profile import Profile, ProfileStep
from slo_pipeline.jobs.single_pass.plan import Task
from slo_pipeline.sources.layout import SegmentUnusableError

One = TypeVar("One")
_PROGRESS_S: Final = 0.2
HERE_ROWS_MAX: Final = 16_000_000
"""Reading so many rows with one core takes about as long as to start Spark and read them with two."""
ROUND_TASKS: Final = 2
"""Tasks of one of Spark's jobs, for each core."""
ROUNDS_AT_ONCE: Final = 2
"""Jobs of which the driver holds results, or waits for them: one is added up while the other one runs."""


class TasksFailedError(Exception):
    """Spark could not run the tasks; the text is the first line of its own words."""


class Workers(Protocol):
    """Where tasks run."""

    @property
    def cores(self) -> int:
        """Return how many tasks run at once."""
        ...

    def run(self, name: str, tasks: Sequence[Task], of_task: Callable[[Task], One]) -> Iterator[One]:
        """Run a function for each task; yield the results in the tasks' order.

        Raises:
            SegmentUnusableError: a segment cannot be read.
        """
        ...


class _Done(NamedTuple):
    """The result of a task, or why a segment could not be read, and the CPU time of it in seconds."""

    result: Any
    fault: str | None
    cpu_s: float


class Here:
    """One worker in this process."""

    cores = 1

    def __init__(self, profile: Profile | None = None) -> None:
        """Describe where steps are counted."""
        self._profile = Profile() if profile is None else profile

    def run(self, name: str, tasks: Sequence[Task], of_task: Callable[[Task], One]) -> Iterator[One]:
        """Run a function for each task."""
        with self._profile.step(name) as step:
            step.tasks, step.rows = len(tasks), sum(task.rows for task in tasks)
            read = 0
            try:
                for task in tasks:
                    self._profile.show(step, read, step.rows)
                    yield of_task(task)
                    read += task.rows
            finally:
                self._profile.hide()


class SparkWorkers:
    """Spark's workers; the context starts with the first tasks."""

    def __init__(self, master: str, profile: Profile | None = None) -> None:
        """Describe where Spark runs, and where steps are counted."""
        self._master = master
        self._profile = Profile() if profile is None else profile
        self._context: Any = None

    @property
    def cores(self) -> int:
        """Return how many tasks run at once."""
        return int(self._started().defaultParallelism)

    def run(self, name: str, tasks: Sequence[Task], of_task: Callable[[Task], One]) -> Iterator[One]:
        """Run a function for each task."""
        if not tasks:
            return
        context, read = self._started(), self._started().accumulator(0)
        held = ROUND_TASKS * self.cores
        with self._profile.step(name) as step:
            step.tasks, step.rows = len(tasks), sum(task.rows for task in tasks)
            shown = _Progress(self._profile, step, read)
            rounds = [tasks[begin : begin + held] for begin in range(0, len(tasks), held)]
            try:
                for one in _in_rounds(context, rounds, partial(_carried_out, of_task, read)):
                    step.tasks_s += one.cpu_s
                    if one.fault is not None:
                        raise SegmentUnusableError(one.fault)
                    yield one.result
            finally:
                shown.end()

    def _started(self) -> Any:  # noqa: ANN401 - Spark's context is not needed to read in this process
        if self._context is None:
            from slo_pipeline.jobs.spark.session import context

            with self._profile.step("start Spark"):
                self._context = context(master=self._master)
        return self._context


def _in_rounds(
    context: Any,  # noqa: ANN401 - Spark's
    rounds: Sequence[Sequence[Task]],
    of_task: Callable[[Task], _Done],
) -> Iterator[_Done]:
    """Run rounds of tasks, each as one of Spark's jobs, and yield the results in order."""
    pool = ThreadPoolExecutor(max_workers=ROUNDS_AT_ONCE, thread_name_prefix="round")
    left = iter(rounds)
    try:
        running = deque(pool.submit(_round, context, one, of_task) for one in islice(left, ROUNDS_AT_ONCE))
        while running:
            yield from running.popleft().result()
            running.extend(pool.submit(_round, context, one, of_task) for one in islice(left, 1))
    finally:
        pool.shutdown(cancel_futures=True)


def _round(context: Any, tasks: Sequence[Task], of_task: Callable[[Task], _Done]) -> list[_Done]:  # noqa: ANN401 - Spark's
    """Run some tasks as one of Spark's jobs."""
    try:
        done: list[_Done] = context.parallelize(list(tasks), len(tasks)).map(of_task).collect()
    except (Py4JJavaError, PySparkException) as error:
        if "PYTHON_EXCEPTION" in _said(error):
            # A fault of ours in a task, which deserves its traceback.
            raise
        raise TasksFailedError(_said(error).partition("\n")[0]) from error
    return done


class _Progress:
    """Shows on a terminal how many rows a step's tasks have read, until it ends."""

    def __init__(self, profile: Profile, step: ProfileStep, read: Any) -> None:  # noqa: ANN401 - Spark's accumulator
        self._profile, self._step, self._read = profile, step, read
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._show, daemon=True)
        if profile.terminal is not None:
            self._thread.start()

    def _show(self) -> None:
        while not self._ended.wait(_PROGRESS_S):
            self._profile.show(self._step, self._read.value, self._step.rows)

    def end(self) -> None:
        """Stop showing."""
        self._ended.set()
        if self._profile.terminal is not None:
            self._thread.join()
            self._profile.hide()


def _said(error: Py4JJavaError | PySparkException) -> str:
    """Return Spark's own words."""
    return str(error.java_exception.getMessage() if isinstance(error, Py4JJavaError) else error)


def _carried_out(of_task: Callable[[Task], Any], read: Any, task: Task) -> _Done:  # noqa: ANN401 - Spark's
    """Run a task in a worker; an unusable segment comes back as a text, not inside a Java error."""
    begin_s = time.process_time()
    try:
        result, fault = of_task(task), None
    except SegmentUnusableError as error:
        result, fault = None, str(error)
    read.add(task.rows)
    return _Done(result, fault, time.process_time() - begin_s)


def workers(master: str, rows: int, profile: Profile) -> Workers:
    """Choose where the tasks of an input of so many rows run."""
    is_this_machine = master == "local" or master.startswith("local[")
    return Here(profile) if is_this_machine and rows <= HERE_ROWS_MAX else SparkWorkers(master, profile)
