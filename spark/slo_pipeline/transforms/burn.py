"""How fast budgets burned, minute by minute, and what would have paged when.

Problem: an alert rule that was never run over the past is a guess: it pages for nothing, or sleeps through an
outage. Shape: counts are added up by minute on a grid without holes; a running sum turns every window into
one subtraction, so a month costs the same for a window of 5 minutes and one of 3 days. An alert fires in the
minutes in which both its windows burn faster than its threshold; neighbouring minutes are one page.

    burn rate of a window = (bad / (good + bad)) / allowed        allowed = 1 - target

An objective of 100 % allows nothing: every bad one fires.
Never: an unknown slice burns.

Source: Site Reliability Workbook, "Alerting on SLOs", multiwindow, multi-burn-rate alerts.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from slo_pipeline.objectives.model import BurnAlert, Objectives, seconds
from slo_pipeline.schemas.frames import conform
from slo_pipeline.schemas.tables import PAGES, SLO_STATUS
from slo_pipeline.transforms.timing import US_PER_S, plus_us, slice_of

MINUTE_US: Final = 60 * US_PER_S
STATUS_WINDOWS: Final = ("1h", "6h", "1d", "3d")
_SERIES: Final = ("slo", "group")


def minutes(counts: DataFrame) -> DataFrame:
    """Add up counts by minute, from each series' first one to the last of all.

    Args:
        counts: the SLI_COUNTS table.

    Returns:
        slo, group, minute, good, bad, good_so_far, bad_so_far. One row a minute, without holes.
    """
    summed = (
        counts.withColumn("minute", slice_of(F.col("ts"), MINUTE_US))
        .groupBy(*_SERIES, "minute")
        .agg(F.sum("good").alias("good"), F.sum("bad").alias("bad"))
    )
    end = summed.agg(F.max(F.unix_micros("minute")).alias("end_us"))
    grid = (
        summed.groupBy(*_SERIES)
        .agg(F.min(F.unix_micros("minute")).alias("begin_us"))
        .crossJoin(F.broadcast(end))
        .withColumn("at_us", F.explode(F.sequence("begin_us", "end_us", F.lit(MINUTE_US).cast("bigint"))))
        .select(*_SERIES, F.timestamp_micros("at_us").alias("minute"))
    )
    so_far = Window.partitionBy(*_SERIES).orderBy("minute").rowsBetween(Window.unboundedPreceding, 0)
    dense = grid.join(summed, on=[*_SERIES, "minute"], how="left").select(
        *_SERIES,
        "minute",
        F.coalesce("good", F.lit(0)).alias("good"),
        F.coalesce("bad", F.lit(0)).alias("bad"),
    )
    return dense.withColumn("good_so_far", F.sum("good").over(so_far)).withColumn(
        "bad_so_far", F.sum("bad").over(so_far)
    )


def _ratio(window: str) -> Column:
    """Return the bad share of the window that ends with a minute; null when nothing was counted in it."""
    rows = seconds(window) // 60
    by_minute = Window.partitionBy(*_SERIES).orderBy("minute")

    def grown(name: str) -> Column:
        return F.col(name) - F.coalesce(F.lag(name, rows).over(by_minute), F.lit(0))

    bad = grown("bad_so_far")
    return F.try_divide(bad, bad + grown("good_so_far"))


def _allowed(objectives: Objectives) -> Column:
    """Return the share that an objective's row may be bad."""
    chosen = F.lit(None).cast("double")
    for slo in objectives.slos:
        chosen = F.when(F.col("slo") == slo.name, F.lit(slo.allowed)).otherwise(chosen)
    return chosen


def pages(by_minute: DataFrame, objectives: Objectives) -> DataFrame:
    """Find what would have paged: the PAGES table.

    Args:
        by_minute: result of `minutes`.
        objectives: with their burn alerts.
    """
    table: DataFrame | None = None
    for alert in objectives.alerting:
        one = _fired(by_minute, alert, objectives)
        table = one if table is None else table.unionByName(one)
    if table is None:
        return conform(
            by_minute.where(F.lit(False)).select(
                *_SERIES,
                *[F.lit("").alias(name) for name in ("severity", "long_window", "short_window")],
                F.lit(0.0).alias("burn_rate"),
                F.col("minute").alias("start_ts"),
                F.col("minute").alias("end_ts"),
            ),
            PAGES,
            table="pages",
        )
    return conform(table, PAGES, table="pages")


def _fired(by_minute: DataFrame, alert: BurnAlert, objectives: Objectives) -> DataFrame:
    limit = F.lit(alert.threshold) * _allowed(objectives)
    burning = by_minute.select(
        *_SERIES,
        "minute",
        (_ratio(alert.lookbackWindow) > limit).alias("long"),
        (_ratio(alert.shortWindow) > limit).alias("short"),
    ).where(F.col("long") & F.col("short"))
    order = Window.partitionBy(*_SERIES).orderBy("minute")
    place = F.floor(F.unix_micros("minute") / F.lit(MINUTE_US)) - F.row_number().over(order)
    return (
        burning.withColumn("island", place)
        .groupBy(*_SERIES, "island")
        .agg(F.min("minute").alias("start_ts"), plus_us(F.max("minute"), MINUTE_US).alias("end_ts"))
        .select(
            *_SERIES,
            F.lit(alert.severity).alias("severity"),
            F.lit(alert.threshold).alias("burn_rate"),
            F.lit(alert.lookbackWindow).alias("long_window"),
            F.lit(alert.shortWindow).alias("short_window"),
            "start_ts",
            "end_ts",
        )
    )


def status(counts: DataFrame, by_minute: DataFrame, objectives: Objectives) -> DataFrame:
    """Add up each objective of each group, with its burn rates at the end: the SLO_STATUS table."""
    sums = counts.groupBy(*_SERIES).agg(
        *[F.sum(name).alias(name) for name in ("good", "bad", "unknown")],
    )
    rates = [
        F.try_divide(_ratio(window), _allowed(objectives)).alias(f"burn_{window}")
        for window in STATUS_WINDOWS
    ]
    end = by_minute.agg(F.max("minute").alias("minute"))
    last = by_minute.select(*_SERIES, "minute", *rates).join(F.broadcast(end), on="minute", how="left_semi")
    table = sums.join(last.drop("minute"), on=list(_SERIES), how="left").withColumn(
        "attained", F.try_divide("good", F.col("good") + F.col("bad"))
    )
    return conform(table, SLO_STATUS, table="slo_status")
