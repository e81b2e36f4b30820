"""Count acknowledged messages that are present, and those that are lost.

Problem: "no message lost" is a claim about messages, so it needs each one read back, and an answer for those
that cannot be judged yet. Shape: a send that was acknowledged is lost if its reader says `missing`, or if
that reader went on reading for UNREAD_MAX_US after the acknowledgement without finding it; otherwise, unread,
it is pending. A reader is the process that sent (`clock_id`): one that was restarted owes no answer for its
predecessor's messages. A send that failed without a verdict may still be stored: ambiguous, and counted as
found when it is read. Never: a lost count of 0 for a group without read-back; the count is absent.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from slo_pipeline.schemas.frames import conform
from slo_pipeline.schemas.tables import DURABILITY, LOST
from slo_pipeline.transforms.timing import US_PER_S, plus_us

# Longer than any wait for a new master after which a reader still expects to find a message.
UNREAD_MAX_US: Final = 120 * US_PER_S
# The broker refused, so nothing was stored; every other failure leaves the message's fate open.
DEFINITE_REFUSALS: Final = ("refused", "no_route", "not_master")


def verdicts(probe_ops: DataFrame) -> DataFrame:
    """Judge every send of every group that is read back.

    Returns:
        group, seq, intended_ts, acknowledged_ts (null unless acknowledged), broker_addr, queue_id,
        queue_offset,
        verdict: read_back | lost | pending | ambiguous | ambiguous_found | refused.
    """
    reads = probe_ops.where(F.col("op") == "read")
    by_message = reads.groupBy("group", "seq").agg(
        F.bool_or(F.col("result") == "ok").alias("was_read"),
        F.bool_or(F.col("result") == "missing").alias("was_missed"),
    )
    progress = reads.groupBy("group", "clock_id").agg(
        F.max(F.coalesce("end_ts", "start_ts")).alias("last_read_ts")
    )
    read_groups = reads.select("group").distinct()
    found = F.coalesce("was_read", F.lit(False))
    missed = F.coalesce("was_missed", F.lit(False))
    overdue = F.coalesce(F.col("end_ts") <= plus_us(F.col("last_read_ts"), -UNREAD_MAX_US), F.lit(False))
    acknowledged = F.col("result") == "ok"
    verdict = (
        F.when(acknowledged & missed, "lost")
        .when(acknowledged & found, "read_back")
        .when(acknowledged & overdue, "lost")
        .when(acknowledged, "pending")
        .when(found, "ambiguous_found")
        .when(F.col("result").isin(*DEFINITE_REFUSALS), "refused")
        .otherwise("ambiguous")
    )
    return (
        probe_ops.where(F.col("op") == "send")
        .join(F.broadcast(read_groups), on="group", how="inner")
        .join(F.broadcast(progress), on=["group", "clock_id"], how="left")
        .join(by_message, on=["group", "seq"], how="left")
        .select(
            "group",
            "seq",
            "intended_ts",
            F.when(acknowledged, F.col("end_ts")).alias("acknowledged_ts"),
            "broker_addr",
            "queue_id",
            "queue_offset",
            verdict.alias("verdict"),
        )
    )


def lost(judged: DataFrame) -> DataFrame:
    """List the acknowledged messages that are gone: the LOST table."""
    return conform(judged.where(F.col("verdict") == "lost"), LOST, table="lost")


def durability(judged: DataFrame) -> DataFrame:
    """Count verdicts: the DURABILITY table, one row a group that is read back."""

    def count(*names: str) -> Column:
        return F.count_if(F.col("verdict").isin(*names))

    table = judged.groupBy("group").agg(
        count("read_back", "lost", "pending").alias("acknowledged"),
        count("read_back").alias("read_back"),
        count("lost").alias("lost"),
        count("pending").alias("pending"),
        count("ambiguous", "ambiguous_found").alias("ambiguous"),
        count("ambiguous_found").alias("ambiguous_found"),
    )
    return conform(table, DURABILITY, table="durability")
