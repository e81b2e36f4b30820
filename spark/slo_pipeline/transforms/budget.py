"""The error budget: how much there is, and what spent it.

Problem: a budget that merely shrinks teaches nothing; one that is "mostly failovers" cannot be checked.
Shape: every bad slice is booked to exactly one change of master or to `unexplained`. The bookings add up to the bad slices,
and `check` says both numbers so that the report can print the line.
Never: a slice is not split, and not booked by guess: only if it touches the change's interval.
"""

from typing import Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from slo_pipeline.schemas.frames import conform
from slo_pipeline.schemas.tables import BUDGET
from slo_pipeline.transforms.slices import SLICE_US
from slo_pipeline.transforms.timing import plus_us

S_PER_DAY: Final = 86_400


class Objective(NamedTuple):
    """What was promised: `target_percent` of the seconds of `window_days` days are good."""

    target_percent: float = 99.95
    window_days: int = 30

    @property
    def budget_s(self) -> float:
        """Bad seconds a group may have in the window: 1,296 for 99.95 % of 30 days."""
        return round((100.0 - self.target_percent) * self.window_days * S_PER_DAY / 100.0, 6)


def book(slices: DataFrame, timed: DataFrame) -> DataFrame:
    """Book every bad slice to the latest change of master whose interval it touches, else to nothing.

    Args:
        slices: the SLICES_1S table.
        timed: result of `failovers.with_gaps`.

    Returns:
        group, slice_start, failed, booking, failover_id (null when unexplained). One row a bad slice.
    """
    bad = slices.where(F.col("state") == "bad").alias("s")
    touches = (
        (F.col("s.group") == F.col("c.group"))
        & (F.col("s.slice_start") < F.col("c.interval_end"))
        & (plus_us(F.col("s.slice_start"), SLICE_US) > F.col("c.interval_start"))
    )
    bounds = timed.select("failover_id", "group", "booking", "interval_start", "interval_end", "epoch")
    latest = F.max_by(F.struct("c.failover_id", "c.booking"), F.struct("c.interval_start", "c.epoch"))
    return (
        bad.join(F.broadcast(bounds).alias("c"), on=touches, how="left")
        .groupBy("s.group", "s.slice_start")
        .agg(F.any_value("s.failed").alias("failed"), latest.alias("owner"))
        .select(
            "group",
            "slice_start",
            "failed",
            F.coalesce(F.col("owner.booking"), F.lit("unexplained")).alias("booking"),
            F.col("owner.failover_id").alias("failover_id"),
        )
    )


def budget(booked: DataFrame, objective: Objective) -> DataFrame:
    """Add up bookings: the BUDGET table, one row a thing that spent budget in a group."""
    table = (
        booked.groupBy("group", "booking", "failover_id")
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
