"""A collector that starts: what its own segments tell it, and what it says of those that it cannot read."""

import logging
from pathlib import Path

import pytest

from slo_pipeline.collect.collector import POSITIONS_KEY, Collector, CollectorSettings
from slo_pipeline.collect.scraping.metrics import CollectorMetrics
from slo_pipeline.writing.segment_store import SegmentStore

BAD = {
    "empty (0 bytes)": b"",
    "not Parquet": b"rows, as text",
    "damaged Parquet": b"PAR1 cut",
}


@pytest.mark.parametrize("how", BAD)
async def test_an_unusable_segment_of_its_own_is_logged_in_the_words_of_all_commands_and_stops_nothing(
    how: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "events" / "day=2026-11-20" / "collector@1-1.parquet"
    path.parent.mkdir(parents=True)
    path.write_bytes(BAD[how])
    (path.parent / "README").touch()
    with SegmentStore(tmp_path, "collector") as store, caplog.at_level(logging.WARNING):
        Collector(CollectorSettings(None), store, CollectorMetrics()).recall()
        assert list(store.read_metadata("events", POSITIONS_KEY)) == []
    said = {record.getMessage().partition(": ")[2] for record in caplog.records}
    assert said == {f"{path}: unusable segment: {how}"}
