"""The reports below a directory, by name: which files may be served, and nothing else.

Problem: a server of files is one `..` away from a server of secrets.
Shape: a report is a folder with a `report.json`; its name is one path segment. Only `index.html` and the failover pages that the
summary lists can be asked for, so a request is a look-up among known names and never a path.
Never: a link that leads out of the directory is followed.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from slo_pipeline.reports.files import FAILOVERS, PAGE, SUMMARY

REPORTS_MAX: Final = 1_000
SUMMARY_BYTES_MAX: Final = 10_000_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True)
class Shelved:
    """One report: its name in addresses, its folder, its summary."""

    name: str
    folder: Path
    summary: dict[str, Any]

    @property
    def failovers(self) -> list[dict[str, Any]]:
        """Return the summary's failovers, the latest first."""
        return list(self.summary["failovers"])


class Shelf:
    """Looks reports up in a directory; every look reads the directory anew, as jobs add reports while it is served."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()

    def reports(self) -> list[Shelved]:
        """Return all reports, the one with the newest data first."""
        found = [self._shelved(path.parent) for path in sorted(self._root.glob(f"*/{SUMMARY}"))[:REPORTS_MAX]]
        known = [one for one in found if one is not None]
        return sorted(known, key=lambda one: (-int(one.summary["end_us"]), one.name))

    def report(self, name: str) -> Shelved | None:
        """Return one report; None if there is none of this name."""
        if not _NAME.fullmatch(name):
            return None
        return self._shelved(self._root / name)

    def page(self, report: Shelved) -> bytes | None:
        """Return the report's page."""
        return self._read(report.folder / PAGE)

    def failover_page(self, report: Shelved, page: str) -> bytes | None:
        """Return the page of one failover; None unless the summary lists it."""
        if page not in {one["page"] for one in report.failovers}:
            return None
        return self._read(report.folder / FAILOVERS / page)

    def newest_with(self, failover_id: str) -> tuple[Shelved, str] | None:
        """Return the newest report that tells of a failover, and the name of its page."""
        for report in self.reports():
            for one in report.failovers:
                if one["failover_id"] == failover_id:
                    return report, str(one["page"])
        return None

    def _shelved(self, folder: Path) -> Shelved | None:
        text = self._read(folder / SUMMARY)
        if text is None or len(text) > SUMMARY_BYTES_MAX or not _NAME.fullmatch(folder.name):
            return None
        try:
            summary = json.loads(text)
            pages = [(one["page"], one["failover_id"]) for one in summary["failovers"]]
            whole = {"title", "verdict", "good", "start_us", "end_us"} <= summary.keys()
        except (ValueError, KeyError, TypeError):
            return None
        if not whole or not all(_NAME.fullmatch(page) for page, _ in pages):
            return None
        return Shelved(folder.name, folder, summary)

    def _read(self, path: Path) -> bytes | None:
        try:
            real = path.resolve(strict=True)
            if not real.is_relative_to(self._root) or not real.is_file():
                return None
            return real.read_bytes()
        except OSError:
            return None
