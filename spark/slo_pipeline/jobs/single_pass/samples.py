"""Partial sums of a window of samples, in a task.

Problem: a formula compares gauges of one scrape, and a slice is judged by its worst scrape. Shape: a window
holds whole scrapes, so each is judged here; slices keep what windows can add up: a worst value, or the set of
leaders of a term. Never: a slice is called good or bad here; the driver does it.

The rules are those of `transforms.sli`, `lag` and `quality`.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slo_pipeline.jobs.period import Period
from slo_pipeline.jobs.single_pass import rows
from slo_pipeline.jobs.single_pass.arrays import Weighted, added, ints, quantile, weighted
from slo_pipeline.jobs.single_pass.plan import Task
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

COLUMNS: Final = ("ts", "metric", "labels", "value", "instance", "instance_uid")
GAUGES: Final = (LAG_METRIC, IN_SYNC_METRIC, SET_SIZE_METRIC, REGISTERED_METRIC, ROLE_METRIC, TERM_METRIC, UP)
Row = dict[str, Any]
Place = tuple[str, int]


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

    Attributes:
        answered: slices in which a controller told its role.
        silent: slices and the instances that did not answer a scrape.
        leaders: slices and terms, and the instances that led.
    """

    answered: set[int] = field(default_factory=set)
    silent: dict[int, set[str]] = field(default_factory=dict)
    leaders: dict[tuple[int, float | None], set[str]] = field(default_factory=dict)


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
        scrapes: by instance, in order of time.
        lag_points: worst lag by group, broker, instance and stretch.
        lag, in_sync: by width of a slice, then by group and slice: the worst value.
        controllers: instances that ever told a role.
        leading: by width of a slice.
    """

    scrapes: dict[str, list[Scrapes]] = field(default_factory=dict)
    lag_points: dict[tuple[str, str, str, int], float] = field(default_factory=dict)
    lag: dict[int, dict[Place, float]] = field(default_factory=dict)
    in_sync: dict[int, dict[Place, float]] = field(default_factory=dict)
    controllers: set[str] = field(default_factory=set)
    leading: dict[int, Leading] = field(default_factory=dict)


def of_task(task: Task, look: SamplesLook) -> SampleSums:
    """Read and add up a task's samples."""
    table = rows.read(task, COLUMNS, look.now_us)
    made = SampleSums()
    over = look.over
    at = rows.numbers(table, "ts")
    inside = (at >= over.start_us) & (at < over.end_us)
    made.scrapes = _scrapes(table.filter(pa.array(inside)))
    gauges = _with_labels(table.filter(pa.array(rows.texts(table, "metric").is_in(*GAUGES))))
    made.controllers = set(_where(gauges, ROLE_METRIC)["instance"].unique().to_pylist())
    gauges = gauges.filter(rows.call("invert", rows.call("is_nan", gauges["value"])))
    if look.plots:
        made.lag_points = _lag_points(gauges, over)
    made.lag = {width: _worst(_lags(gauges), width, "max") for width in look.lag_us}
    made.in_sync = {width: _worst(_shares(gauges), width, "min") for width in look.in_sync_us}
    made.leading = {width: _leading(gauges, width) for width in look.leader_us}
    return made


def _with_labels(gauges: pa.Table) -> pa.Table:
    texts = {name: gauges[name].cast(pa.string()) for name in ("metric", "instance")}
    for name in ("group", "broker_id", "cluster"):
        options = pc.MapLookupOptions(pa.scalar(name), "first")
        texts[name] = rows.call("map_lookup", gauges["labels"], options=options)
    return pa.table({"ts": gauges["ts"], "value": gauges["value"], **texts})


def _where(table: pa.Table, metric: str) -> pa.Table:
    return table.filter(rows.call("equal", table["metric"], pa.scalar(metric)))


