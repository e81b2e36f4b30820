"""One directory kept like another: each file once and whole, nothing deleted, nothing written over."""

import datetime as dt
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from slo_pipeline.cli import main
from slo_pipeline.mirror.copying import FAILURES_MAX, Choice, Mirror, Mirrored
from slo_pipeline.mirror.places import BucketPlace, DirectoryPlace, FileGoneError, PlaceError, place
from testkit.generators.segments_in_bulk import contents, segment

DAY, NEXT = dt.date(2026, 11, 20), dt.date(2026, 11, 21)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for day in (DAY, NEXT):
        for kind in ("samples", "events", "probe_ops"):
            for number in range(3):
                segment(tmp_path / "data", kind, day, f"collector@1-{number}")
    return tmp_path / "data"


def _copied(source: Path, target: Path) -> Mirrored:
    return Mirror(DirectoryPlace(source), DirectoryPlace(target)).round()


def test_what_is_lacking_is_copied_and_a_second_time_nothing_is(tmp_path: Path, data: Path) -> None:
    there = tmp_path / "there"
    assert _copied(data, there).files == 18
    assert contents(there) == contents(data)
    assert _copied(data, there) == Mirrored()
    segment(data, "events", NEXT, "canary@2-1")
    assert _copied(data, there).files == 1
    assert contents(there) == contents(data)


def test_extracts_are_copied_and_what_is_neither_stays(tmp_path: Path, data: Path) -> None:
    segment(data, "extract_samples", DAY, "day")
    for name in (".half", "_half"):
        segment(data, "samples", DAY, name)
    segment(data, "late_samples", DAY, "late")
    (data / "samples" / "day=2026-99-99").mkdir()
    (data / "samples" / "notes").mkdir()
    (data / "days").mkdir()
    there = tmp_path / "there"
    assert _copied(data, there).files == 19
    assert {path.partition("/")[0] for path in contents(there)} == {
        "samples",
        "events",
        "probe_ops",
        "extract_samples",
    }


def test_what_the_target_has_beside_is_left_alone(tmp_path: Path, data: Path) -> None:
    there = tmp_path / "there"
    own = segment(there, "samples", DAY, "other@9-1")
    _copied(data, there)
    for path in (data / "samples").rglob("*.parquet"):
        path.unlink()
    assert _copied(data, there) == Mirrored()
    assert own.exists()
    assert len(contents(there)) == 19


def test_a_name_of_two_sizes_is_told_and_neither_file_is_touched(tmp_path: Path, data: Path) -> None:
    there = tmp_path / "there"
    segment(there, "samples", DAY, "collector@1-1", b"other")
    done = _copied(data, there)
    assert (done.files, done.apart) == (17, ["samples/day=2026-11-20/collector@1-1.parquet"])
    assert contents(there)["samples/day=2026-11-20/collector@1-1.parquet"] == b"other"
    assert _copied(data, there).apart == done.apart


class _Breaking(DirectoryPlace):
    """Breaks off within a file, as a connection does; or has lost it since it was listed."""

    def __init__(self, root: Path, name: str, *, gone: bool = False) -> None:
        super().__init__(root)
        self._name, self._gone = name, gone
        self.asked: list[str] = []

    def read(self, path: str) -> Iterator[pa.Buffer]:
        self.asked.append(path)
        if self._name in path and self._gone:
            raise FileGoneError(path)
        yield pa.py_buffer(b"half") if self._name in path else next(super().read(path))


def test_a_file_that_breaks_off_is_not_seen_and_is_copied_the_next_time(tmp_path: Path, data: Path) -> None:
    there = tmp_path / "there"
    copier = Mirror(source := _Breaking(data, "collector@1-1"), DirectoryPlace(there))
    assert "collector@1-1.parquet: 4 bytes were read of " in str(copier.round().failures[0])
    assert not list(there.rglob("*@1-1*"))
    source.asked.clear()
    assert len(copier.round().failures) == 6
    assert len(source.asked) == 6
    _copied(data, there)
    assert contents(there) == contents(data)


def test_a_file_that_cannot_be_copied_holds_up_none_of_the_others(tmp_path: Path, data: Path) -> None:
    there = tmp_path / "there"
    done = Mirror(_Breaking(data, "collector@1-0"), DirectoryPlace(there)).round()
    assert (done.files, len(done.failures), len(contents(there))) == (12, 6, 12)


def test_where_nothing_can_be_copied_a_round_does_not_try_all(tmp_path: Path, data: Path) -> None:
    source = _Breaking(data, ".parquet")
    with pytest.raises(OSError, match=r"4 bytes were read of"):
        Mirror(source, DirectoryPlace(tmp_path / "there")).round()
    assert FAILURES_MAX < len(source.asked) < 18


