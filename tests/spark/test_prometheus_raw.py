"""The data source against a real Prometheus with a known history: every sample, in every form of query."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from slo_pipeline.cli import main
from slo_pipeline.formats.openmetrics import timed_samples
from slo_pipeline.sources.prometheus_raw import PrometheusRaw
from testkit.generators.counter_history import BEGIN_S, METRIC, CounterHistory, history
from testkit.processes import prometheus

MADE = history(series=12, hours=4)


def _known(made: CounterHistory) -> Counter[tuple[str, int, float]]:
    """Return what the history holds: (part, milliseconds, value)."""
    return Counter(
        (dict(one.series.labels)["part"], one.ts_us // 1_000, one.value)
        for one in timed_samples(made.text.splitlines(keepends=True))
    )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    try:
        with prometheus.serving(MADE.text, tmp_path_factory.mktemp("prometheus")) as address:
            yield address
    except prometheus.PrometheusUnavailableError as error:
        pytest.skip(f"no Prometheus to read from: {error}")


def _read(spark: SparkSession, server: str, **options: str) -> DataFrame:
    spark.dataSource.register(PrometheusRaw)
    every = {"url": server, "match": METRIC, "start": str(BEGIN_S - 60), "end": str(MADE.end_s + 60)}
    return spark.read.format("prometheus_raw").options(**every, **options).load()


def _rows(frame: DataFrame) -> Counter[tuple[str, int, float]]:
    chosen = frame.select(F.col("labels")["part"].alias("part"), F.unix_millis("ts").alias("at"), "value")
    return Counter((row["part"], row["at"], row["value"]) for row in chosen.collect())


@pytest.mark.parametrize("protocol", ["remote_read", "query"])
def test_every_sample_is_there_once_with_its_own_time(
    spark: SparkSession, server: str, protocol: str
) -> None:
    assert _rows(_read(spark, server, protocol=protocol)) == _known(MADE)


def test_a_pushed_filter_reads_what_an_unpushed_one_lets_through(spark: SparkSession, server: str) -> None:
    low, high = BEGIN_S + 3_600, BEGIN_S + 7_200
    asked = (
        (F.col("ts") >= F.timestamp_seconds(F.lit(low)))
        & (F.col("ts") < F.timestamp_seconds(F.lit(high)))
        & (F.col("metric") == METRIC)
        & (F.col("labels")["path"] == "/1")
    )
    pushed = _rows(_read(spark, server).where(asked))
    # Nothing is pushed through a checkpoint: Spark reads everything and filters it itself.
    unpushed = _rows(_read(spark, server).localCheckpoint().where(asked))
    expected = Counter(
        {
            one: count
            for one, count in _known(MADE).items()
            if low * 1_000 <= one[1] < high * 1_000 and int(one[0]) % 3 == 1
        }
    )
    assert pushed == unpushed == expected
    assert expected


def test_a_stretch_is_landed_once_however_often_it_is_asked_for(server: str, tmp_path: Path) -> None:
    command = [
        "import", "prometheus", server, "--into", str(tmp_path), "--match", METRIC, "--slice", "1h",
        "--start", str(BEGIN_S), "--end", str(MADE.end_s + 60),
    ]  # fmt: skip
    assert main(command) == 0
    first = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
    assert main(command) == 0
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")} == first
    assert ds.dataset(sorted(map(str, first))).count_rows() == MADE.samples