def _scrapes(table: pa.Table) -> dict[str, list[Scrapes]]:
    instance, metric, uid = (rows.texts(table, name) for name in ("instance", "metric", "instance_uid"))
    at, value = rows.numbers(table, "ts"), table["value"].to_numpy()
    # CodedTexts in order have ranks that compare as they do.
    rank = np.argsort(np.argsort(np.array(uid.text, dtype=object))) if uid.text else ints()
    by_rank = sorted(uid.text)
    failed = metric.is_in(UP) & (value == 0.0)
    found: dict[str, list[Scrapes]] = {}
    for name, own in instance.places():
        times, place = np.unique(at[own], return_inverse=True)
        highest = np.zeros(len(times), np.int64)
        np.maximum.at(highest, place, rank[uid.code[own]])
        kept = np.bincount(place, failed[own], len(times)) == 0
        if kept.any():
            found[name] = [_of_instance(times[kept], [by_rank[one] for one in highest[kept]])]
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


def _worst(values: pa.Table, width_us: int, which: str) -> dict[Place, float]:
    """Return the largest or smallest value of each group and slice."""
    named = values.filter(rows.call("is_valid", values["group"]))
    at = rows.numbers(named, "ts")
    named = named.append_column("slice", pa.array(at // width_us * width_us))
    found = named.group_by(["group", "slice"]).aggregate([("value", which)])
    return {(row["group"], row["slice"]): row[f"value_{which}"] for row in found.to_pylist()}


def _leading(gauges: pa.Table, width_us: int) -> Leading:
    seen = _beside(gauges, (), role=ROLE_METRIC, term=TERM_METRIC, up=UP)
    made = Leading()
    for row in seen.to_pylist():
        start = row["ts"] // width_us * width_us
        if row["role"] is not None:
            made.answered.add(start)
            if row["role"] == LEADER_ROLE:
                made.leaders.setdefault((start, row["term"]), set()).add(row["instance"])
        elif row["up"] == 0.0:
            made.silent.setdefault(start, set()).add(row["instance"])
    return made


def merged(parts: Iterable[SampleSums]) -> SampleSums:
    """Put together the sums of windows."""
    whole = SampleSums()
    for part in parts:
        for name, scrapes in part.scrapes.items():
            whole.scrapes.setdefault(name, []).extend(scrapes)
        whole.controllers |= part.controllers
        for key, value in part.lag_points.items():
            whole.lag_points[key] = max(whole.lag_points.get(key, value), value)
        for width, lags in part.lag.items():
            _take(whole.lag.setdefault(width, {}), lags, max)
        for width, shares in part.in_sync.items():
            _take(whole.in_sync.setdefault(width, {}), shares, min)
        for width, leading in part.leading.items():
            into = whole.leading.setdefault(width, Leading())
            into.answered |= leading.answered
            for start, instances in leading.silent.items():
                into.silent.setdefault(start, set()).update(instances)
            for place, instances in leading.leaders.items():
                into.leaders.setdefault(place, set()).update(instances)
    return whole


def _take(into: dict[Place, float], values: Mapping[Place, float], worse: Any) -> None:  # noqa: ANN401 - min or max
    for place, value in values.items():
        into[place] = worse(into.get(place, value), value)


def coverage(scrapes: Mapping[str, Sequence[Scrapes]]) -> list[Row]:
    """Measure each instance's scrapes against its own rhythm: the COVERAGE table."""
    end_us = max((one.last_us for of in scrapes.values() for one in of), default=0)
    return [_coverage(name, sorted(of, key=lambda one: one.first_us), end_us) for name, of in scrapes.items()]


def _coverage(name: str, parts: Sequence[Scrapes], end_us: int) -> Row:
    between = list(itertools.pairwise(parts))
    gaps_us = weighted(ints(after.first_us - before.last_us for before, after in between))
    steps = added([*(part.steps for part in parts), gaps_us])
    rhythm = quantile(steps, 0.5)
    count = sum(part.count for part in parts)
    first_us, last_us = parts[0].first_us, parts[-1].last_us
    by_rhythm = 1 if not rhythm else math.floor((end_us - first_us) / rhythm) + 1
    expected = max(by_rhythm, count)
    return {
        "instance": name,
        "first_ts": first_us,
        "last_ts": last_us,
        "scrapes": count,
        "expected": expected,
        "coverage": count / expected,
        "gaps": 0 if rhythm is None else int(steps.count[steps.value > rhythm * GAP_RHYTHMS].sum()),
        "longest_gap_s": float(steps.value[-1]) / US_PER_S if len(steps.value) else None,
        "restarts": sum(part.restarts for part in parts)
        + sum(_is_other(before.last_uid, after.first_uid) for before, after in between),
    }
