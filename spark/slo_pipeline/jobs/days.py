"""Which days are computed, again or never again: the book-keeping of the daily run, without Spark.

Problem: a month must cost a day, so a day that is done stays done; and rows that come late must neither
vanish nor change yesterday's report without anybody noticing. Shape: one manifest a day,
`days/YYYY-MM-DD.json`, written last, names the segments that its tables were made of.

    no manifest --- compute ---> open --- a segment more ---> computed again, still open
                                   |
                                   +--- run after the end + CLOSE_AFTER_S ---> closed --- one more ---> late

A run computes a day that has new segments or is due for closing. Segments that come after a day was closed
are copied to `late_samples/` (and `late_events/`, `late_probe_ops/`) and counted in the manifest; `reopen`
computes the day with them. A segment belongs to its folder's day, and the days beside it are read for the
minutes around midnight; what a new segment holds of a neighbour that is closed is late there (`jobs.late`). A
day that has not begun is left alone until it does: a clock that is ahead wrote it. Never: the clock is read
here; `now` is a parameter. A segment is never moved or changed.
"""

import datetime as dt
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import pyarrow.parquet as pq

from controller_core import bounded_json
from slo_pipeline.jobs.late import ONE_DAY, begin_of, keep_strays
from slo_pipeline.schemas.names import KINDS
from slo_pipeline.schemas.segments import AHEAD_MAX_S, SEGMENTS
from slo_pipeline.sources.layout import check, day_folders, day_of_name, reading, segment_files

CLOSE_AFTER_S: Final = 7_200
MANIFESTS: Final = "days"
MANIFEST_VERSION: Final = 1

Outcome = Literal["computed", "unchanged", "closed", "late", "ahead"]
Compute = Callable[[dt.date, Path], None]


class DaysError(Exception):
    """The tables directory cannot be used; the text names the file and says why."""


@dataclass
class Manifest:
    """The state of one day.

    Attributes:
        segments: relative paths that its tables were made of.
        closed: whether nothing may be added any more.
        late: relative path to rows, of segments that came after it was closed.
    """

    segments: list[str] = field(default_factory=list)
    closed: bool = False
    late: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class DayOutcome:
    """What a run did with one day."""

    day: dt.date
    outcome: Outcome
    segments: int
    late_rows: int


def days_of(data: Path) -> list[dt.date]:
    """Return the days that have a folder, in order."""
    found = (day_of_name(folder.name) for kind in KINDS for folder in day_folders(data, kind))
    return sorted({day for day in found if day is not None})


def segments_of(data: Path, day: dt.date) -> list[str]:
    """Return the finished segments of one day's folders, relative paths, in order."""
    return sorted(
        str(path.relative_to(data))
        for kind in KINDS
        for path in segment_files(data / kind / f"day={day.isoformat()}")
    )


def read_manifest(tables: Path, day: dt.date) -> Manifest | None:
    """Return a day's manifest; None if it was never computed.

    Raises:
        DaysError: this job did not write the file.
    """
    path = _path(tables, day)
    if not path.exists():
        return None
    try:
        found: dict[str, Any] = bounded_json.decode(path.read_bytes())
        if found["version"] != MANIFEST_VERSION:
            raise DaysError(f"{path}: version {found['version']!r}, not {MANIFEST_VERSION}")
        return Manifest(list(found["segments"]), bool(found["closed"]), dict(found["late"]))
    except (ValueError, KeyError, TypeError) as error:
        raise DaysError(f"{path}: no manifest: {error!r}") from None


def late_rows(tables: Path) -> dict[dt.date, int]:
    """Return how many rows came after their day was closed, by day."""
    found = {}
    for day in _manifest_days(tables):
        manifest = read_manifest(tables, day)
        if manifest is not None and manifest.late:
            found[day] = sum(manifest.late.values())
    return found


def closed_days(tables: Path) -> list[dt.date]:
    """Return the days that are closed, in order."""
    return [
        day
        for day in _manifest_days(tables)
        if (found := read_manifest(tables, day)) is not None and found.closed
    ]


def is_over(day: dt.date, now: dt.datetime) -> bool:
    """Tell whether a run at `now` closes a day."""
    return now >= begin_of(day + ONE_DAY) + dt.timedelta(seconds=CLOSE_AFTER_S)


def _is_ahead(day: dt.date, now: dt.datetime) -> bool:
    """Tell whether a day has not begun at `now`, by any clock that is about right."""
    return begin_of(day) > now + dt.timedelta(seconds=AHEAD_MAX_S)


def run_days(
    data: Path, tables: Path, now: dt.datetime, compute: Compute, *, reopen: frozenset[dt.date] = frozenset()
) -> list[DayOutcome]:
    """Bring every day up to date.

    Args:
        data: directory of segments.
        tables: directory of day tables and manifests; made if missing.
        now: UTC.
        compute: makes one day's tables below a directory that it is given; what it leaves there replaces the
            old ones.
        reopen: closed days to compute again with everything that is there.

    Returns:
        The results of a run, day by day.
    """
    days = days_of(data)
    for day in days:
        if not _is_ahead(day, now):
            _strays(data, tables, day, reopen)
    return [_one_day(data, tables, day, now, compute, reopened=day in reopen) for day in days]


