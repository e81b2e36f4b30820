"""Following events: streams over HTTP, and files that grow.

Problem: a stream breaks when its server dies, which is when its events matter; a connection may also hang
without breaking, and a file may be replaced. Shape: a follower reads whole lines and hands each to the
intake, which drops known events; when the stream ends, fails or stays silent too long, it connects again from
the position the intake knows. Controllers serve one stream from every node: all nodes are followed, so that a
frozen one delays nothing. Never: a follower gives up; and it never reads faster than the events can be kept
(it waits, the server's buffer fills).
"""

import asyncio
import logging
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import aiohttp

from controller_core.error_text import error_text
from slo_pipeline.collect.scraping.event_rows import EventError, TakenEvents, event_row
from slo_pipeline.collect.scraping.metrics import CollectorMetrics
from slo_pipeline.collect.scraping.targets import Target
from slo_pipeline.formats.lines import LineSplitter
from slo_pipeline.schemas.names import EVENTS_TABLE
from slo_pipeline.writing.sink import SegmentSink

SILENCE_S_MAX = 60.0
"""Reconnect a stream silent for longer: a server may vanish without closing the connection."""
CONNECT_TIMEOUT_S = 2.0
RETRY_S = 0.5
FILE_POLL_S = 0.25
_READ_BYTES = 65_536
_SEQUENCE_AT = 0
_EVENT_ID_AT = 1

_log = logging.getLogger(__name__)


class StreamError(Exception):
    """A target answered with something other than a stream of events."""


@dataclass(frozen=True, slots=True)
class EventIntake:
    """Where events go: each one once."""

    sink: SegmentSink
    log: TakenEvents
    metrics: CollectorMetrics

    async def take(self, line: bytes) -> int | None:
        """Take one line; return its sequence, None if it is not an event."""
        try:
            row = event_row(line)
        except EventError as error:
            self.refuse(error)
            return None
        await self.take_row(row)
        sequence = row[_SEQUENCE_AT]
        return sequence if isinstance(sequence, int) else None

    def refuse(self, error: EventError) -> None:
        """Count a line that is not an event."""
        self.metrics.events.labels("malformed").inc()
        _log.warning("a line is no event: %s", error)

    async def take_row(self, row: tuple[object, ...]) -> None:
        """Take a row that was checked, unless an event of its id is there."""
        await self.sink.wait_for_room(EVENTS_TABLE)
        if self.log.take(str(row[_EVENT_ID_AT])):
            self.sink.add_row(EVENTS_TABLE, row)
            self.metrics.events.labels("taken").inc()
        else:
            self.metrics.events.labels("known").inc()


async def follow_stream(target: Target, session: aiohttp.ClientSession, intake: EventIntake) -> None:
    """Follow an event stream until cancelled."""
    told = False
    while True:
        try:
            await _read_stream(target, session, intake)
            told = False
        except (aiohttp.ClientError, OSError, TimeoutError, StreamError) as error:
            if not told:
                _log.info("events of %s: %s", target.name, error_text(error))
            told = True
        await asyncio.sleep(RETRY_S)


async def _read_stream(target: Target, session: aiohttp.ClientSession, intake: EventIntake) -> None:
    after = intake.log.position(target.stream) if target.stream else 0
    timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_TIMEOUT_S, sock_read=SILENCE_S_MAX)
    splitter = LineSplitter()
    async with session.get(
        target.url, params={"after": str(after)}, timeout=timeout, allow_redirects=False
    ) as response:
        if response.status != HTTPStatus.OK:
            raise StreamError(f"status {response.status}")
        async for part in response.content.iter_any():
            for line, _ in splitter.feed(part):
                sequence = await intake.take(line)
                if target.stream and sequence is not None:
                    intake.log.advance(target.stream, sequence)


async def follow_file(target: Target, intake: EventIntake) -> None:
    """Follow a file of JSON lines until cancelled; it may not exist yet, and may be replaced."""
    path = Path(target.url)
    stream = f"file:{path}"
    while True:
        try:
            await _read_file(path, stream, intake)
        except OSError as error:
            _log.warning("events of %s: %s", path, error)
        await asyncio.sleep(FILE_POLL_S)


async def _read_file(path: Path, stream: str, intake: EventIntake) -> None:
    size = await asyncio.to_thread(_size, path)
    if size < intake.log.position(stream):
        intake.log.rewind(stream)
    splitter = LineSplitter()
    start = at = intake.log.position(stream)
    while at < size:
        data = await asyncio.to_thread(_read_at, path, at)
        if not data:
            return
        at += len(data)
        for line, consumed in splitter.feed(data):
            await intake.take(line)
            intake.log.advance(stream, start + consumed)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _read_at(path: Path, offset: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(_READ_BYTES)
