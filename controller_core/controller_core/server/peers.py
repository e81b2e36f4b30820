"""Carries Raft's messages between controllers over TCP: one outgoing connection to each peer, dialled for ever.

A peer that cannot be reached is dialled again after a short pause that grows to `DIAL_PAUSE_MAX_S`; until then messages
to it are dropped, because Raft repeats what matters and stale messages help nobody. Dialling starts with the node, not
with the first message, so that an election finds the connections open. Peers never wait for each other: sending is a
write to the peer's own buffer (`peer_links`), and each has its own dialling task.

A refusal (other cluster, other version, wrong node) is logged once for each reason and dialled again: the other side
may be corrected without restarting this one.
"""

import asyncio
import contextlib
import logging
import random
import ssl
from collections.abc import Iterable, Mapping
from typing import Final

from controller_core.raft.types import Message, MessageType
from controller_core.server.names import Resolver
from controller_core.server.node_types import Receiver
from controller_core.server.peer_codec import PROTOCOL_VERSION, Greeting, encode_message
from controller_core.server.peer_links import IncomingLink, OutgoingLink

DIAL_PAUSE_MIN_S: Final = 0.02
DIAL_PAUSE_MAX_S: Final = 0.3
DIAL_MAX_S: Final = 0.75
"""How long one attempt may take, greeting included. With the pause it bounds the silence after a network has healed: the
kernel itself would repeat a lost SYN after 1, 2, 4 ... s."""

Address = tuple[str, int]

_log = logging.getLogger(__name__)


