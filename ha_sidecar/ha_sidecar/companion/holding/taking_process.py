"""The process that takes a dead broker's port, for the companion that started it (`port_taker`).

The kernel closes the newest files of a dying process first, so its connections end before its port. A client
that dials while the port is closed is refused, and its three tries take milliseconds. This
process has one thread and nothing else to do, so it runs as soon as the kernel has closed the port. A thread
of the companion waited for its other threads first: on two busy cores 6 to 8 ms in the median, and up to 25.

It dials the broker, watches that connection, and binds the socket that it was given when the connection has
ended. While the port is in use it dials once more: the dying process never accepts that connection, so it
ends in the moment in which the port is free, and this process sleeps until then.

    -> (end of file)       the companion has ended, or wants no port: this process ends
    <- connected           the broker is watched
    <- ended               that connection has ended
    <- lives               the port is in use after `BIND_WITHIN_S`: the broker ends idle connections, and is
                           dialled again
    <- taken MS            the given socket listens, and the port was closed for at most so many ms.
                           This process ends

It runs without the installed packages, which would cost ten times its memory: it imports nothing but the
standard library. Never: accepts a connection, or writes anywhere but to its standard input.
"""

import contextlib
import select
import socket
import sys
import time
from typing import Final

CONNECTED: Final = "connected"
ENDED: Final = "ended"
LIVES: Final = "lives"
TAKEN: Final = "taken"
DIAL_WITHIN_S: Final = 1.0
DIAL_AGAIN_S: Final = 0.2
BIND_WITHIN_S: Final = 3.0
"""For how long a dying process may keep its port after its connections."""
REDIAL_WITHIN_S: Final = 0.02
BIND_AGAIN_S: Final = 0.0005


class TakingProcess:
    """One broker, the companion, and the socket that is to listen in the broker's place."""

    def __init__(
        self, broker: tuple[str, int], companion: socket.socket, listener: socket.socket, backlog: int
    ) -> None:
        """Take the broker's address, a socket to the companion, and one that is not bound yet."""
        self._broker: Final = broker
        self._companion: Final = companion
        self._listener: Final = listener
        self._backlog: Final = backlog

    def run(self) -> None:
        """Watch the broker until its port is taken, or the companion wants nothing more."""
        while True:
            try:
                watched = socket.create_connection(self._broker, DIAL_WITHIN_S)
            except OSError:
                if self._is_unwanted(None, DIAL_AGAIN_S):
                    return
                continue
            with watched:
                self._tell(CONNECTED)
                if self._is_unwanted(watched, None):
                    return
            ended_s = time.monotonic()
            self._tell(ENDED)
            if self._is_taken(ended_s):
                return

    def _is_taken(self, ended_s: float) -> bool:
        """Take the port as soon as the process has lost it; False if it lives."""
        until_s = ended_s + BIND_WITHIN_S
        while time.monotonic() < until_s:
            if self._is_bound():
                self._listener.listen(self._backlog)
                self._tell(f"{TAKEN} {(time.monotonic() - ended_s) * 1000:.1f}")
                return True
            try:
                unaccepted = socket.create_connection(self._broker, REDIAL_WITHIN_S)
            except OSError:
                if self._is_unwanted(None, BIND_AGAIN_S):
                    return True
                continue
            with unaccepted:
                if self._is_unwanted(unaccepted, until_s - time.monotonic()):
                    return True
            ended_s = time.monotonic()
        self._tell(LIVES)
        return False

    def _is_bound(self) -> bool:
        try:
            self._listener.bind(("", self._broker[1]))
        except OSError:
            return False
        return True

    def _tell(self, report: str) -> None:
        with contextlib.suppress(ConnectionError):  # the companion has ended, which the next wait finds
            self._companion.send(report.encode())

    def _is_unwanted(self, watched: socket.socket | None, timeout_s: float | None) -> bool:
        """Wait until a connection ends or the time is over; return whether the companion has ended first."""
        poll = select.poll()
        poll.register(self._companion, select.POLLIN)
        if watched is not None:
            poll.register(watched, select.POLLIN)
        ready = poll.poll(None if timeout_s is None else max(0.0, timeout_s) * 1000)
        return any(number == self._companion.fileno() for number, _ in ready)


def main() -> None:
    """Run with the broker's host and port, the number of the socket to be bound, and its backlog."""
    host, port, listener, backlog = sys.argv[1:]
    companion = socket.socket(fileno=sys.stdin.fileno())
    TakingProcess((host, int(port)), companion, socket.socket(fileno=int(listener)), int(backlog)).run()


if __name__ == "__main__":
    main()
