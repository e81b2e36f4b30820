"""Burn rates and pages of counts by minute, on the driver.

Problem, shape and rules: `transforms.burn`, which says the same of frames and stays as the second opinion in
tests.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from slo_pipeline.jobs.single_pass.arrays import Floats, Ints, ints
from slo_pipeline.jobs.single_pass.changes.events import Row
from slo_pipeline.jobs.single_pass.counts import Counts, Table
from slo_pipeline.jobs.single_pass.operations import MINUTE_US
from slo_pipeline.objectives.model import BurnAlert, Objectives, seconds
from slo_pipeline.transforms.burn import STATUS_WINDOWS


class _Dense(NamedTuple):
    """Sums so far of every minute from the first one of a series to the last one of all."""

    first: int
    good: Ints
    bad: Ints

    def ratio(self, window: str) -> Floats:
        """Return the bad share of the window that ends with each minute; NaN where nothing was counted."""
        count = seconds(window) // 60
        good, bad = (so_far - _earlier(so_far, count) for so_far in (self.good, self.bad))
        total = good + bad
        return np.where(total > 0, bad / np.maximum(total, 1), np.nan)


def _earlier(so_far: Ints, count: int) -> Ints:
    """Return the sums so many minutes before, 0 before the first."""
    before = np.zeros(len(so_far), np.int64)
    if count < len(so_far):
        before[count:] = so_far[:-count]
    return before


def status_and_pages(table: Table, objectives: Objectives) -> tuple[list[Row], list[Row]]:
    """Return the SLO_STATUS and PAGES tables."""
    slos = {slo.name: slo for slo in objectives.slos}
    end = max((int(of.minute[-1]) for of in table.values()), default=0)
    status: list[Row] = []
    pages: list[Row] = []
    for (name, group), of in sorted(table.items()):
        dense = _dense(of, end)
        allowed = slos[name].allowed
        status.append({"slo": name, "group": group} | _status(of, dense, allowed))
        for alert in objectives.alerting:
            pages += [{"slo": name, "group": group} | row for row in _pages(dense, alert, allowed)]
    return status, pages


def _dense(of: Counts, end: int) -> _Dense:
    first = int(of.minute[0])
    columns = [np.zeros(end - first + 1, np.int64) for _ in range(2)]
    for column, values in zip(columns, (of.good, of.bad), strict=True):
        column[of.minute - first] = values
    return _Dense(first, *[np.cumsum(column) for column in columns])


def _status(of: Counts, dense: _Dense, allowed: float) -> Row:
    good, bad, unknown = (int(column.sum()) for column in (of.good, of.bad, of.unknown))
    row: Row = {"good": good, "bad": bad, "unknown": unknown}
    row["attained"] = good / (good + bad) if good + bad else None
    for window in STATUS_WINDOWS:
        ratio = float(dense.ratio(window)[-1])
        row[f"burn_{window}"] = None if np.isnan(ratio) or not allowed else ratio / allowed
    return row


def _pages(dense: _Dense, alert: BurnAlert, allowed: float) -> list[Row]:
    limit = alert.threshold * allowed
    fires = (dense.ratio(alert.lookbackWindow) > limit) & (dense.ratio(alert.shortWindow) > limit)
    return [
        {
            "severity": alert.severity,
            "burn_rate": alert.threshold,
            "long_window": alert.lookbackWindow,
            "short_window": alert.shortWindow,
            "start_ts": (dense.first + start) * MINUTE_US,
            "end_ts": (dense.first + stop) * MINUTE_US,
        }
        for start, stop in _islands(np.flatnonzero(fires).tolist())
    ]


def _islands(places: Sequence[int]) -> list[tuple[int, int]]:
    """Return runs of neighbouring numbers, half-open."""
    at = ints(places)
    if not len(at):
        return []
    cut = np.flatnonzero(np.diff(at) > 1)
    first, last = np.append(0, cut + 1), np.append(cut, len(at) - 1)
    return [(int(at[low]), int(at[high]) + 1) for low, high in zip(first, last, strict=True)]
