"""Carries Raft's messages between controllers over TCP.

One outgoing connection to each peer, dialled for ever.

A peer that cannot be reached is dialled again after a short pause that grows to `DIAL_PAUSE_S_MAX`; until
then messages to it are dropped, because Raft repeats important messages and stale ones are useless. Dialling
starts with the node, not with the first message, so that an election finds the connections open. Peers never
wait for each other: sending is a write to the peer's own buffer (`peers.links`), and each has its own
dialling task.

Who the peers are changes while the node runs (`set_peers`). A connection that would be refused by now is
closed.

A refusal (other cluster, other version, wrong node, lost store) is logged once for each reason and dialled
again, more slowly: the other side may be corrected without restarting this one.

A connection without an accepted greeting gives its place to a younger one when there are too many.

Bytes that no member sends end their connection. They are counted by reason, and logged once for each
reason and sender's host (`refusals`).
"""

import asyncio
import contextlib
import logging
import random
import ssl
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from msgspec.structs import replace

from controller_core import limits
from controller_core.channel.listener import Listener
from controller_core.channel.places import Places, PortPlace
from controller_core.raft.types import Message, MessageType
from controller_core.server.common.certificate_names import PeerCertificate
from controller_core.server.node.types import Receiver
from controller_core.server.peers.codec import (
    PART_BYTES,
    Greeting,
    GreetingAnswer,
    GreetingReply,
    encode_message,
)
from controller_core.server.peers.greeting_rules import Address, Identity, KnownPeer, is_of_member, judge
from controller_core.server.peers.links import IncomingLink, OutgoingLink, PeerRefusedError
from controller_core.server.peers.name_resolver import Resolver
from controller_core.server.peers.refusals import PeerRefusals
from controller_core.server.settings.certificates import PeerTls

DIAL_PAUSE_MIN_S: Final = 0.02
DIAL_PAUSE_S_MAX: Final = 0.3
DIAL_S_MAX: Final = 0.75
"""How long one attempt may take, greeting included.

With the pause it bounds the silence after a network has healed: the kernel itself would repeat a lost SYN
after 1, 2, 4 ... s."""
REFUSED_PAUSE_S: Final = 1.0
"""Before a peer that refused is dialled again."""
BACKLOG_MAX: Final = 128
REFUSED_NODES_MAX: Final = 256
"""Ids whose refused greeting is remembered, to log it once; then all are forgotten."""

_EXCLUDING: Final = frozenset({GreetingAnswer.UNKNOWN, GreetingAnswer.INCARNATION})

_log = logging.getLogger(__name__)


