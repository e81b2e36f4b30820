"""What a counter counted: pair increments.

Problem: a rate that extrapolates is fine on a chart and wrong in an account: windows do not add up,
increments that cross a gap vanish, and a restart that climbs past the old value looks like progress. Shape:
one row a pair of neighbouring samples of a series. The increment is the difference, or the whole new value
after a reset, and it belongs to the half-open window of the *later* sample. So the sum over days is the
month's sum, always.

- A value below its predecessor is a reset. So is another known `instance_uid`, even when the value went up:
  Prometheus cannot see that one.
- The first sample of a series counts from 0 if its process answered a scrape before without it (RocketMQ's
  series appear with their first event; `up` says that it answered), and counts nothing if the input merely
  begins there.
- A gap over GAP_MAX_US is spread evenly over the windows it spans and flagged `interpolated`.

Never: no extrapolation to window borders.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from slo_pipeline.schemas.frames import conform
from slo_pipeline.schemas.tables import INCREASES
from slo_pipeline.transforms.timing import US_PER_S, slice_of

GAP_MAX_US: Final = 300 * US_PER_S
UP: Final = "up"


def series_key() -> Column:
    """Return a text that is equal exactly for equal label maps, whatever their order."""
    return F.to_json(F.array_sort(F.map_entries("labels")))


def births(samples: DataFrame) -> DataFrame:
    """Find when each process first answered a scrape: instance, instance_uid, born_ts.

    Unknown without an `up`.
    """
    answered = samples.where((F.col("metric") == UP) & (F.col("value") == 1.0))
    return answered.groupBy("instance", "instance_uid").agg(F.min("ts").alias("born_ts"))


def kept_labels(by: tuple[str, ...]) -> Column:
    """Return a map of some labels, "" for each that a series lacks.

    `instance` is also the sample's own column.
    """
    values = [
        F.coalesce(F.col("labels")[name], F.col("instance") if name == "instance" else F.lit(""))
        for name in by
    ]
    return F.map_from_arrays(
        F.array(*[F.lit(name) for name in by]).cast("array<string>"),
        F.array(*values).cast("array<string>"),
    )


def increments(samples: DataFrame, born: DataFrame) -> DataFrame:
    """Turn samples of counters into pair increments.

    Args:
        samples: rows of the samples segment, counters only.
        born: `births` of all samples, not only the counters', so that a series that appears late counts from
            0.

    Returns:
        metric, labels, instance, series, ts, prev_ts (null for a counted first sample), increment (>= 0),
        reset. One row a pair; first samples that count nothing are left out.
    """
    keyed = samples.where(~F.isnan("value")).withColumn("series", series_key())
    order = Window.partitionBy("metric", "instance", "series").orderBy("ts")
    paired = (
        keyed.withColumn("prev_ts", F.lag("ts").over(order))
        .withColumn("prev_value", F.lag("value").over(order))
        .withColumn("prev_uid", F.lag("instance_uid").over(order))
        .join(F.broadcast(born), on=["instance", "instance_uid"], how="left")
    )
    # "" is an unknown process: perhaps the same.
    both_known = (F.col("prev_uid") != "") & (F.col("instance_uid") != "")
    other_process = both_known & (F.col("prev_uid") != F.col("instance_uid"))
    went_down = F.col("value") < F.col("prev_value")
    is_reset = F.col("prev_ts").isNotNull() & (other_process | went_down)
    appeared_late = F.col("prev_ts").isNull() & (F.col("ts") > F.col("born_ts"))
    increment = F.when(is_reset | appeared_late, F.col("value")).otherwise(
        F.col("value") - F.col("prev_value")
    )
    return paired.select(
        "metric",
        "labels",
        "instance",
        "series",
        "ts",
        "prev_ts",
        increment.alias("increment"),
        is_reset.alias("reset"),
    ).where(F.col("increment").isNotNull())


def increase(pairs: DataFrame, *, window_us: int, by: tuple[str, ...] = ()) -> DataFrame:
    """Sum increments in half-open windows, by the values of some labels.

    Args:
        pairs: result of `increments`.
        window_us: window width; windows are aligned to 1970.
        by: label names to keep; a series without one counts under "".

    Returns:
        The INCREASES table: metric, labels, window_start, increase, interpolated.
    """
    gap_us = F.unix_micros("ts") - F.unix_micros("prev_ts")
    is_long = F.coalesce(gap_us > F.lit(GAP_MAX_US), F.lit(False))
    booked = pairs.withColumn("interpolated", is_long)
    whole = booked.where(~F.col("interpolated")).select(
        "metric",
        "instance",
        "labels",
        slice_of(F.col("ts"), window_us).alias("window_start"),
        "increment",
        "interpolated",
    )
    summed = (
        whole.unionByName(_spread(booked.where(F.col("interpolated")), window_us))
        .withColumn("labels", kept_labels(by))
        .withColumn("series", series_key())
        .groupBy("metric", "series", "window_start")
        .agg(
            F.any_value("labels").alias("labels"),
            F.sum("increment").alias("increase"),
            F.bool_or("interpolated").alias("interpolated"),
        )
    )
    return conform(summed, INCREASES, table="increases")


def _spread(pairs: DataFrame, window_us: int) -> DataFrame:
    """Divide each long gap's increment over the windows it spans, by the share of the gap in each."""
    start_us, end_us = F.unix_micros("prev_ts"), F.unix_micros("ts")
    first = F.unix_micros(slice_of(F.col("prev_ts"), window_us))
    windows = F.sequence(first, end_us - F.lit(1), F.lit(window_us).cast("bigint"))
    cut = pairs.withColumn("window_us", F.explode(windows))
    overlap_us = F.least(end_us, F.col("window_us") + F.lit(window_us)) - F.greatest(
        start_us, F.col("window_us")
    )
    return cut.select(
        "metric",
        "instance",
        "labels",
        F.timestamp_micros("window_us").alias("window_start"),
        (F.col("increment") * overlap_us / (end_us - start_us)).alias("increment"),
        "interpolated",
    )
