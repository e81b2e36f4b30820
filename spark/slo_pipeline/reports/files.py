"""What a report is on the disk: index.html, one page a failover, and a summary for those who list reports.

    <out>/index.html   <out>/failovers/fo-<cluster>.<group>.<epoch>.html   <out>/report.json

Problem: a server that lists reports must not parse pages, and a page must not appear half-written.
Shape: every file is written beside its place and renamed; pages of failovers that an older run left behind are removed;
`report.json` comes last, so whoever sees it sees the rest. The same report makes the same bytes.
Never: nothing of a cluster but its names and numbers is in the summary.
"""

import json
from pathlib import Path
from typing import Any, Final

from slo_pipeline.reports import incidents
from slo_pipeline.reports.model import Failover, Report
from slo_pipeline.reports.page import render, render_failover
from slo_pipeline.reports.verdict import verdict

PAGE: Final = "index.html"
SUMMARY: Final = "report.json"
FAILOVERS: Final = "failovers"


def write_pages(report: Report, out: Path) -> Path:
    """Write a report's files below a directory; return the page's path."""
    listed = latest_first(report)
    folder = out / FAILOVERS
    folder.mkdir(parents=True, exist_ok=True)
    for old in {path.name for path in folder.glob("fo-*.html")} - {
        incidents.page_name(one) for one in listed
    }:
        (folder / old).unlink()
    for failover in listed:
        _write(folder / incidents.page_name(failover), render_failover(report, failover))
    _write(out / PAGE, render(report))
    _write(out / SUMMARY, json.dumps(summary(report), indent=1, sort_keys=True) + "\n")
    return out / PAGE


def latest_first(report: Report) -> list[Failover]:
    """Return the failovers that have pages of their own."""
    ordered = sorted(report.failovers, key=lambda one: (one.elected_us, one.failover_id), reverse=True)
    return ordered[: incidents.LISTED_MAX]


def summary(report: Report) -> dict[str, Any]:
    """Return what a list of reports shows."""
    headline, good = verdict(report)
    return {
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
