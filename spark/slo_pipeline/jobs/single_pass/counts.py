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
from slo_pipeline.jobs.single_pass.arrays import Bools, Ints, ints, sums
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
    """Every second of a group, from `first` on."""

    first: int
    good: Bools
    bad: Bools

    @property
    def unknown(self) -> Bools:
        """Return the seconds without a send."""
        return ~self.good & ~self.bad


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
    found = {}
    for group, one in seen.items():
        first = int(one.seen.start[0])
        sent = np.zeros(end - first, np.bool_)
        for start, stop in zip(one.seen.start - first, one.seen.stop - first, strict=True):
            sent[start:stop] = True
        bad = np.zeros(end - first, np.bool_)
        bad[one.failed_second - first] = True
        # A second begins in the period; the first of it may begin before.
        low = max(-(-over.start_us // US_PER_S) - first, 0)
        high = max(-(-over.end_us // US_PER_S) - first, 0)
        if len(sent[low:high]):
            found[group] = Seconds(first + low, (sent & ~bad)[low:high], bad[low:high])
    return found


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
            worst = measured.samples.lag.get(width_us, {})
            return _sliced({key: value <= _threshold(slo) for key, value in worst.items()}, width_us)
        case "in_sync_ratio":
            worst = measured.samples.in_sync.get(width_us, {})
            return _sliced({key: value >= _threshold(slo) for key, value in worst.items()}, width_us)
        case "controller_leader":
            return _sliced(_led(measured.samples, width_us), width_us)
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
    at = np.arange(of.first, of.first + len(of.good), dtype=np.int64) * US_PER_S // MINUTE_US
    return Counts(*sums(at, of.good, of.bad, of.unknown))


def _sliced(states: Mapping[tuple[str, int], bool], width_us: int) -> dict[str, Counts]:
    """Count the slices of each group; those between its first and last one without a state are unknown."""
    found = {}
    for group, keys in grouped(states, lambda key: key[0]).items():
        starts = np.sort(ints(start for _, start in keys))
        good = np.array([states[group, int(start)] for start in starts], np.bool_)
        every = np.arange(starts[0], starts[-1] + 1, width_us, dtype=np.int64)
        place = (starts - starts[0]) // width_us
        is_good, is_known = np.zeros(len(every), np.bool_), np.zeros(len(every), np.bool_)
        is_good[place], is_known[place] = good, True
        found[group] = Counts(*sums(every // MINUTE_US, is_good, is_known & ~is_good, ~is_known))
    return found


def _led(of: samples.SampleSums, width_us: int) -> dict[tuple[str, int], bool]:
    """Tell of each slice whether a controller led, and never two in one term."""
    leading = of.leading.get(width_us, samples.Leading())
    silent = {start for start, instances in leading.silent.items() if instances & of.controllers}
    led = {start for start, _ in leading.leaders}
    rivalled = {start for (start, _), instances in leading.leaders.items() if len(instances) > 1}
    return {
        (CONTROLLERS, start): start in led and start not in rivalled for start in leading.answered | silent
    }


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
