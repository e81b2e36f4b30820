"""The error budget: how much there is, and what spent it.

Problem: a budget that merely shrinks teaches nothing; one that is "mostly failovers" cannot be checked.
Shape: every bad slice is booked to exactly one thing. The first of these whose interval it touches gets it:

1. the latest failover, switchover or re-election of the same master (its own interval);
2. a known fault that moved no master: from its injection until it was healed and what it broke had time to
   settle;
3. a rollout, or the restart of a member that belongs to one: from its start to its end
   (`transforms.master_changes.rollouts`);
4. nothing: `unexplained`.

The bookings add up to the bad slices: the report prints both sums, and `check` says them to whoever doubts.
Never: a slice is not split, and not booked by guess.
"""

from typing import Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from slo_pipeline.schemas.frames import conform
from slo_pipeline.schemas.tables import BUDGET
from slo_pipeline.transforms.master_changes.elections import with_healing
from slo_pipeline.transforms.master_changes.rollouts import UNENDED_US, rollouts
from slo_pipeline.transforms.slices import SLICE_US
from slo_pipeline.transforms.timing import US_PER_S, plus_us

# What a healed fault has broken may still be felt for this long: a restarted process needs its connections
# again.
FAULT_SETTLE_US: Final = 10 * US_PER_S
S_PER_DAY: Final = 86_400


class BudgetTarget(NamedTuple):
    """A promise: `target_percent` of the seconds of `window_days` days are good."""

    target_percent: float = 99.95
    window_days: int = 30

    @property
    def budget_s(self) -> float:
        """Bad seconds a group may have in the window: 1,296 for 99.95 % of 30 days."""
        return round((100.0 - self.target_percent) * self.window_days * S_PER_DAY / 100.0, 6)


def causes(timed: DataFrame, events: DataFrame) -> DataFrame:
    """List everything that may answer for bad slices.

    Args:
        timed: result of `master_changes.failovers.with_gaps`, re-elections among them.
        events: rows of the events segment, one an event_id.

    Returns:
        group ("" for all), booking, failover_id, detail, interval_start, interval_end, epoch, rank (1 answers
        first).
    """
    nothing = F.lit(None).cast("string")
    changes = timed.select(
        "group", "booking", "failover_id", nothing.alias("detail"), "interval_start", "interval_end", "epoch"
    ).withColumn("rank", F.lit(1))
    none = F.lit(None).cast("bigint").alias("epoch")
    faults = with_healing(events).select(
        "group",
        F.lit("fault").alias("booking"),
        nothing.alias("failover_id"),
        F.col("fault").alias("detail"),
        F.col("ts").alias("interval_start"),
        plus_us(F.coalesce("healed_ts", plus_us(F.col("ts"), UNENDED_US)), FAULT_SETTLE_US).alias(
            "interval_end"
        ),
        none,
        F.lit(2).alias("rank"),
    )
    return changes.unionByName(faults).unionByName(_rollouts(events))


def _rollouts(events: DataFrame) -> DataFrame:
    return rollouts(events).select(
        "group",
        F.lit("rollout").alias("booking"),
        F.lit(None).cast("string").alias("failover_id"),
        "detail",
        "interval_start",
        "interval_end",
        F.lit(None).cast("bigint").alias("epoch"),
        F.lit(3).alias("rank"),
    )


def book(slices: DataFrame, answering: DataFrame) -> DataFrame:
    """Book every bad slice to the first cause whose interval it touches, else to nothing.

    Args:
        slices: the SLICES_1S table.
        answering: result of `causes`.

    Returns:
        group, slice_start, failed, booking, failover_id, detail. One row a bad slice.
    """
    bad = slices.where(F.col("state") == "bad").alias("s")
    touches = (
        ((F.col("s.group") == F.col("c.group")) | (F.col("c.group") == ""))
        & (F.col("s.slice_start") < F.col("c.interval_end"))
        & (plus_us(F.col("s.slice_start"), SLICE_US) > F.col("c.interval_start"))
    )
    owner = F.struct("c.failover_id", "c.booking", "c.detail")
    latest_of_first_rank = F.struct(-F.col("c.rank"), "c.interval_start", "c.epoch", "c.detail")
    return (
        bad.join(F.broadcast(answering).alias("c"), on=touches, how="left")
        .groupBy("s.group", "s.slice_start")
        .agg(F.any_value("s.failed").alias("failed"), F.max_by(owner, latest_of_first_rank).alias("owner"))
        .select(
            "group",
            "slice_start",
            "failed",
            F.coalesce(F.col("owner.booking"), F.lit("unexplained")).alias("booking"),
            F.col("owner.failover_id").alias("failover_id"),
            F.col("owner.detail").alias("detail"),
        )
    )


def budget(booked: DataFrame, objective: BudgetTarget) -> DataFrame:
    """Add up bookings: the BUDGET table, one row a thing that spent budget in a group."""
    table = (
        booked.groupBy("group", "booking", "failover_id", "detail")
        .agg(F.count(F.lit(1)).alias("bad_s"))
        .withColumn("budget_s", F.lit(objective.budget_s))
        .withColumn("budget_share", F.try_divide("bad_s", "budget_s"))
    )
    return conform(table, BUDGET, table="budget")


def check(spending: DataFrame, slices: DataFrame) -> tuple[int, int]:
    """Return (bad seconds booked, bad slices): equal, or the pipeline is wrong."""
    booked = spending.agg(F.sum("bad_s").alias("total")).first()
    counted = slices.where(F.col("state") == "bad").count()
    return (int(booked["total"] or 0) if booked is not None else 0, counted)
