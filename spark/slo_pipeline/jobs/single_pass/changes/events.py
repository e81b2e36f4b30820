"""Events as Python rows, and what several rules read of them.

Problem: events are few, and frames of them cost a plan each. Shape: the driver reads all of them into
dictionaries of a segment's columns, times in microseconds, in order of time. Never: an event whose time
cannot be true stays in the list; it is only counted.

The rules are those of `transforms.lag`, `rollouts` and `timing`.
"""

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Final, TypeVar

from slo_pipeline.jobs.single_pass import rows
from slo_pipeline.jobs.single_pass.plan import Task
from slo_pipeline.jobs.single_pass.times import Key, Times
from slo_pipeline.schemas.names import EVENTS_TABLE
from slo_pipeline.schemas.segments import EVENTS
from slo_pipeline.transforms.clocks import EARLIEST_US, latest_us

Event = dict[str, Any]
Row = dict[str, Any]
One = TypeVar("One")
_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_INT64_MAX: Final = (1 << 63) - 1
SET_KINDS: Final = frozenset({"SyncStateSetChanged", "MasterElected"})


def read(tasks: Iterable[Task]) -> list[Event]:
    """Return all events of tasks, one an event_id.

    Raises:
        SegmentUnusableError: a segment cannot be read.
    """
    found: list[Event] = []
    for task in tasks:
        for batch in rows.batches(task, EVENTS.names):
            found += batch.to_pylist()
    first: dict[str, Event] = {}
    for event in sorted(found, key=lambda one: (one["ts_ns"], one["clock_id"], one["sequence"])):
        event["attrs"] = dict(reversed(event["attrs"] or ()))
        first.setdefault(event["event_id"], event)
    return list(first.values())


def sifted(events: Iterable[Event], now_us: int) -> tuple[list[Event], dict[Key, tuple[int, int, int]]]:
    """Part the events whose times cannot be true from the others, and count them as `times` does."""
    kept, apart = [], dict[Key, tuple[int, int, int]]()
    for event in events:
        us = event["ts"]
        ahead = us > latest_us(now_us)
        if not ahead and us >= EARLIEST_US:
            kept.append(event)
            continue
        key = (EVENTS_TABLE, event["clock_id"], event["group"], ahead)
        count, first, last = apart.get(key, (0, us, us))
        apart[key] = (count + 1, min(first, us), max(last, us))
    return kept, apart


def spans(events: Iterable[Event], day_us: int) -> Times:
    """Return the first and last time of events by group and day."""
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for event in events:
        place, us = (event["group"], event["ts"] // day_us), event["ts"]
        first, last = found.get(place, (us, us))
        found[place] = (min(first, us), max(last, us))
    return Times(found, {})


def of_kinds(events: Iterable[Event], *kinds: str) -> list[Event]:
    """Return events of some kinds, in their order."""
    return [event for event in events if event["kind"] in kinds]


def grouped(found: Iterable[One], key: Callable[[One], Hashable]) -> dict[Any, list[One]]:
    """Return lists by key, in order."""
    by_key: dict[Any, list[One]] = {}
    for one in found:
        by_key.setdefault(key(one), []).append(one)
    return by_key


def neighbours(of: Sequence[One]) -> Iterable[tuple[One | None, One, One | None]]:
    """Yield each element between its predecessor and its successor."""
    return zip([None, *of[:-1]], of, [*of[1:], None], strict=True)


def integer(text: str | None) -> int | None:
    """Return the integer that a text says; None for any other text."""
    stripped = "" if text is None else text.strip()
    if _INTEGER.fullmatch(stripped) is None:
        return None
    number = int(stripped)
    return number if -_INT64_MAX - 1 <= number <= _INT64_MAX else None


def micros_of_nanos(text: str | None) -> int | None:
    """Return the microseconds of an attribute that holds nanoseconds; None for none, rubbish and 0."""
    nanos = integer(text)
    if not nanos:
        return None
    return nanos // 1_000 if nanos > 0 else -(-nanos // 1_000)


def members(text: str | None) -> list[str]:
    """Return the ids of a comma list, sorted."""
    return sorted(one for part in (text or "").split(",") if (one := part.strip(" ")))


def set_after(event: Event) -> str | None:
    """Return an event's `sync_state_set_after`, or its `sync_state_set` where a source says only that."""
    attrs = event["attrs"]
    after: str | None = attrs.get("sync_state_set_after")
    return attrs.get("sync_state_set") if after is None else after


def in_sync_steps(events: Iterable[Event]) -> list[Row]:
    """List every value a group's SyncStateSet took: the IN_SYNC_STEPS table."""
    steps = []
    for event in events:
        after = set_after(event)
        if event["kind"] not in SET_KINDS or after is None:
            continue
        ids = members(after)
        row = {name: event[name] for name in ("cluster", "group", "ts", "epoch")}
        steps.append(row | {"members": ",".join(ids), "size": len(ids)})
    return steps


def least(*values: int | None) -> int:
    """Return the smallest value that is known; one must be."""
    return min(value for value in values if value is not None)


def greatest(*values: int | None) -> int:
    """Return the largest value that is known; one must be."""
    return max(value for value in values if value is not None)
