"""Ends tasks that take too long, all after the same time: one queue and one timer for thousands a second.

A timer for each would cost more than what most of these tasks do. Here a task leaves a note at the end of a
queue, which is in the order of the deadlines because all are given the same time; the timer looks at its
head, at most every `LOOK_EVERY_S`, so a task may be given that much more.

Never here: what a task that was ended answers.
"""

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Final

LOOK_EVERY_S: Final = 0.05


@dataclass(slots=True)
class Deadline:
    """The note of one task.

    Attributes:
        at_s: the loop's time at which the task is ended.
        task: whose it is; None once it is done.
        passed: whether the task was cancelled for it.
    """

    at_s: float
    task: asyncio.Task[object] | None
    passed: bool = False

    def met(self) -> None:
        """Learn that the task is done, or must not be cancelled any more; forget it."""
        self.task = None


class Deadlines:
    """The notes of all tasks that are given the same time; event loop's thread only."""

    def __init__(self, within_s: float) -> None:
        """Give every task so many seconds."""
        self._within_s = within_s
        self._notes: deque[Deadline] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> Deadline:
        """Begin the running task's time; it is cancelled when that is over, unless the note says `met`."""
        loop = asyncio.get_running_loop()
        note = Deadline(loop.time() + self._within_s, asyncio.current_task())
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
