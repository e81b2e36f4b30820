"""The seven phases of a change of master.

    P0 fault > P1 detection > P2 election > P3 promotion > P4 publication > P5 first write > P6 redundancy
       |           |             |              |              |                |               |
    injected   suspected      elected       role taken     route seen      acknowledged   set whole again

Problem: each mark is set by the clock of whoever saw it, and the order of marks is not fixed: with address
takeover a client's first write succeeds without any new route. Shape: a phase runs from the furthest mark so
far to its own mark, so phases never overlap and their sum is the whole. A mark that lies before the furthest
one gives a phase of 0 ms: `overtaken` if one process set both marks (then it really came earlier),
`uncertain` if two clocks did (the order is unknown). `skew_ms` keeps how far back it lay. Never: no negative
duration, no guess for an unset mark (`absent`).
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from slo_pipeline.schemas.frames import conform
from slo_pipeline.schemas.tables import FAILOVER_PHASES, PHASES
from slo_pipeline.transforms.timing import ms_between

# Phase -> the columns of its mark's time and clock.
MARKS: Final = {
    "P0 fault": ("fault_ts", "fault_clock"),
    "P1 detection": ("suspected_ts", "suspected_clock"),
    "P2 election": ("elected_ts", "elected_clock"),
    "P3 promotion": ("role_taken_ts", "role_taken_clock"),
    "P4 publication": ("route_seen_ts", "route_seen_clock"),
    "P5 first write": ("first_ack_ts", "first_ack_clock"),
    "P6 redundancy": ("redundancy_ts", "redundancy_clock"),
}


def phases(timed: DataFrame) -> DataFrame:
    """Compute seven rows a change of master: the FAILOVER_PHASES table.

    Args:
        timed: result of `failovers.with_gaps`.
    """
    marks = [
        F.struct(
            F.lit(position).alias("position"),
            F.lit(phase).alias("phase"),
            F.col(MARKS[phase][0]).alias("ts"),
            F.col(MARKS[phase][1]).alias("clock"),
        )
        for position, phase in enumerate(PHASES)
    ]
    rows = timed.select(
        "failover_id", _base().alias("base"), F.explode(F.array(*marks)).alias("mark")
    ).select("failover_id", "base", "mark.*")
    so_far = (
        Window.partitionBy("failover_id").orderBy("position").rowsBetween(Window.unboundedPreceding, -1)
    )  # fmt: skip
    here = F.when(F.col("ts").isNotNull(), F.struct("ts", "clock"))
    furthest = F.max(here).over(so_far)
    placed = rows.withColumn("furthest", F.coalesce(F.greatest(furthest, "base"), "base"))
    return conform(_judged(placed), FAILOVER_PHASES, table="failover_phases")


def _base() -> Column:
    """Return where the first phase begins: the fault, else the order to switch, else the last heartbeat."""
    begun = (
        F.when(F.col("fault_ts").isNotNull(), F.col("fault_ts"))
        .when(F.col("booking") == "switchover", F.col("proposed_ts"))
        .otherwise(F.col("last_heartbeat_ts"))
    )
    clock = F.when(F.col("fault_ts").isNotNull(), F.col("fault_clock")).otherwise(F.col("elected_clock"))
    return F.when(begun.isNotNull(), F.struct(begun.alias("ts"), clock.alias("clock")))


def _judged(placed: DataFrame) -> DataFrame:
    start, mark = F.col("furthest.ts"), F.col("ts")
    is_fault = F.col("phase") == PHASES[0]
    lies_before = F.coalesce((mark < start) & ~is_fault, F.lit(False))
    order = (
        F.when(mark.isNull(), "absent")
        .when(~lies_before, "in_order")
        .when(F.col("furthest.clock") == F.col("clock"), "overtaken")
        .otherwise("uncertain")
    )
    begin = F.when(mark.isNotNull(), F.coalesce(start, mark))
    finish = F.greatest(mark, begin)
    return placed.select(
        "failover_id",
        "phase",
        begin.alias("start_ts"),
        F.when(mark.isNotNull(), finish).alias("end_ts"),
        F.when(mark.isNotNull(), ms_between(begin, finish)).alias("duration_ms"),
        F.when(lies_before, ms_between(mark, start)).alias("skew_ms"),
        F.col("furthest.clock").alias("start_clock"),
        F.col("clock").alias("end_clock"),
        order.alias("order"),
    )
