"""The command: one line per error, one path per result, only needed imports."""

import csv
import io
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from slo_pipeline.cli import main
from slo_pipeline.schemas.tables import FAILOVERS
from testkit.generators.segment_rows import sample, send
from testkit.generators.synthetic import write_rows


def test_a_missing_directory_is_one_line_with_its_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "nowhere"
    assert main(["report", "--input", str(missing), "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"slo-pipeline: {missing}: no such directory\n"


def test_a_directory_without_segments_is_one_line_with_its_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "--input", str(tmp_path), "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"slo-pipeline: {tmp_path}: holds no probe_ops/")
    assert said.count("\n") == 1


def _counted(directory: Path, grown: int) -> Path:
    write_rows(directory, "samples", [sample(10, 0), sample(70, grown)])
    return directory


def _increase(directory: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["increase", "x_total", "-o", "csv", "--without-promql", "--input", str(directory)]) == 0
    return capsys.readouterr().out.splitlines()[1].split(",")[1]


@pytest.mark.parametrize("name", ["run[1]", "run{1,2}", "run*", "run?", "run\\1", "a:b c%20#"])
def test_a_path_is_what_it_says_and_never_a_pattern(
    name: str, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _counted(tmp_path / "run1", 100)
    assert _increase(_counted(tmp_path / name, 7), capsys) == "7"


def test_what_is_no_segment_is_named_once_and_stops_nothing(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = _counted(tmp_path, 7) / "samples" / "day=2026-11-20"
    for name in ("README", ".DS_Store", "._x.parquet", "x.parquet~", "_SUCCESS"):
        (folder / name).write_bytes(b"no segment")
    for name in ("day=2026-11-31", "day=x", "day=2026-11-20.bak"):
        shutil.copytree(folder, tmp_path / "samples" / name)
    shutil.copytree(folder, folder / "hour=1")
    assert main(["increase", "x_total", "-o", "csv", "--without-promql", "--input", str(tmp_path)]) == 0
    told = capsys.readouterr()
    assert told.out.splitlines()[1].split(",")[1] == "7"
    assert told.err.count("\n") == 1
    assert "README" in told.err
    assert "1 more" in told.err
    assert ".DS_Store" not in told.err


def test_damaged_data_behind_a_whole_footer_is_one_line_with_the_same_words(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path,) = (_counted(tmp_path / "a b", 7) / "samples").rglob("*.parquet")
    content = bytearray(path.read_bytes())
    content[4:200] = b"x" * 196
    path.write_bytes(content)
    assert main(["increase", "x_total", "--input", str(tmp_path / "a b")]) == 1
    assert capsys.readouterr().err == f"slo-pipeline: {path}: unusable segment: damaged Parquet\n"


def test_a_segment_that_is_still_being_written_is_left_alone(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_rows(tmp_path, "probe_ops", [send(seq, seq * 100) for seq in range(20)])
    (tmp_path / "probe_ops" / "day=2026-11-20" / ".half.parquet").write_bytes(b"PAR1")
    assert main(["report", "--input", str(tmp_path), "--out", str(tmp_path / "out"), "--title", "A & B"]) == 0
    page = tmp_path / "out" / "index.html"
    assert capsys.readouterr().out == f"{page}\n"
    assert "A &amp; B" in page.read_text()
    assert pq.read_schema(tmp_path / "out" / "tables" / "failovers.parquet").names == FAILOVERS.names


@pytest.mark.parametrize("text", ["0", "100", "five", "-1"])
def test_an_objective_that_is_none_is_refused_by_the_parser(tmp_path: Path, text: str) -> None:
    assert main(["report", "--input", str(tmp_path), "--out", str(tmp_path), f"--target={text}"]) == 2


def test_increase_prints_a_table_that_adds_up(
    spark: SparkSession, told: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(
            [
                "increase",
                "rocketmq_messages_in_total",
                "--by",
                "group",
                "--input",
                str(told.directory),
                "-o",
                "csv",
            ]
        )
        == 0
    )
    table = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {row["group"] for row in table} == {"orders", "payments"}
    assert {row["window_start"] for row in table} == {"2026-11-20T12:00:00Z", "2026-11-20T12:05:00Z"}
    whole = sum(float(row["increase"]) for row in table)
    assert whole == int(whole) > 0


def test_the_collectors_branch_does_not_bring_spark() -> None:
    code = (
        "import sys; from slo_pipeline import cli; cli.parser('collect'); sys.exit('pyspark' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
