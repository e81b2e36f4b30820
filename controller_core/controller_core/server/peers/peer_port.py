"""The listening port of the peers: TLS, plain TCP, or both while a cluster moves from one to the other.

    the port speaks    made by
    TLS or plain TCP   the loop's own server
    both               `channel.listener`, which decides by the first byte; members keep their places

Only a port that speaks both has to decide, so the usual ports stay as simple as they were.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from controller_core.channel.listener import Listener
from controller_core.channel.places import Places, PortPlace
from controller_core.server.peers.links import IncomingLink
from controller_core.server.settings.certificates import PeerTls

INCOMING_MAX: Final = 256
"""Connections on the peers' port; a cluster has one from each peer."""
_BACKLOG_MAX: Final = 100


class PeerPort:
    """Listens, and makes a link of each connection."""

    def __init__(self, tls: PeerTls | None) -> None:
        """Take the TLS of the port; None for plain TCP."""
        self._tls: Final = tls
        self._places: Final = Places(INCOMING_MAX, INCOMING_MAX)
        self._placed: Final[dict[IncomingLink, PortPlace]] = {}
        self._server: asyncio.Server | None = None
        self._listener: Listener | None = None

    async def listen(self, make_link: Callable[[], IncomingLink], host: str | None, port: int) -> None:
        """Begin to accept.

        Raises:
            OSError: the port cannot be had.
        """
        if self._tls is not None and self._tls.plain_allowed:
            self._listener = Listener(
                lambda place: self._placed_link(make_link(), place),
                self._tls.server,
                plain_allowed=True,
                places=self._places,
            )
            await self._listener.listen(host or "", port, _BACKLOG_MAX)
            return
        server_ssl = None if self._tls is None else self._tls.server
        self._server = await asyncio.get_running_loop().create_server(make_link, host, port, ssl=server_ssl)

    @property
    def is_listening(self) -> bool:
        """Whether `listen` has succeeded."""
        return self._server is not None or self._listener is not None

    @property
    def port(self) -> int:
        """The port that is listened on."""
        if self._listener is not None:
            return self._listener.port
        if self._server is None:
            raise RuntimeError("the transport is not started")
        return int(self._server.sockets[0].getsockname()[1])

    def keep(self, link: IncomingLink) -> None:
        """Keep a member's link when strangers fill the port."""
        place = self._placed.get(link)
        if place is not None:
            self._places.keep(place, kept=True)

    async def close(self) -> None:
        """Stop accepting."""
        if self._server is not None:
            self._server.close()
        if self._listener is not None:
            await self._listener.close()

    async def wait_closed(self) -> None:
        """Wait until the connections have ended, which the caller closes."""
        if self._server is not None:
            await self._server.wait_closed()

    def _placed_link(self, link: IncomingLink, place: PortPlace) -> IncomingLink:
        link.closed.add_done_callback(lambda _: self._give_back(link))
        self._placed[link] = place
        return link

    def made(self, link: IncomingLink) -> bool:
        """Learn that a connection is made; return whether its place is still its own."""
        place = self._placed.get(link)
        if place is None:
            return True
        place.close = link.close
        return not place.is_over

    def _give_back(self, link: IncomingLink) -> None:
        self._places.give_back(self._placed.pop(link))
