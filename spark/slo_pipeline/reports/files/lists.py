"""The files of tables that are too long for the report's page: `lists/<table>-<n>.html`.

Problem: ten thousand failovers or two thousand groups are megabytes of rows, and the page must open at once.
Shape: a table whose rows all fit the page needs no file. Another one is written whole, in files of about
LIST_BYTES_MAX, each with links to the previous and the next one.
"""

from collections.abc import Callable, Iterator
from typing import Final

from slo_pipeline.reports.drawing.markup import Markup, join, tag
from slo_pipeline.reports.page import incidents, missing, objectives, parts, sections
from slo_pipeline.reports.page.document import document
from slo_pipeline.reports.values import words
from slo_pipeline.reports.values.model import Report

LIST_BYTES_MAX: Final = 400_000


def _all_changes(report: Report) -> parts.Long:
    return incidents.overview(report, 0, "../")


TABLES: Final[tuple[Callable[[Report], parts.Long], ...]] = (
    objectives.every,
    objectives.paged,
    _all_changes,
    sections.availability_table,
    sections.latency_table,
    sections.durability_table,
    missing.groups_table,
    missing.apart_table,
    sections.quality_table,
)


def pages(report: Report) -> Iterator[tuple[str, str]]:
    """Yield the file name and the document of each page of each long table."""
    for table in TABLES:
        long = table(report)
        if len(next(parts.split(long, long.bytes_max), [])) < long.row_count:
            yield from _pages(report, table(report))


def _pages(report: Report, long: parts.Long) -> Iterator[tuple[str, str]]:
    runs = list(parts.split(long, LIST_BYTES_MAX))
    first = 1
    for number, rows in enumerate(runs, start=1):
        foot = long.foot if number == len(runs) else None
        last = first + len(rows) - 1
        said = f"{words.plain(first)} to {words.plain(last)} of {words.plain(long.row_count)}."
        body = tag(
            "body",
            tag(
                "header",
                tag("h1", report.title),
                tag(
                    "p",
                    tag(
                        "a", f"Report of {words.period(report.start_us, report.end_us)}", href="../index.html"
                    ),
                    class_="sub",
                ),
            ),
            tag(
                "main",
                tag("h2", long.heading),
                tag("p", said, class_="note"),
                _turn(long.name, number, len(runs)),
                parts.table(long.heads, rows, foot=foot, stacked=True),
                _turn(long.name, number, len(runs)),
            ),
        )
        yield parts.list_name(long.name, number), document(f"{long.heading}, {said} {report.title}", body)
        first = last + 1


def _turn(name: str, number: int, pages: int) -> Markup | None:
    """Link to the first, previous, next and last page."""
    if pages == 1:
        return None
    ways = (("First", 1), ("Previous", number - 1), ("Next", number + 1), ("Last", pages))
    links = [
        tag("a", label, href=parts.list_name(name, to))
        for label, to in ways
        if 1 <= to <= pages and to != number
    ]
    return tag("p", f"Page {number} of {pages}. ", join(links, " · "), class_="note")
