"""The real collector as a process in front of a hundred simulated pods.

It returns what the collector scrapes, its cost, and its files.

Problem: whether a collector keeps up can be seen only over a stretch of time, and the machine of a test
stands still now and then. Shape: the collector counts its scrapes itself, those that it gave up among them;
the kernel counts its CPU time and memory. `stretch` is the difference of two looks, so many scrapes apart.
"""

import asyncio
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import aiohttp
import duckdb

from testkit.fakes.kubernetes_pages import NAMESPACE
from testkit.processes.process import ManagedProcess

START_S_MAX: Final = 90.0
SCRAPES_S_MAX: Final = 240.0
_POLL_S: Final = 0.25
_KIB: Final = 1_024
_READY: Final = re.compile(r"ready (\S+) (\d+) pages")
_SERVED: Final = re.compile(r"ready, http (\S+)")
_SCRAPES: Final = re.compile(r'rmqha_collector_scrapes_total\{result="(\w+)"\} (\S+)')
_MISSED: Final = re.compile(r"^rmqha_collector_missed_slots_total (\S+)", re.MULTILINE)
_SAMPLES: Final = re.compile(r"^rmqha_collector_samples_total (\S+)", re.MULTILINE)
_TICKS_A_S: Final = os.sysconf("SC_CLK_TCK")


class Look(NamedTuple):
    """The counters at a moment.

    Attributes:
        at_s: by the loop's clock.
        cpu_s: CPU time of the collector.
        answered: scrapes that brought a page.
        wanted: scrapes that were due, those given up and those without an answer too.
        samples: that were taken.
    """

    at_s: float
    cpu_s: float
    answered: float
    wanted: float
    samples: float


class Stretch(NamedTuple):
    """The difference between two readings.

    Attributes:
        answered_share: of the scrapes that were due.
        samples_a_second: that were taken.
        processors: the share of one that the collector had.
        cpu_us: of a sample.
    """

    answered_share: float
    samples_a_second: float
    processors: float
    cpu_us: float


@dataclass(slots=True)
class CollectorRun:
    """Pods that are played and their collector; `pods` must be started first.

    Attributes:
        directory: for logs, and for segments in `data`.
        segment_s: time of a segment.
        interval_s: time between two scrapes of a page.
        pages: how many pages there are to scrape, once the pods are ready.
    """

    directory: Path
    segment_s: int
    interval_s: int = 1
    pages: int = 0
    _address: str = ""

    def pods(self, count: int, series: int | None = None) -> ManagedProcess:
        """Return the process that plays the pods; `series` of each page, None for those of a real one."""
        command = [sys.executable, "-m", "testkit.fakes.many_pods", f"--pods={count}"]
        command += [] if series is None else [f"--series={series}"]
        return ManagedProcess("pods", command, self.directory / "pods.log")

    async def collector(self, pods: ManagedProcess) -> ManagedProcess:
        """Return the collector's process, when the pods are ready."""
        await pods.wait_for_text("pages", START_S_MAX)
        ready = _found(_READY, pods.output())
        self.pages = int(ready[2])
        program = Path(sys.executable).parent / "slo-pipeline"
        options = [f"--discover={NAMESPACE}", f"--api-server={ready[1]}", f"--out={self.directory / 'data'}"]
        speed = [
            f"--interval={self.interval_s}s",
            f"--segment-duration={self.segment_s}s",
            "--http=127.0.0.1:0",
        ]
        command = [str(program), "collect", *options, *speed]
        return ManagedProcess("collector", command, self.directory / "collector.log")

    async def until_collecting(self, collector: ManagedProcess) -> None:
        """Wait until the collector has scraped every page once or so."""
        await collector.wait_for_text("ready, http", START_S_MAX)
        self._address = _found(_SERVED, collector.output())[1]
        await self._until(collector, self.pages)

    async def stretch(self, collector: ManagedProcess, seconds: int) -> Stretch:
        """Measure while so many seconds' scrapes are done, or given up."""
        begin = await self.look(collector)
        end = await self._until(collector, begin.wanted + seconds * self.pages / self.interval_s)
        took_s = end.at_s - begin.at_s
        return Stretch(
            (end.answered - begin.answered) / (end.wanted - begin.wanted),
            (end.samples - begin.samples) / took_s,
            (end.cpu_s - begin.cpu_s) / took_s,
            (end.cpu_s - begin.cpu_s) / max(end.samples - begin.samples, 1.0) * 1e6,
        )

    async def _until(self, collector: ManagedProcess, wanted: float) -> Look:
        async with asyncio.timeout(SCRAPES_S_MAX):
            while (seen := await self.look(collector)).wanted < wanted:  # noqa: ASYNC110 - it sends no notification
                await asyncio.sleep(_POLL_S)
        return seen

    async def look(self, collector: ManagedProcess) -> Look:
        """Return the counters now."""
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://{self._address}/metrics") as response,
        ):
            said = await response.text()
        scrapes = {result: float(count) for result, count in _SCRAPES.findall(said)}
        return Look(
            asyncio.get_running_loop().time(),
            _cpu_s(collector.pid),
            scrapes.get("ok", 0.0),
            sum(scrapes.values()) + float(_found(_MISSED, said)[1]),
            float(_found(_SAMPLES, said)[1]),
        )

    def segments(self) -> list[Path]:
        """Return the segments on the disk."""
        return sorted(self.directory.glob("data/*/day=*/[!.]*.parquet"))

    def unfinished(self) -> list[Path]:
        """Return the file being written."""
        return sorted(self.directory.glob("data/*/day=*/.*.tmp"))

    def doubles(self) -> list[tuple[object, ...]]:
        """Return samples and events that are there twice; read by an engine that knows none of our code."""
        samples, events = (
            str(self.directory / "data" / kind / "day=*" / "*.parquet") for kind in ("samples", "events")
        )
        with duckdb.connect() as connection:
            connection.execute("SET enable_progress_bar = false")
            twice = "GROUP BY ALL HAVING count(*) > 1 LIMIT 5"
            found = connection.execute(
                f"SELECT instance, metric, labels, ts FROM read_parquet(?) {twice}",  # noqa: S608 - our own words
                [samples],
            ).fetchall()
            found += connection.execute(
                f"SELECT event_id FROM read_parquet(?) {twice}",  # noqa: S608 - our own words
                [events],
            ).fetchall()
        return found


def peak_bytes(process: ManagedProcess) -> int:
    """Return the largest memory that a process ever held."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(_found(re.compile(r"VmHWM:\s+(\d+) kB"), status)[1]) * _KIB


def _cpu_s(pid: int) -> float:
    # After the name, which may hold blanks: state, then numbers; user and system time
    # are the 12th and 13th of these.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_A_S


def _found(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    match = pattern.search(text)
    if match is None:
        raise AssertionError(f"{pattern.pattern!r} is not in {text[-1_000:]!r}")
    return match
