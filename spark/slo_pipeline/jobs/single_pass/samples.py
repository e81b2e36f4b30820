"""Partial sums of a window of samples, in a task.

Problem: a formula compares gauges of one scrape, and a slice is judged by its worst scrape. Shape: a window
holds whole scrapes, so each is judged here; slices keep what windows can add up: a worst value, or the set of
leaders of a term where two windows divide a slice. A month has millions of slices: they are arrays and runs
of numbers. Never: a slice is called good or bad here; the driver does it.

The rules are those of `transforms.sli`, `lag` and `quality`.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slo_pipeline.jobs.period import Period
from slo_pipeline.jobs.single_pass import rows
from slo_pipeline.jobs.single_pass.arrays import (
    NO_RUNS,
    Floats,
    Ints,
    Runs,
    Weighted,
    added,
    by_name,
    ints,
    joined,
    quantile,
    runs,
    union,
    weighted,
    worst_by,
)
from slo_pipeline.jobs.single_pass.plan import Task, holding
from slo_pipeline.transforms.counters import UP
from slo_pipeline.transforms.lag import LAG_METRIC
from slo_pipeline.transforms.quality import GAP_RHYTHMS
from slo_pipeline.transforms.sli import (
    IN_SYNC_METRIC,
    LEADER_ROLE,
    REGISTERED_METRIC,
    ROLE_METRIC,
    SET_SIZE_METRIC,
    TERM_METRIC,
)
from slo_pipeline.transforms.timing import US_PER_S

SCRAPE_COLUMNS: Final = ("ts", "metric", "value", "instance", "instance_uid")
COLUMNS: Final = (*SCRAPE_COLUMNS, "labels")
GAUGES: Final = (LAG_METRIC, IN_SYNC_METRIC, SET_SIZE_METRIC, REGISTERED_METRIC, ROLE_METRIC, TERM_METRIC, UP)
Row = dict[str, Any]


class SamplesLook(NamedTuple):
    """Settings, the same for every task.

    Attributes:
        over: the period.
        now_us: when the run is.
        lag_us, in_sync_us, leader_us: widths of the slices of objectives on these.
        plots: whether the stretches of the lag plot are needed.
    """

    over: Period
    now_us: int
    lag_us: frozenset[int]
    in_sync_us: frozenset[int]
    leader_us: frozenset[int]
    plots: bool = True


@dataclass
class Leading:
    """What the slices of one width say of the controllers.

    Slices are numbered from 1970.

    Attributes:
        answered: slices in which a controller told its role.
        silent: by instance, slices in which it did not answer a scrape.
        led: slices with a leader.
        rivalled: slices with two leaders in one term.
        cut: of slices that other tasks have a part of: the instances that led in a term.
    """

    answered: Runs = NO_RUNS
    silent: dict[str, Runs] = field(default_factory=dict)
    led: Runs = NO_RUNS
    rivalled: Runs = NO_RUNS
    cut: dict[tuple[int, float | None], frozenset[str]] = field(default_factory=dict)


class Worst(NamedTuple):
    """Slices in order, numbered from 1970, and the worst value in each."""

    slice: Ints
    value: Floats


@dataclass
class Scrapes:
    """The scrapes of one instance in a window.

    Attributes:
        first_us, last_us: times.
        first_uid, last_uid: processes.
        count: how many.
        restarts: how often another process answered.
        steps: microseconds between neighbours.
    """

    first_us: int
    last_us: int
    first_uid: str
    last_uid: str
    count: int
    restarts: int
    steps: Weighted


@dataclass
class SampleSums:
    """What a window says.

    Attributes:
        scrapes: by instance.
        lag_points: worst lag by group, broker, instance and stretch.
        lag, in_sync: by width of a slice, then by group.
        controllers: instances that ever told a role.
        leading: by width of a slice.
    """

    scrapes: dict[str, Scrapes] = field(default_factory=dict)
    lag_points: dict[tuple[str, str, str, int], float] = field(default_factory=dict)
    lag: dict[int, dict[str, Worst]] = field(default_factory=dict)
    in_sync: dict[int, dict[str, Worst]] = field(default_factory=dict)
    controllers: set[str] = field(default_factory=set)
    leading: dict[int, Leading] = field(default_factory=dict)


def of_task(task: Task, look: SamplesLook) -> SampleSums:
    """Read and add up a task's samples."""
    with_gauges = holding(task, GAUGES)
    # The labels of a sample cost more to read than the rest of it.
    is_apart = with_gauges != task
    table = rows.read(task, SCRAPE_COLUMNS if is_apart else COLUMNS, look.now_us)
    made = SampleSums()
    over = look.over
    at = rows.numbers(table, "ts")
    inside = (at >= over.start_us) & (at < over.end_us)
    made.scrapes = _scrapes(table.filter(pa.array(inside)))
    if is_apart:
        table = rows.read(with_gauges, COLUMNS, look.now_us)
    gauges = _with_labels(table.filter(pa.array(rows.texts(table, "metric").is_in(*GAUGES))))
    made.controllers = set(_where(gauges, ROLE_METRIC)["instance"].unique().to_pylist())
    gauges = gauges.filter(rows.call("invert", rows.call("is_nan", gauges["value"])))
    if look.plots:
        made.lag_points = _lag_points(gauges, over)
    made.lag = {width: _worst(_lags(gauges), width, np.maximum) for width in look.lag_us}
    made.in_sync = {width: _worst(_shares(gauges), width, np.minimum) for width in look.in_sync_us}
    made.leading = {width: _leading(gauges, width, task) for width in look.leader_us}
    return made


