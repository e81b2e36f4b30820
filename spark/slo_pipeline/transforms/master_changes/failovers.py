"""One row a change of master: its marks, its write gap, the seconds it may answer for.

Problem: "the failover took 380 ms" needs one clock. Controller, broker and canary have three. Shape: the
write gap is measured by the canary alone: the longest stretch between two acknowledgements that touches the
change's interval. The marks of the others are set beside it and turned into phases by `phases`.

    lower bound                                     upper bound
    |  fault   suspected  elected   role taken ...  |
    |-----------------[== gap ==]-------------------|
    a bad slice that touches [interval_start, interval_end) is booked to the change

Invariant: the intervals of a group's changes may touch, and a slice in two of them goes to the later
(`budget`). Never: no gap is invented. Without a canary the gap is null; without an acknowledgement after it,
too.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from slo_pipeline.schemas.frames import conform
from slo_pipeline.schemas.tables import FAILOVERS
from slo_pipeline.transforms.master_changes import elections
from slo_pipeline.transforms.timing import US_PER_S, ms_between, plus_us

# How far the canary's clock may be from the controllers', and what follows the last mark at once.
MARGIN_US: Final = US_PER_S
# A change answers for what happens until it has settled, but not for longer than this after the election.
SETTLE_MAX_US: Final = 60 * US_PER_S


def marked(changes: DataFrame, events: DataFrame) -> DataFrame:
    """Gather what all programs but the canary's sends say about each change of master.

    Args:
        changes: result of `elections.elections`.
        events: rows of the events segment, one an event_id.

    Returns:
        `elections` plus fault, *_ts and *_clock of each mark, lower_ts and upper_ts. One row a change of
        master.
    """
    joined = changes
    for finder in (
        elections.suspicions,
        elections.commits,
        elections.roles_taken,
        elections.redundancies,
        elections.routes_seen,
        elections.faults,
    ):
        joined = joined.join(finder(changes, events), on="failover_id", how="left")
    suspected = F.coalesce("suspected_ts", "suspected_event_ts")
    clock = F.when(F.col("suspected_ts").isNotNull(), F.col("elected_clock")).otherwise(
        F.col("suspected_event_clock")
    )
    planned = F.col("booking") == "switchover"
    committed = F.coalesce("committed_ts", "elected_ts")
    committed_clock = F.coalesce("committed_clock", "elected_clock")
    return (
        joined.withColumn("elected_ts", committed)
        .withColumn("elected_clock", committed_clock)
        .withColumn("suspected_clock", F.when(~planned, clock))
        .withColumn("suspected_ts", F.when(~planned, suspected))
        .transform(_with_bounds)
    )


def _with_bounds(changes: DataFrame) -> DataFrame:
    """Add where to look for the write gap: between the neighbours' elections, around the change's own marks.

    Redundancy is not such a mark: a broker that comes back 20 s later may cost a gap of its own, which is not
    the change's.
    """
    earliest = F.least("fault_ts", "suspected_ts", "proposed_ts", "elected_ts")
    latest = F.greatest("elected_ts", "role_taken_ts", "route_seen_ts")
    settled = F.least(latest, plus_us(F.col("elected_ts"), SETTLE_MAX_US))
    lower = F.greatest(plus_us(earliest, -MARGIN_US), "previous_elected_ts")
    upper = F.least(plus_us(settled, MARGIN_US), "next_elected_ts")
    return changes.withColumn("lower_ts", lower).withColumn("upper_ts", upper)


def write_gaps(changes: DataFrame, probe_ops: DataFrame) -> DataFrame:
    """Measure each change's write gap by the canary's clock.

    Args:
        changes: result of `marked`.
        probe_ops: rows of the probe_ops segment.

    Returns:
        failover_id, gap_start_ts, first_ack_ts (null: no acknowledgement came after), first_ack_clock.
    """
    sends = probe_ops.where(F.col("op") == "send")
    ends = sends.groupBy("group").agg(F.max("intended_ts").alias("watched_until"))
    order = Window.partitionBy("group").orderBy("end_ts", "seq")
    gaps = (
        sends.where(F.col("result") == "ok")
        .select(
            "group",
            "clock_id",
            F.col("end_ts").alias("gap_start_ts"),
            F.lead("end_ts").over(order).alias("first_ack_ts"),
        )
        .join(F.broadcast(ends), on="group", how="inner")
        .withColumn("until", F.greatest(F.coalesce("first_ack_ts", "watched_until"), "gap_start_ts"))
    )
    touches = (
        (F.col("g.group") == F.col("c.group"))
        & (F.col("g.until") > F.col("c.lower_ts"))
        & (F.col("g.gap_start_ts") < F.col("c.upper_ts"))
    )
    length_us = F.unix_micros("g.until") - F.unix_micros("g.gap_start_ts")
    earlier_first = -F.unix_micros("g.gap_start_ts")
    longest = F.max_by(
        F.struct("g.gap_start_ts", "g.first_ack_ts", "g.clock_id"), F.struct(length_us, earlier_first)
    )
    found = (
        gaps.alias("g")
        .join(
            F.broadcast(changes.select("failover_id", "group", "lower_ts", "upper_ts")).alias("c"), on=touches
        )
        .groupBy("c.failover_id")
        .agg(longest.alias("gap"))
    )
    return found.select(
        "failover_id",
        F.col("gap.gap_start_ts").alias("gap_start_ts"),
        F.col("gap.first_ack_ts").alias("first_ack_ts"),
        F.col("gap.clock_id").alias("first_ack_clock"),
    )


def with_gaps(changes: DataFrame, probe_ops: DataFrame) -> DataFrame:
    """Join write gaps to `marked` changes and settle the interval each change answers for."""
    joined = changes.join(write_gaps(changes, probe_ops), on="failover_id", how="left")
    redundant = F.least("redundancy_ts", plus_us(F.col("elected_ts"), SETTLE_MAX_US))
    unserved = F.when(F.col("gap_start_ts").isNotNull() & F.col("first_ack_ts").isNull(), F.col("upper_ts"))
    start = F.least("fault_ts", "suspected_ts", "proposed_ts", "elected_ts", "gap_start_ts")
    end = F.greatest("elected_ts", "role_taken_ts", "first_ack_ts", redundant, unserved)
    return (
        joined.withColumn("write_gap_ms", ms_between(F.col("gap_start_ts"), F.col("first_ack_ts")))
        .withColumn("interval_start", start)
        .withColumn("interval_end", end)
    )


def failovers(
    timed: DataFrame, phases: DataFrame, booked: DataFrame, losses: DataFrame, read_groups: DataFrame
) -> DataFrame:
    """Assemble the FAILOVERS table.

    Args:
        timed: result of `with_gaps`.
        phases: the FAILOVER_PHASES table.
        booked: bad slices with their failover_id (`budget.book`).
        losses: the LOST table.
        read_groups: column group: those whose messages are read back at all.
    """
    unordered = phases.groupBy("failover_id").agg(
        F.bool_or(F.col("order") == "uncertain").alias("order_uncertain")
    )
    spent = booked.groupBy("failover_id").agg(F.count(F.lit(1)).alias("bad_s"))
    lost = _lost_by_failover(timed, losses)
    is_read = read_groups.select("group").distinct().withColumn("is_read", F.lit(True))
    table = (
        timed.join(unordered, on="failover_id", how="left")
        .join(spent, on="failover_id", how="left")
        .join(lost, on="failover_id", how="left")
        .join(is_read, on="group", how="left")
        .withColumn("bad_s", _or_zero("bad_s"))
        .withColumn("lost_acknowledged", F.when(F.col("is_read"), _or_zero("lost_acknowledged")))
    )
    return conform(table, FAILOVERS, table="failovers")


def _or_zero(name: str) -> Column:
    return F.coalesce(F.col(name), F.lit(0).cast("bigint"))


def _lost_by_failover(timed: DataFrame, losses: DataFrame) -> DataFrame:
    """Count lost messages by the first change of master after their acknowledgement.

    The change must come within SETTLE_MAX_US of it.
    """
    near = (
        (F.col("l.group") == F.col("c.group"))
        & (F.col("l.acknowledged_ts") <= F.col("c.interval_end"))
        & (F.col("l.acknowledged_ts") >= plus_us(F.col("c.interval_start"), -SETTLE_MAX_US))
    )
    bounds = timed.select("failover_id", "group", "interval_start", "interval_end", "elected_ts")
    first = (
        losses.alias("l")
        .join(bounds.alias("c"), on=near, how="inner")
        .groupBy("l.group", "l.seq")
        .agg(F.min_by("c.failover_id", "c.elected_ts").alias("failover_id"))
    )
    return first.groupBy("failover_id").agg(F.count(F.lit(1)).alias("lost_acknowledged"))
