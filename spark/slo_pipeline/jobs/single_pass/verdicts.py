"""What became of each message: counts from runs of messages, on the driver.

Problem: a message's send and its read may be in different windows. Shape: sends and reads came as runs; how
many of a run were read is two binary searches. The few that were not read are judged by a second look
(`again`). The rules are those of `transforms.durability`.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from slo_pipeline.jobs.single_pass import again
from slo_pipeline.jobs.single_pass.arrays import Ints, Runs, ints, joined, sums
from slo_pipeline.jobs.single_pass.operations import (
    MINUTE_US,
    OK,
    OPEN,
    REFUSED,
    UNANSWERED,
    OperationSums,
    Sent,
)

Row = dict[str, Any]
Counts = tuple[Ints, Ints, Ints, Ints]


class Verdicts(NamedTuple):
    """Of one group that is read back and sent something in the period.

    Attributes:
        row: of DURABILITY, but for `lost` and `pending`.
        counts: minutes; read back, lost and pending messages in them; without the unread ones.
        unread: what the second look needs; None if every message was read back.
    """

    row: Row
    counts: Counts
    unread: again.Unread | None


def verdicts(sums_by_group: Mapping[str, OperationSums]) -> dict[str, Verdicts]:
    """Judge all messages of groups that are read back, but for those that were not read."""
    return {
        group: _of_group(group, of)
        for group, of in sums_by_group.items()
        if of.is_read and any(len(sent.start) for sent in of.sent)
    }


def _of_group(group: str, of: OperationSums) -> Verdicts:
    read = of.was_read.without(of.was_missed)

    def found(kind: int, among: Runs) -> Ints:
        return among.count(of.sent[kind].start, of.sent[kind].stop)

    acknowledged = [of.sent[OK], of.sent[UNANSWERED]]
    count = sum(_size(one) for one in acknowledged)
    read_back = int(found(OK, read).sum() + found(UNANSWERED, read).sum())
    ambiguous_found = int(found(REFUSED, of.was_read).sum() + found(OPEN, of.was_read).sum())
    row = {
        "group": group,
        "acknowledged": count,
        "read_back": read_back,
        "lost": 0,
        "pending": 0,
        "ambiguous": _size(of.sent[OPEN]) + int(found(REFUSED, of.was_read).sum()),
        "ambiguous_found": ambiguous_found,
    }
    minute, good = sums(of.sent[OK].minute, found(OK, read))
    nothing = np.zeros(len(minute), np.int64)
    unread = None
    if read_back < count:
        lacking = [
            sent.minute[among.count(sent.start, sent.stop) < sent.stop - sent.start]
            for sent, among in zip(acknowledged, (read, read), strict=True)
        ]
        minutes = joined(lacking)
        start_us, end_us = int(minutes.min()) * MINUTE_US, (int(minutes.max()) + 2) * MINUTE_US
        unread = again.Unread(read, of.was_missed, of.last_read, start_us, end_us)
    return Verdicts(row, (minute, good, nothing, nothing), unread)


def _size(sent: Sent) -> int:
    return int((sent.stop - sent.start).sum())


def completed(judged: Mapping[str, Verdicts], found: again.Found) -> dict[str, Verdicts]:
    """Add what the second look found: lost and pending messages."""
    lost: dict[str, int] = {}
    for row in found.lost:
        lost[row["group"]] = lost.get(row["group"], 0) + 1
    whole = {}
    for group, one in judged.items():
        parts = [
            one.counts,
            *[(minute, *_none(minute), bad, open_) for minute, bad, open_ in found.counts.get(group, [])],
        ]
        counts = sums(*[joined(part[place] for part in parts) for place in range(4)])
        row = one.row | {"lost": lost.get(group, 0), "pending": found.pending.get(group, 0)}
        whole[group] = Verdicts(row, (counts[0], counts[1], counts[2], counts[3]), one.unread)
    return whole


def _none(like: Ints) -> tuple[Ints]:
    return (ints([0] * len(like)),)
