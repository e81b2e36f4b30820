"""Sends on an intended schedule, each recorded as it went.

Problem: a producer that waits for an answer before it sends again sends little while nothing answers, and so
reports an outage as one slow send (coordinated omission). One that retries reports it as none. Shape: open
loop. Slot k is sent at its time whatever became of the slots before, each in a task of its own, with one
second from its *intended* time to its answer. One slot is one attempt is one row; the sender never retries. A
slot this process was itself too late for, by half of that time, is not sent and not recorded: if that befalls
a whole second, it is unknown, not bad. Never: a send is counted as failed because of us, or as good because
it was tried twice.
"""

import asyncio
import dataclasses

from controller_core.access.signing import Sign
from controller_core.channel import CallTimeoutError, ConnectError, ConnectionClosedError
from controller_core.remoting.client_headers import SendMessageResponseHeader
from controller_core.remoting.codes import ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.errors import RemotingProtocolError
from slo_pipeline.canary.link import Link
from slo_pipeline.canary.metrics import CanaryMetrics
from slo_pipeline.canary.payload import encode
from slo_pipeline.canary.reader import Reader
from slo_pipeline.canary.requests import create_topic_request, send_request, send_result
from slo_pipeline.canary.route import RouteWatcher
from slo_pipeline.canary.rows import Operation, probe_row
from slo_pipeline.schemas.names import OPERATIONS_TABLE
from slo_pipeline.shell.clock import NS_PER_S, AnchoredClock
from slo_pipeline.shell.schedule import Schedule
from slo_pipeline.writing.sink import SegmentSink

DEADLINE_NS = NS_PER_S
IN_FLIGHT_MAX = 10_000
"""Sends under way; at the highest rate that is ten times what one second's deadline allows."""
CREATE_TOPIC_TIMEOUT_S = 3.0
READY_S_MAX = 5
"""Without this, the canary's own first start on a group would be a second of failed sends."""
READY_POLL_S = 0.05
_NS_PER_MS = 1_000_000
_REMARK_CHARS_MAX = 200


