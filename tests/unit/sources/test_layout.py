"""Which files are segments, and the message for unreadable ones: the same by every command."""

import datetime as dt
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slo_pipeline.cli import main
from slo_pipeline.jobs.days import days_of, late_rows, segments_of
from slo_pipeline.jobs.landing import prometheus
from slo_pipeline.mirror.copying import Mirror
from slo_pipeline.mirror.places import DirectoryPlace
from slo_pipeline.schemas.segments import SEGMENTS
from slo_pipeline.schemas.tables import SLI_COUNTS
from slo_pipeline.sources.layout import SegmentUnusableError, reading, unusable
from testkit.generators.segment_rows import sample, send
from testkit.generators.synthetic import write_rows

DAY = dt.date(2026, 11, 20)
NEXT = dt.date(2026, 11, 21)
NOW = "--now=2026-11-22T00:00:00Z"


def _path(root: Path, table: str = "samples", day: dt.date = DAY, name: str = "collector@1-1") -> Path:
    return root / table / f"day={day}" / f"{name}.parquet"


def _closed(tables: Path) -> None:
    """Write what a daily run leaves of a closed day, without an extract."""
    (tables / "days").mkdir(parents=True)
    state = {"version": 1, "segments": [], "closed": True, "late": {}}
    (tables / "days" / f"{DAY}.json").write_text(json.dumps(state))


def _of_input(*words: str) -> Callable[[Path], tuple[list[str], Path]]:
    return lambda here: ([*words, f"--input={here / 'D'}"], _path(here / "D"))


def _mirror(here: Path) -> tuple[list[str], Path]:
    return ["mirror", str(here / "D"), str(here / "there")], _path(here / "D")


def _daily(day: dt.date) -> Callable[[Path], tuple[list[str], Path]]:
    """Run `daily` with a segment that comes after DAY was closed, in the folder of a day."""

    def prepared(here: Path) -> tuple[list[str], Path]:
        _closed(here / "tables")
        words = ["daily", "--extracts-only", "--tables=tables", NOW, f"--input={here / 'D'}"]
        return words, _path(here / "D", day=day)

    return prepared


def _report_of_extracts(here: Path) -> tuple[list[str], Path]:
    _closed(here / "tables")
    words = ["report", "--out=out", f"--input={here / 'D'}", f"--tables={here / 'tables'}"]
    return words, _path(here / "tables", "extract_samples", name="day")


def _slo_of_tables(here: Path) -> tuple[list[str], Path]:
    return ["slo", f"--tables={here / 'tables'}"], _path(here / "tables", "sli_minutes", name="day")


def _landed(here: Path, words: list[str]) -> tuple[list[str], Path]:
    """Import once; the second run finds the segment of the first one."""
    words = ["import", *words, f"--into={here / 'landed'}"]
    assert main(words) == 0
    (path,) = (here / "landed").rglob("*.parquet")
    path.unlink()
    return words, path


def _import_text(here: Path) -> tuple[list[str], Path]:
    (here / "text.om").write_text("x_total 1 1795176000\n# EOF\n")
    return _landed(here, ["openmetrics", str(here / "text.om")])


def _import_slice(here: Path) -> tuple[list[str], Path]:
    hour = ["--start=2026-11-20T00:00:00Z", "--end=2026-11-20T02:00:00Z"]
    return _landed(here, ["prometheus", "http://127.0.0.1:1", "--match=x_total", *hour])


PREPARED = {
    "report": _of_input("report", "--out=out"),
    "report of extracts": _report_of_extracts,
    "slo": _of_input("slo"),
    "slo of tables": _slo_of_tables,
    "increase": _of_input("increase", "x_total"),
    "daily": _of_input("daily", "--extracts-only", "--tables=tables", NOW),
    "daily with tables": _of_input("daily", "--tables=tables", NOW),
    "daily, late": _daily(DAY),
    "daily, of a neighbour": _daily(NEXT),
    "mirror": _mirror,
    "import of a text": _import_text,
    "import of a slice": _import_slice,
}
CONTENTS: dict[str, bytes] = {
    "empty (0 bytes)": b"",
    "not Parquet": b"rows, as text",
    "damaged Parquet": b"PAR1 cut",
}
HOW = (*CONTENTS, "has no column", "column ", "not a file")


