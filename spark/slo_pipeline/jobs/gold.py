"""Segments to gold tables: which transform feeds which.

Problem: twelve tables share their inputs; computed one by one, each would read and shuffle the segments
again. Shape: `gold` wires the pure transforms once and keeps the frames that several tables need. Frames from
events are small and are computed once and for all (`localCheckpoint`), which also keeps Spark's plans short.
Never: no rule of its own; rules live in `slo_pipeline.transforms`.
"""

from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from slo_pipeline.jobs.period import Period
from slo_pipeline.objectives.model import Objectives
from slo_pipeline.schemas.segments import RESULTS
from slo_pipeline.sources.segments import Inputs
from slo_pipeline.transforms import (
    budget,
    burn,
    durability,
    lag,
    latency,
    quality,
    sli,
    slices,
)
from slo_pipeline.transforms.budget import BudgetTarget
from slo_pipeline.transforms.master_changes import elections, failovers, phases
from slo_pipeline.transforms.master_changes.rollouts import KUBERNETES_EVENT
from slo_pipeline.transforms.timing import US_PER_S, plus_us

# No plot has more points, however long the period and however often a canary sends.
POINTS_MAX: Final = 5_000
# Around a change of master, keep sends this far from its interval, in this many stretches plus one, so that
# one send of each result fits.
CLOSEUP_US: Final = 11 * US_PER_S
CLOSEUP_STRETCHES_MAX: Final = POINTS_MAX // len(RESULTS) - 1
# Kubernetes stamps most of its Events with whole seconds, and tells what led to a change before it and after.
KUBERNETES_AROUND_US: Final = 30 * US_PER_S
CLOSEUP_KINDS: Final = ("RoleNotified", "HandshakeDone", "Truncated", "RoleChanged", "ElectionFailed")


@dataclass(frozen=True)
class Gold:
    """The gold tables and the frames drawn beside them."""

    sli_window: DataFrame
    sli_strip: DataFrame
    booked: DataFrame
    budget: DataFrame
    slices_1s: DataFrame
    failovers: DataFrame
    failover_phases: DataFrame
    closeup_points: DataFrame
    closeup_marks: DataFrame
    in_sync_steps: DataFrame
    latency: DataFrame
    latency_histogram: DataFrame
    latency_series: DataFrame
    lag_points: DataFrame
    durability: DataFrame
    lost: DataFrame
    coverage: DataFrame
    sli_counts: DataFrame
    slo_status: DataFrame
    pages: DataFrame


def headline(objectives: Objectives) -> BudgetTarget:
    """Return the objective on write availability, by which the report judges each second.

    Without one, it is the default.
    """
    chosen = objectives.first("write_availability")
    days = objectives.timeWindow.days
    return BudgetTarget(window_days=days) if chosen is None else BudgetTarget(chosen.targetPercent, days)


def _within(frame: DataFrame, column: str, over: Period) -> DataFrame:
    micros = F.unix_micros(column)
    return frame.where((micros >= over.start_us) & (micros < over.end_us))


def _counts_of(counts: DataFrame, over: Period) -> DataFrame:
    """Leave out counts around the period.

    A period with nothing read around it keeps all: its first slice may begin before it does. Days begin with
    a slice.
    """
    return _within(counts, "ts", over) if over.around_us else counts


