"""Gold tables to a report's plain values.

Problem: `collect` gives timestamps in the zone of the Python process, and rows in no order. Shape: every
timestamp leaves Spark as whole microseconds; everything is sorted here, so that the same tables make the same
page. Never: arithmetic on reported values.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from slo_pipeline.jobs.gold import Gold, headline
from slo_pipeline.jobs.period import Period
from slo_pipeline.objectives.model import Objectives, Slo
from slo_pipeline.reports.values import model
from slo_pipeline.reports.values.words import octets
from slo_pipeline.schemas.names import EVENTS_TABLE, OPERATIONS_TABLE, SAMPLES_TABLE
from slo_pipeline.transforms.latency import BOUNDS_MS
from slo_pipeline.transforms.timing import US_PER_S

Row = dict[str, Any]
LOST_LISTED_MAX: Final = 100
# Tables of which each row names a group.
OF_GROUPS: Final = (
    "sli_window",
    "sli_strip",
    "booked",
    "latency",
    "latency_histogram",
    "latency_series",
    "lag_points",
    "durability",
    "failovers",
    "in_sync_steps",
    "known_groups",
)


def rows(frame: DataFrame) -> list[Row]:
    """Collect a gold table; timestamps are microseconds since 1970, UTC."""
    columns = [
        F.unix_micros(field.name).alias(field.name)
        if isinstance(field.dataType, TimestampType)
        else F.col(field.name)
        for field in frame.schema.fields
    ]
    return [row.asDict() for row in frame.select(*columns).collect()]


def _by(found: Iterable[Row], key: str) -> Mapping[str, list[Row]]:
    grouped: dict[str, list[Row]] = defaultdict(list)
    for row in found:
        grouped[row[key]].append(row)
    return grouped


def collect(gold: Gold) -> dict[str, list[Row]]:
    """Collect every table that the report or its files need, by the table's name."""
    tables = vars(gold).copy()
    for too_large in ("slices_1s", "sli_counts"):
        tables.pop(too_large)
    return {name: rows(frame) for name, frame in tables.items()}


def report(tables: Mapping[str, list[Row]], over: Period, objectives: Objectives, title: str) -> model.Report:
    """Make a report's values of collected tables; a table that is not there is one without rows."""
    objective = headline(objectives)
    tables = defaultdict(list, tables)
    # Once by group: a scan of all rows for each of thousands of groups takes minutes.
    by_group = {name: _by(tables[name], "group") for name in (*OF_GROUPS, "apart")}
    groups = tuple(_group(name, by_group, over) for name in _names(tables))
    lost = sorted(tables["lost"], key=lambda row: (row["group"], row["seq"]))
    coverage = sorted(tables["coverage"], key=lambda row: (row["coverage"], row["instance"]))
    return model.Report(
        title=title,
        start_us=over.start_us,
        end_us=over.end_us,
        target_percent=objective.target_percent,
        window_days=objective.window_days,
        budget_s=objective.budget_s,
        groups=groups,
        failovers=_failovers(tables),
        booked_s=sum(row["bad_s"] for row in tables["budget"]),
        counted_s=sum(row["bad_s"] for row in tables["sli_window"]),
        coverage=tuple(
            model.Coverage(
                row["instance"],
                row["scrapes"],
                row["expected"],
                row["coverage"],
                row["gaps"],
                row["longest_gap_s"],
                row["restarts"],
            )
            for row in coverage
        ),
        lost_listed=tuple(
            model.LostMessage(
                row["group"],
                row["seq"],
                row["acknowledged_ts"],
                row["broker_addr"],
                row["queue_id"],
                row["queue_offset"],
            )
            for row in lost[:LOST_LISTED_MAX]
        ),
        bucket_s=over.stretch_us / US_PER_S,
        objectives=_objectives(
            with_unmeasured(
                tables["slo_status"], [group.name for group in groups if group.is_judged], objectives
            ),
            objectives,
        ),
        apart=_apart(tables["apart"]),
        absent=_absent(tables),
        pages=tuple(
            model.FiredBurnAlert(
                row["severity"],
                row["slo"],
                row["group"],
                row["burn_rate"],
                row["long_window"],
                row["short_window"],
                row["start_ts"],
                row["end_ts"],
            )
            for row in sorted(
                tables["pages"],
                key=lambda row: (row["start_ts"], row["slo"], row["group"], -row["burn_rate"]),
            )
        ),
    )


def _apart(found: Iterable[Row]) -> tuple[model.ImpossibleTimes, ...]:
    """Return the clocks whose rows were set apart."""
    names = ("kind", "writer", "group", "ahead", "rows", "first_ts", "last_ts")
    return tuple(model.ImpossibleTimes(*[row[name] for name in names]) for row in found)


def _names(tables: Mapping[str, list[Row]]) -> list[str]:
    """Return the groups that any table names, in order."""
    found = {str(row["group"]) for name in OF_GROUPS for row in tables[name]}
    return sorted(found - {""})


