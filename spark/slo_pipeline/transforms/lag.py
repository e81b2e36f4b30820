"""Compute how far replicas lagged, and the members of the SyncStateSet.

Problem: a lag that is averaged over a bucket hides its spike, and a SyncStateSet is a step, not a sample.
Shape: the maximum of the gauge a bucket; the set's steps from events, keyed by the order of the log, not of
clocks. Never: no interpolation between steps.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from slo_pipeline.schemas.frames import conform
from slo_pipeline.schemas.tables import IN_SYNC_STEPS, LAG_POINTS
from slo_pipeline.transforms.timing import slice_of

LAG_METRIC: Final = "rmqha_ha_lag_bytes"


def lag_points(samples: DataFrame, *, bucket_us: int) -> DataFrame:
    """Take the worst replication lag of each replica in half-open buckets of time.

    Returns:
        The LAG_POINTS table. The gauge's labels `group` and `broker_id` name the replica.
    """
    labels = F.col("labels")
    table = (
        samples.where((F.col("metric") == LAG_METRIC) & ~F.isnan("value"))
        .withColumn("ts", slice_of(F.col("ts"), bucket_us))
        .withColumn("group", F.coalesce(labels["group"], F.lit("")))
        .withColumn("broker_id", F.coalesce(labels["broker_id"], F.lit("")))
        .groupBy("group", "broker_id", "instance", "ts")
        .agg(F.max("value").alias("lag_bytes_max"))
    )
    return conform(table, LAG_POINTS, table="lag_points")


def members(attribute: Column) -> Column:
    """Return the ids of a comma list as a sorted array; "" and null are the empty set."""
    ids = F.split(F.coalesce(attribute, F.lit("")), ",")
    return F.array_sort(F.filter(F.transform(ids, F.trim), lambda one: one != F.lit("")))


def set_after() -> Column:
    """Return an event's `sync_state_set_after`, or its `sync_state_set` where a source says only that."""
    return F.coalesce(F.col("attrs")["sync_state_set_after"], F.col("attrs")["sync_state_set"])


def in_sync_steps(events: DataFrame) -> DataFrame:
    """List every value a group's SyncStateSet took: the IN_SYNC_STEPS table."""
    told = events.where(F.col("kind").isin("SyncStateSetChanged", "MasterElected") & set_after().isNotNull())
    ids = members(set_after())
    table = told.select(
        "cluster",
        "group",
        "ts",
        "epoch",
        F.array_join(ids, ",").alias("members"),
        F.size(ids).alias("size"),
    )
    return conform(table, IN_SYNC_STEPS, table="in_sync_steps")