def late_segments(tables: Path) -> set[str]:
    """Return the segments of which nothing is in the tables, paths relative to the data directory."""
    found: set[str] = set()
    for day in _manifest_days(tables):
        manifest = read_manifest(tables, day)
        late = manifest.late if manifest is not None else {}
        # Of a stray's segment the rest counts, in its own day.
        found |= {name for name in late if f"/day={day.isoformat()}/" in name}
    return found


def _strays(data: Path, tables: Path, day: dt.date, reopen: frozenset[dt.date]) -> None:
    """Keep what a day's new segments hold of its closed neighbours.

    First of all, while the day's manifest does not name them yet: a run that dies here finds them again.
    """
    closed = {
        one: found
        for one in (day - ONE_DAY, day + ONE_DAY)
        if one not in reopen and (found := read_manifest(tables, one)) is not None and found.closed
    }
    if not closed:
        return
    own = read_manifest(tables, day) or Manifest()
    if own.closed and day not in reopen:
        # A segment that is late itself is stored whole, under its folder's day.
        return
    new = [name for name in segments_of(data, day) if name not in {*own.segments, *own.late}]
    for neighbour, manifest in closed.items():
        unread = [name for name in new if name not in {*manifest.segments, *manifest.late}]
        strays = keep_strays(data, tables, neighbour, unread)
        if strays:
            manifest.late |= strays
            _write(tables, neighbour, manifest)


def _one_day(
    data: Path, tables: Path, day: dt.date, now: dt.datetime, compute: Compute, *, reopened: bool
) -> DayOutcome:
    manifest = read_manifest(tables, day)
    present = segments_of(data, day)
    if _is_ahead(day, now):
        return DayOutcome(day, "ahead", len(present), 0)
    if manifest is not None and manifest.closed and not reopened:
        return _late(data, tables, day, manifest, present)
    closes = is_over(day, now)
    # Until it is closed, a day is also made of the first minutes of the next one.
    beside = segments_of(data, day + ONE_DAY)[:1]
    made_of = present + beside
    if manifest is not None and not closes and not reopened and manifest.segments == made_of:
        return DayOutcome(day, "unchanged", len(present), 0)
    _compute(tables, day, compute)
    _write(tables, day, Manifest(made_of, closes))
    if reopened:
        _forget_late(tables, day)
    return DayOutcome(day, "closed" if closes else "computed", len(present), 0)


def _compute(tables: Path, day: dt.date, compute: Compute) -> None:
    """Make the day's tables beside the old ones, then put each in its place."""
    scratch = tables / f".{day.isoformat()}.tmp"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    compute(day, scratch)
    for made in sorted(scratch.glob("*.parquet")):
        folder = tables / made.stem / f"day={day.isoformat()}"
        folder.mkdir(parents=True, exist_ok=True)
        made.replace(folder / "day.parquet")
    scratch.rmdir()


def _late(data: Path, tables: Path, day: dt.date, manifest: Manifest, present: list[str]) -> DayOutcome:
    known = set(manifest.segments) | set(manifest.late)
    new = [name for name in present if name not in known]
    for name in new:
        kind = name.partition("/")[0]
        check([data / name], SEGMENTS[kind])
        target = tables / f"late_{kind}" / f"day={day.isoformat()}" / Path(name).name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(data / name, target)
        with reading(data / name):
            manifest.late[name] = pq.read_metadata(data / name).num_rows
    if new:
        _write(tables, day, manifest)
    rows = sum(manifest.late.values())
    return DayOutcome(day, "late" if rows else "unchanged", len(present), rows)


def _manifest_days(tables: Path) -> list[dt.date]:
    """Return the days that have a manifest, in order."""
    found = (day_of_name(f"day={path.stem}") for path in (tables / MANIFESTS).glob("*.json"))
    return sorted(day for day in found if day is not None)


def _forget_late(tables: Path, day: dt.date) -> None:
    for kind in KINDS:
        shutil.rmtree(tables / f"late_{kind}" / f"day={day.isoformat()}", ignore_errors=True)


def _path(tables: Path, day: dt.date) -> Path:
    return tables / MANIFESTS / f"{day.isoformat()}.json"


def _write(tables: Path, day: dt.date, manifest: Manifest) -> None:
    path = _path(tables, day)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = {
        "version": MANIFEST_VERSION,
        "segments": manifest.segments,
        "closed": manifest.closed,
        "late": manifest.late,
    }
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("w", encoding="utf-8") as file:
        json.dump(text, file, indent=1, sort_keys=True)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
