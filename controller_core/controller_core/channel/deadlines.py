"""The times within which a connection must progress, and how a port finds one that does not.

| the connection | bound |
|---|---|
| was made and has not sent a request | `first_request_s_max` |
| has sent the beginning of a frame | `frame_s_max` |
| does not read its answers | `write_s_max` without a byte less |

A connection without any of these may be silent for ever: a closed connection means a dead broker.

A port looks at its connections once a `LOOK_S`, so a deadline has an error of a second. A timer for each
frame would cost more than the frames.
"""

from dataclasses import dataclass
from typing import Final

from controller_core import limits

LOOK_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class ProgressDeadlines:
    """Bounds of one port, in seconds."""

    first_request_s_max: float = limits.FIRST_REQUEST_S_MAX
    frame_s_max: float = limits.FRAME_S_MAX
    write_s_max: float = limits.WRITE_S_MAX


class ConnectionProgress:
    """When a connection progressed last, by the looks of its port.

    Attributes:
        requests: how many requests came in.
    """

    __slots__ = ("_frame_at", "_frame_since_s", "_made_s", "_write_since_s", "_written_left", "requests")

    def __init__(self, now_s: float) -> None:
        self.requests = 0
        self._made_s = now_s
        self._frame_at = -1
        self._frame_since_s = now_s
        self._written_left = 0
        self._write_since_s = now_s

    def problem(
        self, now_s: float, deadlines: ProgressDeadlines, *, frame_at: int | None, drained_bytes: int | None
    ) -> str | None:
        """Return which bound the connection passes; None while it keeps them.

        Args:
            now_s: the loop's time.
            deadlines: the bounds.
            frame_at: where the unfinished frame begins in the stream; None without one.
            drained_bytes: how many bytes the peer has taken so far; None if none wait for it.
        """
        if frame_at is None:
            self._frame_at = -1
        elif frame_at != self._frame_at:
            self._frame_at, self._frame_since_s = frame_at, now_s
        elif now_s - self._frame_since_s > deadlines.frame_s_max:
            return f"a frame is unfinished after {deadlines.frame_s_max:g} s"
        if drained_bytes is None:
            self._written_left = -1
        elif drained_bytes != self._written_left:
            self._written_left, self._write_since_s = drained_bytes, now_s
        elif now_s - self._write_since_s > deadlines.write_s_max:
            return f"it has not read for {deadlines.write_s_max:g} s"
        if not self.requests and now_s - self._made_s > deadlines.first_request_s_max:
            return f"no request in {deadlines.first_request_s_max:g} s"
        return None
