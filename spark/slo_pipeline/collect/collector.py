"""The collector: targets of a file and of pods, one task a target, and segments every minute.

Problem: the figures of a failover are lost if the process that gathers them trips over the very failure it
watches. Shape: a task for each target, none of which waits for another; a flush on its own beat; who the
targets are is looked at again when the file changes or a pod does. After a kill the segments tell which
events are already there (their ids) and how far each stream was read (metadata of the event segments), so
following goes on without a gap and without doubles. Samples that were not written are lost: at most one
segment's time. Never: it decides anything about what it sees.
"""

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from slo_pipeline.collect.kubernetes.cluster import ClusterSettings, gather_cluster
from slo_pipeline.collect.kubernetes.discovery import Merged, merged
from slo_pipeline.collect.kubernetes.pods import PodBook
from slo_pipeline.collect.scraping.event_rows import TakenEvents
from slo_pipeline.collect.scraping.followers import EventIntake, follow_file, follow_stream
from slo_pipeline.collect.scraping.metrics import CollectorMetrics
from slo_pipeline.collect.scraping.scraper import ScrapeContext, scrape_forever
from slo_pipeline.collect.scraping.targets import KINDS, TARGETS_MAX, Target, TargetsError, TargetsFile
from slo_pipeline.schemas import SEGMENTS
from slo_pipeline.schemas.names import EVENTS_TABLE
from slo_pipeline.shell.clock import NS_PER_S, AnchoredClock
from slo_pipeline.sources.layout import (
    SegmentUnusableError,
    day_folders,
    open_segment,
    reading,
    segment_files,
)
from slo_pipeline.writing.segment_store import SegmentStore
from slo_pipeline.writing.sink import SegmentSink