def _absent(tables: Mapping[str, list[Row]]) -> tuple[str, ...]:
    """Return the kinds of segments without a row in the period."""
    there = {
        OPERATIONS_TABLE: any(row["good_s"] + row["bad_s"] for row in tables["sli_window"]),
        EVENTS_TABLE: tables["in_sync_steps"] or tables["failovers"],
        SAMPLES_TABLE: tables["coverage"],
    }
    return tuple(kind for kind, rows_there in there.items() if not rows_there)


def with_unmeasured(status: Iterable[Row], groups: Iterable[str], objectives: Objectives) -> list[Row]:
    """Add to the SLO_STATUS table write objectives of groups that it lacks a row for.

    None of their writes were counted.
    """
    found = list(status)
    known = {(row["slo"], row["group"]) for row in found}
    nothing = dict.fromkeys(("attained", "burn_1h", "burn_6h", "burn_1d", "burn_3d"))
    return found + [
        {"slo": slo.name, "group": group, "good": 0, "bad": 0, "unknown": 0} | nothing
        for slo in objectives.slos
        if slo.indicator == "write_availability"
        for group in groups
        if (slo.name, group) not in known
    ]


def _objectives(status: Iterable[Row], objectives: Objectives) -> tuple[model.ObjectiveResult, ...]:
    """Pair each objective with its result, in the file's order."""
    order = {slo.name: place for place, slo in enumerate(objectives.slos)}
    kept = []
    for row in sorted(status, key=lambda row: (order[row["slo"]], row["group"])):
        slo = objectives.slos[order[row["slo"]]]
        budget = slo.budget(row["good"] + row["bad"], objectives.timeWindow.days)
        kept.append(
            model.ObjectiveResult(
                slo.name,
                slo.measured.says,
                _threshold(slo),
                row["group"],
                slo.targetPercent,
                row["good"],
                row["bad"],
                row["unknown"],
                row["attained"],
                budget,
                row["burn_1h"],
                row["burn_3d"],
                slo.slice_s if slo.budgetingMethod == "Timeslices" else None,
            )
        )
    return tuple(kept)


def _threshold(slo: Slo) -> str:
    if slo.value is None:
        return ""
    sign = "≤" if slo.op == "lte" else "≥"
    shown = octets(slo.value) if slo.measured.unit == "bytes" else f"{slo.value:,g}"
    return f"{sign} {shown}{' ms' if slo.measured.unit == 'ms' else ''}"


def _one(found: Mapping[str, list[Row]], group: str) -> Row | None:
    return next(iter(found.get(group, ())), None)


def _group(name: str, tables: Mapping[str, Mapping[str, list[Row]]], over: Period) -> model.GroupReport:
    """Return one group's values; `tables` has the rows of each table by group."""
    row = _one(tables["sli_window"], name) or {
        "window_start": over.start_us,
        "window_end": over.end_us,
        **dict.fromkeys(("good_s", "bad_s", "unknown_s"), 0),
        "availability": None,
    }
    known = _one(tables["known_groups"], name)
    last_us = None if known is None else known["last_ts"]
    latency = _one(tables["latency"], name)
    kept = _one(tables["durability"], name)
    counts = {one["le_ms"]: one["sends"] for one in tables["latency_histogram"].get(name, ())}
    bad = sorted(tables["booked"].get(name, ()), key=lambda one: int(one["slice_start"]))
    series = sorted(tables["latency_series"].get(name, ()), key=lambda one: int(one["ts"]))
    return model.GroupReport(
        name=name,
        start_us=row["window_start"],
        end_us=row["window_end"],
        good_s=row["good_s"],
        bad_s=row["bad_s"],
        unknown_s=row["unknown_s"],
        availability=row["availability"],
        latency=None if latency is None else model.Latency(**_without(latency, "group")),
        histogram=tuple((bound, counts.get(bound, 0)) for bound in (*BOUNDS_MS, float("inf"))),
        series=tuple(
            model.LatencyBucket(one["ts"], one["p50_ms"], one["p99_ms"], one["max_ms"], one["failed"])
            for one in series
        ),
        lag=_lag(tables["lag_points"].get(name, ())),
        bad_seconds=tuple(
            model.BadSecond(one["slice_start"], one["booking"], one["failover_id"], one["detail"])
            for one in bad
        ),
        strip=tuple(
            model.StretchSeconds(one["ts"], one["good_s"], one["bad_s"], one["unknown_s"])
            for one in sorted(tables["sli_strip"].get(name, ()), key=lambda one: int(one["ts"]))
        ),
        durability=None if kept is None else model.SendResults(**_without(kept, "group")),
        last_us=last_us,
        is_judged=last_us is None
        or last_us >= over.start_us
        or any(_one(tables[table], name) for table in ("lag_points", "apart")),
    )


