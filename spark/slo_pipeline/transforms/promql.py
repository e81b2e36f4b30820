"""What Prometheus' `increase()` says of the same samples: the second opinion beside the account.

Problem: people compare our sums with their dashboards, and a difference must be explained by the method, not
by a mistake. Shape: the formula of PromQL as a frame: within a range, last minus first plus what resets took
away, then extrapolated to the range's borders (to the border itself if it is nearer than 1.1 mean distances,
else by half a distance, and never below the zero of a counter). A range of two samples at least has a value;
evaluated at the end of each window, like `sum by (...) (increase(metric[window]))` with the window as step.

Two versions differ: a range of Prometheus 2 holds both its borders, one of Prometheus 3 leaves its left
border out; and 3 looks for the counter's zero only after it has chosen how far to extrapolate.

Never: it enters no account; `counters` does.

Source: prometheus/prometheus promql/functions.go, extrapolatedRate (2.42 and 3.x); migration guide to 3.0,
"Range selectors".
"""

from typing import Final, Literal

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from slo_pipeline.transforms.counters import kept_labels, series_key
from slo_pipeline.transforms.timing import US_PER_MS

Version = Literal[2, 3]
BORDER_DISTANCES_MAX: Final = 1.1
MS_PER_S: Final = 1_000.0


def promql_increase(
    samples: DataFrame, *, window_us: int, by: tuple[str, ...] = (), version: Version = 2
) -> DataFrame:
    """Compute `sum by (...) (increase(metric[window]))` at the end of every window.

    Args:
        samples: rows of the samples segment, counters only.
        window_us: the range and the step, whole milliseconds; windows are aligned to 1970.
        by: label names to keep; a series without one counts under "".
        version: whose ranges: Prometheus 2 or 3.

    Returns:
        metric, labels, window_start, promql. One row a window in which a series had two samples.
    """
    window_ms = window_us // US_PER_MS
    keyed = (
        samples.where(~F.isnan("value"))
        .withColumn("series", series_key())
        .withColumn("ts_ms", F.floor(F.unix_micros("ts") / F.lit(US_PER_MS)))
        .dropDuplicates(["metric", "instance", "series", "ts_ms"])
        .withColumn("end_ms", F.explode(_range_ends(F.col("ts_ms"), window_ms, version)))
    )
    key = ("metric", "instance", "series", "end_ms")
    previous = F.lag("value").over(Window.partitionBy(*key).orderBy("ts_ms"))
    ranges = (
        keyed.withColumn("fell_from", F.when(previous > F.col("value"), previous).otherwise(F.lit(0.0)))
        .groupBy(*key)
        .agg(
            F.any_value("labels").alias("labels"),
            F.count(F.lit(1)).alias("points"),
            F.min("ts_ms").alias("first_ms"),
            F.max("ts_ms").alias("last_ms"),
            F.min_by("value", "ts_ms").alias("first"),
            F.max_by("value", "ts_ms").alias("last"),
            F.sum("fell_from").alias("fell"),
        )
        .where(F.col("points") > 1)
    )
    value = _extrapolated(ranges, window_ms, version)
    return (
        value.withColumn("labels", kept_labels(by))
        .withColumn("series", series_key())
        .withColumn("window_start", F.timestamp_millis(F.col("end_ms") - F.lit(window_ms)))
        .groupBy("metric", "series", "window_start")
        .agg(F.any_value("labels").alias("labels"), F.sum("promql").alias("promql"))
        .select("metric", "labels", "window_start", "promql")
    )


def _range_ends(ts_ms: Column, window_ms: int, version: Version) -> Column:
    """Return the ends of the ranges that hold a time.

    There is one, or with closed ranges two for a time on a border.
    """
    width = F.lit(window_ms).cast("bigint")
    past = F.pmod(ts_ms, width)
    end = ts_ms - past + F.when(past > 0, width).otherwise(F.lit(0).cast("bigint"))
    if version == 3:
        return F.array(end)
    return F.when(past == 0, F.array(end, end + width)).otherwise(F.array(end))


def _extrapolated(ranges: DataFrame, window_ms: int, version: Version) -> DataFrame:
    """Add `promql`, the increase of one series in one range."""
    sampled_s = (F.col("last_ms") - F.col("first_ms")) / F.lit(MS_PER_S)
    distance_s = sampled_s / (F.col("points") - F.lit(1))
    grown = F.col("last") - F.col("first") + F.col("fell")
    limit_s = distance_s * F.lit(BORDER_DISTANCES_MAX)
    to_start_s = (F.col("first_ms") - (F.col("end_ms") - F.lit(window_ms))) / F.lit(MS_PER_S)
    to_end_s = (F.col("end_ms") - F.col("last_ms")) / F.lit(MS_PER_S)
    # `try_divide`: a constant counter yields no time at which it was zero.
    to_zero_s = F.when(
        (grown > 0) & (F.col("first") >= 0), sampled_s * F.try_divide(F.col("first"), grown)
    ).otherwise(F.lit(float("inf")))

    def reached(gap_s: Column) -> Column:
        return F.when(gap_s < limit_s, gap_s).otherwise(distance_s / 2)

    if version == 2:
        before_s = reached(F.least(to_start_s, to_zero_s))
    else:
        before_s = F.least(reached(to_start_s), to_zero_s)
    factor = (sampled_s + before_s + reached(to_end_s)) / sampled_s
    return ranges.withColumn("promql", grown * factor)
