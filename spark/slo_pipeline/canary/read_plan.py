"""Decide which acknowledged messages to read, when, and what the answers prove.

Problem: an acknowledgement is a promise about the future. A message that the old master gives back a second
later proves nothing about the new master; and a message that a broker does not show yet (its queue is built
after its log) is not lost. Shape: every acknowledged send is a promise with a place, `(queue, offset)`, in
one of these states:

```
 waiting --age >= delay--> asked --there--> read --connection or master changed--> again --there--> read
                              |                                                      |
                              +--another message or none--> doubted <----------------+
                                                               |--there--> read
                                                               +--for grace, by one master--> missing
```

Pending promises are requested oldest first, so that at any time everything older than the last verdict has
its verdict. Messages already read stay for a while, and the canary requests them again when the master may
have changed; it then reports only a contradiction. A place that is acknowledged a second time proves that the
first message there is gone. Never: `missing` because no broker answered. A promise without an answer stays
without a verdict.

Pure: time is a parameter (monotonic nanoseconds), pulls are carried out by the caller.
"""

import enum
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

DELAY_NS = 3_000_000_000
"""Age at which a message is first read: at a failover the newest acknowledgements are read from the new
master."""
GRACE_NS = 5_000_000_000
"""How long one master must say "not there"; together with the delay below the reports' own 10 s."""
DOUBT_INTERVAL_NS = 500_000_000
KEPT_NS = 600_000_000_000
"""How long to remember a read message for a second reading: longer than any replication lag that is not an
outage itself."""
PROMISES_MAX = 200_000


class State(enum.Enum):
    """Where a promise stands; each state but GONE has a queue in `ReadPlan`."""

    WAITING = enum.auto()
    DOUBTED = enum.auto()
    READ = enum.auto()
    AGAIN = enum.auto()
    GONE = enum.auto()


@dataclass(slots=True, eq=False)
class AcknowledgedSend:
    """One acknowledged send.

    Attributes:
        sequence: of the message.
        queue_id: where it lies.
        offset: queue offset there.
        acknowledged_ns: when the answer came, monotonic.
        state: see `State`.
        read_from: the master that showed it, "" if none did yet.
        doubted_since_ns: when `doubted_by` first said that it is not there.
        doubted_by: a master, "" if none said so since the master may have changed.
        ask_at_ns: time of its next request while it is in doubt.
    """

    sequence: int
    queue_id: int
    offset: int
    acknowledged_ns: int
    state: State = State.WAITING
    read_from: str = ""
    doubted_since_ns: int = 0
    doubted_by: str = ""
    ask_at_ns: int = 0


@dataclass(frozen=True, slots=True)
class ReadVerdict:
    """The verdict on a promise: result `ok` or `missing`, and the text for the row."""

    promise: AcknowledgedSend
    result: str
    remark: str | None = None


