"""Buffers in front of segments: what the collector and the canary hand their rows to.

Problem: rows come on the event loop, files are written by a disk that may be slow or full, and whoever
measures must not stand still for it. Shape: rows go into bounded buffers; a flush takes them out at once and
writes them on a thread, one flush at a time. A batch that the disk refuses is written first at the next
flush; until then new rows gather in the buffer, and when that is full too, rows are refused and counted.
Order within a table does not change, because the cursors in a segment's metadata promise that everything
before them is on the disk: they go into the last file of the batch they belong to. Never: a refusal is never
silent, and a row is never in two files.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from slo_pipeline.formats.exposition import Sample
from slo_pipeline.schemas.names import EVENTS_TABLE, OPERATIONS_TABLE, SAMPLES_TABLE
from slo_pipeline.writing.buffers import DayTables, RowBatch, RowBuffer, SampleBatch, SampleBuffer
from slo_pipeline.writing.segment_store import SegmentStore

_log = logging.getLogger(__name__)

_FULL_CHECK_S = 0.05


@dataclass(slots=True)
class _Waiting:
    """A batch that is not wholly on the disk yet: the tables still to write."""

    tables: DayTables
    metadata: Mapping[str, str]


class SegmentSink:
    """Takes rows of the three tables and writes them as segments.

    Attributes:
        refused: rows that found no place, by table.
        written: segments written, by table.
        failures: writes the disk refused.
    """

    def __init__(
        self, store: SegmentStore, event_metadata: Callable[[], Mapping[str, str]] | None = None
    ) -> None:
        """Describe the sink.

        Args:
            store: where segments go.
            event_metadata: asked when events are taken out of their buffer; goes with the last of their
                segments.
        """
        self._store = store
        self._event_metadata = event_metadata or dict
        self._samples = SampleBuffer()
        self._rows = {
            EVENTS_TABLE: RowBuffer(EVENTS_TABLE, "ts"),
            OPERATIONS_TABLE: RowBuffer(OPERATIONS_TABLE, "intended_ts"),
        }
        self._waiting: dict[str, _Waiting] = {}
        self._flushing = asyncio.Lock()
        self._flushes: set[asyncio.Future[bool]] = set()
        self.refused: Counter[str] = Counter()
        self.written: Counter[str] = Counter()
        self.failures = 0

    def add_samples(self, ts_us: int, instance: str, uid: str, samples: list[Sample]) -> None:
        """Take one scrape (see `SampleBuffer.add`), or count it as refused."""
        if not self._samples.add(ts_us, instance, uid, samples):
            self.refused[SAMPLES_TABLE] += len(samples)

    def add_row(self, table: str, row: tuple[object, ...]) -> None:
        """Take one row of `events` or `probe_ops` in the schema's order, or count it as refused."""
        if not self._rows[table].add(row):
            self.refused[table] += 1

    async def wait_for_room(self, table: str) -> None:
        """Wait until a row of the table would be taken: for sources that can be kept waiting."""
        while self._rows[table].full:  # noqa: ASYNC110 - a rare wait, and several may wait at once
            await asyncio.sleep(_FULL_CHECK_S)

    def buffered(self) -> dict[str, int]:
        """Return how many rows each buffer holds."""
        return {"samples": len(self._samples), **{table: len(rows) for table, rows in self._rows.items()}}

    def crowded(self, rows_max: int) -> bool:
        """Whether a buffer holds more than `rows_max` rows, so that waiting for the next flush is unwise."""
        return any(count > rows_max for count in self.buffered().values())

    async def flush(self) -> bool:
        """Write everything taken so far; return whether all of it is on the disk.

        A caller may be cancelled; the flush is not. Rows that are on a thread are in no buffer any more, and
        the next flush must not begin to write what this one is writing.
        """
        flush = asyncio.ensure_future(self._flush())
        self._flushes.add(flush)
        flush.add_done_callback(self._flushes.discard)
        return await asyncio.shield(flush)

    async def _flush(self) -> bool:
        async with self._flushing:
            done = True
            for table in (SAMPLES_TABLE, EVENTS_TABLE, OPERATIONS_TABLE):
                done = await self._flush_table(table) and done
            # What a segment took goes back to the system: threads would keep it, each a part.
            await asyncio.to_thread(pa.default_memory_pool().release_unused)
            return done

    async def _flush_table(self, table: str) -> bool:
        # Twice: a batch the disk refused before, then what gathered since.
        for _ in range(2):
            if table not in self._waiting:
                batch, metadata = self._take(table)
                if batch is None:
                    return True
                self._waiting[table] = _Waiting(await asyncio.to_thread(batch.tables), metadata)
            try:
                await asyncio.to_thread(self._write_all, table, self._waiting[table])
            except OSError as error:
                self.failures += 1
                _log.warning("a segment of %s was not written, kept for the next flush: %s", table, error)
                return False
            del self._waiting[table]
        return True

    def _take(self, table: str) -> tuple[SampleBatch | RowBatch | None, Mapping[str, str]]:
        if self.buffered()[table] == 0:
            return None, {}
        if table == SAMPLES_TABLE:
            return self._samples.take(), {}
        return self._rows[table].take(), self._event_metadata() if table == EVENTS_TABLE else {}

    def _write_all(self, table: str, waiting: _Waiting) -> None:
        while waiting.tables:
            day, rows = waiting.tables[0]
            last = len(waiting.tables) == 1
            self._store.write(table, day, rows, waiting.metadata if last else None)
            self.written[table] += 1
            waiting.tables.pop(0)
