"""Which bytes of the log belong to which master: epoch entries, their list, and where two logs part.

The problem. Every master writes under an epoch that the controller gave it, and each replica remembers
`<epoch, start offset>` for every epoch it holds. When a replica meets a new master, the two lists alone must
tell how much of the replica's log the master has too; everything behind that point is a diverged tail and
must go.

The shape. `EpochEntry` is one pair; `EpochList` is an immutable ascending list of them with the operations of
RocketMQ's epoch cache; `truncation_point` compares two lists. An entry's end offset is never stored: it is
the next entry's start, and the last entry is open. Java keeps ends in mutable entries and lets some of them
go stale after a truncation (its last entry stays closed until the next append); here an end is always
computed, so that cannot happen.

This module never touches a file and never guesses: where the protocol proves no common prefix, it says so.

Source: RocketMQ docs/en/controller/design.md "Truncation algorithm"; EpochFileCache.java 5.4.0.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final, Self

from controller_core.remoting.numbers import LogOffset

NO_EPOCH: Final = -1
"""What `EpochList.last_epoch` says of an empty list, as on the wire."""

OPEN_END_OFFSET: Final = LogOffset(2**63 - 1)
"""End offset of the newest epoch: Java's Long.MAX_VALUE."""

EPOCH_MAX: Final = 2**31 - 1
OFFSET_MAX: Final = 2**63 - 1


class EpochOrderError(ValueError):
    """Entries that do not ascend in both epoch and start offset, or lie outside their ranges."""


@dataclass(frozen=True, slots=True)
class EpochEntry:
    """One master epoch and the offset in bytes at which its part of the log starts."""

    epoch: int
    start_offset: LogOffset


class EpochList:
    """An immutable list of epoch entries.

    Invariant: epochs and start offsets both strictly ascend; all are within their wire ranges.
    """

    __slots__ = ("_entries",)

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        """Take the entries in ascending order; raise `EpochOrderError` when they are not."""
        self._entries: Final = tuple(entries)
        previous: EpochEntry | None = None
        for entry in self._entries:
            _check_range(entry)
            if previous is not None and not _follows(previous, entry):
                raise EpochOrderError(f"{_text(entry)} does not follow {_text(previous)}")
            previous = entry

    @classmethod
    def of(cls, *pairs: tuple[int, int]) -> Self:
        """Build a list from `(epoch, start_offset)` pairs."""
        return cls(EpochEntry(epoch, LogOffset(start_offset)) for epoch, start_offset in pairs)

    def __iter__(self) -> Iterator[EpochEntry]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EpochList) and self._entries == other._entries

    def __hash__(self) -> int:
        return hash(self._entries)

    def __repr__(self) -> str:
        return "EpochList{" + ", ".join(_text(entry) for entry in self._entries) + "}"

    @property
    def first(self) -> EpochEntry | None:
        """The oldest entry, None when empty."""
        return self._entries[0] if self._entries else None

    @property
    def last(self) -> EpochEntry | None:
        """The newest entry, None when empty."""
        return self._entries[-1] if self._entries else None

    @property
    def last_epoch(self) -> int:
        """The newest epoch, `NO_EPOCH` when empty."""
        return self._entries[-1].epoch if self._entries else NO_EPOCH

    def get(self, epoch: int) -> EpochEntry | None:
        """Return the entry of exactly this epoch."""
        number = bisect_left(self._entries, epoch, key=_epoch_of)
        found = self._entries[number] if number < len(self._entries) else None
        return found if found is not None and found.epoch == epoch else None

    def next_after(self, epoch: int) -> EpochEntry | None:
        """Return the entry with the smallest epoch above `epoch`."""
        number = bisect_right(self._entries, epoch, key=_epoch_of)
        return self._entries[number] if number < len(self._entries) else None

    def end_offset(self, epoch: int) -> LogOffset:
        """Return where the epoch's part ends (exclusive): the next entry's start, or `OPEN_END_OFFSET`."""
        following = self.next_after(epoch)
        return OPEN_END_OFFSET if following is None else following.start_offset

    def find_by_offset(self, offset: LogOffset) -> EpochEntry | None:
        """Return the entry whose part holds the byte at `offset`, None before the first start."""
        number = bisect_right(self._entries, offset, key=_start_of)
        return self._entries[number - 1] if number else None

    def accepts(self, entry: EpochEntry) -> bool:
        """Say whether `appended(entry)` would succeed.

        Source: EpochFileCache.appendEntry: refused unless both epoch and start offset grow.
        """
        return self.last is None or _follows(self.last, entry)

    def appended(self, entry: EpochEntry) -> "EpochList":
        """Return this list with one newer entry; raise `EpochOrderError` when it is not newer."""
        _check_range(entry)
        if not self.accepts(entry):
            raise EpochOrderError(f"{_text(entry)} does not follow {_text(self._entries[-1])}")
        return _of_valid((*self._entries, entry))

    def opened(self, epoch: int, end_offset: LogOffset) -> "EpochList":
        """Return the list of a replica whose log ends at `end_offset` and that begins to write in `epoch`.

        Entries without a byte give way to the new one. Java keeps such an entry and drops the new one, since
        its start does not grow; later bytes then go under an epoch in which another master may have written
        something else at the same offsets, and the two logs pass for equal.

        Raises:
            EpochOrderError: bytes of this epoch, or of a later one, are there already.
        """
        return self.truncate_suffix_by_offset(end_offset).appended(EpochEntry(epoch, end_offset))

    def truncate_suffix_by_offset(self, offset: LogOffset) -> "EpochList":
        """Return the entries that start below `offset`: Java's rule after a truncation of the log."""
        return self._part(0, bisect_left(self._entries, offset, key=_start_of))

    def starting_up_to(self, max_offset: LogOffset) -> "EpochList":
        """Return the entries that start at or below `max_offset`, the log's end.

        Not Java's rule: Java drops an entry that starts exactly at the end, then never announces it again on
        a plain reconnect, and the replica's next bytes carry the older epoch. An empty newest epoch is a true
        fact about the log and stays in the list.
        """
        return self._part(0, bisect_right(self._entries, max_offset, key=_start_of))

    def truncate_prefix_by_offset(self, offset: LogOffset) -> "EpochList":
        """Return the entries whose end lies above `offset`; the newest, being open, always stays.

        Source: EpochFileCache.truncatePrefixByOffset, called after deletion of files with min offset - 1.
        """
        # An entry's end is the start of the next one.
        first = bisect_right(self._entries, offset, key=_start_of) - 1
        return self._part(max(first, 0), len(self._entries))

    def _part(self, first: int, end: int) -> "EpochList":
        is_whole = first == 0 and end >= len(self._entries)
        return self if is_whole else _of_valid(self._entries[first:end])