class PeerTransport:
    """The transport of one node; a `Transport`."""

    def __init__(
        self,
        cluster: str,
        node_id: int,
        peers: Mapping[int, Address],
        *,
        bind_host: str | None = None,
        server_ssl: ssl.SSLContext | None = None,
        client_ssl: ssl.SSLContext | None = None,
    ) -> None:
        """Prepare to listen on this node's own port and to dial the others.

        Args:
            cluster: name that both ends of a connection must agree on.
            node_id: Raft id of this node.
            peers: address of every node by Raft id, this one included; port 0 for itself picks a free one.
            bind_host: interface to listen on; None for all.
            server_ssl: TLS for incoming connections; None for plain TCP.
            client_ssl: TLS for outgoing connections; None for plain TCP.
        """
        self._cluster = cluster
        self._node_id = node_id
        self._peers = dict(peers)
        self._bind_host = bind_host
        self._server_ssl = server_ssl
        self._client_ssl = client_ssl
        self._receiver: Receiver | None = None
        self._server: asyncio.Server | None = None
        self._links: dict[int, OutgoingLink] = {}
        self._incoming: set[IncomingLink] = set()
        self._dialling: dict[int, asyncio.Task[None]] = {}
        self._refusals: dict[int, str] = {}
        self._resolver = Resolver()

    async def start(self, receiver: Receiver) -> None:
        """Listen and dial.

        Raises:
            OSError: the port cannot be had.
        """
        self._receiver = receiver
        port = self._peers[self._node_id][1]
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accept, self._bind_host, port, ssl=self._server_ssl)
        for peer_id in self._peers:
            self._begin_dialling(peer_id)

    @property
    def port(self) -> int:
        """The port this node listens on."""
        if self._server is None:
            raise RuntimeError("the transport is not started")
        return int(self._server.sockets[0].getsockname()[1])

    def set_peer(self, node_id: int, address: Address) -> None:
        """Learn of a node, or that it has moved."""
        if self._peers.get(node_id) == address:
            return
        self.remove_peer(node_id)
        self._peers[node_id] = address
        if self._server is not None:
            self._begin_dialling(node_id)

    def remove_peer(self, node_id: int) -> None:
        """Forget a node and end the connection to it."""
        self._peers.pop(node_id, None)
        if task := self._dialling.pop(node_id, None):
            task.cancel()
        if link := self._links.pop(node_id, None):
            link.close()

    def send(self, messages: Iterable[Message]) -> None:
        """Send messages, in order to each peer; drop what cannot go now, and say so to the receiver."""
        frames: dict[int, list[bytes]] = {}
        snapshots: list[int] = []
        for message in messages:
            frames.setdefault(message.to, []).append(encode_message(message))
            if message.type is MessageType.SNAP:
                snapshots.append(message.to)
        for node_id, waiting in frames.items():
            link = self._links.get(node_id)
            if link is None or not link.send(b"".join(waiting)):
                self._tell_lost(node_id, snapshots)
            elif node_id in snapshots:
                self._watch_snapshot(link, node_id)

    async def stop(self) -> None:
        """Close everything; messages under way are lost."""
        tasks = list(self._dialling.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._dialling.clear()
        links: list[OutgoingLink | IncomingLink] = [*self._links.values(), *self._incoming]
        for link in links:
            link.close()
        await asyncio.gather(*(link.closed for link in links))
        self._links.clear()
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    def _accept(self) -> IncomingLink:
        if self._receiver is None:
            raise RuntimeError("the transport is not started")
        link = IncomingLink(self._cluster, self._node_id, self._peers.__contains__, self._receiver)
        self._incoming.add(link)
        link.closed.add_done_callback(lambda _: self._incoming.discard(link))
        return link

    def _tell_lost(self, node_id: int, snapshots: list[int]) -> None:
        # Why later: the core is in the middle of handing out messages, and this changes what it would send next.
        receiver = self._receiver
        if receiver is None:
            return
        loop = asyncio.get_running_loop()
        loop.call_soon(receiver.peer_unreachable, node_id)
        if node_id in snapshots:
            loop.call_soon(receiver.snapshot_sent, node_id, False)

    def _watch_snapshot(self, link: OutgoingLink, node_id: int) -> None:
        receiver = self._receiver
        if receiver is not None:
            loop = asyncio.get_running_loop()

            def tell(ok: bool) -> None:
                loop.call_soon(receiver.snapshot_sent, node_id, ok)

            link.when_drained(tell)

    def _begin_dialling(self, node_id: int) -> None:
        if node_id != self._node_id:
            self._dialling[node_id] = asyncio.create_task(self._dial(node_id), name=f"dial-{node_id}")

    async def _dial(self, node_id: int) -> None:
        """Keep a connection to a peer, until cancelled."""
        pause_s = DIAL_PAUSE_MIN_S
        while True:
            link = await self._try(node_id)
            if link is not None:
                pause_s = DIAL_PAUSE_MIN_S
                self._links[node_id] = link
                _log.info("connected to node %d", node_id)
                await asyncio.shield(link.closed)
                self._links.pop(node_id, None)
                _log.info("lost the connection to node %d", node_id)
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311 - spreads load, guards nothing
            pause_s = min(pause_s * 2, DIAL_PAUSE_MAX_S)

    async def _try(self, node_id: int) -> OutgoingLink | None:
        """Return an accepted connection, None if there is none to be had now."""
        greeting = Greeting(PROTOCOL_VERSION, self._cluster, self._node_id, node_id)
        link = OutgoingLink(greeting)
        try:
            async with asyncio.timeout(DIAL_MAX_S):
                host, port = self._peers[node_id]
                address = await self._resolver.resolve(host, port)
                name = host if self._client_ssl else None
                loop = asyncio.get_running_loop()
                await loop.create_connection(
                    lambda: link, *address, ssl=self._client_ssl, server_hostname=name
                )
                await link.ready
        except (OSError, TimeoutError) as error:
            self._note_refusal(node_id, error)
            self._discard(link)
            return None
        except asyncio.CancelledError:
            self._discard(link)
            raise
        self._refusals.pop(node_id, None)
        return link

    def _discard(self, link: OutgoingLink) -> None:
        link.close()
        if link.ready.done():
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                link.ready.exception()
        else:
            link.ready.cancel()

    def _note_refusal(self, node_id: int, error: Exception) -> None:
        """Log a peer's refusal once for each reason; a peer that is just away is no news."""
        text = str(error)
        if (
            isinstance(error, ConnectionRefusedError)
            and not error.errno
            and self._refusals.get(node_id) != text
        ):
            self._refusals[node_id] = text
            _log.error("node %d refuses us: %s", node_id, text)
