"""Which of a log's oldest files may go: a pure decision from their extents, their ages and the disk's use.

    a file goes because it is old     nothing was written to it for `keep_ms`
    or because the disk is full       more than `drop_above` of it is used; as many as bring it below

Always the oldest first and without a gap; never the newest file; never one that a slave has still to read,
however full the disk is. When that does not help, the log receives nothing more above `refuse_above`: a disk
that runs full under a write ends the process, and endangers everything on the disk.

Source: CommitLog.deleteExpiredFile, DefaultMessageStore.CleanCommitLogService 5.4.0 (fileReservedTime,
diskMaxUsedSpaceRatio), without their hour of the day.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RetentionRule:
    """How long and how much; shares are of the whole disk, 0 to 1."""

    keep_ms: int
    drop_above: float
    refuse_above: float


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file of the log: its start, its length, and when it was written last (milliseconds, UTC)."""

    start_offset: int
    length_bytes: int
    written_ms: int


def new_min_offset(
    files: Sequence[LogFile],
    rule: RetentionRule,
    now_ms: int,
    used_bytes: int,
    disk_bytes: int,
    needed_offset: int,
    wanted_bytes: int = 0,
) -> int | None:
    """Return where the log is to begin, None if all files stay.

    Args:
        files: all files, ascending.
        rule: the rule.
        now_ms: UTC milliseconds, of the clock that dated the files.
        used_bytes: use of the disk, by all its users.
        disk_bytes: its size.
        needed_offset: no byte from here on may go: the least position of a slave, or the durable end of the
            log.
        wanted_bytes: what the log has to write and was refused; files go until it fits below the mark, too.
    """
    keep_from: int | None = None
    for file in files[:-1]:
        end_offset = file.start_offset + file.length_bytes
        is_old = now_ms - file.written_ms >= rule.keep_ms
        is_full = used_bytes > rule.drop_above * disk_bytes or must_refuse(
            rule, used_bytes, disk_bytes, wanted_bytes
        )
        if end_offset > needed_offset or not (is_old or is_full):
            break
        keep_from = end_offset
        used_bytes -= file.length_bytes
    return keep_from


def must_refuse(rule: RetentionRule, used_bytes: int, disk_bytes: int, wanted_bytes: int = 0) -> bool:
    """Say whether to receive nothing more, or whether the refused bytes still do not fit."""
    return used_bytes + wanted_bytes > rule.refuse_above * disk_bytes
