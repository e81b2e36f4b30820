"""Write availability in slices of one second.

Problem: a dead master exports nothing, so broker-side success ratios are 0/0 exactly while writes fail; and a
client that waits for its answer before it sends again hides most of the outage. Shape: the canary sends on a
fixed schedule. Each send counts in the second in which it was *intended*. A slice is good when there was a
send and all were acknowledged, bad when one failed, unknown without any send: neither good nor bad, and
shown. Never: an unknown slice is not counted as good.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from slo_pipeline.schemas.frames import conform
from slo_pipeline.schemas.tables import SLI_STRIP, SLI_WINDOW, SLICES_1S
from slo_pipeline.transforms.timing import US_PER_S, plus_us, slice_of

SLICE_US: Final = US_PER_S


def slices_1s(probe_ops: DataFrame) -> DataFrame:
    """Judge every second of every group from its first send to the end of the input.

    Args:
        probe_ops: rows of the probe_ops segment.

    Returns:
        The SLICES_1S table. A group whose canary fell silent is unknown up to the last send of any group.
    """
    failed = F.count_if(F.col("result") != "ok")
    seen = (
        probe_ops.where(F.col("op") == "send")
        .withColumn("slice_start", slice_of(F.col("intended_ts"), SLICE_US))
        .groupBy("group", "slice_start")
        .agg(F.count(F.lit(1)).alias("attempts"), failed.alias("failed"))
        .withColumn("state", F.when(F.col("failed") > 0, "bad").otherwise("good"))
    )
    return conform(seen.unionByName(_unknown(seen)), SLICES_1S, table="slices_1s")


def _unknown(seen: DataFrame) -> DataFrame:
    """Fill the seconds between two seen slices, and after a group's last one."""
    end = seen.agg(plus_us(F.max("slice_start"), SLICE_US).alias("input_end"))
    order = Window.partitionBy("group").orderBy("slice_start")
    following = F.lead("slice_start").over(order)
    runs = (
        seen.crossJoin(F.broadcast(end))
        .withColumn("from_us", F.unix_micros("slice_start") + F.lit(SLICE_US))
        .withColumn("until_us", F.unix_micros(F.coalesce(following, "input_end")))
        .where(F.col("from_us") < F.col("until_us"))
    )
    seconds = F.sequence("from_us", F.col("until_us") - F.lit(1), F.lit(SLICE_US).cast("bigint"))
    return runs.withColumn("second_us", F.explode(seconds)).select(
        "group",
        F.timestamp_micros("second_us").alias("slice_start"),
        F.lit(0).cast("bigint").alias("attempts"),
        F.lit(0).cast("bigint").alias("failed"),
        F.lit("unknown").alias("state"),
    )


def strip(slices: DataFrame, *, bucket_us: int) -> DataFrame:
    """Add up slices in half-open stretches of time: the SLI_STRIP table."""
    table = (
        slices.withColumn("ts", slice_of(F.col("slice_start"), bucket_us))
        .groupBy("group", "ts")
        .agg(
            F.count_if(F.col("state") == "good").alias("good_s"),
            F.count_if(F.col("state") == "bad").alias("bad_s"),
            F.count_if(F.col("state") == "unknown").alias("unknown_s"),
        )
    )
    return conform(table, SLI_STRIP, table="sli_strip")


def sli_window(slices: DataFrame) -> DataFrame:
    """Add up each group's slices.

    Returns:
        The SLI_WINDOW table; availability is null for a group of unknown slices only.
    """
    counted = slices.groupBy("group").agg(
        F.min("slice_start").alias("window_start"),
        plus_us(F.max("slice_start"), SLICE_US).alias("window_end"),
        F.count_if(F.col("state") == "good").alias("good_s"),
        F.count_if(F.col("state") == "bad").alias("bad_s"),
        F.count_if(F.col("state") == "unknown").alias("unknown_s"),
    )
    judged = F.col("good_s") + F.col("bad_s")
    return conform(
        counted.withColumn("availability", F.try_divide("good_s", judged)), SLI_WINDOW, table="sli_window"
    )
