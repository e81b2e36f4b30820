"""Days: computed on new rows, closed two hours after midnight; later rows are stored and counted."""

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slo_pipeline.jobs.days import (
    DayOutcome,
    DaysError,
    late_rows,
    late_segments,
    read_manifest,
    run_days,
)
from slo_pipeline.jobs.late import TIME_OF, rows_of
from slo_pipeline.schemas.segments import SEGMENTS

DAY = dt.date(2026, 11, 20)
NEXT = dt.date(2026, 11, 21)


def _at(day: int, hour: int, minute: int = 0) -> dt.datetime:
    return dt.datetime(2026, 11, day, hour, minute, tzinfo=dt.UTC)


def _rows(*times: dt.datetime, kind: str = "samples") -> pa.Table:
    """Return rows of these times; their other columns are empty."""
    stamps = pa.array(times, pa.timestamp("us", tz="UTC"))
    return pa.table(
        [
            stamps if field.name == TIME_OF[kind] else pa.nulls(len(times), field.type)
            for field in SEGMENTS[kind]
        ],
        schema=pa.schema([field.with_nullable(True) for field in SEGMENTS[kind]]),
    )


class _World:
    """A data directory, its tables, and a computation that only notes the requested day."""

    def __init__(self, directory: Path) -> None:
        self.data, self.tables = directory / "data", directory / "tables"
        self.computed: list[dt.date] = []

    def segment(self, name: str, day: dt.date = DAY, kind: str = "samples", rows: int = 3) -> None:
        self.timed(name, day, *[_at(day.day, 12)] * rows, kind=kind)

    def timed(self, name: str, folder: dt.date, *times: dt.datetime, kind: str = "samples") -> None:
        """Write a segment of rows that have times of their own, whatever its folder says."""
        path = self.data / kind / f"day={folder.isoformat()}" / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(_rows(*times, kind=kind), path)

    def late(self, day: dt.date, kind: str = "samples") -> list[dt.datetime]:
        """Return the times of the rows stored as late."""
        found = (self.tables / f"late_{kind}" / f"day={day.isoformat()}").glob("*.parquet")
        return sorted(one for path in found for one in pq.ParquetFile(path).read()["ts"].to_pylist())

    def _compute(self, day: dt.date, directory: Path) -> None:
        self.computed.append(day)
        pq.write_table(pa.table({"runs": [len(self.computed)]}), directory / "counted.parquet")

    def run(self, now: dt.datetime, *reopen: dt.date) -> list[tuple[dt.date, str, int]]:
        self.computed.clear()
        found: list[DayOutcome] = run_days(
            self.data, self.tables, now, self._compute, reopen=frozenset(reopen)
        )
        return [(one.day, one.outcome, one.late_rows) for one in found]


@pytest.fixture
def world(tmp_path: Path) -> _World:
    return _World(tmp_path)


def test_a_day_without_new_segments_is_not_computed_again(world: _World) -> None:
    world.segment("a")
    assert world.run(_at(20, 12)) == [(DAY, "computed", 0)]
    assert world.run(_at(20, 13)) == [(DAY, "unchanged", 0)]
    assert world.computed == []
    world.segment("b", kind="events")
    assert world.run(_at(20, 14)) == [(DAY, "computed", 0)]


def test_late_rows_reopen_a_day_until_two_hours_after_its_end_and_no_longer(world: _World) -> None:
    world.segment("a")
    world.run(_at(20, 23))
    world.segment("late but in time")
    assert world.run(_at(21, 1, 59)) == [(DAY, "computed", 0)]
    assert world.run(_at(21, 2)) == [(DAY, "closed", 0)]
    world.segment("too late", rows=5)
    assert world.run(_at(21, 2, 1)) == [(DAY, "late", 5)]
    assert world.computed == []


def test_rows_that_came_too_late_are_kept_once_and_counted(world: _World) -> None:
    world.segment("a")
    world.run(_at(22, 0))
    world.segment("too late", rows=5)
    world.segment("an event", kind="events", rows=2)
    for _ in range(2):
        assert world.run(_at(22, 1)) == [(DAY, "late", 7)]
    kept = sorted(path.relative_to(world.tables) for path in world.tables.glob("late_*/day=*/*.parquet"))
    assert [path.parts[0] for path in kept] == ["late_events", "late_samples"]
    assert late_rows(world.tables) == {DAY: 7}


LAST = dt.datetime(2026, 11, 20, 23, 59, 59, 999_999, tzinfo=dt.UTC)


def test_a_row_belongs_to_the_day_of_its_time_to_the_microsecond() -> None:
    rows = _rows(_at(20, 0) - dt.timedelta(microseconds=1), _at(20, 0), LAST, _at(21, 0))
    assert rows_of(DAY, rows, "ts")["ts"].to_pylist() == [_at(20, 0), LAST]
    assert rows_of(DAY, rows.slice(0, 0), "ts").num_rows == 0


def test_rows_of_a_closed_day_in_the_next_days_folder_are_late_and_counted_once(world: _World) -> None:
    world.timed("a", DAY, _at(20, 12))
    world.timed("b", NEXT, _at(21, 1))
    assert world.run(_at(21, 3)) == [(DAY, "closed", 0), (NEXT, "computed", 0)]
    world.timed("stray", NEXT, _at(20, 23), LAST, _at(21, 0), _at(21, 4))
    assert world.run(_at(21, 5)) == [(DAY, "late", 2), (NEXT, "computed", 0)]
    assert world.late(DAY) == [_at(20, 23), LAST]
    # The same slice once more, and the same run once more, change nothing.
    world.timed("stray", NEXT, _at(20, 23), LAST, _at(21, 0), _at(21, 4))
    assert world.run(_at(21, 6)) == [(DAY, "late", 2), (NEXT, "unchanged", 0)]
    assert late_rows(world.tables) == {DAY: 2}
    assert late_segments(world.tables) == set()