class Sender:
    """Makes one send a slot until `stop`."""

    def __init__(
        self,
        group: str,
        topic: str,
        queues: int,
        rate: float,
        *,
        route: RouteWatcher,
        reader: Reader,
        sink: SegmentSink,
        clock: AnchoredClock,
        metrics: CanaryMetrics,
        sign: Sign | None = None,
    ) -> None:
        """Describe the sender.

        Args:
            group: brokerName.
            topic: the canary's topic, made on the group's master if it is not there.
            queues: queues to make it with.
            rate: sends per second.
            route: tells the master.
            reader: receives every acknowledgement.
            sink: takes the rows.
            clock: this process's.
            metrics: this canary's.
            sign: signs the sends.
        """
        self._group = group
        self._topic = topic
        self._queues = queues
        self._interval_ns = round(NS_PER_S / rate)
        self._route = route
        self._reader = reader
        self._sink = sink
        self._clock = clock
        self._metrics = metrics
        self._link = Link(sign)
        # Unique over restarts without a file: a canary sends far fewer than a million messages per second.
        self._next_sequence = clock.utc_ns() // 1_000
        self._under_way: set[asyncio.Task[None]] = set()
        self._creating: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Begin no further send."""
        self._stopping.set()

    async def run(self) -> None:
        """Send until `stop`, then wait for the sends under way; each ends by its deadline."""
        try:
            await self._get_ready()
            schedule = Schedule(self._clock.monotonic_ns(), self._interval_ns, late_max_ns=DEADLINE_NS)
            while not self._stopping.is_set():
                wait_s = schedule.wait_ns(self._clock.monotonic_ns()) / NS_PER_S
                try:
                    async with asyncio.timeout(wait_s):
                        await self._stopping.wait()
                except TimeoutError:
                    self._begin_due(schedule)
            await asyncio.gather(*self._under_way)
        finally:
            for task in (*self._under_way, *filter(None, [self._creating])):
                task.cancel()
            await self._link.close()

    async def _get_ready(self) -> None:
        """Find the master and make the topic before the first slot.

        A group that is down is not waited for longer.
        """
        ready_by_ns = self._clock.monotonic_ns() + READY_S_MAX * NS_PER_S
        while self._clock.monotonic_ns() < ready_by_ns and not self._stopping.is_set():
            if self._route.route.queues:
                return
            if self._route.route.master:
                self._ensure_topic()
            await asyncio.sleep(READY_POLL_S)

    def _begin_due(self, schedule: Schedule) -> None:
        due = schedule.take(self._clock.monotonic_ns())
        self._metrics.missed_slots.inc(due.missed)
        for slot in due.slots:
            if len(self._under_way) >= IN_FLIGHT_MAX:
                self._metrics.missed_slots.inc()
                continue
            task = asyncio.create_task(self._send(self._next_sequence, schedule.due_ns(slot)))
            self._next_sequence += 1
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    async def _send(self, sequence: int, intended_ns: int) -> None:
        start_ns = self._clock.monotonic_ns()
        if start_ns - intended_ns > DEADLINE_NS // 2:
            # The remaining time would be too short even for a healthy group.
            self._metrics.missed_slots.inc()
            return
        operation = await self._attempt(sequence, intended_ns, start_ns)
        self._sink.add_row(OPERATIONS_TABLE, probe_row(operation, self._group, self._clock))
        if operation.result == "ok" and operation.end_ns is not None:
            self._metrics.sent("ok", (operation.end_ns - intended_ns) / NS_PER_S)
            self._reader.promise(operation)
        else:
            self._metrics.sent(operation.result, None)
            self._route.poke()

    async def _attempt(self, sequence: int, intended_ns: int, start_ns: int) -> Operation:
        route, queue_id = self._route.route, sequence % max(1, self._route.route.queues)

        def ended(result: str, remark: str | None, *, answered: bool = True) -> Operation:
            end_ns = self._clock.monotonic_ns() if answered else None
            words = remark and remark[:_REMARK_CHARS_MAX]
            return Operation(
                "send", sequence, intended_ns, start_ns, end_ns, result, route.master, queue_id, remark=words
            )

        if not route.master:
            return ended("no_route", "the name server knows no master")
        if not route.queues:
            self._ensure_topic()
        deadline_ns = intended_ns + DEADLINE_NS
        try:
            connection = await self._link.get(route.master, self._left_s(deadline_ns))
        except ConnectError as error:
            if self._clock.monotonic_ns() >= deadline_ns:
                return ended("timeout", str(error), answered=False)
            return ended("refused", str(error))
        body = encode(self._group, sequence)
        born_ms = self._clock.utc_ns_of(start_ns) // _NS_PER_MS
        request = send_request(self._topic, self._group, queue_id, sequence, body, born_ms)
        try:
            answer = await connection.call(request, self._left_s(deadline_ns))
        except CallTimeoutError:
            self._link.retire()
            return ended("timeout", None, answered=False)
        except ConnectionClosedError as error:
            # The broker may or may not have stored it: no refusal.
            return ended("other", f"connection lost: {error}", answered=False)
        return self._judged(ended(send_result(answer.code, answer.remark), answer.remark), answer)

    def _judged(self, operation: Operation, answer: RemotingCommand) -> Operation:
        """Add the place of a message that was stored, or the code of one that was not."""
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            self._ensure_topic()
        try:
            stored = SendMessageResponseHeader.from_ext(answer.ext or {})
        except RemotingProtocolError as error:
            if operation.result == "ok":
                return dataclasses.replace(
                    operation, result="other", remark=f"an answer without a place: {error}"
                )
            return dataclasses.replace(operation, remark=f"code {answer.code}: {operation.remark or ''}")
        return dataclasses.replace(operation, queue_id=stored.queue_id, queue_offset=stored.queue_offset)

    def _left_s(self, deadline_ns: int) -> float:
        return max(0.0, (deadline_ns - self._clock.monotonic_ns()) / NS_PER_S)

    def _ensure_topic(self) -> None:
        """Make the topic on the master, unless that is under way.

        A new master may not have heard of it yet.
        """
        if self._creating is None or self._creating.done():
            self._creating = asyncio.create_task(self._create_topic(self._route.route.master))

    async def _create_topic(self, master: str) -> None:
        try:
            connection = await self._link.get(master, CREATE_TOPIC_TIMEOUT_S)
            await connection.call(create_topic_request(self._topic, self._queues), CREATE_TOPIC_TIMEOUT_S)
        except (ConnectError, CallTimeoutError, ConnectionClosedError):
            # The next send that meets no topic tries again.
            return
        self._route.poke()
