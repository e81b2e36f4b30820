"""Jobs on a bucket say what they say of a directory, and copy only what they need."""

import datetime as dt
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from slo_pipeline.cli import main
from slo_pipeline.mirror.copying import Mirror
from slo_pipeline.mirror.places import DirectoryPlace, place
from testkit.generators.segment_rows import sample
from testkit.generators.segments_in_bulk import contents
from testkit.generators.synthetic import write_rows
from testkit.processes import bucket as buckets
from testkit.processes.bucket import NAME, Bucket

S_PER_DAY = 86_400
DAYS = [dt.date(2026, 11, 20) + dt.timedelta(days=number) for number in range(4)]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    with buckets.served(tmp_path_factory.mktemp("bucket")) as one:
        one.make()
        yield one


@pytest.fixture
def bucket(served: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """Provide a bucket, its credentials, and a place for temporary directories that can be looked at."""
    for name, value in buckets.CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return served


def _put(bucket: Bucket, directory: Path, prefix: str) -> list[str]:
    """Copy a directory into the bucket; return the options that name it."""
    url = f"s3://{NAME}/{prefix}"
    Mirror(DirectoryPlace(directory), place(url, bucket.endpoint)).round()
    return [f"--input={url}", f"--endpoint={bucket.endpoint}"]


def _samples(directory: Path) -> Path:
    rows = [sample(day * S_PER_DAY + at_s, day * 1_000 + at_s) for day in range(4) for at_s in (10, 400)]
    write_rows(directory, "samples", rows)
    return directory


def test_what_a_counter_grew_is_the_same_and_nothing_is_left_behind(
    spark: SparkSession, tmp_path: Path, bucket: Bucket, capsys: pytest.CaptureFixture[str]
) -> None:
    data = _samples(tmp_path / "data")
    words = ["increase", "x_total", "--window=1d"]
    assert main([*words, f"--input={data}"]) == 0
    expected = capsys.readouterr().out
    assert main([*words, *_put(bucket, data, "increase")]) == 0
    assert capsys.readouterr().out == expected
    assert expected.count("\n") > 4
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_report_is_the_same_page_and_its_scratch_keeps_the_days_of_the_window(
    told: Any, tmp_path: Path, bucket: Bucket
) -> None:
    directory: Path = told.directory
    options = _put(bucket, directory, "report")
    scratch = tmp_path / "scratch"
    words = ["report", "--master=local[2]", "--title=Story", f"--out={tmp_path / 'out'}"]
    assert main([*words, *options, f"--scratch={scratch}"]) == 0
    assert (tmp_path / "out" / "index.html").read_text() == told.page
    assert contents(scratch) == contents(directory)


def test_a_daily_run_copies_of_closed_days_only_what_came_since(
    tmp_path: Path, bucket: Bucket, capsys: pytest.CaptureFixture[str]
) -> None:
    data, tables, scratch = _samples(tmp_path / "data"), tmp_path / "tables", tmp_path / "scratch"
    now = f"--now={DAYS[-1].isoformat()}T12:00:00Z"
    words = ["daily", "--extracts-only", f"--tables={tables}", now]
    assert main([*words, *_put(bucket, data, "daily")]) == 0
    assert capsys.readouterr().out.splitlines() == [
        *(f"{day} closed: 1 segments" for day in DAYS[:-1]),
        f"{DAYS[-1]} computed: 1 segments",
    ]
    late = data / "samples" / f"day={DAYS[0]}" / "synthetic-late.parquet"
    late.write_bytes((data / "samples" / f"day={DAYS[0]}" / f"synthetic-{DAYS[0]}.parquet").read_bytes())
    assert main([*words, *_put(bucket, data, "daily"), f"--scratch={scratch}"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == f"{DAYS[0]} late: 1 segments, 2 late rows"
    assert sorted(contents(scratch)) == [
        f"samples/day={DAYS[0]}/synthetic-late.parquet",
        *(f"samples/day={day}/synthetic-{day}.parquet" for day in DAYS[2:]),
    ]


@pytest.mark.parametrize("command", ["report --out=out", "slo", "daily --tables=tables", "increase x_total"])
def test_a_prefix_without_segments_is_one_line_with_its_name(
    command: str, bucket: Bucket, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [f"--input=s3://{NAME}/nothing", f"--endpoint={bucket.endpoint}"]
    assert main([*command.split(), *options]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"slo-pipeline: s3://{NAME}/nothing: holds no ")
    assert said.count("\n") == 1