def test_rows_of_an_open_day_in_the_next_days_folder_are_not_late(world: _World) -> None:
    world.timed("a", DAY, _at(20, 12))
    world.run(_at(20, 13))
    world.timed("stray", NEXT, _at(20, 23), _at(21, 1))
    assert world.run(_at(21, 1, 30)) == [(DAY, "computed", 0), (NEXT, "computed", 0)]
    assert world.run(_at(21, 2)) == [(DAY, "closed", 0), (NEXT, "unchanged", 0)]
    assert late_rows(world.tables) == {}


def test_rows_of_a_closed_day_are_found_again_by_the_run_after_one_that_died(world: _World) -> None:
    world.timed("a", DAY, _at(20, 12))
    world.timed("b", NEXT, _at(21, 1))
    world.run(_at(21, 3))
    world.timed("stray", NEXT, _at(20, 23), _at(21, 4))

    def dying(day: dt.date, directory: Path) -> None:
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        run_days(world.data, world.tables, _at(21, 5), dying)
    assert world.run(_at(21, 6)) == [(DAY, "late", 1), (NEXT, "computed", 0)]
    assert world.late(DAY) == [_at(20, 23)]


def test_a_reopened_day_takes_in_what_lies_in_its_neighbours_folder(world: _World) -> None:
    world.timed("a", DAY, _at(20, 12))
    world.timed("b", NEXT, _at(21, 1))
    world.run(_at(21, 3))
    world.timed("stray", NEXT, _at(20, 23), _at(21, 4))
    world.run(_at(21, 5))
    assert world.run(_at(21, 6), DAY) == [(DAY, "closed", 0), (NEXT, "unchanged", 0)]
    assert late_rows(world.tables) == {}
    assert world.late(DAY) == []
    assert world.run(_at(21, 7)) == [(DAY, "unchanged", 0), (NEXT, "unchanged", 0)]


def test_a_segment_that_came_too_late_is_named_whole(world: _World) -> None:
    world.timed("a", DAY, _at(20, 12))
    world.run(_at(22, 0))
    world.timed("too late", DAY, _at(20, 13), kind="events")
    assert world.run(_at(22, 1)) == [(DAY, "late", 1)]
    assert late_segments(world.tables) == {"events/day=2026-11-20/too late.parquet"}


def test_a_reopened_day_takes_its_late_rows_in(world: _World) -> None:
    world.segment("a")
    world.run(_at(22, 0))
    world.segment("too late")
    world.run(_at(22, 1))
    assert world.run(_at(22, 2), DAY) == [(DAY, "closed", 0)]
    assert world.computed == [DAY]
    assert late_rows(world.tables) == {}
    assert world.run(_at(22, 3)) == [(DAY, "unchanged", 0)]


def test_history_that_is_imported_long_after_its_day_is_not_late(world: _World) -> None:
    world.segment("a")
    assert world.run(_at(30, 0)) == [(DAY, "closed", 0)]


def test_only_the_day_that_changed_is_computed(world: _World) -> None:
    for number in range(1, 20):
        world.segment("a", dt.date(2026, 11, number))
    world.run(_at(20, 12))
    world.segment("b")
    world.run(_at(20, 13))
    assert world.computed == [DAY]


def test_a_day_is_computed_again_when_the_first_minutes_of_the_next_one_arrive(world: _World) -> None:
    world.segment("a")
    world.run(_at(20, 23))
    world.segment("b", NEXT)
    assert world.run(_at(21, 0, 10)) == [(DAY, "computed", 0), (NEXT, "computed", 0)]
    world.segment("c", NEXT)
    assert world.run(_at(21, 0, 20)) == [(DAY, "unchanged", 0), (NEXT, "computed", 0)]


def test_a_run_that_died_half_way_leaves_the_old_tables_and_is_done_again(world: _World) -> None:
    world.segment("a")
    world.run(_at(20, 12))
    table = world.tables / "counted" / "day=2026-11-20" / "day.parquet"
    before = table.read_bytes()

    def dying(day: dt.date, directory: Path) -> None:
        (directory / "counted.parquet").write_bytes(b"half")
        raise RuntimeError("killed")

    world.segment("b")
    with pytest.raises(RuntimeError):
        run_days(world.data, world.tables, _at(20, 13), dying)
    assert table.read_bytes() == before
    assert world.run(_at(20, 13)) == [(DAY, "computed", 0)]


def test_a_segment_that_is_still_being_written_is_not_there_yet(world: _World) -> None:
    world.segment("a")
    world.segment(".b")
    world.run(_at(20, 12))
    manifest = read_manifest(world.tables, DAY)
    assert manifest is not None
    assert manifest.segments == ["samples/day=2026-11-20/a.parquet"]


def test_a_damaged_manifest_is_named(world: _World) -> None:
    world.segment("a")
    world.run(_at(20, 12))
    path = world.tables / "days" / "2026-11-20.json"
    path.write_text("{")
    with pytest.raises(DaysError, match=r"2026-11-20\.json"):
        world.run(_at(20, 13))