def _without(row: Row, *names: str) -> Row:
    return {name: value for name, value in row.items() if name not in names}


def _lag(found: Iterable[Row]) -> tuple[model.LagSeries, ...]:
    series: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for row in found:
        name = f"broker {row['broker_id']} ({row['instance']})" if row["broker_id"] else row["instance"]
        series[name].append((row["ts"], row["lag_bytes_max"]))
    return tuple(model.LagSeries(name, tuple(sorted(values))) for name, values in sorted(series.items()))


def _failovers(tables: Mapping[str, list[Row]]) -> tuple[model.Failover, ...]:
    phases = _by(tables["failover_phases"], "failover_id")
    points = _by(tables["closeup_points"], "failover_id")
    marks = _by(tables["closeup_marks"], "failover_id")
    steps = _steps(tables["in_sync_steps"])
    found = sorted(tables["failovers"], key=lambda row: (row["elected_ts"], row["failover_id"]))
    return tuple(
        _failover(
            row,
            phases[row["failover_id"]],
            points[row["failover_id"]],
            marks[row["failover_id"]],
            steps.get((row["cluster"], row["group"]), ()),
        )
        for row in found
    )


def _steps(found: Iterable[Row]) -> dict[tuple[str, str], tuple[model.SyncStateSetStep, ...]]:
    """Return the steps of each cluster and group, which all changes of the group share."""
    steps: dict[tuple[str, str], list[model.SyncStateSetStep]] = defaultdict(list)
    for row in found:
        steps[row["cluster"], row["group"]].append(
            model.SyncStateSetStep(row["ts"], row["members"], row["size"])
        )
    return {key: tuple(sorted(of, key=lambda step: (step.us, step.size))) for key, of in steps.items()}


def _failover(
    row: Row,
    phases: list[Row],
    points: list[Row],
    marks: list[Row],
    steps: tuple[model.SyncStateSetStep, ...],
) -> model.Failover:
    same = (
        "failover_id", "cluster", "group", "epoch", "old_epoch", "cause", "booking",
        "old_master_id", "new_master_id", "old_master_address",
        "new_master_address", "sync_state_set_before", "sync_state_set_after", "fault",
        "write_gap_ms", "order_uncertain", "bad_s", "lost_acknowledged",
    )  # fmt: skip
    renamed = ("fault", "fault_healed", "elected", "first_ack", "redundancy", "gap_start")
    times = {f"{name}_us": row[f"{name}_ts"] for name in renamed}
    return model.Failover(
        **{name: row[name] for name in same},
        **times,
        interval_start_us=row["interval_start"],
        interval_end_us=row["interval_end"],
        phases=tuple(_phase(one) for one in sorted(phases, key=lambda one: str(one["phase"]))),
        points=tuple(
            model.Point(one["ts"], one["latency_ms"], one["result"])
            for one in sorted(points, key=lambda one: (one["ts"], one["result"], one["latency_ms"] or 0.0))
        ),
        steps=steps,
        marks=tuple(
            sorted(
                (_mark(one) for one in marks),
                key=lambda mark: (mark.us, mark.kind, mark.broker_id or 0, mark.note),
            )
        ),
    )


def _phase(row: Row) -> model.Phase:
    return model.Phase(
        row["phase"],
        row["start_ts"],
        row["end_ts"],
        row["duration_ms"],
        row["skew_ms"],
        row["start_clock"],
        row["end_clock"],
        row["order"],
    )


def _mark(row: Row) -> model.Mark:
    attrs: Mapping[str, str] = row["attrs"]
    kind = str(row["kind"])
    said = {
        "RoleNotified": "notice sent",
        "HandshakeDone": "handshake done",
        "Truncated": f"truncated {_octets(attrs.get('bytes') or attrs.get('truncated_bytes'))}",
        "RoleChanged": f"told to follow {_broker(attrs.get('master_id'))}",
        "ElectionFailed": f"election failed: {attrs.get('reason', '?')}",
        "KubernetesEvent": _kubernetes(attrs),
    }
    return model.Mark(row["ts"], kind, row["source"], row["broker_id"], said.get(kind, kind))


def _kubernetes(attrs: Mapping[str, str]) -> str:
    about = f"{attrs.get('object_kind', '?')} {attrs.get('object_name', '?')}"
    often = f" ({attrs['count']} times)" if attrs.get("count", "1") != "1" else ""
    return f"{about}: {attrs.get('reason', '?')}{often}: {attrs.get('message', '')}"


def _broker(master_id: str | None) -> str:
    return f"broker {master_id}" if master_id else "nobody"


def _octets(text: str | None) -> str:
    return octets(float(text)) if text and text.isdecimal() else "an unknown amount"


def iso_utc(us: int) -> str:
    """Return microseconds since 1970 as RFC 3339 in UTC."""
    moment = datetime.fromtimestamp(us // US_PER_S, tz=UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"
