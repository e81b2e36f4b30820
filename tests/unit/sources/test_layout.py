"""Which files are segments, and the message for unreadable ones: the same by every command."""

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slo_pipeline.cli import main
from slo_pipeline.jobs.days import days_of, late_rows, segments_of
from slo_pipeline.mirror.places import DirectoryPlace
from slo_pipeline.sources.layout import SegmentUnusableError, reading
from testkit.generators.segment_rows import send
from testkit.generators.synthetic import write_rows

DAY = dt.date(2026, 11, 20)
WORDS = {
    "report": ["--out=out"],
    "slo": [],
    "increase": ["x_total"],
    "daily": ["--extracts-only", "--tables=tables", "--now=2026-11-22T00:00:00Z"],
}


def _damaged(directory: Path, how: str) -> Path:
    """Write three kinds of segments, one of which is damaged; return its path."""
    write_rows(directory, "probe_ops", [send(1, 0)])
    path = directory / "samples" / f"day={DAY}" / "collector@1-1.parquet"
    path.parent.mkdir(parents=True)
    if how == "not a file":
        path.mkdir()
    elif how == "has no column":
        pq.write_table(pa.table({"ts": [1]}), path)
    else:
        content = {"empty (0 bytes)": b"", "not Parquet": b"rows, as text", "damaged Parquet": b"PAR1 cut"}
        path.write_bytes(content[how])
    return path


@pytest.mark.parametrize("command", WORDS)
@pytest.mark.parametrize(
    "how", ["empty (0 bytes)", "not Parquet", "damaged Parquet", "has no column", "not a file"]
)
def test_a_segment_that_cannot_be_read_is_one_line_and_status_1(
    command: str,
    how: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    path = _damaged(tmp_path / "D", how)
    assert main([command, *WORDS[command], f"--input={tmp_path / 'D'}"]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"slo-pipeline: {path}: unusable segment: {how}")
    assert said.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_folders_without_a_day_and_files_of_others_are_seen_by_nobody(tmp_path: Path) -> None:
    write_rows(tmp_path, "probe_ops", [send(1, 0)])
    folder = tmp_path / "probe_ops" / f"day={DAY}"
    for name in ("README", ".x.parquet", "_x.parquet", "x.parquet.bak"):
        (folder / name).touch()
    for name in ("day=2026-02-30", "day=20261120", "day=2026-11-20 (copy)", "date=2026-11-20"):
        (tmp_path / "probe_ops" / name).mkdir()
    (tmp_path / "days").mkdir()
    (tmp_path / "days" / "2026-02-30.json").write_text("{}")
    own = f"synthetic-{DAY}.parquet"
    assert days_of(tmp_path) == [DAY]
    assert segments_of(tmp_path, DAY) == [f"probe_ops/day={DAY}/{own}"]
    assert late_rows(tmp_path) == {}
    place = DirectoryPlace(tmp_path)
    assert place.folders() == [f"probe_ops/day={DAY}"]
    assert list(place.files(f"probe_ops/day={DAY}")) == [own]


def test_a_mirror_names_what_it_leaves_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_rows(tmp_path / "D", "probe_ops", [send(1, 0)])
    stray = tmp_path / "D" / "probe_ops" / f"day={DAY}" / "README"
    stray.touch()
    assert main(["mirror", str(tmp_path / "D"), str(tmp_path / "there[1]")]) == 0
    assert capsys.readouterr().err == f"slo-pipeline: ignored, as no segments: {stray}\n"
    assert not list((tmp_path / "there[1]").rglob("README"))


def test_what_the_disk_refuses_is_told_in_its_own_words(tmp_path: Path) -> None:
    with (
        pytest.raises(SegmentUnusableError, match="x: unusable segment: No such file"),
        reading(Path("x")),
    ):
        (tmp_path / "nowhere").read_bytes()
