"""Who may connect: the rules by which one controller answers another's greeting.

    the greeting                                            answer
    another protocol, cluster or addressee                  refused: protocol
    expects another store of ours than we have              refused: protocol
    we belong to no cluster, and it does not know our store refused: empty
    from a node that is no member                           refused: unknown
    from a member, with another store than it joined with   refused: incarnation
    else                                                    welcome

The last rule but one is why a lost store never votes with an old name: whoever comes with a new store is heard by nobody
and hears nobody, until the old member has been removed and the new store been added.

Pure: values in, values out.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from controller_core.server.peer_codec import PROTOCOL_VERSION, Greeting, Refusal, Reply

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this node is to the others: its cluster, its Raft id, its store, and where brokers and peers reach it."""

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

    def reply(self, reason: str = "", why: Refusal = Refusal.NONE) -> Reply:
        """Return this node's answer to a greeting."""
        return Reply(reason, why, self.incarnation)


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a peer: where it may be reached, best first, and its store; "" while none was seen."""

    addresses: tuple[Address, ...]
    incarnation: str = ""


def judge(greeting: Greeting, own: Identity, peers: Mapping[int, Known], *, waiting: bool) -> Reply:
    """Answer a greeting.

    Args:
        greeting: what the dialler said.
        own: who this node is.
        peers: the members, this node included or not.
        waiting: whether this node belongs to no cluster yet.
    """
    if greeting.version != PROTOCOL_VERSION:
        return own.reply(
            f"protocol version {greeting.version}, this node speaks {PROTOCOL_VERSION}", Refusal.PROTOCOL
        )
    if greeting.cluster != own.cluster:
        reason = f"cluster {greeting.cluster!r}, this node belongs to {own.cluster!r}"
        return own.reply(reason, Refusal.PROTOCOL)
    if greeting.to_id != own.node_id:
        return own.reply(f"meant for node {greeting.to_id}, this is node {own.node_id}", Refusal.PROTOCOL)
    if waiting and not (greeting.expected and greeting.expected == own.incarnation):
        return own.reply(f"node {own.node_id} has no log yet and waits to be added", Refusal.EMPTY)
    if own.incarnation and greeting.expected not in {"", own.incarnation}:
        reason = f"meant for store {greeting.expected} of node {own.node_id}, this is {own.incarnation}"
        return own.reply(reason, Refusal.PROTOCOL)
    return own.reply() if waiting else _judge_member(greeting, own, peers.get(greeting.from_id))


def _judge_member(greeting: Greeting, own: Identity, known: Known | None) -> Reply:
    if greeting.from_id == own.node_id or known is None:
        reason = f"node {greeting.from_id} is none of the peers of node {own.node_id}"
        return own.reply(reason, Refusal.UNKNOWN)
    if known.incarnation and greeting.incarnation != known.incarnation:
        return own.reply(
            f"node {greeting.from_id} is a member with store {known.incarnation} and comes with store "
            f"{greeting.incarnation or 'unknown'}: remove the member, then add it anew",
            Refusal.INCARNATION,
        )
    return own.reply()
