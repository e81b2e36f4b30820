"""A second port in the broker's pod: new connections to a master that will be killed queue in its backlog.

A killed process's port refuses connections until the companion has taken it (`holding`): a millisecond on an
idle machine, 100 ms where all nodes share two busy cores, and a client's three tries are over by then. So
where the end is known, the address moves before it: the operator points a master's address at this port as
soon as its pod is being deleted. Clients with a connection to the broker keep it; new connections wait here,
and are held like the others when the broker is gone.

Each node of a cluster updates its rules by itself, and at most once per second. A client that dials by old
rules reaches the dying process's own port, is refused or reset, and its sends fail; so the broker serves on
for `ALL_NODES_S` more.

Never: takes a connection while the broker lives, or keeps it from being killed for longer than both of these
times.

Source: Kubernetes "EndpointSlices" (ports are the slice's own, whatever its Service says).
"""

import asyncio
import contextlib
import logging
import select
import socket
import time
from typing import Final

from controller_core.channel.sockets import listening_everywhere
from ha_sidecar.address import HostPort

REACHED_WITHIN_S: Final = 2.5
"""The longest wait for the address to lead here; clients are served by the broker until then.

The operator wrote the address some 0.2 s before the question "how should the broker end", and kube-proxy lets
a second pass between two changes of its rules.
"""
ALL_NODES_S: Final = 1.0
"""From when this node's rules lead here until those of all nodes do: theirs followed up to 0.14 s later.

And a kube-proxy that has just changed its rules would be a second late with the way to the successor, too.
"""
PROBE_AGAIN_S: Final = 0.01
DIAL_WITHIN_S: Final = 0.1
BACKLOG: Final = 1024

_log = logging.getLogger(__name__)


def listening(port: int) -> socket.socket:
    """Return a non-blocking socket that listens at a port on all addresses, in IPv4 and IPv6.

    Raise `OSError` if the port is taken.
    """
    listener = listening_everywhere(port, BACKLOG)
    listener.setblocking(False)
    return listener


class HoldPort:
    """The port, open or not; opened and closed by the thread that holds, asked about by the event loop's."""

    def __init__(self, port: int) -> None:
        """Take the port; with 0 it never opens."""
        self._port: Final = port
        self.listener: socket.socket | None = None

    def open(self) -> None:
        """Listen, if that is not so already; if the port is taken, it stays closed."""
        if not self._port or self.listener is not None:
            return
        try:
            self.listener = listening(self._port)
        except OSError as error:
            _log.warning("clients cannot wait at port %d: %s", self._port, error)

    def close(self) -> None:
        """Refuse from now on; the kernel disconnects the waiting clients."""
        if self.listener is not None:
            self.listener.close()
            self.listener = None

    async def reached(self, address: HostPort) -> bool:
        """Dial the address that clients dial until that leads here, from all nodes by then.

        False if it does not in time.
        """
        until_s = time.monotonic() + REACHED_WITHIN_S
        dialled: list[asyncio.StreamWriter] = []
        try:
            while (listener := self.listener) is not None and time.monotonic() < until_s:
                with contextlib.suppress(OSError, TimeoutError):
                    async with asyncio.timeout(DIAL_WITHIN_S):
                        dialled.append((await asyncio.open_connection(*address))[1])
                # Somebody waits: whoever it is, this is where the address leads.
                if select.select([listener], [], [], 0)[0]:
                    await asyncio.sleep(ALL_NODES_S)
                    return True
                await asyncio.sleep(PROBE_AGAIN_S)
        finally:
            for writer in dialled:
                writer.transport.abort()
        return False
