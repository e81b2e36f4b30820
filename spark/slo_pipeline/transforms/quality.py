"""How much of the input can be believed: scrape coverage, gaps, restarts.

Problem: a quiet chart may mean a quiet system or a dead collector. Shape: one row an instance: how many
scrapes there are, how many its own rhythm would have made up to the end of the input, where the holes are.
The rhythm is the median distance of its scrapes, so no configuration is needed. Never: nothing here is
repaired; it is said.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from slo_pipeline.schemas.frames import conform
from slo_pipeline.schemas.tables import COVERAGE
from slo_pipeline.transforms.counters import UP
from slo_pipeline.transforms.timing import US_PER_S

# A scrape that comes later than this many rhythms after its predecessor left a gap.
GAP_RHYTHMS: Final = 2.5


def coverage(samples: DataFrame) -> DataFrame:
    """Measure each instance's scrapes against its own rhythm: the COVERAGE table."""
    # A scrape that failed still leaves `up` and its own duration.
    failed = (F.col("metric") == UP) & (F.col("value") == 0.0)
    scrapes = (
        samples.groupBy("instance", "ts")
        .agg(F.max("instance_uid").alias("uid"), F.bool_or(failed).alias("failed"))
        .where(~F.col("failed"))
    )
    end = scrapes.agg(F.max(F.unix_micros("ts")).alias("end_us"))
    order = Window.partitionBy("instance").orderBy("ts")
    is_other = F.col("uid_before") != F.col("uid")
    stepped = (
        scrapes.withColumn("step_us", F.unix_micros("ts") - F.unix_micros(F.lag("ts").over(order)))
        .withColumn("uid_before", F.lag("uid").over(order))
        .withColumn("restarted", is_other & (F.col("uid_before") != "") & (F.col("uid") != ""))
    )  # fmt: skip
    rhythm = stepped.groupBy("instance").agg(F.percentile("step_us", 0.5).alias("rhythm_us"))
    counted = (
        stepped.join(F.broadcast(rhythm), on="instance", how="inner")
        .groupBy("instance", "rhythm_us")
        .agg(
            F.min("ts").alias("first_ts"),
            F.max("ts").alias("last_ts"),
            F.count(F.lit(1)).alias("scrapes"),
            F.count_if(F.col("step_us") > F.col("rhythm_us") * F.lit(GAP_RHYTHMS)).alias("gaps"),
            (F.max("step_us") / F.lit(float(US_PER_S))).alias("longest_gap_s"),
            F.count_if(F.col("restarted")).alias("restarts"),
        )
        .crossJoin(F.broadcast(end))
    )
    span_us = F.col("end_us") - F.unix_micros("first_ts")
    by_rhythm = F.floor(F.try_divide(span_us, F.col("rhythm_us"))) + F.lit(1)
    expected = F.greatest(F.coalesce(by_rhythm, F.lit(1)), F.col("scrapes"))
    table = counted.withColumn("expected", expected.cast("bigint")).withColumn(
        "coverage", F.col("scrapes") / F.col("expected")
    )
    return conform(table, COVERAGE, table="coverage")
