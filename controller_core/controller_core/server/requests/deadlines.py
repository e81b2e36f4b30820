"""Ends work that takes too long, all after the same time: one queue and one timer for thousands a second.

A timer for each would cost more than what most of this work does. Here each task (or whatever else can be
cancelled) leaves a note at the end of a queue, which is in the order of the deadlines because all are given
the same time; the timer looks at its head, at most every `LOOK_EVERY_S`, so work may be given that much more.

Never here: what work that was ended answers.
"""

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Final, Protocol

LOOK_EVERY_S: Final = 0.05


class Work(Protocol):
    """A task, or something else that can be ended."""

    def cancel(self) -> object:
        """End it."""
        ...


@dataclass(slots=True)
class Deadline:
    """The note of one piece of work.

    Attributes:
        at_s: the loop's time at which the work is ended.
        task: whose it is; None once it is done.
        passed: whether the work was cancelled for it.
    """

    at_s: float
    task: Work | None
    passed: bool = False

    def met(self) -> None:
        """Learn that the work is done, or must not be cancelled any more; forget it."""
        self.task = None

    def taken_over(self) -> "Deadline":
        """Let the running task go on with the work in the time that is left."""
        self.task = asyncio.current_task()
        return self


class Deadlines:
    """The notes of all tasks that are given the same time; event loop's thread only."""

    def __init__(self, within_s: float) -> None:
        """Give every task so many seconds."""
        self._within_s = within_s
        self._notes: deque[Deadline] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, work: Work | None = None) -> Deadline:
        """Begin the time of the running task, or of `work`.

        It is cancelled when that is over, unless the note says `met`.
        """
        loop = asyncio.get_running_loop()
        note = Deadline(loop.time() + self._within_s, work or asyncio.current_task())
        self._notes.append(note)
        if self._timer is None:
            self._timer = loop.call_at(note.at_s, self._look)
        return note

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        notes = self._notes
        while notes and (notes[0].task is None or notes[0].at_s <= now_s):
            note = notes.popleft()
            if note.task is not None:
                note.passed = True
                note.task.cancel()
        self._timer = None
        if notes:
            self._timer = loop.call_at(max(notes[0].at_s, now_s + LOOK_EVERY_S), self._look)
