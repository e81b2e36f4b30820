"""At most so many points reach a plot, and the worst of what they stand for is among them."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from slo_pipeline.jobs.gold import CLOSEUP_US, POINTS_MAX, closeup_points
from slo_pipeline.jobs.period import STRETCHES_MAX
from slo_pipeline.reports.drawing.charts import REPLICAS_MAX
from slo_pipeline.schemas.segments import RESULTS
from testkit.generators.segment_rows import us

SENDS = 60_000
MINUTE_US = 60_000_000
SPIKE = 31_415


def test_a_crowded_failover_keeps_the_slowest_send_of_each_stretch_and_result(spark: SparkSession) -> None:
    begin_us = us(0) - CLOSEUP_US
    apart_us = (MINUTE_US + 2 * CLOSEUP_US) // SENDS
    names = F.array(*[F.lit(name) for name in RESULTS])
    points = spark.range(SENDS).select(
        F.lit("orders").alias("group"),
        F.col("id").alias("seq"),
        F.timestamp_micros(F.lit(begin_us) + F.col("id") * apart_us).alias("ts"),
        F.when(F.col("id") == SPIKE, 950.0).otherwise(F.col("id") % 7 + 1.0).alias("latency_ms"),
        names[(F.col("id") % len(RESULTS)).cast("int")].alias("result"),
    )
    timed = spark.range(1).select(
        F.lit("demo/orders/2").alias("failover_id"),
        F.lit("orders").alias("group"),
        F.timestamp_micros(F.lit(us(0))).alias("interval_start"),
        F.timestamp_micros(F.lit(us(0) + MINUTE_US)).alias("interval_end"),
    )
    found = closeup_points(points, timed).collect()
    assert SENDS // 20 < len(found) <= POINTS_MAX
    assert max(row["latency_ms"] for row in found) == 950.0
    assert {row["result"] for row in found} == set(RESULTS)


def test_replicas_and_stretches_of_a_period_fit_one_plot() -> None:
    assert REPLICAS_MAX * STRETCHES_MAX <= POINTS_MAX
