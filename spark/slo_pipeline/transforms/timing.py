"""Arithmetic on timestamps, in whole microseconds.

Problem: Spark's timestamp differences are intervals or seconds as doubles; both lose or hide digits. Shape:
three small column functions that every transform uses, so that "half-open" and "milliseconds" mean one thing.
Never: no session clock (`current_timestamp`), which would make yesterday's report differ today.
"""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

US_PER_MS: Final = 1_000
US_PER_S: Final = 1_000_000


def ms_between(start: Column, end: Column) -> Column:
    """Return milliseconds from start to end as a double; null when either is null."""
    return (F.unix_micros(end) - F.unix_micros(start)) / F.lit(float(US_PER_MS))


def plus_us(timestamp: Column, delta_us: int) -> Column:
    """Return the timestamp moved by whole microseconds, which may be negative."""
    return F.timestamp_micros(F.unix_micros(timestamp) + F.lit(delta_us).cast("bigint"))


def slice_of(timestamp: Column, width_us: int) -> Column:
    """Return the start of the half-open slice that holds the timestamp.

    Slice k is [k * width, (k + 1) * width) since 1970.
    """
    micros = F.unix_micros(timestamp)
    return F.timestamp_micros(micros - F.pmod(micros, F.lit(width_us).cast("bigint")))


def from_nanos_text(text: Column) -> Column:
    """Return the timestamp of an attribute that holds UTC nanoseconds as text.

    It is null for invalid text, "" and "0".
    """
    nanos = F.nullif(text.try_cast("bigint"), F.lit(0).cast("bigint"))
    # Not `/`: it would go through a double, which cannot hold nanoseconds of this century exactly.
    return F.timestamp_micros(F.call_function("div", nanos, F.lit(1_000).cast("bigint")))
