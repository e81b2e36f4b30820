"""The command: one line for what is wrong, one path for what was made, nothing imported that is not needed."""

import csv
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from slo_pipeline.jobs.cli import main
from slo_pipeline.schemas.tables import FAILOVERS
from testkit.segment_rows import send
from testkit.synthetic import write_rows


def test_a_missing_directory_is_one_line_with_its_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "nowhere"
    assert main(["report", "--input", str(missing), "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"slo-pipeline report: {missing}: no such directory\n"


def test_a_directory_without_segments_is_one_line_with_its_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "--input", str(tmp_path), "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"slo-pipeline report: {tmp_path}: holds no probe_ops/")
    assert said.count("\n") == 1


def test_a_damaged_segment_is_one_line(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_rows(tmp_path, "probe_ops", [send(1, 0)])
    (tmp_path / "probe_ops" / "day=2026-11-20" / "damaged.parquet").write_bytes(b"PAR1 but no more")
    assert main(["report", "--input", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("slo-pipeline report: ")
    assert "damaged.parquet" in said


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
    with pytest.raises(SystemExit):
        main(["report", "--input", str(tmp_path), "--out", str(tmp_path), f"--target={text}"])


def test_increase_prints_a_table_that_adds_up(
    spark: SparkSession, told: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["increase", "rocketmq_messages_in_total", "--by", "group", "--input", str(told.directory)]) == 0
    )
    table = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {row["group"] for row in table} == {"orders", "payments"}
    assert {row["window_start"] for row in table} == {"2026-11-20T12:00:00Z", "2026-11-20T12:05:00Z"}
    whole = sum(float(row["increase"]) for row in table)
    assert whole == int(whole) > 0


def test_the_collectors_branch_does_not_bring_spark() -> None:
    code = (
        "import sys; from slo_pipeline.jobs import cli; cli._parser('collect'); "
        "sys.exit('pyspark' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
