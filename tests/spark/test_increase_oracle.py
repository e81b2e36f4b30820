"""Our sums beside Prometheus' own `increase`, a second formula in DuckDB, and a generator's truth."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from slo_pipeline.cli import main
from slo_pipeline.jobs.gather import iso_utc
from testkit.generators import second_opinion
from testkit.generators.counter_history import METRIC, CounterHistory, history
from testkit.processes import prometheus

WINDOW_S = 300
RELATIVE_ERROR_MAX = 1e-9


@pytest.fixture(scope="module")
def made() -> CounterHistory:
    return history()


@pytest.fixture(scope="module")
def landed(made: CounterHistory, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("landed")
    (directory / "h.om").write_text(made.text)
    assert main(["import", "openmetrics", str(directory / "h.om"), "--into", str(directory / "D")]) == 0
    return directory / "D"


@pytest.fixture(scope="module")
def server(made: CounterHistory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    try:
        with prometheus.serving(made.text, tmp_path_factory.mktemp("prometheus")) as address:
            yield address
    except prometheus.PrometheusUnavailableError as error:
        pytest.skip(f"no Prometheus to compare with: {error}")


def _table(capsys: pytest.CaptureFixture[str], directory: Path, *options: str) -> list[dict[str, str]]:
    capsys.readouterr()
    assert main(["increase", METRIC, "--input", str(directory), "--output=csv", *options]) == 0
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))


def _asked(server: str, query: str, start_s: int, end_s: int) -> list[dict[str, Any]]:
    found = prometheus.asked(
        server, "/api/v1/query_range", query=query, start=start_s, end=end_s, step=WINDOW_S
    )
    return list(found["result"])


@pytest.mark.parametrize("by", ["path", "part"])
def test_the_promql_column_is_what_prometheus_says(
    spark: SparkSession,
    made: CounterHistory,
    landed: Path,
    server: str,
    capsys: pytest.CaptureFixture[str],
    by: str,
) -> None:
    ours = {
        (row["window_start"], row[by]): float(row["promql"])
        for row in _table(capsys, landed, "--by", by, "--window", "5m")
        if row["promql"]
    }
    start_s = made.end_s // WINDOW_S * WINDOW_S - 7 * 3_600
    theirs = {
        (iso_utc((int(at_s) - WINDOW_S) * 1_000_000), series["metric"][by]): float(value)
        for series in _asked(server, f"sum by ({by}) (increase({METRIC}[5m]))", start_s, made.end_s + 600)
        for at_s, value in series["values"]
    }
    assert len(theirs) > 100
    assert ours.keys() == theirs.keys()
    assert ours == pytest.approx(theirs, rel=RELATIVE_ERROR_MAX, abs=1e-12)


def test_the_account_is_the_generators_truth_and_duckdbs_sum(
    spark: SparkSession, made: CounterHistory, landed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ours = sum(float(row["increase"]) for row in _table(capsys, landed, "--window", "1h"))
    assert ours == pytest.approx(made.visible, rel=1e-12)
    assert sum(second_opinion.increases(landed, METRIC, 3_600_000_000).values()) == made.visible


def test_without_long_gaps_every_window_is_duckdbs(
    spark: SparkSession, landed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = second_opinion.increases(landed, METRIC, 300_000_000)
    expected = {iso_utc(start_us): grown for start_us, grown in theirs.items()}
    plain = [row for row in _table(capsys, landed, "--window", "5m") if row["interpolated"] == "false"]
    assert len(plain) > 10
    assert {row["window_start"]: float(row["increase"]) for row in plain} == {
        row["window_start"]: expected[row["window_start"]] for row in plain
    }
