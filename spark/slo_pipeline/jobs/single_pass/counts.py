"""Good, bad and unknown by minute, for every objective and group, on the driver.

Problem, shape and rules: `transforms.sli`, which says the same of frames slice by slice and stays as the
second opinion in tests. Nothing that a report shows is finer than a minute, so slices are added up by the
minute in which they begin.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from slo_pipeline.jobs.period import Period
from slo_pipeline.jobs.single_pass import operations, samples
from slo_pipeline.jobs.single_pass.arrays import Bools, Ints, Runs, ints, joined, runs, sums, union
from slo_pipeline.jobs.single_pass.changes.elections import TimedChange
from slo_pipeline.jobs.single_pass.changes.events import Event, Row, grouped
from slo_pipeline.jobs.single_pass.operations import MINUTE_US, minutes_of
from slo_pipeline.jobs.single_pass.rows import numbers, texts
from slo_pipeline.jobs.single_pass.verdicts import Verdicts
from slo_pipeline.objectives.model import Objectives, Slo
from slo_pipeline.transforms.sli import CONTROLLERS
from slo_pipeline.transforms.timing import US_PER_S


class Counts(NamedTuple):
    """Minutes in order, and the counts of each."""

    minute: Ints
    good: Ints
    bad: Ints
    unknown: Ints


Table = dict[tuple[str, str], Counts]
"""By objective and group."""


class Seconds(NamedTuple):
    """The seconds of a group in the period, from `first` on and before `stop`.

    Attributes:
        sent: seconds with a send.
        failed: those with a failed one, in order.
    """

    first: int
    stop: int
    sent: Runs
    failed: Ints

    def counts(self, width_s: int) -> tuple[Ints, Ints, Ints, Ints]:
        """Count by stretches of a width: their numbers from 1970; good, bad and unknown seconds."""
        number = np.arange(self.first // width_s, (self.stop - 1) // width_s + 1, dtype=np.int64)
        low = np.maximum(number * width_s, self.first)
        high = np.minimum((number + 1) * width_s, self.stop)
        sent = self.sent.count(low, high)
        bad = np.searchsorted(self.failed, high) - np.searchsorted(self.failed, low)
        return number, sent - bad, bad, high - low - sent


class MeasuredSums(NamedTuple):
    """What the formulas read."""

    seconds: Mapping[str, Seconds]
    operations: Mapping[str, operations.OperationSums]
    samples: samples.SampleSums
    changes: Sequence[TimedChange]
    verdicts: Mapping[str, Verdicts]
    events: Sequence[Event]


def seconds(of: Mapping[str, operations.OperationSums], over: Period) -> dict[str, Seconds]:
    """Judge every second of every group from its first send to the last send of any group.

    It returns only the seconds of the period.
    """
    seen = {group: one for group, one in of.items() if len(one.seen.start)}
    end = max((int(one.seen.stop[-1]) for one in seen.values()), default=0)
    # A second begins in the period; the first of it may begin before.
    low, high = -(-over.start_us // US_PER_S), -(-over.end_us // US_PER_S)
    found = {
        group: Seconds(max(int(one.seen.start[0]), low), min(end, high), one.seen, one.failed_second)
        for group, one in seen.items()
    }
    return {group: one for group, one in found.items() if one.first < one.stop}


def counts(measured: MeasuredSums, objectives: Objectives, over: Period) -> Table:
    """Count good, bad and unknown for every objective."""
    table: Table = {}
    latency = 0
    for slo in objectives.slos:
        place = latency
        latency += slo.indicator == "send_latency"
        for group, found in _formula(measured, slo, place).items():
            kept = _within(found, over) if over.around_us else found
            if len(kept.minute):
                table[slo.name, group] = kept
    return table


def _within(of: Counts, over: Period) -> Counts:
    inside = (of.minute * MINUTE_US >= over.start_us) & (of.minute * MINUTE_US < over.end_us)
    return Counts(*[column[inside] for column in of])


def _formula(measured: MeasuredSums, slo: Slo, place: int) -> dict[str, Counts]:
    width_us = slo.slice_s * US_PER_S
    match slo.indicator:
        case "write_availability":
            return {group: _availability(of) for group, of in measured.seconds.items()}
        case "send_latency":
            return {group: _counts(*of.fast[place]) for group, of in measured.operations.items() if of.fast}
        case "replication_lag":
            return {
                group: _sliced(of.slice, of.value <= _threshold(slo), width_us)
                for group, of in measured.samples.lag.get(width_us, {}).items()
            }
        case "in_sync_ratio":
            return {
                group: _sliced(of.slice, of.value >= _threshold(slo), width_us)
                for group, of in measured.samples.in_sync.get(width_us, {}).items()
            }
        case "controller_leader":
            return _led(measured.samples, width_us)
        case "failover_duration":
            return _failovers(measured.changes, slo)
        case "durability":
            return {group: Counts(*of.counts) for group, of in measured.verdicts.items()}
        case "election_health":
            return _elections(measured.events, width_us)
        case _:
            raise ValueError(f"no formula for {slo.indicator}")


def _threshold(slo: Slo) -> float:
    if slo.value is None:
        raise ValueError(f"{slo.name}: an objective on {slo.indicator} has a threshold")
    return slo.value


def _counts(minute: Ints, good: Ints, bad: Ints) -> Counts:
    return Counts(minute, good, bad, np.zeros(len(minute), np.int64))


def _availability(of: Seconds) -> Counts:
    return Counts(*of.counts(MINUTE_US // US_PER_S))


def _sliced(slices: Ints, good: Bools, width_us: int) -> Counts:
    """Count the slices of a group; those between its first and last one without a state are unknown.

    Args:
        slices: numbered from 1970, in order; at least one.
        good: whether each is good.
        width_us: of a slice.
    """
    first = int(slices[0])
    every = np.arange(first, int(slices[-1]) + 1, dtype=np.int64)
    is_good, is_known = np.zeros(len(every), np.bool_), np.zeros(len(every), np.bool_)
    is_good[slices - first], is_known[slices - first] = good, True
    minute = every * width_us // MINUTE_US
    return Counts(*sums(minute, is_good, is_known & ~is_good, ~is_known))


def _led(of: samples.SampleSums, width_us: int) -> dict[str, Counts]:
    """Judge whether a controller led in each slice, and never two in one term."""
    leading = of.leading.get(width_us, samples.Leading())
    silent = [one for name, one in leading.silent.items() if name in of.controllers]
    known = union([leading.answered, *silent])
    if not len(known.start):
        return {}
    led = union([leading.led, runs(ints(start for start, _ in leading.cut))])
    rivals = runs(ints(start for (start, _), found in leading.cut.items() if len(found) > 1))
    slices = joined(np.arange(low, high) for low, high in zip(known.start, known.stop, strict=True))
    good = led.without(union([leading.rivalled, rivals])).holds(slices)
    return {CONTROLLERS: _sliced(slices, good, width_us)}


def _failovers(changes: Iterable[TimedChange], slo: Slo) -> dict[str, Counts]:
    found = {}
    for group, of in grouped(
        [one for one in changes if one.booking == "failover"], lambda one: one.group
    ).items():
        at = minutes_of(ints(one.elected_ts for one in of), slo.slice_s * US_PER_S)
        gaps = [one.write_gap_ms for one in of]
        good = np.array([gap is not None and gap <= _threshold(slo) for gap in gaps], np.bool_)
        unknown = np.array([gap is None for gap in gaps], np.bool_)
        found[group] = Counts(*sums(at, good, ~good & ~unknown, unknown))
    return found


def _elections(events: Iterable[Event], width_us: int) -> dict[str, Counts]:
    told = [one for one in events if one["kind"] in ("MasterElected", "ElectionFailed")]
    found = {}
    for group, of in grouped(told, lambda one: one["group"]).items():
        at = minutes_of(ints(one["ts"] for one in of), width_us)
        failed = np.array([one["kind"] == "ElectionFailed" for one in of], np.bool_)
        found[group] = Counts(*sums(at, ~failed, failed, np.zeros(len(of), np.bool_)))
    return found


def of_table(minutes: pa.Table) -> Table:
    """Return the counts of SLI_COUNTS by minute, of columns as `single_pass.rows` makes them."""
    slo, group = texts(minutes, "slo"), texts(minutes, "group")
    columns = [numbers(minutes, name) for name in ("good", "bad", "unknown")]
    minute = numbers(minutes, "ts") // MINUTE_US
    series = slo.code * max(len(group.text), 1) + group.code
    order = np.argsort(series, kind="stable")
    table: Table = {}
    for own in np.split(order, np.flatnonzero(np.diff(series[order])) + 1):
        if len(own):
            key = (slo.text[slo.code[own[0]]], group.text[group.code[own[0]]])
            table[key] = Counts(*sums(minute[own], *[column[own] for column in columns]))
    return table


def rows(table: Table) -> list[Row]:
    """Return the counts as rows of SLI_COUNTS, in order."""
    return [
        {"slo": slo, "group": group, "ts": minute * MINUTE_US, "good": good, "bad": bad, "unknown": unknown}
        for (slo, group), of in sorted(table.items())
        for minute, good, bad, unknown in zip(*[column.tolist() for column in of], strict=True)
    ]