def gold(inputs: Inputs, over: Period, objectives: Objectives) -> Gold:
    """Compute all gold tables of a period."""
    objective = headline(objectives)
    probe_ops = _within(inputs.probe_ops, "intended_ts", over.wide).cache()
    samples = _within(inputs.samples, "ts", over.wide)
    # One partition: the events of a month fit one, and every join and window of theirs then needs no shuffle.
    events = inputs.events.coalesce(1).localCheckpoint()
    elected = elections.elections(events).localCheckpoint()
    found = _within(failovers.marked(elected, events), "elected_ts", over.wide).coalesce(1).localCheckpoint()
    answering = failovers.with_gaps(found, probe_ops).coalesce(1).localCheckpoint()
    timed = _within(answering.where(F.col("booking") != elections.REELECTION), "elected_ts", over)
    steps = phases.phases(timed).localCheckpoint()
    judged = _within(slices.slices_1s(probe_ops), "slice_start", over).cache()
    booked = budget.book(judged, budget.causes(answering, events)).localCheckpoint()
    verdicts = _within(durability.verdicts(probe_ops), "intended_ts", over).cache()
    losses = durability.lost(verdicts).cache()
    points = _within(latency.latency_points(probe_ops), "ts", over).cache()
    recent = _within(events, "ts", over)
    measured = sli.Measured(judged, points, samples, timed, verdicts, recent)
    counted = _counts_of(sli.counts(measured, objectives), over).localCheckpoint()
    by_minute = burn.minutes(counted).localCheckpoint()
    return Gold(
        sli_window=slices.sli_window(judged),
        sli_strip=slices.strip(judged, bucket_us=over.stretch_us),
        booked=booked,
        budget=budget.budget(booked, objective),
        slices_1s=judged,
        failovers=failovers.failovers(timed, steps, booked, losses, verdicts),
        failover_phases=steps,
        closeup_points=closeup_points(points, timed),
        closeup_marks=closeup_marks(events, timed),
        in_sync_steps=lag.in_sync_steps(events),
        latency=latency.latency(points),
        latency_histogram=latency.latency_histogram(points),
        latency_series=latency.latency_series(points, bucket_us=over.stretch_us),
        lag_points=lag.lag_points(_within(samples, "ts", over), bucket_us=over.stretch_us),
        durability=durability.durability(verdicts),
        lost=losses,
        coverage=quality.coverage(_within(samples, "ts", over)),
        sli_counts=counted,
        slo_status=burn.status(counted, by_minute, objectives),
        pages=burn.pages(by_minute, objectives),
    )


def closeup_points(points: DataFrame, timed: DataFrame) -> DataFrame:
    """Pick the sends near each change of master.

    In crowded stretches the slowest of each result stands for all.

    Returns:
        failover_id, ts, latency_ms, result.
    """
    bounds = timed.select(
        "failover_id",
        F.col("group").alias("of_group"),
        plus_us(F.col("interval_start"), -CLOSEUP_US).alias("low"),
        plus_us(F.col("interval_end"), CLOSEUP_US).alias("high"),
    )
    near = (F.col("group") == F.col("of_group")) & F.col("ts").between(F.col("low"), F.col("high"))
    span_us = F.unix_micros("high") - F.unix_micros("low")
    place = (F.unix_micros("ts") - F.unix_micros("low")) * CLOSEUP_STRETCHES_MAX / span_us
    worst = F.max_by(F.struct("ts", "latency_ms"), F.coalesce("latency_ms", F.lit(0.0)))
    return (
        points.join(F.broadcast(bounds), on=near, how="inner")
        .withColumn("place", F.floor(place))
        .groupBy("failover_id", "place", "result")
        .agg(worst.alias("worst"))
        .select("failover_id", "worst.ts", "worst.latency_ms", "result")
    )


def closeup_marks(events: DataFrame, timed: DataFrame) -> DataFrame:
    """Pick what else was reported of each change: failover_id, ts, kind, source, broker_id, attrs.

    What carries the epoch belongs to it. A Kubernetes Event knows none: those of the group around the change
    are shown beside it, and nothing is concluded from them.
    """
    told = events.where(F.col("kind").isin(*CLOSEUP_KINDS)).select(
        F.col("group").alias("of_group"),
        F.col("epoch").alias("of_epoch"),
        "ts",
        "kind",
        "source",
        "broker_id",
        "attrs",
    )
    belongs = (F.col("group") == F.col("of_group")) & (F.col("epoch") == F.col("of_epoch"))
    keys = timed.select("failover_id", "group", "epoch", "interval_start", "interval_end")
    of_kubernetes = events.where((F.col("kind") == KUBERNETES_EVENT) & (F.col("group") != "")).select(
        F.col("group").alias("of_group"), "ts", "kind", "source", "broker_id", "attrs"
    )
    around = (F.col("group") == F.col("of_group")) & F.col("ts").between(
        plus_us(F.col("interval_start"), -KUBERNETES_AROUND_US),
        plus_us(F.col("interval_end"), KUBERNETES_AROUND_US),
    )
    shown = ("failover_id", "ts", "kind", "source", "broker_id", "attrs")
    by_epoch = told.join(F.broadcast(keys), on=belongs, how="inner").select(*shown)
    by_time = of_kubernetes.join(F.broadcast(keys), on=around, how="inner").select(*shown)
    return by_epoch.unionByName(by_time)