def _of_valid(entries: tuple[EpochEntry, ...]) -> EpochList:
    """Return the list of entries that are known to ascend, in O(1)."""
    made = EpochList.__new__(EpochList)
    object.__setattr__(made, "_entries", entries)
    return made


def _epoch_of(entry: EpochEntry) -> int:
    return entry.epoch


def _start_of(entry: EpochEntry) -> LogOffset:
    return entry.start_offset


class PointRule(Enum):
    """Why `truncation_point` chose its offset, or why it found none."""

    COMMON_EPOCH = "CommonEpoch"
    """Both lists hold the same entry: the shorter end of it."""
    RESTARTED_EPOCH = "RestartedEpoch"
    """The master rewrote its own epoch's start after a restart: everything below the new start is common."""
    NO_COMMON_EPOCH = "NoCommonEpoch"
    """No entry in common: nothing in the protocol proves a shared prefix."""
    EPOCH_START_MOVED_BACK = "EpochStartMovedBack"
    """The master's own epoch now starts earlier than it did: it lost bytes of an older epoch too."""


@dataclass(frozen=True, slots=True)
class TruncationPoint:
    """Where two logs part.

    The offset in bytes (None when no common prefix is proven) and the rule that said so.
    """

    offset: LogOffset | None
    rule: PointRule


def truncation_point(
    own: EpochList,
    own_max_offset: LogOffset,
    master: EpochList,
    master_max_offset: LogOffset,
    restarted_epoch: int | None = None,
) -> TruncationPoint:
    """Return the end of the prefix that the replica's log shares with the master's.

    Own entries are tried from newest to oldest; the first one that the master holds with the same start is
    common, up to the nearer of its two ends (a log's max offset ends its newest entry).

    `restarted_epoch` names the one epoch, if any, that the caller knows to be written by the same master then
    and now. A Java master that restarts and is confirmed under its old epoch E replaces (E, s1) by (E, its
    max offset): the lists then share no entry for E although the logs are equal below s2, since one epoch has
    one master and its log only grows. Java itself finds no point there and retries for ever, or falls back a
    whole epoch. Never name an epoch that another master may have written, nor any while unclean elections are
    allowed.

    Source: EpochFileCache.findConsistentPoint 5.4.0; AutoSwitchHAService.changeToMaster for the rewritten
    start.
    """
    for entry in reversed(tuple(own)):
        theirs = master.get(entry.epoch)
        if theirs is None:
            continue
        own_end_offset = min(own.end_offset(entry.epoch), own_max_offset)
        if theirs.start_offset == entry.start_offset:
            master_end_offset = min(master.end_offset(entry.epoch), master_max_offset)
            return TruncationPoint(min(own_end_offset, master_end_offset), PointRule.COMMON_EPOCH)
        if entry.epoch != restarted_epoch:
            continue
        if theirs.start_offset > entry.start_offset:
            return TruncationPoint(min(own_end_offset, theirs.start_offset), PointRule.RESTARTED_EPOCH)
        return TruncationPoint(None, PointRule.EPOCH_START_MOVED_BACK)
    return TruncationPoint(None, PointRule.NO_COMMON_EPOCH)


def _follows(previous: EpochEntry, entry: EpochEntry) -> bool:
    return entry.epoch > previous.epoch and entry.start_offset > previous.start_offset


def _check_range(entry: EpochEntry) -> None:
    # A negative epoch could not be stored either: '-' separates the two numbers in the file.
    if not 0 <= entry.epoch <= EPOCH_MAX or not 0 <= entry.start_offset <= OFFSET_MAX:
        raise EpochOrderError(f"{_text(entry)} is out of range")


def _text(entry: EpochEntry) -> str:
    return f"{entry.epoch}:{entry.start_offset}"
