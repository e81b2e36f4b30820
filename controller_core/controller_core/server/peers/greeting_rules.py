"""Admission of peers: the rules by which one controller answers the greeting of another.

    the greeting                                            answer
    another protocol, cluster or addressee                  refused: protocol
    expects another store of ours than we have              refused: protocol
    we belong to no cluster, and it does not know our store refused: empty
    from a node that is not a member                             refused: unknown
    in TLS, certificate without the member's host           refused: protocol
    from a member, with another store than it joined with   refused: incarnation
    else                                                    welcome

Because of the last rule but one, a lost store never votes under an old name: a node with a new store cannot
exchange messages until the old member was removed and the new store added.

A member proves who it is by its store's incarnation, so an incarnation is a secret among the members. It is
never in an answer, a reason, a log line or a page: those name a store by its fingerprint, which is equal for
equal stores and proves nothing. A new member tells its own when it dials the members that its file names.

Pure: values in, values out.
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from controller_core.server.common.certificate_names import PeerCertificate, names_host, shown_names
from controller_core.server.peers.codec import PROTOCOL_VERSION, Greeting, GreetingAnswer, GreetingReply

Address = tuple[str, int]
_FINGERPRINT_DIGITS: Final = 16


def store_fingerprint(incarnation: str) -> str:
    """Return what people are shown of a store's incarnation: it tells stores apart and opens nothing.

    "" for "".
    """
    if not incarnation:
        return ""
    digest = hashlib.sha256(b"store fingerprint\0" + incarnation.encode())
    return digest.hexdigest()[:_FINGERPRINT_DIGITS]


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this node is to the others.

    Its cluster, its Raft id, its store, and where brokers and peers reach it.
    """

    cluster: str
    node_id: int
    incarnation: str = ""
    address: str = ""

    def greeting(self, to_id: int, expected: str, *, asks: bool = False) -> Greeting:
        """Return what this node says when it dials another."""
        return Greeting(
            PROTOCOL_VERSION,
            self.cluster,
            self.node_id,
            to_id,
            self.incarnation,
            expected,
            self.address,
            asks,
        )

    def reply(self, reason: str = "", why: GreetingAnswer = GreetingAnswer.NONE) -> GreetingReply:
        """Return this node's answer to a greeting; it does not tell the store."""
        return GreetingReply(reason, why)


@dataclass(frozen=True, slots=True)
class KnownPeer:
    """The known addresses of a peer, best first, and its store; "" until first contact."""

    addresses: tuple[Address, ...]
    incarnation: str = ""


def judge(
    greeting: Greeting,
    own: Identity,
    peers: Mapping[int, KnownPeer],
    *,
    waiting: bool,
    certificate: PeerCertificate | None = None,
) -> GreetingReply:
    """Answer a greeting.

    Args:
        greeting: what the dialler said.
        own: who this node is.
        peers: the members, this node included or not.
        waiting: whether this node belongs to no cluster yet.
        certificate: what the dialler has shown; None in plain TCP.
    """
    if greeting.version != PROTOCOL_VERSION:
        return own.reply(
            f"protocol version {greeting.version}, this node speaks {PROTOCOL_VERSION}",
            GreetingAnswer.PROTOCOL,
        )
    if greeting.cluster != own.cluster:
        reason = f"cluster {greeting.cluster!r}, this node belongs to {own.cluster!r}"
        return own.reply(reason, GreetingAnswer.PROTOCOL)
    if greeting.to_id != own.node_id:
        return own.reply(
            f"meant for node {greeting.to_id}, this is node {own.node_id}", GreetingAnswer.PROTOCOL
        )
    if waiting and not (greeting.expected and _same(greeting.expected, own.incarnation)):
        return own.reply(f"node {own.node_id} waits to be added", GreetingAnswer.EMPTY)
    if own.incarnation and greeting.expected and not _same(greeting.expected, own.incarnation):
        fingerprint = store_fingerprint(own.incarnation)
        reason = f"meant for another store of node {own.node_id}; it has store {fingerprint}"
        return own.reply(reason, GreetingAnswer.PROTOCOL)
    known = peers.get(greeting.from_id)
    if waiting and known is None:  # the dialler knows our store, which it got over an earlier connection
        return own.reply()
    if certificate is not None and known is not None and not is_of_member(certificate, known):
        hosts = ", ".join(host for host, _ in known.addresses)
        return own.reply(
            f"the certificate of node {greeting.from_id} is for {shown_names(certificate)}, "
            f"expected {hosts}: the hosts of the member",
            GreetingAnswer.PROTOCOL,
        )
    return own.reply() if waiting else _judge_member(greeting, own, known)


def is_of_member(certificate: PeerCertificate, known: KnownPeer) -> bool:
    """Tell whether a verified certificate names a host of a member, as the member book has it."""
    return any(names_host(certificate, host) for host, _ in known.addresses)


def _judge_member(greeting: Greeting, own: Identity, known: KnownPeer | None) -> GreetingReply:
    if greeting.from_id == own.node_id or known is None:
        reason = f"node {greeting.from_id} is not a peer of node {own.node_id}"
        return own.reply(reason, GreetingAnswer.UNKNOWN)
    if known.incarnation and not _same(greeting.incarnation, known.incarnation):
        return own.reply(
            f"node {greeting.from_id} is a member with store {store_fingerprint(known.incarnation)} "
            f"and comes with store {store_fingerprint(greeting.incarnation) or 'unknown'}: "
            "remove the member, then add it again",
            GreetingAnswer.INCARNATION,
        )
    return own.reply()


def _same(told: str, incarnation: str) -> bool:
    """Say whether a peer told the right incarnation; how long it takes tells nothing of where they differ."""
    return hmac.compare_digest(told.encode(), incarnation.encode())
