"""What a report finds in its input before it computes anything.

That is the credible rows, the period, and the existing groups.

Problem: each job had its own notion of "the end of the input", which a single row could move. Shape: `sift`
parts the rows whose times cannot be true from the others; `survey` reads the times of the others once, by
group and day; the period and the known groups are functions of that list, without Spark. Never: the clock is
read only by `now_us`, where a job's options name no moment.
"""

import argparse
import datetime as dt
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from slo_pipeline.jobs.gather import rows
from slo_pipeline.jobs.period import Period
from slo_pipeline.reports.values.words import iso
from slo_pipeline.schemas.segments import AHEAD_MAX_S
from slo_pipeline.sources.segments import InputError, Inputs
from slo_pipeline.transforms import clocks
from slo_pipeline.transforms.budget import S_PER_DAY
from slo_pipeline.transforms.timing import US_PER_S

DAY_US: Final = S_PER_DAY * US_PER_S


class Span(NamedTuple):
    """The first and the last time of one group's rows in one UTC day, microseconds."""

    group: str
    first_us: int
    last_us: int


class Survey(NamedTuple):
    """The times of the input.

    Attributes:
        timed: of the sends; without sends of the events, without those of the samples. Their last one ends
            the period.
        told: of the events, by group.
    """

    timed: tuple[Span, ...]
    told: tuple[Span, ...]


def add_now(parser: argparse.ArgumentParser) -> None:
    """Declare when a run is."""
    parser.add_argument(
        "--now",
        type=moment,
        metavar="TIME",
        help="when this run is, default: the machine's clock; rows more than "
        f"{AHEAD_MAX_S} s later are set apart",
    )


def moment(text: str) -> dt.datetime:
    """Return a moment in UTC (an argparse type)."""
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"invalid time {text!r} (expected 2026-11-20T02:00:00Z)") from None
    return found if found.tzinfo else found.replace(tzinfo=dt.UTC)


def now_of(args: argparse.Namespace) -> dt.datetime:
    """Return when a run is: what its options say, else the machine's clock."""
    return (args.now or dt.datetime.now(dt.UTC)).astimezone(dt.UTC)


def micros(when: dt.datetime) -> int:
    """Return a moment as microseconds since 1970."""
    return (when - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)


def sift(inputs: Inputs, now_us: int) -> Inputs:
    """Return the rows whose times can be true. Events are few and read often: they are computed once."""
    kept = Inputs(*[clocks.credible(frame, kind, now_us) for kind, frame in inputs._asdict().items()])
    return kept._replace(events=kept.events.coalesce(1).localCheckpoint())


def apart(inputs: Inputs, now_us: int) -> list[dict[str, Any]]:
    """Count the rows whose times cannot be true: the APART table, in a fixed order."""
    frames = [clocks.apart(frame, kind, now_us) for kind, frame in inputs._asdict().items()]
    found = rows(frames[0].unionByName(frames[1]).unionByName(frames[2]))
    return sorted(found, key=lambda row: (row["kind"], row["writer"], row["group"], row["ahead"]))


def survey(inputs: Inputs) -> Survey:
    """Read the times of credible rows."""
    told = _spans(inputs.events, "ts", F.col("group"))
    sends = inputs.probe_ops.where(F.col("op") == "send")
    timed = _spans(sends, "intended_ts", F.col("group")) or told or _spans(inputs.samples, "ts", F.lit(""))
    return Survey(timed, told)


def _spans(frame: DataFrame, column: str, group: Column) -> tuple[Span, ...]:
    at = F.unix_micros(column)
    found = (
        frame.groupBy(group.alias("group"), F.floor(at / F.lit(DAY_US)).alias("day"))
        .agg(F.min(at).alias("first_us"), F.max(at).alias("last_us"))
        .collect()
    )
    return tuple(sorted(Span(row["group"], row["first_us"], row["last_us"]) for row in found))


def period(spans: Iterable[Span], window_days: int) -> Period | None:
    """Find the period: of the last `window_days`, from the first row to the end of the last one's second.

    Rows before the window neither begin the period nor are reported. None without a row.
    """
    known = list(spans)
    if not known:
        return None
    end_us = (max(one.last_us for one in known) // US_PER_S + 1) * US_PER_S
    earliest_us = end_us - window_days * DAY_US
    first_us = min(max(one.first_us, earliest_us) for one in known if one.last_us >= earliest_us)
    return Period(first_us // US_PER_S * US_PER_S, end_us)


class Surveyed(NamedTuple):
    """What a job computes with.

    Attributes:
        inputs: the credible rows.
        over: the period.
        tables: APART and KNOWN_GROUPS, by the table's name.
    """

    inputs: Inputs
    over: Period
    tables: dict[str, list[dict[str, Any]]]


def surveyed(inputs: Inputs, now_us: int, window_days: int, source: object) -> Surveyed:
    """Part the rows, and find the period and the groups.

    Args:
        inputs: all rows.
        now_us: when the run is.
        window_days: of the objectives.
        source: where the rows are from, for errors.

    Raises:
        InputError: all rows are implausible, or the input is empty.
    """
    kept, set_apart = sift(inputs, now_us), apart(inputs, now_us)
    found = survey(kept)
    over = period(found.timed, window_days)
    if over is not None:
        return Surveyed(kept, over, {"apart": set_apart, "known_groups": known_groups(found, set_apart)})
    raise without_rows(set_apart, source)


def without_rows(set_apart: list[dict[str, Any]], source: object) -> InputError:
    """Return why an input without a credible row cannot be used."""
    if not set_apart:
        return InputError(f"{source}: its segments hold no rows")
    count = sum(row["rows"] for row in set_apart)
    first_us = min(row["first_ts"] for row in set_apart)
    return InputError(
        f"{source}: the times of all {count} rows are later than now or before 2020, the first is "
        f"{iso(first_us)} UTC: set the clock, or name the time of the report by --now"
    )


def known_groups(found: Survey, set_apart: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """List the groups that sends, events or rows set apart name: the KNOWN_GROUPS table."""
    last: dict[str, int | None] = {row["group"]: None for row in set_apart}
    for span in (*found.timed, *found.told):
        last[span.group] = max(last.get(span.group) or span.last_us, span.last_us)
    return [{"group": group, "last_ts": last[group]} for group in sorted(last) if group]


def notice(set_apart: list[dict[str, Any]]) -> str:
    """Return one line on the rows that were set apart, for a job's standard error.

    The result is empty without such rows.
    """
    if not set_apart:
        return ""
    count = sum(row["rows"] for row in set_apart)
    writers = sorted({row["writer"] for row in set_apart})
    first_us, last_us = min(row["first_ts"] for row in set_apart), max(row["last_ts"] for row in set_apart)
    more = f" and {len(writers) - 3} more" if len(writers) > 3 else ""
    return (
        f"set apart {count} rows of {', '.join(writers[:3])}{more}: times from {iso(first_us)} to "
        f"{iso(last_us)} UTC cannot be true\n"
    )
