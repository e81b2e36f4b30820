"""Where a job's segments are: the days of a bucket it needs, and the error without any."""

import argparse
import datetime as dt
import re
from pathlib import Path

import pytest

from slo_pipeline.jobs import inputs
from slo_pipeline.jobs.daily import unread
from slo_pipeline.jobs.days import run_days
from slo_pipeline.mirror.places import DirectoryPlace, PlaceError
from slo_pipeline.shell.options import add_input, add_master
from slo_pipeline.sources.layout import SegmentUnusableError
from slo_pipeline.sources.segments import InputError
from testkit.generators.segments_in_bulk import segment

OLD, LAST, TODAY = dt.date(2026, 11, 1), dt.date(2026, 11, 20), dt.date(2026, 11, 21)


def _args(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_input(parser)
    add_master(parser)
    return parser.parse_args(words)


def _folder(day: dt.date, kind: str = "probe_ops") -> str:
    return f"{kind}/day={day.isoformat()}"


def test_a_directory_is_taken_as_it_is(tmp_path: Path) -> None:
    segment(tmp_path, "samples", TODAY, "a")
    with inputs.directory(_args(f"--input={tmp_path}"), ["samples"]) as found:
        assert found == tmp_path
    assert [path.name for path in tmp_path.iterdir()] == ["samples"]


def test_a_directory_without_what_the_job_reads_is_refused(tmp_path: Path) -> None:
    segment(tmp_path, "samples", TODAY, "a")
    with (
        pytest.raises(InputError, match="holds no events/"),
        inputs.directory(_args(f"--input={tmp_path}"), ["events"]),
    ):
        pass


def test_a_window_needs_its_days_and_one_before_them() -> None:
    days = [dt.date(2026, 11, number) for number in range(1, 22)]
    chosen = inputs.last_days(7, TODAY)([_folder(day) for day in days])
    assert chosen.folders == [_folder(day) for day in days if day >= dt.date(2026, 11, 13)]


def test_a_window_ends_with_the_newest_send_however_new_samples_are() -> None:
    folders = [_folder(OLD), _folder(TODAY, "samples"), _folder(OLD, "samples")]
    assert inputs.last_days(1, TODAY)(folders).folders == folders
    assert inputs.last_days(1, TODAY)(folders[1:]).folders == [_folder(TODAY, "samples")]


def test_a_day_that_has_not_begun_does_not_move_the_window_and_comes_along() -> None:
    folders = [_folder(LAST), _folder(TODAY), _folder(dt.date(2036, 1, 1))]
    assert inputs.last_days(7, TODAY)(folders).folders == folders


def test_days_that_are_read_from_elsewhere_stay_where_they_are() -> None:
    folders = [_folder(LAST), _folder(TODAY)]
    assert inputs.last_days(7, TODAY, without={LAST})(folders).folders == [_folder(TODAY)]


def test_a_daily_run_needs_of_closed_days_only_what_no_run_has_read(tmp_path: Path) -> None:
    data, tables = tmp_path / "data", tmp_path / "tables"
    for day in (OLD, LAST, TODAY):
        segment(data, "samples", day, "first")
    now = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
    run_days(data, tables, now, lambda *_: None)
    segment(data, "samples", OLD, "late")
    folders = DirectoryPlace(data).folders()
    # Yesterday is closed too, and stands beside today, which is computed from it.
    assert unread(tables, ())(folders).needless == {f"{_folder(OLD, 'samples')}/first.parquet"}
    assert unread(tables, [OLD])(folders).needless == set()


def test_a_bucket_with_executors_elsewhere_needs_a_scratch_that_they_can_see() -> None:
    words = ["--input=s3://b/p", "--master=k8s://https://api"]
    with pytest.raises(InputError, match="name a --scratch"), inputs.directory(_args(*words)):
        pass


def test_an_unusable_segment_of_a_bucket_is_named_by_its_place_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment(tmp_path, "samples", TODAY, "a", b"")
    monkeypatch.setattr(inputs, "place", lambda *_: DirectoryPlace(tmp_path))
    said = f"{tmp_path}/{_folder(TODAY, 'samples')}/a.parquet: unusable segment: empty"
    with (
        pytest.raises(SegmentUnusableError, match=re.escape(said)),
        inputs.directory(_args("--input=s3://b/p"), ["samples"]),
    ):
        pass


@pytest.mark.parametrize("words", [["--input=s3:///p"], ["--input=s3://b", "--endpoint=localhost:9000"]])
def test_what_is_no_bucket_or_no_endpoint_is_named(words: list[str]) -> None:
    with pytest.raises(PlaceError, match="expected "), inputs.directory(_args(*words)):
        pass
