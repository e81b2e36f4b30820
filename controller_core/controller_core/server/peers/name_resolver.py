"""Names of peers to addresses, so that a name server that hangs costs one thread and not the cluster.

The system's resolver blocks for many seconds when its servers are away, and a thread that waits in it cannot
be cancelled. So each name has at most one query; a caller that gives up leaves it running for the next
caller. The last address stays valid until an answer comes, because the greeting checks the identity of the
node there.
"""

import asyncio
import ipaddress
import socket
from typing import Final

ANSWER_WITHIN_S: Final = 0.25
"""How long a new query of a known name may take before its last address is used."""


class Resolver:
    """Resolves host names, with a memory."""

    __slots__ = ("_asking", "_known")

    def __init__(self) -> None:
        self._asking: dict[str, asyncio.Future[str]] = {}
        self._known: dict[str, str] = {}

    async def resolve(self, host: str, port: int) -> tuple[str, int]:
        """Return an IP address of `host`, and the port.

        Raises:
            OSError: the name was never resolved to an address; without an answer this waits until cancelled.
        """
        if _is_address(host):
            return host, port
        asking = self._asking.get(host)
        if asking is None:
            asking = self._asking[host] = asyncio.ensure_future(self._ask(host))
            asking.add_done_callback(lambda done: self._answered(host, done))
        if host not in self._known:
            return await asyncio.shield(asking), port
        await asyncio.wait((asking,), timeout=ANSWER_WITHIN_S)
        return self._known[host], port

    async def _ask(self, host: str) -> str:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return str(found[0][4][0])

    def _answered(self, host: str, done: asyncio.Future[str]) -> None:
        self._asking.pop(host, None)
        if not done.cancelled() and done.exception() is None:
            self._known[host] = done.result()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
