"""Who the controllers are, as one node knows it now.

Raft's membership, the book of members, and this node's own file.

    Raft's membership    their ids: only they connect, vote and are announced to brokers
    the book             their addresses and stores (`member_book`), the same on every node
    the file             addresses missing in the book; ids until this node has a membership

An address of the file is tried too when the one of the book does not answer, so a cluster whose nodes were
all moved at once finds itself again; who answers there is checked by the greeting.
"""

from controller_core.raft.types import ConfState
from controller_core.server.node.member_book import MemberBook
from controller_core.server.peers.greeting_rules import Address, KnownPeer
from controller_core.server.settings.config import Settings
from controller_core.server.settings.peer_list import Peer, PeerListError, parse_peers


class ControllerMembers:
    """The controllers of one node's cluster."""

    def __init__(self, settings: Settings) -> None:
        """Start without a membership, with what the file says."""
        self._settings = settings
        self._filed = {peer.raft_id: peer for peer in settings.peers}
        self._conf_state = ConfState()
        self._book = MemberBook()

    def update(self, conf_state: ConfState, book: MemberBook) -> None:
        """Take over the applied membership and book."""
        self._conf_state, self._book = conf_state, book

    @property
    def is_empty(self) -> bool:
        """Whether this node belongs to no cluster."""
        return not self._conf_state.voters

    def ids(self) -> tuple[int, ...]:
        """Return the Raft ids of all members, learners too, ascending.

        Those of the file without a membership.
        """
        state = self._conf_state
        members = {*state.voters, *state.voters_outgoing, *state.learners, *state.learners_next}
        return tuple(sorted(members or self._filed))

    def peers(self) -> tuple[Peer, ...]:
        """Return the controllers as brokers know them, in the order of their ids."""
        found = (self.peer(raft_id) for raft_id in self.ids())
        return tuple(peer for peer in found if peer is not None)

    def peer(self, raft_id: int) -> Peer | None:
        """Return one controller, None if nothing says where it is."""
        member = self._book.get(raft_id)
        written = None if member is None else to_peer(raft_id, member.address)
        return written or self._filed.get(raft_id)

    def named(self, name: str) -> Peer | None:
        """Return the member of a name."""
        return next((peer for peer in self.peers() if peer.name == name), None)

    def incarnation(self, raft_id: int) -> str:
        """Return which store a member has; empty while none was seen."""
        member = self._book.get(raft_id)
        return "" if member is None else member.incarnation

    def known(self) -> dict[int, KnownPeer]:
        """Return the addresses of each member, and the store that it must have."""
        return {
            raft_id: KnownPeer(self._addresses(raft_id), self.incarnation(raft_id)) for raft_id in self.ids()
        }

    def _addresses(self, raft_id: int) -> tuple[Address, ...]:
        candidates = (self.peer(raft_id), self._filed.get(raft_id))
        found = [self.raft_address(peer) for peer in candidates if peer is not None]
        return tuple(dict.fromkeys(found))

    def raft_address(self, peer: Peer) -> Address:
        """Return where a controller's Raft traffic goes."""
        return peer.dial_host, self._settings.raft_port(peer)


def to_peer(raft_id: int, address: str) -> Peer | None:
    """Return the controller of an id at an address; None if that is not an address."""
    try:
        return parse_peers(f"n{raft_id - 1}-{address}")[0]
    except PeerListError:
        return None
