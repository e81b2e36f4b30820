"""Planned changes, of events in Python.

The rules and their reasons: `transforms.master_changes.rollouts`, which says the same of frames.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from slo_pipeline.jobs.single_pass.changes.events import (
    Event,
    Row,
    grouped,
    in_sync_steps,
    neighbours,
    of_kinds,
)
from slo_pipeline.transforms.master_changes.rollouts import (
    HANDS_OVER,
    KUBERNETES_EVENT,
    RESTART_US_MAX,
    RESTARTED,
    UNENDED_US,
)

_NOTE: Final = re.compile(r"^delete Pod (\S+) \((.*)\)$", re.ASCII)


class Rollout(NamedTuple):
    """The interval of something that was rolled out."""

    group: str
    detail: str
    interval_start: int
    interval_end: int


def rollouts(events: Sequence[Event]) -> list[Rollout]:
    """List the intervals of everything that was rolled out."""
    return [*_told(events), *_restarts(events)]


def handovers_ordered(events: Iterable[Event]) -> list[Event]:
    """Find the operator's restarts of masters."""
    return [one for one in _restarted(events) if (one["attrs"].get("message") or "").endswith(HANDS_OVER)]


def _told(events: Iterable[Event]) -> list[Rollout]:
    told = of_kinds(events, "RolloutStarted", "RolloutFinished")
    found = []
    for of in grouped(told, lambda one: (one["cluster"], one["group"])).values():
        for _, event, after in neighbours(sorted(of, key=lambda one: (one["ts"], one["event_id"]))):
            if event["kind"] != "RolloutStarted":
                continue
            is_ended = after is not None and after["kind"] == "RolloutFinished"
            end = after["ts"] if after is not None and is_ended else event["ts"] + UNENDED_US
            reason = event["attrs"].get("reason")
            found.append(Rollout(event["group"], "rollout" if reason is None else reason, event["ts"], end))
    return found


def _restarts(events: Sequence[Event]) -> list[Rollout]:
    """Find how long each restart of a member lasted."""
    steps = grouped(in_sync_steps(events), lambda row: (row["group"], row["cluster"]))
    found = []
    for event in _restarted(events):
        same = [
            of
            for (group, cluster), of in steps.items()
            if group == event["group"] and event["cluster"] in ("", cluster)
        ]
        detail = _member(event["attrs"].get("message"))
        for of in same or [[]]:
            end = _back(sorted(of, key=lambda row: (row["ts"], row["size"])), event["ts"])
            found.append(Rollout(event["group"], detail, event["ts"], end))
    return found


def _restarted(events: Iterable[Event]) -> list[Event]:
    """Keep the operator's Events of restarts."""
    return [
        one
        for one in of_kinds(events, KUBERNETES_EVENT)
        if one["attrs"].get("reason") == RESTARTED and one["attrs"].get("object_kind") == "BrokerGroup"
    ]


def _member(note: str | None) -> str:
    match = _NOTE.search(note or "")
    return f"restart of {match[1]}: {match[2]}" if match else "restart of a member"


def _back(steps: Sequence[Row], start: int) -> int:
    """Return when the SyncStateSet, smaller since `start`, had its former size again."""
    unended = start + UNENDED_US
    before = next((row["size"] for row in reversed(steps) if row["ts"] <= start), None)
    if before is None:
        return unended
    shrunk = next((row["ts"] for row in steps if start < row["ts"] <= unended and row["size"] < before), None)
    if shrunk is None:
        return unended
    back = (
        row["ts"] for row in steps if shrunk < row["ts"] <= start + RESTART_US_MAX and row["size"] >= before
    )
    return next(back, unended)
