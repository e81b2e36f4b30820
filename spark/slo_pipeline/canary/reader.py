"""Read back acknowledged messages, and read them again when the master may have changed.

Problem and states: `read_plan`. This is its shell: it pulls from the group's master, over a connection of its
own, and writes one row for each verdict. A broker that does not answer yields no verdict and no row; the
promise is requested again as soon as there is a master. Never: it reads from a slave, and never judges by
time alone.
"""

import asyncio
import logging

from controller_core.access.signing import Sign
from controller_core.channel import ChannelError
from controller_core.remoting.codes import ResponseCode
from controller_core.remoting.errors import RemotingProtocolError
from slo_pipeline.canary.gaps import GapState, WriteGaps
from slo_pipeline.canary.link import Link
from slo_pipeline.canary.metrics import CanaryMetrics
from slo_pipeline.canary.payload import decode
from slo_pipeline.canary.read_plan import AcknowledgedSend, ReadPlan, ReadVerdict
from slo_pipeline.canary.requests import pull_request
from slo_pipeline.canary.route import RouteWatcher
from slo_pipeline.canary.rows import Operation, probe_row
from slo_pipeline.canary.stored import StoredMessageError, decode_messages
from slo_pipeline.schemas.names import OPERATIONS_TABLE
from slo_pipeline.shell.clock import AnchoredClock
from slo_pipeline.writing.sink import SegmentSink

PULL_TIMEOUT_S = 1.0
IDLE_S = 0.1
_ANSWERED = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.PULL_NOT_FOUND,
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        ResponseCode.PULL_OFFSET_MOVED,
    }
)

_log = logging.getLogger(__name__)


class PullError(Exception):
    """A broker answered a pull with something that says nothing about messages."""


class Reader:
    """Reads promises back until cancelled."""

    def __init__(
        self,
        group: str,
        topic: str,
        *,
        route: RouteWatcher,
        sink: SegmentSink,
        clock: AnchoredClock,
        metrics: CanaryMetrics,
        gaps: WriteGaps,
        sign: Sign | None = None,
    ) -> None:
        self._group = group
        self._topic = topic
        self._route = route
        self._sink = sink
        self._clock = clock
        self._metrics = metrics
        self._gaps = gaps
        self._link = Link(sign)
        self._plan = ReadPlan()
        self._seen = ("", 0)

    def promise(self, operation: Operation) -> None:
        """Take an acknowledged send with its place."""
        if operation.queue_id is None or operation.queue_offset is None or operation.end_ns is None:
            return
        self._gaps.acknowledged(operation.end_ns)
        dropped = self._plan.dropped
        verdicts = self._plan.promise(
            operation.sequence, operation.queue_id, operation.queue_offset, operation.end_ns
        )
        if self._plan.dropped > dropped:
            self._gaps.unread(operation.end_ns)
        now_ns = self._clock.monotonic_ns()
        self._write(verdicts, now_ns, now_ns, operation.address)

    def told(self) -> GapState:
        """Return the gaps and losses that are known now."""
        return self._gaps.told(self._clock.monotonic_ns(), self._plan.unjudged_ns)

    async def run(self) -> None:
        """Read all due messages in a loop until cancelled."""
        try:
            while True:
                if not await self._read_once():
                    await asyncio.sleep(IDLE_S)
        finally:
            await self._link.close()

    async def drain(self, timeout_s: float) -> int:
        """Let everything be read now; return how many acknowledged sends are without a verdict in the end.

        `run` must be running.
        """
        self._plan.hurry()
        try:
            async with asyncio.timeout(timeout_s):
                while self._plan.unsettled:  # noqa: ASYNC110 - the plan is pure and signals nothing
                    await asyncio.sleep(IDLE_S)
        except TimeoutError:
            _log.warning("%d acknowledged sends are without a verdict", self._plan.unread)
        return self._plan.unread

    async def _read_once(self) -> bool:
        """Carry out one pull if one is due; return whether there was one and it was answered."""
        self._metrics.unread.set(self._plan.unread)
        master = self._route.route.master
        if not master:
            return False
        try:
            connection = await self._link.get(master, PULL_TIMEOUT_S)
        except ChannelError:
            return False
        if self._seen != (master, self._link.dialled):
            self._seen = (master, self._link.dialled)
            self._plan.master_changed()
        start_ns = self._clock.monotonic_ns()
        asked = self._plan.next_pull(start_ns)
        if asked is None:
            return False
        try:
            answer = await connection.call(
                pull_request(self._topic, asked.queue_id, asked.offset), PULL_TIMEOUT_S
            )
            found = self._found(answer.code, answer.remark, answer.body, asked)
        except (ChannelError, RemotingProtocolError, StoredMessageError, PullError) as error:
            _log.info("pull from %s: %s", master, error)
            self._link.retire()
            return False
        now_ns = self._clock.monotonic_ns()
        self._write(self._plan.answered(asked, found, master, now_ns), start_ns, now_ns, master)
        return True

    def _found(
        self, code: int, remark: str | None, body: bytes, asked: AcknowledgedSend
    ) -> dict[int, int | None]:
        if code not in _ANSWERED:
            raise PullError(f"code {code}: {remark}")
        if code != ResponseCode.SUCCESS:
            return {}
        return {
            message.queue_offset: decode(self._group, message.body)
            for message in decode_messages(body)
            if message.queue_id == asked.queue_id
        }

    def _write(self, verdicts: list[ReadVerdict], start_ns: int, end_ns: int, master: str) -> None:
        for verdict in verdicts:
            promise = verdict.promise
            operation = Operation(
                "read",
                promise.sequence,
                start_ns,
                start_ns,
                end_ns,
                verdict.result,
                master,
                promise.queue_id,
                promise.offset,
                verdict.remark,
            )
            self._sink.add_row(OPERATIONS_TABLE, probe_row(operation, self._group, self._clock))
            self._metrics.read(verdict.result)
            if verdict.result == "missing":
                self._gaps.lost(promise.acknowledged_ns)
                _log.error("acknowledged message %d is gone: %s", promise.sequence, verdict.remark)
