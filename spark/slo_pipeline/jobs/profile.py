"""Where the time of a run went: steps of the driver, and of the tasks that it waited for.

Shape: steps follow one another; a step names what it read where it did. `--profile` prints them to standard
error. Progress is one line on a terminal that says how many rows are read of how many. Never: a figure of it
is in a page or a table, which are the same for the same input.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, TextIO

_CLEAR: Final = "\r\033[K"


@dataclass
class ProfileStep:
    """One step: wall time, CPU time of the driver and of its tasks in seconds, and what the tasks read."""

    name: str
    wall_s: float = 0.0
    driver_s: float = 0.0
    tasks_s: float = 0.0
    tasks: int = 0
    rows: int = 0


@dataclass
class Profile:
    """The steps of a run so far.

    Attributes:
        steps: in the order in which they ended.
        terminal: where progress is shown; None: nowhere.
    """

    steps: list[ProfileStep] = field(default_factory=list)
    terminal: TextIO | None = None

    @contextmanager
    def step(self, name: str) -> Iterator[ProfileStep]:
        """Measure a step without the steps inside it; its tasks' part is the caller's to add."""
        step = ProfileStep(name)
        before = len(self.steps)
        wall_s, cpu_s = time.monotonic(), time.process_time()
        try:
            yield step
        finally:
            inside = self.steps[before:]
            step.wall_s = time.monotonic() - wall_s - sum(one.wall_s for one in inside)
            step.driver_s = time.process_time() - cpu_s - sum(one.driver_s for one in inside)
            self.steps.append(step)

    def show(self, step: ProfileStep, rows: int, of: int) -> None:
        """Show on a terminal how many rows a step has read."""
        if self.terminal is not None:
            self.terminal.write(f"{_CLEAR}{step.name}: {rows:,} of {of:,} rows")
            self.terminal.flush()

    def hide(self) -> None:
        """Clear the line of progress."""
        if self.terminal is not None:
            self.terminal.write(_CLEAR)
            self.terminal.flush()

    def text(self) -> str:
        """Return the steps as a table; the CPU time of tasks is that of all of them together."""
        head = (
            f"{'step':<14} {'wall s':>7} {'driver CPU s':>13} {'tasks CPU s':>12} {'tasks':>6} {'rows':>12}"
        )
        whole = ProfileStep("all", *[sum(getattr(one, name) for one in self.steps) for name in _SUMMED])
        lines = [
            f"{one.name:<14} {one.wall_s:>7.2f} {one.driver_s:>13.2f} {one.tasks_s:>12.2f} {one.tasks:>6} "
            f"{one.rows:>12,}"
            for one in (*self.steps, whole)
        ]
        return "\n".join([head, *lines, ""])


_SUMMED: Final = ("wall_s", "driver_s", "tasks_s", "tasks", "rows")


def of_terminal() -> Profile:
    """Return a profile that shows progress if standard error is a terminal."""
    return Profile(terminal=sys.stderr if sys.stderr.isatty() else None)
