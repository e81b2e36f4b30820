"""The reports below a directory, by name: which files may be served, and nothing else.

Problem: a server of files is one `..` away from a server of secrets, and one damaged file away from serving
nothing. Shape: a report is a folder with a `report.json`; its name is one path segment. Only `index.html` and
the pages that the summary lists can be asked for, so a request is a look-up among known names and never a
path. Each summary is parsed once and again when its file has changed. A summary that cannot be used hides its
own report alone, and the log says why. Never: a link that leads out of the directory is followed.
"""

import logging
import os
import threading
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Final

from slo_pipeline.reports.files.folder import FAILOVERS, LISTS, PAGE, SUMMARY
from slo_pipeline.reports.values.file_names import is_segment
from slo_pipeline.serve.summaries import MasterChange, Summary, SummaryError, parse

# Beyond this many, the reports that were written first are left out.
REPORTS_MAX: Final = 10_000
SUMMARY_BYTES_MAX: Final = 10_000_000
# Changes of master held in memory, of all reports together. Those of older reports are read again when
# needed.
CHANGES_HELD_MAX: Final = 100_000

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Shelved:
    """One report: its name in addresses, its folder, its summary.

    Attributes:
        is_whole: the summary holds its changes of master; if not, they are on the disk alone.
    """

    name: str
    folder: Path
    summary: Summary
    is_whole: bool = True


_Identity = tuple[int, int, int]


class Shelf:
    """Looks reports up in a directory.

    Each lookup reads the directory again, as jobs add reports while it is served.
    """

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self._lock = threading.Lock()
        self._known: dict[str, tuple[_Identity, Shelved | None]] = {}

    def reports(self) -> list[Shelved]:
        """Return all reports, the one with the newest data first."""
        return self.look()[0]

    def look(self) -> tuple[list[Shelved], int]:
        """Return all reports, the one with the newest data first, and how many folders are not shown."""
        with self._lock:
            entries = self._entries()
            shown = entries[:REPORTS_MAX]
            known: dict[str, tuple[_Identity, Shelved | None]] = {}
            held = 0
            for name, identity in shown:
                known[name] = looked = self._looked_up(name, identity)
                if looked[1] is not None:
                    held += len(looked[1].summary.failovers)
                    if held > CHANGES_HELD_MAX:
                        known[name] = identity, _without_changes(looked[1])
            self._known = known
        found = [one for _, one in known.values() if one is not None]
        found.sort(key=lambda one: (-one.summary.end_us, one.name))
        return found, len(entries) - len(found)

    def report(self, name: str) -> Shelved | None:
        """Return one report; None without a usable report of this name."""
        if not is_segment(name):
            return None
        with self._lock:
            identity = self._identity(name)
            if identity is None:
                return None
            self._known[name] = self._looked_up(name, identity)
            return self._known[name][1]

    def page(self, report: Shelved) -> bytes | None:
        """Return the report's page."""
        return self._read(report.folder / PAGE)

    def failover_page(self, report: Shelved, page: str) -> bytes | None:
        """Return the page of one failover; None unless the summary lists it."""
        if all(one.page != page for one in self._changes_of(report)):
            return None
        return self._read(report.folder / FAILOVERS / page)

    def list_page(self, report: Shelved, page: str) -> bytes | None:
        """Return one page of a long table; None unless the summary lists it."""
        return self._read(report.folder / LISTS / page) if page in report.summary.lists else None

    def newest_with(self, failover_id: str) -> tuple[Shelved, str] | None:
        """Return the newest report that tells of a failover, and the name of its page."""
        for report in self.reports():
            for one in self._changes_of(report):
                if one.failover_id == failover_id:
                    return report, one.page
        return None

    def changes(self, most: int) -> list[tuple[Shelved, MasterChange]]:
        """Return the latest changes of master, each once, as the newest report tells it.

        Args:
            most: how many at most.
        """
        found: dict[str, tuple[Shelved, MasterChange]] = {}
        for report in self.reports():
            if not report.is_whole and _count_since(found, report.summary.end_us) >= most:
                break  # no report from here on knows of a later change
            for one in self._changes_of(report):
                found.setdefault(one.failover_id, (report, one))
        ordered = sorted(found.values(), key=lambda pair: (-pair[1].elected_us, pair[1].failover_id))
        return list(islice(ordered, most))

    def _changes_of(self, report: Shelved) -> tuple[MasterChange, ...]:
        if report.is_whole:
            return report.summary.failovers
        text = self._read(report.folder / SUMMARY)
        try:
            return () if text is None or len(text) > SUMMARY_BYTES_MAX else parse(text).failovers
        except SummaryError:
            return ()  # rewritten since; the next lookup says why

    def _entries(self) -> list[tuple[str, _Identity]]:
        """Return the folders with a summary, the one written last first."""
        try:
            names = sorted(entry.name for entry in os.scandir(self._root) if is_segment(entry.name))
        except OSError as error:
            logger.warning("cannot read %s: %s", self._root, error)
            return []
        found = [(name, identity) for name in names if (identity := self._identity(name)) is not None]
        return sorted(found, key=lambda entry: (-entry[1][1], entry[0]))

    def _identity(self, name: str) -> _Identity | None:
        """Return a value that changes when a summary is rewritten; None if the folder lacks a summary."""
        try:
            seen = os.stat(self._root / name / SUMMARY)
        except OSError:
            return None
        return seen.st_ino, seen.st_mtime_ns, seen.st_size

    def _looked_up(self, name: str, identity: _Identity) -> tuple[_Identity, Shelved | None]:
        known = self._known.get(name)
        if known is not None and known[0] == identity:
            return known
        try:
            return identity, self._parsed(name, identity[2])
        except SummaryError as error:
            logger.warning("report %r is not shown: %s: %s", name, SUMMARY, error)
            return identity, None

    def _parsed(self, name: str, size_bytes: int) -> Shelved:
        """Return a report by its summary.

        Raises:
            SummaryError: it cannot be used.
        """
        folder = self._root / name
        if size_bytes > SUMMARY_BYTES_MAX:
            raise SummaryError(f"{size_bytes} bytes, expected at most {SUMMARY_BYTES_MAX}")
        text = self._read(folder / SUMMARY)
        if text is None:
            raise SummaryError("cannot be read, or lies outside of the served directory")
        return Shelved(name, folder, parse(text))

    def _read(self, path: Path) -> bytes | None:
        try:
            real = path.resolve(strict=True)
            if not real.is_relative_to(self._root) or not real.is_file():
                return None
            return real.read_bytes()
        except (OSError, ValueError):
            return None


def _without_changes(report: Shelved) -> Shelved:
    return replace(report, summary=replace(report.summary, failovers=()), is_whole=False)


def _count_since(found: dict[str, tuple[Shelved, MasterChange]], us: int) -> int:
    return sum(1 for _, one in found.values() if one.elected_us >= us)