class PeerTransport:
    """The transport of one node; a `Transport`."""

    def __init__(
        self,
        cluster: str,
        node_id: int,
        peers: Mapping[int, Address],
        *,
        incarnation: str = "",
        address: str = "",
        bind_host: str | None = None,
        tls: PeerTls | None = None,
    ) -> None:
        """Prepare to listen on this node's own port and to dial the others.

        Args:
            cluster: name that both ends of a connection must agree on.
            node_id: Raft id of this node.
            peers: address of every node by Raft id, this one included; port 0 for itself picks a free one.
            incarnation: of this node's store.
            address: remoting address of this node, to be told to the others.
            bind_host: interface to listen on; None for all.
            tls: TLS of both directions; None for plain TCP.
        """
        self.on_greeted: Callable[[Greeting], None] = lambda _greeting: None
        """Called with the greeting of each peer that was accepted."""
        self.waiting = False
        """Whether this node does not belong to a cluster yet.

        Then only nodes that know its store may connect.
        """
        self.has_log: Callable[[], bool] = lambda: True
        """Says whether anything is in the cluster's log, as far as this node knows."""
        self.refusals = PeerRefusals()
        """Counts of refusals on the peers' port."""
        self._own = Identity(cluster, node_id, incarnation, address)
        self._node_id = node_id
        self._port = peers[node_id][1]
        self._peers = {peer_id: KnownPeer((where,)) for peer_id, where in peers.items()}
        self._bind_host = bind_host
        self._tls = tls
        self._receiver: Receiver | None = None
        self._listener: Listener | None = None
        self._places = Places(limits.PEER_CONNECTIONS_MAX, limits.PEER_SOURCE_CONNECTIONS_MAX)
        self._stopped = False
        self._links: dict[int, OutgoingLink] = {}
        self._incoming: set[IncomingLink] = set()
        self._dialling: dict[int, asyncio.Task[None]] = {}
        self._refusals: dict[int, GreetingReply] = {}
        self._refused: dict[int, str] = {}
        self._seen: dict[int, asyncio.Event] = {}
        self._resolver = Resolver()

    async def start(self, receiver: Receiver) -> None:
        """Listen and dial.

        Raises:
            OSError: the port cannot be had.
        """
        self._receiver = receiver
        server_ssl = None if self._tls is None else self._tls.server
        plain_allowed = self._tls is None or self._tls.plain_allowed
        listener = Listener(self._accept, server_ssl, plain_allowed=plain_allowed, places=self._places)
        await listener.listen(self._bind_host or "", self._port, BACKLOG_MAX)
        self._listener = listener
        for peer_id in self._peers:
            self._begin_dialling(peer_id)

    @property
    def port(self) -> int:
        """The port this node listens on."""
        if self._listener is None:
            raise RuntimeError("the transport is not started")
        return self._listener.port

    @property
    def exclusion(self) -> str | None:
        """The reason a peer gave for excluding this node from the cluster; None without one."""
        reasons = (reply.reason for reply in self._refusals.values() if reply.why in _EXCLUDING)
        return next(reasons, None)

    def greetings(self) -> dict[int, Greeting]:
        """Return what the peers that are connected to us said of themselves, by Raft id."""
        return {link.greeting.from_id: link.greeting for link in self._incoming if link.greeting is not None}

    def peer_hosts(self) -> set[str]:
        """Return the hosts of the peers whose greeting this node has accepted."""
        return {link.host for link in self._incoming if link.greeting is not None}

    def set_peers(self, peers: Mapping[int, KnownPeer]) -> None:
        """Learn who the peers are now; connections that would be refused by now are closed."""
        for node_id in self._peers.keys() - peers.keys():
            self.remove_peer(node_id)
        for node_id, known in peers.items():
            self.set_peer(node_id, *known.addresses, incarnation=known.incarnation)
        for link in list(self._incoming):
            if link.greeting is not None and self._judge(link.greeting, link.certificate).reason:
                link.close()

    def set_peer(self, node_id: int, *addresses: Address, incarnation: str = "") -> None:
        """Learn of a node, or that it has moved or has another store.

        A connection that is still right stays.
        """
        known, before = KnownPeer(addresses, incarnation), self._peers.get(node_id)
        if before == known:
            return
        if before is not None and before.incarnation in {"", incarnation} and node_id in self._links:
            self._peers[node_id] = (
                known  # For the next dialling; who answers there now is the one that is meant.
            )
            return
        self.remove_peer(node_id)
        self._peers[node_id] = known
        if self._listener is not None:
            self._begin_dialling(node_id)

    def remove_peer(self, node_id: int) -> None:
        """Forget a node and end the connection to it."""
        self._peers.pop(node_id, None)
        self._refusals.pop(node_id, None)
        self._seen.pop(node_id, None)
        if task := self._dialling.pop(node_id, None):
            task.cancel()
        if link := self._links.pop(node_id, None):
            link.close()

    def send(self, messages: Iterable[Message]) -> None:
        """Send messages, in order to each peer.

        Drop messages that cannot be sent now, and report that to the receiver.
        """
        frames: dict[int, list[bytes]] = {}
        for message in messages:
            if message.snapshot is not None and len(message.snapshot.data) > PART_BYTES:
                self._send_large(message)
                continue
            frames.setdefault(message.to, []).append(encode_message(message))
            if message.type is MessageType.SNAP:
                self._send_frames(message.to, frames.pop(message.to), snapshot=True)
        for node_id, waiting in frames.items():
            self._send_frames(node_id, waiting, snapshot=False)

    def _send_frames(self, node_id: int, frames: list[bytes], *, snapshot: bool) -> None:
        link = self._links.get(node_id)
        sent = link is not None and link.send(b"".join(frames))
        if not sent:
            self._tell_lost(node_id)
        if snapshot:
            self._tell_snapshot(node_id, ok=sent)

    def _send_large(self, message: Message) -> None:
        node_id = int(message.to)
        link = self._links.get(node_id)
        if link is None:
            self._tell_lost(node_id)
            self._tell_snapshot(node_id, ok=False)
        else:
            link.send_snapshot(message, lambda ok: self._tell_snapshot(node_id, ok=ok))

    async def stop(self) -> None:
        """Close all connections; messages under way are lost."""
        # The listener first, so that no peer connects to a node that ends.
        self._stopped = True
        if self._listener is not None:
            await self._listener.close()
        tasks = list(self._dialling.values())
        self._dialling.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        links: list[OutgoingLink | IncomingLink] = [*self._links.values(), *self._incoming]
        for link in links:
            link.close()
        await asyncio.gather(*(link.closed for link in links))
        self._links.clear()

    def _accept(self, place: PortPlace) -> IncomingLink:
        if self._receiver is None:
            raise RuntimeError("the transport is not started")
        return IncomingLink(
            self._node_id,
            partial(self._take_greeting, place),
            self._receiver,
            partial(self._made, place),
            self.refusals.note,
        )

    def _made(self, place: PortPlace, link: IncomingLink) -> None:
        # Not before: of a TLS handshake that fails, a protocol hears nothing at all.
        self._incoming.add(link)
        link.closed.add_done_callback(lambda _: self._incoming.discard(link))
        link.closed.add_done_callback(lambda _: self._places.give_back(place))
        if self._stopped or place.is_over:
            link.close()
        place.close = link.close

    def _judge(self, greeting: Greeting, certificate: PeerCertificate | None) -> GreetingReply:
        return judge(greeting, self._own, self._peers, waiting=self.waiting, certificate=certificate)

    def _take_greeting(self, place: PortPlace, link: IncomingLink, greeting: Greeting) -> GreetingReply:
        certificate = link.certificate
        reply = self._judge(greeting, certificate)
        if greeting.asks:
            fresh = not reply.reason and not self.has_log()
            answer = self._own.reply(why=GreetingAnswer.FOUNDING) if fresh else reply
            known = self._peers.get(greeting.from_id)
            is_proven = certificate is not None and known is not None and is_of_member(certificate, known)
            return replace(answer, incarnation=self._own.incarnation) if is_proven else answer
        if not reply.reason:
            self._places.keep(place, kept=True)
            self._refused.pop(greeting.from_id, None)
            if greeted := self._seen.get(greeting.from_id):
                greeted.set()
            asyncio.get_running_loop().call_soon(self.on_greeted, greeting)
            return reply
        if reply.why == GreetingAnswer.EMPTY and (greeted := self._seen.get(greeting.from_id)):
            greeted.set()  # It may have been told to add this node, and knows our store once we dial.
        if self._refused.get(greeting.from_id) != reply.reason:
            if len(self._refused) >= REFUSED_NODES_MAX:
                self._refused.clear()
            self._refused[greeting.from_id] = reply.reason
            _log.warning("refused node %d: %s", greeting.from_id, reply.reason)
        return reply

    # Why later, in the next two: the core is in the middle of handing out messages, and this changes what it
    # sends next.

    def _tell_lost(self, node_id: int) -> None:
        if self._receiver is not None:
            asyncio.get_running_loop().call_soon(self._receiver.peer_unreachable, node_id)

    def _tell_snapshot(self, node_id: int, *, ok: bool) -> None:
        if self._receiver is not None:
            asyncio.get_running_loop().call_soon(self._receiver.snapshot_sent, node_id, ok)

    def _begin_dialling(self, node_id: int) -> None:
        if node_id != self._node_id:
            self._dialling[node_id] = asyncio.create_task(self._dial(node_id), name=f"dial-{node_id}")

    async def _dial(self, node_id: int) -> None:
        """Keep a connection to a peer, until cancelled."""
        pause_s = DIAL_PAUSE_MIN_S
        attempt = 0
        # Why not for ever: a TLS handshake that fails while it is being cancelled hides the cancellation.
        while self._dialling.get(node_id) is asyncio.current_task():
            addresses = self._peers[node_id].addresses
            link = await self._try(node_id, addresses[attempt % len(addresses)])
            if link is None:
                attempt += 1
            elif self._dialling.get(node_id) is not asyncio.current_task():
                link.close()
            else:
                pause_s = DIAL_PAUSE_MIN_S
                self._links[node_id] = link
                _log.info("connected to node %d", node_id)
                await asyncio.shield(link.closed)
                self._links.pop(node_id, None)
                _log.info("lost the connection to node %d", node_id)
            await self._pause(node_id, pause_s)
            pause_s = min(pause_s * 2, DIAL_PAUSE_S_MAX)

    async def _pause(self, node_id: int, pause_s: float) -> None:
        """Wait before the next attempt; not for long if the peer has just shown that it is there."""
        refusal = self._refusals.get(node_id)
        pause_s *= random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, guards nothing
        if refusal is not None and refusal.why != GreetingAnswer.EMPTY:
            pause_s = max(pause_s, REFUSED_PAUSE_S)
        greeted = self._seen[node_id] = asyncio.Event()
        timer = asyncio.get_running_loop().call_later(pause_s, greeted.set)
        try:
            await greeted.wait()
        finally:
            timer.cancel()

    async def _try(self, node_id: int, where: Address) -> OutgoingLink | None:
        """Return an accepted connection, None if the peer cannot be reached now."""
        ways = [None if self._tls is None else self._tls.client]
        if self._tls is not None and self._tls.plain_allowed:
            ways.append(None)
        try:
            for client_ssl in ways:
                if (link := await self._try_once(node_id, where, client_ssl)) is not None:
                    self._refusals.pop(node_id, None)
                    return link
        except PeerRefusedError as error:
            self._note_refusal(node_id, error.reply)
        return None

    async def _try_once(
        self, node_id: int, where: Address, client_ssl: ssl.SSLContext | None
    ) -> OutgoingLink | None:
        link = OutgoingLink(self._own.greeting(node_id, self._peers[node_id].incarnation))
        try:
            async with asyncio.timeout(DIAL_S_MAX):
                address = await self._resolver.resolve(*where)
                name = where[0] if client_ssl else None
                loop = asyncio.get_running_loop()
                await loop.create_connection(lambda: link, *address, ssl=client_ssl, server_hostname=name)
                await link.ready
        except PeerRefusedError:
            self._discard(link)
            raise
        except (OSError, TimeoutError):
            self._discard(link)
            return None
        except asyncio.CancelledError:
            self._discard(link)
            raise
        return link

    def _discard(self, link: OutgoingLink) -> None:
        link.close()
        if link.ready.done():
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                link.ready.exception()
        else:
            link.ready.cancel()

    def _note_refusal(self, node_id: int, reply: GreetingReply) -> None:
        """Keep a peer's refusal, and log it once for each reason."""
        if self._refusals.get(node_id) != reply:
            self._refusals[node_id] = reply
            level = logging.INFO if reply.why == GreetingAnswer.EMPTY else logging.ERROR
            _log.log(level, "node %d refuses us: %s", node_id, reply.reason)
