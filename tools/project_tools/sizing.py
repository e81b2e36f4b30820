"""A month of measurements planned on paper: formulas over the inputs that docs/reference/sizing.md names.

The page is where inputs are written; `python -m project_tools.sizing` writes the table of results below them,
and a test holds the two equal. Never: a number of its own. Every number is an input, comes from the program
(a buffer's bound), or is computed.
"""

import re
import sys
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from project_tools.chart_files import ROOT
from slo_pipeline.collect.collector import CROWDED_ROWS
from slo_pipeline.writing.buffers import PART_ROWS

PAGE: Final = ROOT / "docs" / "reference" / "sizing.md"
S_PER_DAY: Final = 86_400
MIB: Final = 1 << 20
GIB: Final = 1 << 30
COLUMN_BYTES: Final = 32
"""Of a sample in the collector's buffer: its columns of machine numbers."""
PARTITION_BYTES_MAX: Final = 128 * MIB
FILE_OPEN_BYTES: Final = 4 * MIB
"""Spark's own: how much of a partition a file takes, however small it is."""
RESULTS_BEGIN: Final = "<!-- results: python -m project_tools.sizing -->\n"
RESULTS_END: Final = "<!-- end of results -->\n"
_INPUT: Final = re.compile(r"^\| `([a-z0-9_]+)` \| ([0-9.,]+) \|", re.MULTILINE)

Inputs = Mapping[str, float]


class Line(NamedTuple):
    """One result: what it is, its formula in the inputs' names, its value and its unit."""

    what: str
    formula: str
    value: Callable[[Inputs], float]
    unit: str


def samples_a_second(given: Inputs) -> float:
    """Return what one collector takes in."""
    return given["pods"] / given["releases"] * given["samples_a_pod"] / given["interval_s"]


def groups(given: Inputs) -> float:
    """Return the broker groups of one release, each with a canary."""
    return given["pods"] / given["releases"] / given["pods_a_group"]


def scrapes_a_day(given: Inputs) -> float:
    """Return the scrapes of one release."""
    return given["pods"] / given["releases"] * given["pages_a_pod"] / given["interval_s"] * S_PER_DAY


def operations_a_day(given: Inputs) -> float:
    """Return what the canaries of one release do: each send is read back."""
    return groups(given) * given["sends_a_second"] * 2 * S_PER_DAY


def files_a_day(given: Inputs) -> float:
    """Return the segments of one release."""
    return S_PER_DAY / given["segment_s"] + groups(given) * S_PER_DAY / given["canary_segment_s"]


def segment_bytes_a_day(given: Inputs) -> float:
    """Return the size of one release's segments."""
    samples = samples_a_second(given) * S_PER_DAY * given["bytes_a_sample"]
    return samples + operations_a_day(given) * given["bytes_an_operation"]


def extract_rows_a_day(given: Inputs) -> float:
    """Return the rows that a report reads of a closed day."""
    return scrapes_a_day(given) * given["extract_rows_a_scrape"] + operations_a_day(given)


def extract_bytes_a_day(given: Inputs) -> float:
    """Return the size of a closed day's extract."""
    samples = scrapes_a_day(given) * given["extract_bytes_a_scrape"]
    return samples + operations_a_day(given) * given["extract_bytes_an_operation"]


def extract_rows(given: Inputs) -> float:
    """Return what a report over the month reads of its closed days."""
    return (given["days"] - given["open_days"]) * extract_rows_a_day(given)


def open_samples(given: Inputs) -> float:
    """Return the samples in the segments of the days that are not closed."""
    return given["open_days"] * samples_a_second(given) * S_PER_DAY


def open_rows(given: Inputs) -> float:
    """Return the rows that a report reads of those days: operations, and as many samples as extracts keep."""
    return given["open_days"] * extract_rows_a_day(given)


def report_partitions(given: Inputs) -> float:
    """Return Spark's tasks to read it: by size, and by number of files where they are small."""
    closed = (given["days"] - given["open_days"]) * extract_bytes_a_day(given)
    still_open = given["open_days"] * (segment_bytes_a_day(given) + files_a_day(given) * FILE_OPEN_BYTES)
    return (closed + still_open) / PARTITION_BYTES_MAX


def collector_bytes(given: Inputs) -> float:
    """Return the collector's memory.

    That is its series, the current and the written buffer, and a part of it as a table being made.
    """
    series = samples_a_second(given) * given["interval_s"]
    rows = samples_a_second(given) * given["segment_s"]
    part = min(rows, PART_ROWS) * given["memory_bytes_a_sample"] * 3
    return (
        given["collector_start_mib"] * MIB
        + series * given["memory_bytes_a_series"]
        + rows * 2 * COLUMN_BYTES
        + part
    )


def report_s(given: Inputs) -> float:
    """Return the wall time of a report over the month."""
    cores = given["executors"] * given["cores_an_executor"]
    rows = (extract_rows(given) + open_rows(given)) * given["us_a_row"]
    return given["start_s"] + (rows + open_samples(given) * given["us_a_sample"]) / 1e6 / cores


