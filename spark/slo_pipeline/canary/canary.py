"""One canary: a sender, a reader and a route watcher for one group.

Problem: whether a group can be written, and whether it keeps what it acknowledged, is known only to a client
that tries. Shape: three tasks over one sink. When told to stop, the sender ends first, then everything
acknowledged is read, then the sink is flushed. Never: the three share a connection; a slow pull must not
delay a send.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from controller_core.access.signing import Sign
from slo_pipeline.canary.gaps import WriteGaps
from slo_pipeline.canary.metrics import CanaryMetrics
from slo_pipeline.canary.reader import Reader
from slo_pipeline.canary.route import Route, RouteWatcher
from slo_pipeline.canary.rows import route_seen_row
from slo_pipeline.canary.sender import Sender
from slo_pipeline.schemas.names import EVENTS_TABLE
from slo_pipeline.shell.clock import NS_PER_S, AnchoredClock
from slo_pipeline.writing.sink import SegmentSink

DRAIN_S_MAX = 15.0
HOUSEKEEPING_S = 1.0
CROWDED_ROWS = 50_000

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CanarySettings:
    """How a canary runs.

    Attributes:
        name_servers: host and port of each.
        group: brokerName.
        topic: the canary's own topic.
        rate: sends per second.
        queues: queues to make the topic with.
        segment_s: time between two flushes.
        sign: signs the requests; None for brokers without access control.
    """

    name_servers: Sequence[tuple[str, int]]
    group: str
    topic: str
    rate: float = 20.0
    queues: int = 1
    segment_s: float = 60.0
    sign: Sign | None = None


class Canary:
    """Sends and reads back until `stop`."""

    def __init__(self, settings: CanarySettings, sink: SegmentSink, metrics: CanaryMetrics) -> None:
        self._settings = settings
        self._sink = sink
        self._clock = AnchoredClock()
        self._routes_seen = 0
        group, topic = settings.group, settings.topic
        self._route = RouteWatcher(settings.name_servers, group, topic, self._route_changed, settings.sign)
        self._reader = Reader(
            group,
            topic,
            route=self._route,
            sink=sink,
            clock=self._clock,
            metrics=metrics,
            gaps=WriteGaps(round(NS_PER_S / settings.rate)),
            sign=settings.sign,
        )
        self._sender = Sender(
            group,
            topic,
            settings.queues,
            settings.rate,
            route=self._route,
            reader=self._reader,
            sink=sink,
            clock=self._clock,
            metrics=metrics,
            sign=settings.sign,
        )

    def stop(self) -> None:
        """Begin to end: no further send, then the reads."""
        self._sender.stop()

    def gaps(self) -> dict[str, object]:
        """Return the body of `GET /v1/gaps`: gaps and losses that are known now."""
        return self._reader.told().as_json(self._settings.group, self._clock.utc_ns_of)

    async def run(self) -> int:
        """Run until `stop`; return how many acknowledged sends are without a verdict."""
        background = [
            asyncio.create_task(work) for work in (self._route.run(), self._reader.run(), self._keep_house())
        ]
        sending = asyncio.create_task(self._sender.run())
        try:
            await asyncio.wait([sending, *background], return_when=asyncio.FIRST_COMPLETED)
            # A background task ends only through a bug of ours; raise its exception.
            for task in background:
                if task.done():
                    task.result()
            await sending
            return await self._reader.drain(DRAIN_S_MAX)
        finally:
            for task in (sending, *background):
                task.cancel()
            await asyncio.gather(sending, *background, return_exceptions=True)

    def _route_changed(self, before: Route, now: Route) -> None:
        if not now.master:
            _log.warning("the name server knows no master, it was %s", before.master)
            return
        _log.info("master is %s, was %s", now.master, before.master or "not known")
        self._routes_seen += 1
        row = route_seen_row(
            before, now, self._settings.group, self._routes_seen, self._clock.monotonic_ns(), self._clock
        )
        self._sink.add_row(EVENTS_TABLE, row)

    async def _keep_house(self) -> None:
        due_s = asyncio.get_running_loop().time() + self._settings.segment_s
        while True:
            await asyncio.sleep(HOUSEKEEPING_S)
            if step_ns := self._clock.resync():
                _log.warning("the wall clock was stepped by %.3f s", step_ns / NS_PER_S)
            now_s = asyncio.get_running_loop().time()
            if now_s >= due_s or self._sink.crowded(CROWDED_ROWS):
                due_s = now_s + self._settings.segment_s
                await self._sink.flush()
