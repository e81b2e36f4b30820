"""Pair increments as arrays, without Spark: long gaps in bounded memory, windows that are put together."""

from pathlib import Path

import pytest

from slo_pipeline.jobs.increase import account, footers
from slo_pipeline.jobs.profile import Profile
from slo_pipeline.jobs.single_pass import increases
from slo_pipeline.jobs.single_pass.increases import IncreaseLook
from slo_pipeline.jobs.spark.workers import Here
from testkit.generators.segment_rows import Row, sample, us
from testkit.generators.synthetic import write_rows

LOOK = IncreaseLook("x_total", (), 60_000_000)


def grown(directory: Path, samples: list[Row]) -> dict[int, float]:
    """Return the increase of each minute after the beginning that has one."""
    write_rows(directory, "samples", samples)
    found = account(footers(directory, "x_total", Profile()), LOOK, "local", Profile())
    return {(row["window_start"] - us(0)) // 60_000_000: row["increase"] for row in found if row["increase"]}


def outage(series: int) -> list[Row]:
    """Return counters that were not scraped for an hour and grew by sixty in it."""
    return [sample(at, at / 60, labels={"n": str(one)}) for one in range(series) for at in (0, 3_600)]


def test_an_outage_of_many_series_is_spread_a_few_gaps_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(increases, "SPREAD_MAX", 200)
    made = increases._spread
    parts: list[int] = []

    def spied(*args: object) -> increases.WindowSums:
        parts.append(int(args[2].sum()))  # type: ignore[attr-defined]
        return made(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(increases, "_spread", spied)
    assert grown(tmp_path, outage(30)) == pytest.approx(dict.fromkeys(range(60), 30.0))
    assert sum(parts) == 30 * 60
    assert max(parts) <= 200 + 60


def test_pairs_that_windows_divide_are_counted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slo_pipeline.jobs.single_pass.plan.TASK_ROWS_MIN", 1)
    samples = [
        sample(at, 7 * at, labels={"n": str(one)}, instance=f"i{one % 2}")
        for one in range(3)
        for at in range(0, 600, 10)
    ]
    whole = grown(tmp_path, samples)
    monkeypatch.setattr(Here, "cores", 9)
    assert grown(tmp_path, samples) == whole
    assert sum(whole.values()) == 3 * 7 * 590


def test_a_set_of_labels_in_too_many_windows_for_an_array_is_summed_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = grown(tmp_path, outage(3))
    monkeypatch.setattr(increases, "CELLS_MAX", 0)
    assert grown(tmp_path, outage(3)) == pytest.approx(whole)