def _with_labels(gauges: pa.Table) -> pa.Table:
    texts = {name: gauges[name].cast(pa.string()) for name in ("metric", "instance")}
    for name in ("group", "broker_id", "cluster"):
        options = pc.MapLookupOptions(pa.scalar(name), "first")
        texts[name] = rows.call("map_lookup", gauges["labels"], options=options)
    return pa.table({"ts": gauges["ts"], "value": gauges["value"], **texts})


def _where(table: pa.Table, metric: str) -> pa.Table:
    return table.filter(rows.call("equal", table["metric"], pa.scalar(metric)))


def _scrapes(table: pa.Table) -> dict[str, Scrapes]:
    instance, metric, uid = (rows.texts(table, name) for name in ("instance", "metric", "instance_uid"))
    at, value = rows.numbers(table, "ts"), table["value"].to_numpy()
    # CodedTexts in order have ranks that compare as they do.
    rank = np.argsort(np.argsort(np.array(uid.text, dtype=object))) if uid.text else ints()
    by_rank = sorted(uid.text)
    failed = metric.is_in(UP) & (value == 0.0)
    found: dict[str, Scrapes] = {}
    for name, own in instance.places():
        times, place = np.unique(at[own], return_inverse=True)
        highest = np.zeros(len(times), np.int64)
        np.maximum.at(highest, place, rank[uid.code[own]])
        kept = np.bincount(place, failed[own], len(times)) == 0
        if kept.any():
            found[name] = _of_instance(times[kept], [by_rank[one] for one in highest[kept]])
    return found


def _of_instance(times: Any, uids: Sequence[str]) -> Scrapes:  # noqa: ANN401 - an array of numbers
    steps = weighted(np.diff(times))
    restarts = sum(_is_other(before, after) for before, after in itertools.pairwise(uids))
    return Scrapes(int(times[0]), int(times[-1]), uids[0], uids[-1], len(times), restarts, steps)


def _is_other(before: str, after: str) -> bool:
    return before != after and before != "" and after != ""