@dataclass(slots=True)
class ReadPlan:
    """Promises in their states; see the module's text.

    A promise leaves a queue lazily: an entry whose state is not the queue's is skipped when it comes to the
    front.

    Attributes:
        delay_ns: age at which a promise is first requested.
        grace_ns: how long a master must deny it.
        kept_ns: age until which a read promise may be asked for again.
        promises_max: bound on promises held.
        dropped: promises given up unread because there were too many.
    """

    delay_ns: int = DELAY_NS
    grace_ns: int = GRACE_NS
    kept_ns: int = KEPT_NS
    promises_max: int = PROMISES_MAX
    dropped: int = 0
    _places: dict[tuple[int, int], AcknowledgedSend] = field(default_factory=dict)
    _queues: dict[State, deque[AcknowledgedSend]] = field(
        default_factory=lambda: {state: deque() for state in State if state is not State.GONE}
    )

    @property
    def unread(self) -> int:
        """Return how many promises lack a verdict."""
        return sum(not promise.read_from for promise in self._held(State.WAITING, State.DOUBTED))

    @property
    def unsettled(self) -> int:
        """Return how many promises await a request, including those that must be read again."""
        return sum(1 for _ in self._held(State.WAITING, State.DOUBTED, State.AGAIN))

    @property
    def unjudged_ns(self) -> int | None:
        """Return when the oldest pending promise was acknowledged; None without a pending promise."""
        waiting = self._held(State.WAITING, State.DOUBTED, State.AGAIN)
        return min((promise.acknowledged_ns for promise in waiting), default=None)

    def hurry(self) -> None:
        """Ask for everything at once from now on: no more sends will come."""
        self.delay_ns = 0

    def promise(self, sequence: int, queue_id: int, offset: int, now_ns: int) -> list[ReadVerdict]:
        """Take an acknowledged send.

        Return the verdict on a message whose place it took, if there was one.
        """
        verdicts: list[ReadVerdict] = []
        former = self._places.get((queue_id, offset))
        if former is not None:
            verdicts.append(self._missing(former, f"its place was given to {sequence}"))
        self._forget_old(now_ns)
        if len(self._places) >= self.promises_max:
            self.dropped += 1
            return verdicts
        promise = AcknowledgedSend(sequence, queue_id, offset, now_ns)
        self._places[queue_id, offset] = promise
        self._enter(promise, State.WAITING)
        return verdicts

    def master_changed(self) -> None:
        """Request all read messages again: another master may answer now, or the same one after a loss."""
        for promise in self._held(State.READ):
            self._enter(promise, State.AGAIN)
        self._queues[State.READ].clear()
        for promise in self._held(State.DOUBTED):
            promise.doubted_by = ""
            promise.ask_at_ns = 0

    def next_pull(self, now_ns: int) -> AcknowledgedSend | None:
        """Return the promise to ask for now, or None.

        A doubted one comes first, then the oldest that waits, then one to read again.
        """
        doubted = self._front(State.DOUBTED)
        if doubted is not None and doubted.ask_at_ns <= now_ns:
            return doubted
        waiting = self._front(State.WAITING)
        if waiting is not None and waiting.acknowledged_ns + self.delay_ns <= now_ns:
            return waiting
        return self._front(State.AGAIN)

    def answered(
        self, asked: AcknowledgedSend, found: Mapping[int, int | None], master: str, now_ns: int
    ) -> list[ReadVerdict]:
        """Take a master's answer to a pull at a promise's place.

        Args:
            asked: the promise that the request named.
            found: queue offset to sequence of the messages that came, None for a message that is not ours.
            master: who answered.
            now_ns: monotonic nanoseconds.

        Returns:
            Verdicts on the promise and on others whose places are in the answer.
        """
        others = [self._places.get((asked.queue_id, offset)) for offset in found]
        verdicts: list[ReadVerdict] = []
        for promise in (asked, *(other for other in others if other is not None and other is not asked)):
            if promise.state is State.GONE:
                continue
            if found.get(promise.offset) == promise.sequence:
                verdicts += self._there(promise, master)
            else:
                verdicts += self._absent(promise, master, now_ns)
        return verdicts

    def _there(self, promise: AcknowledgedSend, master: str) -> list[ReadVerdict]:
        first = not promise.read_from
        promise.read_from = master
        promise.doubted_by = ""
        if promise.state is not State.READ:
            self._enter(promise, State.READ)
        return [ReadVerdict(promise, "ok")] if first else []

    def _absent(self, promise: AcknowledgedSend, master: str, now_ns: int) -> list[ReadVerdict]:
        if promise.doubted_by != master:
            promise.doubted_by = master
            promise.doubted_since_ns = now_ns
        if now_ns - promise.doubted_since_ns >= self.grace_ns:
            before = f", {promise.read_from} had it" if promise.read_from else ""
            return [
                self._missing(promise, f"not at queue {promise.queue_id}, offset {promise.offset}{before}")
            ]
        promise.ask_at_ns = now_ns + DOUBT_INTERVAL_NS
        if promise.state is not State.DOUBTED:
            self._enter(promise, State.DOUBTED)
        elif self._front(State.DOUBTED) is promise:
            self._queues[State.DOUBTED].rotate(-1)
        return []

    def _missing(self, promise: AcknowledgedSend, remark: str) -> ReadVerdict:
        self._forget(promise)
        return ReadVerdict(promise, "missing", remark)

    def _enter(self, promise: AcknowledgedSend, state: State) -> None:
        promise.state = state
        self._queues[state].append(promise)

    def _forget(self, promise: AcknowledgedSend) -> None:
        promise.state = State.GONE
        del self._places[promise.queue_id, promise.offset]

    def _forget_old(self, now_ns: int) -> None:
        while (
            oldest := self._front(State.READ)
        ) is not None and oldest.acknowledged_ns + self.kept_ns < now_ns:
            self._forget(oldest)

    def _front(self, state: State) -> AcknowledgedSend | None:
        queue = self._queues[state]
        while queue and queue[0].state is not state:
            queue.popleft()
        return queue[0] if queue else None

    def _held(self, *states: State) -> list[AcknowledgedSend]:
        # Once each: a promise that came back to a state may have a skipped entry of its first time there.
        held = (promise for state in states for promise in self._queues[state] if promise.state is state)
        return list(dict.fromkeys(held))
