"""Space the write guards of a group, so that failing switchovers do not stop its writes all the time.

While a write guard is up, the master refuses every send that waits for copies, for up to a second. A refused
companion, operator or person asks for the switchover again. So after a failed guard, the next guard of that
group must wait; the wait doubles with each failure, and a success ends it. A refusal during the wait does not
affect the clients.
"""

import asyncio
from dataclasses import dataclass
from typing import Final

from controller_core.groups.keys import GroupKey

PAUSE_S: Final = 0.5
PAUSE_S_MAX: Final = 8.0
FORGET_AFTER_S: Final = 60.0
"""After this time since the last failed guard, a group begins with the shortest wait again."""


@dataclass(frozen=True, slots=True)
class _Failure:
    at_s: float
    pause_s: float
    why: str


class GuardSpacing:
    """Knows the last failed guard of each group; for the event loop's thread only."""

    def __init__(self) -> None:
        """Start without failures."""
        self._failures: Final[dict[GroupKey, _Failure]] = {}

    def problem(self, key: GroupKey) -> str:
        """Say why a group's writes must not be stopped now; empty if they may be."""
        failure = self._failures.get(key)
        if failure is None or _now_s() >= failure.at_s + failure.pause_s:
            return ""
        return f"the last attempt failed less than {failure.pause_s} s ago: {failure.why}"

    def failed(self, key: GroupKey, why: str) -> None:
        """Learn that a guard of the group failed."""
        before, now_s = self._failures.get(key), _now_s()
        is_recent = before is not None and now_s - before.at_s <= FORGET_AFTER_S
        pause_s = min(2 * before.pause_s, PAUSE_S_MAX) if before is not None and is_recent else PAUSE_S
        self._failures[key] = _Failure(now_s, pause_s, why)

    def succeeded(self, key: GroupKey) -> None:
        """Learn that a guard succeeded."""
        self._failures.pop(key, None)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