def _lag_points(gauges: pa.Table, over: Period) -> dict[tuple[str, str, str, int], float]:
    lags = _where(gauges, LAG_METRIC)
    at = rows.numbers(lags, "ts")
    lags = lags.append_column("stretch", pa.array(at // over.stretch_us * over.stretch_us))
    lags = lags.filter(pa.array((at >= over.start_us) & (at < over.end_us)))
    worst = lags.group_by(["group", "broker_id", "instance", "stretch"]).aggregate([("value", "max")])
    points: dict[tuple[str, str, str, int], float] = {}
    for row in worst.to_pylist():
        key = (row["group"] or "", row["broker_id"] or "", row["instance"], row["stretch"])
        value: float = row["value_max"]
        points[key] = max(points.get(key, value), value)
    return points


def _beside(gauges: pa.Table, key: Sequence[str], **metrics: str) -> pa.Table:
    """Lay gauges of one scrape beside each other: instance, ts, the key's columns, one column a metric."""
    chosen = gauges.filter(
        rows.call("is_in", gauges["metric"], options=pc.SetLookupOptions(pa.array(list(metrics.values()))))
    )
    for name, metric in metrics.items():
        own = rows.call("equal", chosen["metric"], pa.scalar(metric))
        chosen = chosen.append_column(
            name, rows.call("if_else", own, chosen["value"], pa.scalar(None, pa.float64()))
        )
    found = chosen.group_by(["instance", "ts", *key]).aggregate([(name, "max") for name in metrics])
    return found.rename_columns([name.removesuffix("_max") for name in found.column_names])


def _lags(gauges: pa.Table) -> pa.Table:
    """Return the lag of each replica that counts as in sync: group, ts, value."""
    seen = _beside(gauges, ("group", "broker_id"), lag=LAG_METRIC, in_sync=IN_SYNC_METRIC)
    in_sync = rows.call("equal", rows.call("coalesce", seen["in_sync"], pa.scalar(1.0)), pa.scalar(1.0))
    seen = seen.filter(rows.call("and", rows.call("is_valid", seen["lag"]), in_sync))
    return pa.table({"group": seen["group"], "ts": seen["ts"], "value": seen["lag"]})


def _shares(gauges: pa.Table) -> pa.Table:
    """Return the shares of members in sync that the leader saw: group, ts, value."""
    seen = _beside(gauges, ("cluster", "group"), size=SET_SIZE_METRIC, registered=REGISTERED_METRIC)
    some = rows.call("coalesce", rows.call("greater", seen["registered"], pa.scalar(0.0)), pa.scalar(False))
    seen = seen.filter(rows.call("and", rows.call("is_valid", seen["size"]), some))
    roles = _where(gauges, ROLE_METRIC)
    leaders = roles.filter(rows.call("equal", roles["value"], pa.scalar(LEADER_ROLE)))
    seen = seen.join(leaders.select(["instance", "ts"]), ["instance", "ts"], join_type="left semi")
    share = rows.call("divide", seen["size"], seen["registered"])
    return pa.table({"group": seen["group"], "ts": seen["ts"], "value": share})


def _worst(values: pa.Table, width_us: int, worse: np.ufunc) -> dict[str, Worst]:
    """Return the largest or smallest value of each group and slice."""
    named = values.filter(rows.call("is_valid", values["group"]))
    group = rows.coded_texts(named["group"])
    at, value = rows.numbers(named, "ts") // width_us, named["value"].to_numpy()
    return {name: Worst(*worst_by(at[own], value[own], worse)) for name, own in group.places()}


def _leading(gauges: pa.Table, width_us: int, task: Task) -> Leading:
    seen = _beside(gauges, (), role=ROLE_METRIC, term=TERM_METRIC, up=UP)
    at = rows.numbers(seen, "ts") // width_us
    role, term, up = (seen[name].to_numpy() for name in ("role", "term", "up"))
    is_told, instance = ~np.isnan(role), rows.coded_texts(seen["instance"])
    is_silent = ~is_told & (up == 0.0)
    silent = {name: runs(at[own[is_silent[own]]]) for name, own in instance.places()}
    made = Leading(runs(at[is_told]), {name: of for name, of in silent.items() if len(of.start)})
    leads = np.flatnonzero(role == LEADER_ROLE)
    if len(leads):
        _leaders(at[leads], term[leads], instance.among(leads), width_us, task, made)
    return made


def _leaders(
    at: Ints, term: Floats, instance: rows.CodedTexts, width_us: int, task: Task, made: Leading
) -> None:
    """Find the slices with leaders: judged here if no other task has a part of them."""
    terms, place = np.unique(term, return_inverse=True)
    first, by = int(at.min()), len(instance.text)
    led = np.unique(((at - first) * len(terms) + place) * by + instance.code)
    pair = led // by
    begin = pair // len(terms) + first
    is_whole = (begin * width_us >= task.start_us) & ((begin + 1) * width_us <= task.end_us)
    is_whole &= task.parts_of == 1
    made.led = runs(begin[is_whole])
    made.rivalled = runs(begin[1:][is_whole[1:] & (np.diff(pair) == 0)])
    for one in np.flatnonzero(~is_whole):
        of_term = float(terms[pair[one] % len(terms)])
        key = (int(begin[one]), None if math.isnan(of_term) else of_term)
        made.cut[key] = made.cut.get(key, frozenset()) | {instance.text[led[one] % by]}


def merged(parts: Sequence[SampleSums]) -> SampleSums:
    """Put together the sums of windows, in order of time."""
    whole = SampleSums()
    for part in parts:
        whole.controllers |= part.controllers
        for key, value in part.lag_points.items():
            whole.lag_points[key] = max(whole.lag_points.get(key, value), value)
    by_instance = by_name(part.scrapes for part in parts)
    whole.scrapes = {name: _scrapes_added(of) for name, of in by_instance.items()}
    whole.lag = _worst_added([part.lag for part in parts], np.maximum)
    whole.in_sync = _worst_added([part.in_sync for part in parts], np.minimum)
    for width, leading in by_name(part.leading for part in parts).items():
        whole.leading[width] = _leading_added(leading)
    return whole


def _worst_added(
    parts: Sequence[Mapping[int, Mapping[str, Worst]]], worse: np.ufunc
) -> dict[int, dict[str, Worst]]:
    return {
        width: {
            name: Worst(*worst_by(joined(one.slice for one in found), _floats(found), worse))
            for name, found in by_name(of).items()
        }
        for width, of in by_name(parts).items()
    }


def _floats(found: Sequence[Worst]) -> Floats:
    return np.concatenate([one.value for one in found])


def _leading_added(parts: Sequence[Leading]) -> Leading:
    silent = {name: union(of) for name, of in by_name(part.silent for part in parts).items()}
    cut = {key: frozenset().union(*of) for key, of in by_name(part.cut for part in parts).items()}
    runs_of = [union(getattr(part, name) for part in parts) for name in ("answered", "led", "rivalled")]
    return Leading(runs_of[0], silent, runs_of[1], runs_of[2], cut)


def _scrapes_added(of: Sequence[Scrapes]) -> Scrapes:
    """Put together the scrapes of an instance; windows do not overlap."""
    parts = sorted(of, key=lambda one: one.first_us)
    between = list(itertools.pairwise(parts))
    gaps_us = weighted(ints(after.first_us - before.last_us for before, after in between))
    return Scrapes(
        parts[0].first_us,
        parts[-1].last_us,
        parts[0].first_uid,
        parts[-1].last_uid,
        sum(part.count for part in parts),
        sum(part.restarts for part in parts)
        + sum(_is_other(before.last_uid, after.first_uid) for before, after in between),
        added([*(part.steps for part in parts), gaps_us]),
    )


def coverage(scrapes: Mapping[str, Scrapes]) -> list[Row]:
    """Measure each instance's scrapes against its own rhythm: the COVERAGE table."""
    end_us = max((of.last_us for of in scrapes.values()), default=0)
    return [_coverage(name, of, end_us) for name, of in scrapes.items()]


def _coverage(name: str, of: Scrapes, end_us: int) -> Row:
    steps, rhythm = of.steps, quantile(of.steps, 0.5)
    by_rhythm = 1 if not rhythm else math.floor((end_us - of.first_us) / rhythm) + 1
    expected = max(by_rhythm, of.count)
    return {
        "instance": name,
        "first_ts": of.first_us,
        "last_ts": of.last_us,
        "scrapes": of.count,
        "expected": expected,
        "coverage": of.count / expected,
        "gaps": 0 if rhythm is None else int(steps.count[steps.value > rhythm * GAP_RHYTHMS].sum()),
        "longest_gap_s": float(steps.value[-1]) / US_PER_S if len(steps.value) else None,
        "restarts": of.restarts,
    }
