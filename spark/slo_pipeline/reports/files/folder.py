"""What a report is on the disk.

It has index.html, one page per failover, long tables, and a summary for lists of reports.

    <out>/index.html                <out>/failovers/fo-<cluster>.<group>.<epoch>.html
    <out>/lists/<table>-<n>.html    <out>/report.json

Problem: a server that lists reports must not parse pages, and a page must not appear half-written.
Shape: every file is written beside its place and renamed; pages that an older run left behind are removed;
`report.json` comes last, so whoever sees it sees the rest. The same report makes the same bytes.
Never: nothing of a cluster but its names and numbers is in the summary.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from slo_pipeline.reports.files import lists
from slo_pipeline.reports.page import incidents, states
from slo_pipeline.reports.page.document import render, render_failover
from slo_pipeline.reports.page.states import verdict
from slo_pipeline.reports.values import silences
from slo_pipeline.reports.values.model import Failover, Report

PAGE: Final = "index.html"
SUMMARY: Final = "report.json"
FAILOVERS: Final = "failovers"
LISTS: Final = "lists"
# Groups without sends for hours that the summary names.
SILENT_MAX: Final = 100


def write_pages(report: Report, out: Path) -> Path:
    """Write a report's files below a directory; return the page's path."""
    listed = latest_first(report)
    folder = out / FAILOVERS
    folder.mkdir(parents=True, exist_ok=True)
    _remove_all_but({incidents.page_name(one) for one in listed}, folder)
    for failover, later, earlier in zip(listed, [None, *listed], [*listed[1:], None], strict=False):
        _write(folder / incidents.page_name(failover), render_failover(report, failover, earlier, later))
    written = []
    for name, text in lists.pages(report):
        (out / LISTS).mkdir(exist_ok=True)
        _write(out / LISTS / name, text)
        written.append(name)
    _remove_all_but(set(written), out / LISTS)
    _write(out / PAGE, render(report))
    _write(out / SUMMARY, json.dumps(summary(report, written), indent=1, sort_keys=True) + "\n")
    return out / PAGE


def _remove_all_but(names: set[str], folder: Path) -> None:
    """Remove the pages of a folder that the report no longer has."""
    for old in {path.name for path in folder.glob("*.html")} - names:
        (folder / old).unlink()


def latest_first(report: Report) -> list[Failover]:
    """Return the failovers that have pages of their own."""
    return incidents.newest_first(report)[: incidents.LISTED_MAX]


def summary(report: Report, lists_written: Sequence[str] = ()) -> dict[str, Any]:
    """Return what a list of reports shows.

    Args:
        report: the content of the page.
        lists_written: file names of its long tables.
    """
    headline, good = verdict(report)
    known = [(left, kept) for kept in report.objectives if (left := states.budget_left(kept)) is not None]
    least_left, least = min(known, key=lambda one: one[0], default=(None, None))
    return {
        "state": states.overall(report),
        "measured": states.measured(report),
        "budget_left": None if least_left is None else round(least_left, 9),
        "budget_of": "" if least is None else f"{least.slo} of {least.group}",
        "silent": [silences.line(report, *one) for one in silences.silent_groups(report)[:SILENT_MAX]],
        "lists": list(lists_written),
        "title": report.title,
        "start_us": report.start_us,
        "end_us": report.end_us,
        "verdict": headline,
        "good": good,
        "failovers": [
            {
                "failover_id": one.failover_id,
                "page": incidents.page_name(one),
                "heading": incidents.heading(one),
                "elected_us": one.elected_us,
                "write_gap_ms": one.write_gap_ms,
                "bad_s": one.bad_s,
                "lost_acknowledged": one.lost_acknowledged,
            }
            for one in latest_first(report)
        ],
    }


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