def _spoil(path: Path, how: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = path.parent.parent.name.removeprefix("extract_")
    schema = SLI_COUNTS if table == "sli_minutes" else SEGMENTS[table]
    if how == "not a file":
        path.mkdir()
    elif how == "has no column":
        pq.write_table(pa.table({"ts": [1]}), path)
    elif how == "column ":
        pq.write_table(pa.table({name: pa.array([True]) for name in schema.names}), path)
    else:
        path.write_bytes(CONTENTS[how])


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide a working directory with a segment of sends, and a Prometheus of one sample."""

    def fetched(*_: Any) -> list[pa.RecordBatch]:
        row = sample(10, 1.0) | {"labels": []}
        return pa.Table.from_pylist([row], schema=SEGMENTS["samples"]).to_batches()

    monkeypatch.setattr(prometheus, "fetch", fetched)
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path / "D", "probe_ops", [send(1, 0)])
    return tmp_path


@pytest.mark.parametrize("command", PREPARED)
@pytest.mark.parametrize("how", HOW)
def test_a_segment_that_cannot_be_read_is_one_line_and_status_1(
    command: str, how: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words, path = PREPARED[command](here)
    _spoil(path, how)
    capsys.readouterr()
    assert main(words) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"slo-pipeline: {path}: unusable segment: {how}")
    assert said.count("\n") == 1
    assert not (here / "out").exists()
    assert not [*here.glob("tables/late_samples")]


@pytest.mark.parametrize("how", HOW)
def test_a_mirror_leaves_an_unusable_segment_alone_and_copies_the_others(
    how: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words, path = _mirror(here)
    _spoil(path, how)
    for copied in ("1 files, ", ""):
        assert main(words) == 1
        told = capsys.readouterr()
        assert told.out.startswith(copied)
        assert f"{path}: unusable segment: {how}" in told.err
    assert [one.name for one in (here / "there").rglob("*") if one.is_file()] == [
        ".mirror.lock",
        f"synthetic-{DAY}.parquet",
    ]


def test_a_mirror_that_follows_reads_an_unusable_segment_once(here: Path) -> None:
    _, path = _mirror(here)
    _spoil(path, "empty (0 bytes)")
    read: list[str] = []

    class Noted(DirectoryPlace):
        def read(self, path: str) -> Iterator[pa.Buffer]:
            read.append(path)
            return super().read(path)

    copier = Mirror(Noted(here / "D"), DirectoryPlace(here / "there"))
    said = [copier.round().unusable for _ in range(3)]
    assert said == [[f"{path}: unusable segment: empty (0 bytes)"]] * 3
    assert len(read) == 2


def test_columns_of_narrower_types_can_be_read(tmp_path: Path) -> None:
    narrow = {
        "ts": pa.timestamp("ms", tz="UTC"),
        "metric": pa.dictionary(pa.int32(), pa.string()),
        "labels": pa.map_(pa.large_string(), pa.string()),
        "value": pa.float32(),
        "instance": pa.large_string(),
    }
    fields = [pa.field(one.name, narrow.get(one.name, one.type)) for one in SEGMENTS["samples"]]
    pq.write_table(pa.schema(fields).empty_table(), tmp_path / "x.parquet")
    assert unusable(tmp_path / "x.parquet", SEGMENTS["samples"]) is None
    fields[0] = pa.field("ts", pa.timestamp("ns", tz="UTC"))
    pq.write_table(pa.schema(fields).empty_table(), tmp_path / "x.parquet")
    assert unusable(tmp_path / "x.parquet", SEGMENTS["samples"]) == (
        "unusable segment: column ts is timestamp[ns, tz=UTC], expected timestamp[us, tz=UTC]"
    )


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