def test_what_a_killed_mirror_left_unfinished_is_no_segment_and_in_nobodys_way(
    tmp_path: Path, data: Path
) -> None:
    there = tmp_path / "there"
    segment(there, "samples", DAY, "x").with_name(".collector@1-1.parquet.tmp").write_bytes(b"half")
    assert _copied(data, there).files == 18
    assert list(there.rglob("*.tmp")) == []


def test_a_file_that_is_deleted_at_the_source_meanwhile_is_no_error(tmp_path: Path, data: Path) -> None:
    there = tmp_path / "there"
    done = Mirror(_Breaking(data, "collector@1-1", gone=True), DirectoryPlace(there)).round()
    assert (done.files, done.apart) == (12, [])


def test_only_folders_with_another_file_are_looked_at_again(tmp_path: Path, data: Path) -> None:
    looked: list[str] = []

    class Noted(DirectoryPlace):
        def files(self, folder: str) -> dict[str, int]:
            looked.append(folder)
            return super().files(folder)

    copier = Mirror(DirectoryPlace(data), Noted(tmp_path / "there"))
    copier.round()
    assert len(looked) == 6
    looked.clear()
    segment(data, "events", NEXT, "canary@2-1")
    assert copier.round().files == 1
    assert looked == ["events/day=2026-11-21"]


def test_what_nobody_needs_stays_where_it_is(tmp_path: Path, data: Path) -> None:
    folder = "samples/day=2026-11-20"
    choice = Choice([folder], {f"{folder}/collector@1-0.parquet"})
    Mirror(DirectoryPlace(data), DirectoryPlace(tmp_path / "there"), lambda _: choice).round()
    assert sorted(contents(tmp_path / "there")) == [
        f"{folder}/collector@1-{number}.parquet" for number in (1, 2)
    ]


def test_one_that_is_told_to_end_leaves_the_rest_for_the_next_time(tmp_path: Path, data: Path) -> None:
    stop = threading.Event()
    stop.set()
    there = DirectoryPlace(tmp_path / "there")
    assert Mirror(DirectoryPlace(data), there, stopped=stop.is_set).round() == Mirrored()
    assert _copied(data, tmp_path / "there").files == 18


def test_two_at_once_do_not_write_the_same_file(tmp_path: Path, data: Path) -> None:
    there = tmp_path / "there"
    threads = [threading.Thread(target=_copied, args=(data, there)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert contents(there) == contents(data)
    assert list(there.rglob("*.tmp")) == []


def test_the_command_copies_since_a_day_and_says_how_much(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = tmp_path / "there"
    assert main(["mirror", str(data), str(there), "--since=2026-11-21"]) == 0
    assert capsys.readouterr().out.startswith("9 files, ")
    assert {path.parent.name for path in there.rglob("*.parquet")} == {"day=2026-11-21"}
    assert main(["mirror", str(data), str(there)]) == 0
    assert contents(there) == contents(data)


def test_the_command_names_what_is_of_two_sizes(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    segment(tmp_path / "there", "samples", DAY, "collector@1-1", b"other")
    assert main(["mirror", str(data), str(tmp_path / "there")]) == 1
    said = capsys.readouterr().err
    named = "samples/day=2026-11-20/collector@1-1.parquet"
    assert said == f"slo-pipeline: {named} is of another size there than here\n"


def test_the_command_names_what_cannot_be_copied_and_copies_the_rest(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = tmp_path / "there"
    there.mkdir()
    (there / "samples").write_bytes(b"no directory")
    assert main(["mirror", str(data), str(there)]) == 1
    told = capsys.readouterr()
    assert told.out.startswith("12 files, ")
    assert told.err.count("\n") == told.err.count(f"{there}/samples") == 6
    assert len(contents(there)) == 12


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere", "there"], "nowhere: no such directory"),
        (["s3:///x", "there"], "s3:///x: names no bucket"),
        (["s3://b/x", "there", "--endpoint=b:9000"], "invalid endpoint 'b:9000'"),
        (["s3://b/x", "there", "--endpoint=http://b/path"], "invalid endpoint 'http://b/path'"),
    ],
)
def test_what_is_no_place_is_one_line_and_status_2(
    words: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["mirror", *words]) == 2
    assert capsys.readouterr().err.startswith(f"slo-pipeline: {said}")


def test_a_bucket_is_a_bucket_and_all_else_a_directory() -> None:
    assert isinstance(place("s3://bucket/a//b/"), BucketPlace)
    assert isinstance(place("s3", "http://127.0.0.1:1"), DirectoryPlace)
    with pytest.raises(PlaceError):
        place("s3://", None)