def daily_s(given: Inputs) -> float:
    """Return the wall time of `daily --extracts-only` where it closes a day: one process copies the rows."""
    samples = samples_a_second(given) * S_PER_DAY * given["us_an_extracted_sample"]
    operations = operations_a_day(given) * given["us_an_extracted_operation"]
    return (samples + operations) / 1e6 + files_a_day(given) * given["ms_a_file"] / 1e3


RESULTS: Final = (
    Line(
        "samples per second, one collector",
        "pods / releases * samples_a_pod / interval_s",
        samples_a_second,
        "",
    ),
    Line(
        "time after which a segment is written early",
        f"{CROWDED_ROWS:,} / samples per second",
        lambda given: CROWDED_ROWS / samples_a_second(given),
        "s",
    ),
    Line("broker groups, one release", "pods / releases / pods_a_group", groups, ""),
    Line(
        "samples per day, all",
        "samples per second * 86,400 * releases",
        lambda given: samples_a_second(given) * S_PER_DAY * given["releases"],
        "",
    ),
    Line(
        "samples of the month, all",
        "* days",
        lambda given: samples_a_second(given) * S_PER_DAY * given["releases"] * given["days"],
        "",
    ),
    Line(
        "probe operations per day, one release", "groups * sends_a_second * 2 * 86,400", operations_a_day, ""
    ),
    Line(
        "segments per day, one release",
        "86,400 / segment_s + groups * 86,400 / canary_segment_s",
        files_a_day,
        "files",
    ),
    Line(
        "size of these segments",
        "samples * bytes_a_sample + operations * bytes_an_operation",
        lambda given: segment_bytes_a_day(given) / GIB,
        "GiB",
    ),
    Line(
        "segments of the month, one release",
        "* days",
        lambda g: segment_bytes_a_day(g) * g["days"] / GIB,
        "GiB",
    ),
    Line("day folders of the month", "days * 3 kinds", lambda given: given["days"] * 3, ""),
    Line(
        "rows in the extract of a closed day",
        "scrapes * extract_rows_a_scrape + operations",
        extract_rows_a_day,
        "",
    ),
    Line(
        "size of that extract, in 3 files",
        "scrapes * extract_bytes_a_scrape + operations * extract_bytes_an_operation",
        lambda given: extract_bytes_a_day(given) / GIB,
        "GiB",
    ),
    Line(
        "extracts of the month, one report",
        "* days",
        lambda g: extract_bytes_a_day(g) * g["days"] / GIB,
        "GiB",
    ),
    Line(
        "rows of extracts that a month's report reads",
        "(days - open_days) * rows of an extract",
        extract_rows,
        "",
    ),
    Line("samples of open days that it scans", "open_days * samples per day", open_samples, ""),
    Line(
        "samples that it scans without `daily`",
        "days * samples per day",
        lambda given: given["days"] * samples_a_second(given) * S_PER_DAY,
        "",
    ),
    Line(
        "partitions with `daily`",
        "bytes / 128 MiB, a file of open days at least 4 MiB",
        report_partitions,
        "",
    ),
    Line(
        "memory of a collector",
        "collector_start_mib + series * memory_bytes_a_series + rows of a segment * 2 * 32 "
        "+ rows of a part * 3 * memory_bytes_a_sample",
        lambda given: collector_bytes(given) / MIB,
        "MiB",
    ),
    Line("memory of the driver", "driver_mib", lambda given: given["driver_mib"], "MiB"),
    Line("memory of an executor", "executor_mib", lambda given: given["executor_mib"], "MiB"),
    Line(
        "wall time of a month's report",
        "start_s + (rows * us_a_row + samples of open days * us_a_sample) / (executors * cores_an_executor)",
        lambda given: report_s(given) / 60,
        "min",
    ),
    Line(
        "wall time of `daily --extracts-only`, once per day",
        "samples * us_an_extracted_sample + operations * us_an_extracted_operation + segments * ms_a_file",
        lambda given: daily_s(given) / 60,
        "min",
    ),
)


def inputs_of(text: str) -> dict[str, float]:
    """Read the inputs out of the page."""
    return {name: float(value.replace(",", "")) for name, value in _INPUT.findall(text)}


def with_results(text: str) -> str:
    """Return the page with the table of results that its inputs give."""
    given = inputs_of(text)
    rows = [
        f"| {one.what} | {one.formula} | {_shown(one.value(given))} {one.unit} |".replace("  |", " |")
        for one in RESULTS
    ]
    table = "\n".join(["| quantity | formula | result |", "|---|---|---|", *rows]) + "\n"
    begin, end = text.index(RESULTS_BEGIN) + len(RESULTS_BEGIN), text.index(RESULTS_END)
    return text[:begin] + table + text[end:]


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def main() -> int:
    """Write the results into the page."""
    PAGE.write_text(with_results(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
