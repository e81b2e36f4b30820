"""One target's scrapes, a second apart.

Problem: a target that answers slowly, or not at all, must cost only its own samples. Shape: one task a
target, on a fixed schedule of its own phase (so that a hundred targets do not all answer in the same
millisecond). A scrape has less time than the interval; when it fails, `up` is 0 and nothing else is said. The
time of a sample is the begin of its scrape; a timestamp in the page is stored beside it. Never: a scrape that
was missed is not done twice later: its values would be those of another time.
"""

import asyncio
import logging
import zlib
from dataclasses import dataclass, field

import aiohttp

from slo_pipeline.collect.scraping.metrics import CollectorMetrics
from slo_pipeline.collect.scraping.targets import Target
from slo_pipeline.formats.exposition import (
    PAGE_SERIES_MAX,
    ExpositionPage,
    ExpositionParser,
    Sample,
    Series,
    lines_of,
)
from slo_pipeline.shell.clock import NS_PER_S, NS_PER_US, AnchoredClock
from slo_pipeline.shell.schedule import Schedule
from slo_pipeline.writing.sink import SegmentSink

SCRAPE_TIMEOUT_S = 0.8
"""For an interval of one second; shorter intervals take the same share."""
PAGE_BYTES_MAX = 33_554_432
INLINE_BYTES_MAX = 131_072
"""A page of so much is parsed in about 2 ms, less than a thread may keep the loop waiting."""

_log = logging.getLogger(__name__)

_READ_BYTES = 65_536
_UP = Series("up", ())
_DURATION = Series("scrape_duration_seconds", ())
_COUNT = Series("scrape_samples_scraped", ())
_HEADERS = {
    "Accept": "text/plain;version=0.0.4",
    # Compression would cost the broker more than a page of 50 kB costs the network.
    "Accept-Encoding": "identity",
}


class PageError(Exception):
    """A target's answer is not a metrics page."""


class PageTooLargeError(PageError):
    """A page is beyond a bound.

    Attributes:
        bound: its name, `bytes` or `series`.
    """

    def __init__(self, bound: str, limit: int) -> None:
        super().__init__(f"more than {limit} {bound}")
        self.bound = bound


@dataclass(frozen=True, slots=True)
class ScrapeContext:
    """What all scrapers share.

    Attributes:
        too_large: names of the targets whose last page was refused for its size, which the log has been told.
    """

    session: aiohttp.ClientSession
    sink: SegmentSink
    clock: AnchoredClock
    metrics: CollectorMetrics
    interval_ns: int
    too_large: set[str] = field(default_factory=set)


def phase_ns(name: str, interval_ns: int) -> int:
    """Return when within an interval a target is scraped: fixed by its name, spread over the interval."""
    return zlib.crc32(name.encode()) * interval_ns >> 32


async def scrape_forever(target: Target, context: ScrapeContext) -> None:
    """Scrape a target on its schedule until cancelled."""
    parser = ExpositionParser()
    interval_ns = context.interval_ns
    begin_ns = context.clock.monotonic_ns()
    schedule = Schedule(
        begin_ns + phase_ns(target.name, interval_ns), interval_ns, late_max_ns=interval_ns // 2
    )
    while True:
        await asyncio.sleep(schedule.wait_ns(context.clock.monotonic_ns()) / NS_PER_S)
        due = schedule.take(context.clock.monotonic_ns())
        context.metrics.missed_slots.inc(due.missed)
        if due.slots:
            await scrape_once(target, parser, context)


async def scrape_once(target: Target, parser: ExpositionParser, context: ScrapeContext) -> None:
    """Scrape a target once and hand over its samples, `up` among them."""
    clock, metrics = context.clock, context.metrics
    start_ns = clock.monotonic_ns()
    timeout_s = SCRAPE_TIMEOUT_S * min(1.0, context.interval_ns / NS_PER_S)
    page, result, body = ExpositionPage([], 0), "ok", b""
    try:
        async with asyncio.timeout(timeout_s):
            body = await _get(target.url, context.session)
        # Beyond the time-out: a parser that a thread still has is not given to another one.
        page = await _parsed(parser, body)
        context.too_large.discard(target.name)
    except TimeoutError:
        result = "timeout"
    except PageTooLargeError as error:
        result = "too_large"
        metrics.pages_too_large.labels(target.name, error.bound).inc()
        if target.name not in context.too_large:
            context.too_large.add(target.name)
            _log.warning("the page of %s is refused: %s", target.name, error)
    except (aiohttp.ClientError, OSError, PageError):
        result = "error"
    duration_s = (clock.monotonic_ns() - start_ns) / NS_PER_S
    metrics.scrapes.labels(result).inc()
    metrics.scrape_seconds.observe(duration_s)
    metrics.samples.inc(len(page.samples))
    metrics.malformed_lines.inc(page.malformed)
    own = [Sample(_UP, float(result == "ok"), None), Sample(_DURATION, duration_s, None)]
    if result == "ok":
        own.append(Sample(_COUNT, float(len(page.samples)), None))
    ts_us = clock.utc_ns_of(start_ns) // NS_PER_US
    context.sink.add_samples(ts_us, target.name, target.uid, page.samples + own)


async def _parsed(parser: ExpositionParser, body: bytes) -> ExpositionPage:
    """Parse a page; a large one on a thread, so that other scrapes continue."""
    if lines_of(body) > PAGE_SERIES_MAX:
        raise PageTooLargeError("series", PAGE_SERIES_MAX)
    if len(body) <= INLINE_BYTES_MAX:
        return parser.parse(_text(body))
    return await asyncio.to_thread(lambda: parser.parse(_text(body)))


def _text(body: bytes) -> str:
    return body.decode("utf-8", errors="replace")


async def _get(url: str, session: aiohttp.ClientSession) -> bytes:
    async with session.get(url, headers=_HEADERS, allow_redirects=False) as response:
        if response.status != 200:
            raise PageError(f"status {response.status}")
        parts, size = [], 0
        async for part in response.content.iter_chunked(_READ_BYTES):
            size += len(part)
            if size > PAGE_BYTES_MAX:
                raise PageTooLargeError("bytes", PAGE_BYTES_MAX)
            parts.append(part)
        return b"".join(parts)
