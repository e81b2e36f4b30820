"""When must a master stop taking writes because another may be elected unnoticed? A machine without I/O.

Theory of operation. The controllers elect another master when the heartbeats of this one stay away for its
time-out (10 s by default). A master that is cut off from them goes on during that time, and after it: Java's
takes a slave whose connection ends out of its local set at once, and then acknowledges what it holds alone.
Whatever it acknowledges after another was elected is lost when it comes back. So it has to stop before:

    OPEN     --doubt-->    CLOSING  --confirmed-->  CLOSED
    CLOSING, CLOSED  --trust-->  OPENING  --confirmed-->  OPEN
    OPENING  --doubt-->    CLOSING
    CLOSING  --not confirmed in time-->  STOPPED: the broker must be stopped, as it does not take the setting
    STOPPED  --trust-->    OPENING

Doubt is one of two things, of a broker that is master or does not say what it is:

- No majority of the controllers answered for `after_ms`, and not every other member of the SyncStateSet has
  denied to be master. Only members can be elected. So while all of them deny it no other master
  exists, and controllers that are merely down do not stop a group.
- The controllers name another master in a newer epoch. This one was frozen, or has not been told yet.

Trust means that a majority answers again, and names this broker or the broker itself says that it is a slave.
A slave refuses writes, and must be able to take them when it is elected later.

An answer counts from the time of its question: it may have been under way while this process, or its whole
machine, stood still. Time passes for a stopped process, so the first tick after a thaw closes before anything
else happens.

`after_ms` leaves room for a heartbeat's interval before the last answer, and for telling the broker, within
the controllers' time-out. Against a controller that takes a closed connection for a death at once, no fence
can be in time; the connections of a broker that is cut off are not closed, they fall silent.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final


class FenceState(Enum):
    """Whether the broker may take writes, as far as this machine wants it and knows it."""

    OPEN = auto()
    CLOSING = auto()
    CLOSED = auto()
    OPENING = auto()
    STOPPED = auto()


class FenceEvent(Enum):
    """What moves it on."""

    DOUBT = auto()
    TRUST = auto()
    CONFIRMED = auto()
    TOO_LATE = auto()


class FenceAction(Enum):
    """What the shell must do to the broker now; repeated until it is confirmed."""

    CLOSE = auto()
    OPEN = auto()
    STOP = auto()


TRANSITIONS: Final = {
    (FenceState.OPEN, FenceEvent.DOUBT): FenceState.CLOSING,
    (FenceState.CLOSING, FenceEvent.CONFIRMED): FenceState.CLOSED,
    (FenceState.CLOSING, FenceEvent.TRUST): FenceState.OPENING,
    (FenceState.CLOSING, FenceEvent.TOO_LATE): FenceState.STOPPED,
    (FenceState.CLOSED, FenceEvent.TRUST): FenceState.OPENING,
    (FenceState.OPENING, FenceEvent.DOUBT): FenceState.CLOSING,
    (FenceState.OPENING, FenceEvent.CONFIRMED): FenceState.OPEN,
    (FenceState.STOPPED, FenceEvent.TRUST): FenceState.OPENING,
}
ACTIONS: Final = {FenceState.CLOSING: FenceAction.CLOSE, FenceState.OPENING: FenceAction.OPEN}


@dataclass(frozen=True, slots=True)
class FenceInputs:
    """The inputs of one moment; times are milliseconds of one monotonic clock, at the question.

    Attributes:
        majority_ms: the last round in which a majority of the controllers answered.
        peers_ms: the last round in which every other member of the SyncStateSet said that it is not a master.
        is_master: what the broker says of itself, None if it does not answer.
        named: whether the newest word of the controllers names this broker as master; None before the first
            word.
    """

    majority_ms: int
    peers_ms: int
    is_master: bool | None
    named: bool | None


class Fence:
    """One broker's fence.

    Attributes:
        state: see the table above.
        reason: why it is not open, for events and a person; empty while it is.
    """

    def __init__(self, after_ms: int, stop_ms: int, *, closed: bool = False) -> None:
        """Start open, or closed if an earlier process left the broker so.

        Args:
            after_ms: silence after which a master must not take writes.
            stop_ms: silence after which a broker that did not confirm must be stopped.
            closed: what the broker's settings say.
        """
        self.state = FenceState.CLOSED if closed else FenceState.OPEN
        self.reason = "found closed" if closed else ""
        self._after_ms: Final = after_ms
        self._stop_ms: Final = stop_ms

    def tick(self, heard: FenceInputs, now_ms: int) -> FenceAction | None:
        """Return what to do now; carry it out and say `confirmed` if the broker took it."""
        doubt = self._doubt(heard, now_ms)
        if doubt:
            if self.state in (FenceState.OPEN, FenceState.OPENING):
                self.reason = doubt
            self._move(FenceEvent.DOUBT)
            if self.state is FenceState.CLOSING and now_ms - self._heard_ms(heard) >= self._stop_ms:
                self._move(FenceEvent.TOO_LATE)
                return FenceAction.STOP
        elif self._trust(heard, now_ms):
            self._move(FenceEvent.TRUST)
        return ACTIONS.get(self.state)

    def confirmed(self, action: FenceAction) -> None:
        """Learn that the broker took it."""
        if ACTIONS.get(self.state) is action:
            self._move(FenceEvent.CONFIRMED)
            if self.state is FenceState.OPEN:
                self.reason = ""

    def _move(self, event: FenceEvent) -> None:
        self.state = TRANSITIONS.get((self.state, event), self.state)

    def _heard_ms(self, heard: FenceInputs) -> int:
        return max(heard.majority_ms, heard.peers_ms)

    def _doubt(self, heard: FenceInputs, now_ms: int) -> str:
        """Return why the broker must not take writes, empty if it may."""
        if heard.is_master is False:
            return ""
        if heard.is_master and heard.named is False:
            return "another is master"
        silent_ms = now_ms - self._heard_ms(heard)
        return f"no controller or member answered for {silent_ms} ms" if silent_ms >= self._after_ms else ""

    def _trust(self, heard: FenceInputs, now_ms: int) -> bool:
        majority = now_ms - heard.majority_ms < self._after_ms
        return majority and (heard.is_master is False or (heard.is_master is True and heard.named is True))
