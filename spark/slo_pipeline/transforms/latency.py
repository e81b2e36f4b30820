"""How long acknowledged sends took, from the moment they were intended.

Problem: a latency measured from the send's own start leaves out the time it waited behind a stuck one. Shape:
exact quantiles (not sketches: a canary's rows are few), a histogram with fixed bounds, a thinned series over
time, and the raw points near a failover. Never: a latency for a failed send; it is counted, and drawn at its
own height.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from slo_pipeline.schemas.frames import conform
from slo_pipeline.schemas.tables import LATENCY, LATENCY_HISTOGRAM, LATENCY_POINTS, LATENCY_SERIES
from slo_pipeline.transforms.timing import ms_between, slice_of

# The canary's own histogram has the same bounds.
BOUNDS_MS: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)


def _latency_ms() -> Column:
    return ms_between(F.col("intended_ts"), F.col("end_ts"))


def latency_points(probe_ops: DataFrame) -> DataFrame:
    """Return one row a send: the LATENCY_POINTS table."""
    sends = probe_ops.where(F.col("op") == "send").select(
        "group", "seq", F.col("intended_ts").alias("ts"), _latency_ms().alias("latency_ms"), "result"
    )
    return conform(sends, LATENCY_POINTS, table="latency_points")


def _quantile(share: float) -> Column:
    return F.percentile(F.when(F.col("result") == "ok", F.col("latency_ms")), share)


def latency(points: DataFrame) -> DataFrame:
    """Compute exact quantiles of acknowledged sends: the LATENCY table, one row a group."""
    acknowledged = F.col("result") == "ok"
    table = points.groupBy("group").agg(
        F.count_if(acknowledged).alias("acknowledged"),
        F.count_if(~acknowledged).alias("failed"),
        _quantile(0.5).alias("p50_ms"),
        _quantile(0.9).alias("p90_ms"),
        _quantile(0.99).alias("p99_ms"),
        _quantile(0.999).alias("p999_ms"),
        F.max(F.when(acknowledged, F.col("latency_ms"))).alias("max_ms"),
    )
    return conform(table, LATENCY, table="latency")


def latency_histogram(points: DataFrame) -> DataFrame:
    """Count acknowledged sends by bucket: the LATENCY_HISTOGRAM table; empty buckets are left out."""
    bucket = F.lit(float("inf"))
    for bound in reversed(BOUNDS_MS):
        bucket = F.when(F.col("latency_ms") <= F.lit(bound), F.lit(bound)).otherwise(bucket)
    table = (
        points.where(F.col("result") == "ok")
        .withColumn("le_ms", bucket)
        .groupBy("group", "le_ms")
        .agg(F.count(F.lit(1)).alias("sends"))
    )
    return conform(table, LATENCY_HISTOGRAM, table="latency_histogram")


def latency_series(points: DataFrame, *, bucket_us: int) -> DataFrame:
    """Summarise acknowledged sends in half-open buckets of time: the LATENCY_SERIES table."""
    table = (
        points.withColumn("ts", slice_of(F.col("ts"), bucket_us))
        .groupBy("group", "ts")
        .agg(
            _quantile(0.5).alias("p50_ms"),
            _quantile(0.99).alias("p99_ms"),
            F.max(F.when(F.col("result") == "ok", F.col("latency_ms"))).alias("max_ms"),
            F.count_if(F.col("result") != "ok").alias("failed"),
        )
    )
    return conform(table, LATENCY_SERIES, table="latency_series")
