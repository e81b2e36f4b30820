"""The two settings of a broker by which a fence stops its writes; pure.

The values themselves say what to set back: a broker keeps settings in its file, through crashes, and a
companion may be restarted while its broker is closed. So each is the previous value plus a number that no
other hand sets. What the controllers set in between for a switchover is below both, and stays.

Never here: when a fence closes (`fence`), and the requests (`companion.stopping.fencing`).

Source: SendMessageProcessor.preSend, CommitLog.asyncPutMessage 5.5.0.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from controller_core.broker_settings import FENCED_MS, MIN_IN_SYNC, SENDS_FROM
from controller_core.remoting.numbers import whole_number

CLOSED_BASE: Final = 10_000
"""Added to the least members of the set; no group has so many."""


@dataclass(frozen=True, slots=True)
class FencedSettings:
    """What a broker says of itself.

    Attributes:
        min_in_sync: sends that wait for copies are refused while the SyncStateSet has fewer members.
        sends_from_ms: all sends are refused before this time, UTC.
    """

    min_in_sync: int
    sends_from_ms: int

    @staticmethod
    def of(settings: Mapping[str, str]) -> "FencedSettings | None":
        """Return them from all settings of a broker; None if the first is not there."""
        min_in_sync = whole_number(settings.get(MIN_IN_SYNC, ""))
        if min_in_sync is None:
            return None
        return FencedSettings(min_in_sync, whole_number(settings.get(SENDS_FROM, "")) or 0)

    @property
    def is_closed(self) -> bool:
        """Whether a fence has set the first, which stops every send that waits for copies."""
        return self.min_in_sync >= CLOSED_BASE

    def closed(self) -> "FencedSettings":
        """Return what to set for a closed fence."""
        opened = self.opened()
        return FencedSettings(CLOSED_BASE + opened.min_in_sync, FENCED_MS + opened.sends_from_ms)

    def opened(self) -> "FencedSettings":
        """Return what to set for an open one."""
        return FencedSettings(
            self.min_in_sync - CLOSED_BASE * self.is_closed,
            self.sends_from_ms - FENCED_MS * (self.sends_from_ms >= FENCED_MS),
        )

    def values(self) -> dict[str, int]:
        """Return them by name, for request 25."""
        return {MIN_IN_SYNC: self.min_in_sync, SENDS_FROM: self.sends_from_ms}
