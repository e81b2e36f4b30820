"""The plan on paper: its results are those of its inputs, and its inputs of the program."""

from pathlib import Path

import pytest

from project_tools import sizing
from project_tools.row_sizes import sizes_on_disk
from slo_pipeline.formats.exposition import Sample, Series
from slo_pipeline.writing.buffers import SampleBuffer

TEXT = sizing.PAGE.read_text()
ROWS = {
    "bytes_a_sample": "bytes a sample, segments of 10 s",
    "extract_rows_a_scrape": "rows a scrape in an extract",
    "extract_bytes_a_scrape": "bytes a scrape in an extract",
    "memory_bytes_a_sample": "bytes a sample in memory while its segment is written",
}


def test_the_results_are_those_of_the_inputs() -> None:
    assert sizing.with_results(TEXT) == TEXT, "run: python -m project_tools.sizing"


def test_an_input_that_is_changed_changes_what_follows_from_it() -> None:
    before = sizing.inputs_of(TEXT)
    assert sizing.report_s(before | {"days": 60}) > 1.2 * sizing.report_s(before)
    assert sizing.samples_a_second(before | {"releases": 5}) == 2 * sizing.samples_a_second(before)


def test_what_was_computed_is_what_the_program_does(tmp_path: Path) -> None:
    given, found = sizing.inputs_of(TEXT), sizes_on_disk(tmp_path)
    assert {name: given[name] for name in ROWS} == pytest.approx(
        {name: found[row] for name, row in ROWS.items()}, rel=0.1
    )


def test_a_sample_in_the_buffer_takes_what_the_plan_says() -> None:
    buffer = SampleBuffer()
    buffer.add(1, "a", "", [Sample(Series("up", ()), 1.0, None)])
    taken = buffer.take()
    columns = (taken.ts_us, taken.series_id, taken.instance_id, taken.value, taken.embedded_us)
    assert sum(column.itemsize for column in columns) == sizing.COLUMN_BYTES