POSITIONS_KEY = "rmqha.positions"
TARGETS_POLL_S = 1.0
NAMED_MAX = 10
"""Of targets that are left out, in one line of the log."""
FLUSH_POLL_S = 0.25
FAILED_PAUSE_S = 10.0
CROWDED_ROWS = 500_000
EVENT_DAYS_RECALLED = 3
"""Segments older than this are not asked for ids: a stream's own history is shorter."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CollectorSettings:
    """How a collector runs.

    Attributes:
        targets: the targets file; None: without a file.
        interval_s: time between two scrapes of a target.
        segment_s: time between two flushes.
        cluster: the sources within Kubernetes; None: do not use Kubernetes.
    """

    targets: Path | None
    interval_s: float = 1.0
    segment_s: float = 60.0
    cluster: ClusterSettings | None = None


class Collector:
    """Runs until cancelled; `flush` afterwards writes what it still holds."""

    def __init__(self, settings: CollectorSettings, store: SegmentStore, metrics: CollectorMetrics) -> None:
        self._settings = settings
        self._store = store
        self._metrics = metrics
        self._clock = AnchoredClock()
        self._log = TakenEvents()
        self._sink = SegmentSink(store, lambda: {POSITIONS_KEY: self._log.positions_text()})
        cluster = settings.cluster
        self._pods = PodBook(cluster.namespaces if cluster else ())
        self._listed = TargetsFile(settings.targets)
        self._tasks: dict[Target, asyncio.Task[None]] = {}
        self._told = Merged([])

    def recall(self) -> None:
        """Learn from the segments on disk which events are there and how far each stream was read."""
        for text in self._store.read_metadata(EVENTS_TABLE, POSITIONS_KEY):
            self._log.recall_positions(text)
        for day in day_folders(self._store.root, EVENTS_TABLE)[-EVENT_DAYS_RECALLED:]:
            for path in segment_files(day):
                self._log.recall(_event_ids(path))

    async def run(self) -> None:
        """Collect until cancelled.

        Raises:
            TargetsError: the targets file cannot be used at the start; later ones are logged and the old list
                stays.
        """
        self._listed.refresh()
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=10),
            timeout=aiohttp.ClientTimeout(total=None),
            cookie_jar=aiohttp.DummyCookieJar(),
        ) as session:
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._watch_targets(session, group))
                    group.create_task(self._flush_forever())
                    if self._settings.cluster is not None:
                        intake = EventIntake(self._sink, self._log, self._metrics)
                        group.create_task(
                            gather_cluster(self._settings.cluster, self._pods, intake, self._clock)
                        )
            finally:
                self._tasks.clear()

    async def flush(self) -> bool:
        """Write everything taken so far; return whether all of it is on the disk."""
        done = await self._sink.flush()
        self._publish()
        return done

    async def _watch_targets(self, session: aiohttp.ClientSession, group: asyncio.TaskGroup) -> None:
        changed = self._pods.changed
        while True:
            changed.clear()
            self._adjust(session, group)
            is_new = False
            while not is_new:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(TARGETS_POLL_S):
                        await changed.wait()
                is_new = self._read_listed() or changed.is_set()

    def _read_listed(self) -> bool:
        try:
            return self._listed.refresh()
        except TargetsError as error:
            _log.warning("the old targets stay: %s", error)
            return False

    def _adjust(self, session: aiohttp.ClientSession, group: asyncio.TaskGroup) -> None:
        listed, cluster = self._listed.targets, self._settings.cluster
        found = Merged(listed)
        if cluster is not None:
            pods = self._pods.of(cluster.discover)
            found = merged(listed, pods, cluster.cluster, cluster.controllers_of)
        gone = set(self._tasks) - set(found.targets)
        new = [target for target in found.targets if target not in self._tasks]
        for target in gone:
            self._tasks.pop(target).cancel()
        for target in new:
            self._tasks[target] = group.create_task(self._collect(target, session))
        for kind in KINDS:
            self._metrics.targets.labels(kind).set(sum(target.kind == kind for target in found.targets))
        if gone or new:
            _log.info("collecting from %d targets", len(found.targets))
        self._tell_left_out(found)

    def _tell_left_out(self, found: Merged) -> None:
        self._metrics.targets_left_out.labels("name").set(len(found.taken))
        self._metrics.targets_left_out.labels("bound").set(found.beyond)
        if untold := found.taken - self._told.taken:
            named = ", ".join(sorted(untold)[:NAMED_MAX])
            _log.warning("pods whose names others have are left out, %d targets: %s", len(untold), named)
        if found.beyond and not self._told.beyond:
            _log.warning("more than %d targets: %d of pods are left out", TARGETS_MAX, found.beyond)
        self._told = found

    async def _collect(self, target: Target, session: aiohttp.ClientSession) -> None:
        """Collect from a target until cancelled.

        An unforeseen failure at one target does not end the others.
        """
        while True:
            try:
                await self._collect_from(target, session)
            except Exception:
                _log.exception("collecting from %s failed, again in %g s", target.name, FAILED_PAUSE_S)
                await asyncio.sleep(FAILED_PAUSE_S)

    async def _collect_from(self, target: Target, session: aiohttp.ClientSession) -> None:
        intake = EventIntake(self._sink, self._log, self._metrics)
        match target.kind:
            case "metrics":
                interval_ns = int(self._settings.interval_s * NS_PER_S)
                context = ScrapeContext(session, self._sink, self._clock, self._metrics, interval_ns)
                await scrape_forever(target, context)
            case "events":
                await follow_stream(target, session, intake)
            case "file":
                await follow_file(target, intake)
            case _:
                raise TargetsError(f"{target.name}: kind {target.kind!r}")

    async def _flush_forever(self) -> None:
        due_s = asyncio.get_running_loop().time() + self._settings.segment_s
        while True:
            await asyncio.sleep(FLUSH_POLL_S)
            now_s = asyncio.get_running_loop().time()
            if step_ns := self._clock.resync():
                _log.warning("the wall clock was stepped by %.3f s", step_ns / NS_PER_S)
            if now_s >= due_s or self._sink.crowded(CROWDED_ROWS):
                due_s = now_s + self._settings.segment_s
                await self._sink.flush()
            self._publish()

    def _publish(self) -> None:
        for table, rows in self._sink.buffered().items():
            self._metrics.buffered_rows.labels(table).set(rows)
            self._metrics.refused_rows.labels(table).set(self._sink.refused[table])
            self._metrics.segments.labels(table).set(self._sink.written[table])
        self._metrics.write_failures.set(self._sink.failures)


def _event_ids(path: Path) -> list[str]:
    try:
        with reading(path):
            rows = open_segment(path, SEGMENTS[EVENTS_TABLE]).read(columns=["event_id"])
    except SegmentUnusableError as error:
        _log.warning("the events of a segment are not known: %s", error)
        return []
    return [str(event_id) for event_id in rows["event_id"].to_pylist()]
