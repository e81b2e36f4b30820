"""Which rows have a time that cannot be true.

Problem: the period, the window of each budget and the burn rates all end with the newest row. One row of a
node whose clock is days ahead moves all of them, and the healthy groups fall out of the report. Shape: a row
is credible if each of its times lies between `EARLIEST_US` and the report's making plus `AHEAD_MAX_S`. The
other rows are set apart: no formula reads them, and the report says how many they are, whose, and how far
off. Never: the clock is not read here; `now_us` is a parameter. A wrong time is not corrected.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from slo_pipeline.schemas.frames import conform
from slo_pipeline.schemas.names import EVENTS_TABLE, OPERATIONS_TABLE, SAMPLES_TABLE
from slo_pipeline.schemas.segments import AHEAD_MAX_S
from slo_pipeline.schemas.tables import APART
from slo_pipeline.transforms.timing import US_PER_S

# 2020-01-01. A node without a clock of its own begins in 1970.
EARLIEST_US: Final = 1_577_836_800 * US_PER_S
# By kind of segment: the times of a row.
TIMES: Final = {
    SAMPLES_TABLE: ("ts",),
    EVENTS_TABLE: ("ts",),
    OPERATIONS_TABLE: ("intended_ts", "start_ts", "end_ts"),
}
# By kind of segment: whose clock wrote them, and the group that it wrote of.
_WRITER: Final = {SAMPLES_TABLE: "instance", EVENTS_TABLE: "clock_id", OPERATIONS_TABLE: "clock_id"}


def latest_us(now_us: int) -> int:
    """Return the last credible microsecond of a report that is made at `now_us`."""
    return now_us + AHEAD_MAX_S * US_PER_S


def _is_ahead(kind: str, now_us: int) -> Column:
    limit = F.timestamp_micros(F.lit(latest_us(now_us)))
    return F.coalesce(_any([F.col(name) > limit for name in TIMES[kind]]), F.lit(False))


def _is_behind(kind: str) -> Column:
    limit = F.timestamp_micros(F.lit(EARLIEST_US))
    return F.coalesce(_any([F.col(name) < limit for name in TIMES[kind]]), F.lit(False))


def _any(conditions: list[Column]) -> Column:
    """Return whether a condition holds; a missing time breaks none."""
    found = F.lit(False)
    for condition in conditions:
        found = found | F.coalesce(condition, F.lit(False))
    return found


def credible(rows: DataFrame, kind: str, now_us: int) -> DataFrame:
    """Return the rows of a kind of segment whose times can be true."""
    return rows.where(~_is_ahead(kind, now_us) & ~_is_behind(kind))


def apart(rows: DataFrame, kind: str, now_us: int) -> DataFrame:
    """Count the other rows by writer and group: the APART table."""
    ahead = _is_ahead(kind, now_us)
    times = [F.col(name) for name in TIMES[kind]]
    latest, earliest = (F.greatest(*times), F.least(*times)) if len(times) > 1 else (times[0], times[0])
    group = F.coalesce(F.col("labels")["group"], F.lit("")) if kind == SAMPLES_TABLE else F.col("group")
    table = (
        rows.where(ahead | _is_behind(kind))
        .select(
            F.lit(kind).alias("kind"),
            F.col(_WRITER[kind]).alias("writer"),
            group.alias("group"),
            ahead.alias("ahead"),
            F.when(ahead, latest).otherwise(earliest).alias("ts"),
        )
        .groupBy("kind", "writer", "group", "ahead")
        .agg(F.count(F.lit(1)).alias("rows"), F.min("ts").alias("first_ts"), F.max("ts").alias("last_ts"))
    )
    return conform(table, APART, table="apart")
