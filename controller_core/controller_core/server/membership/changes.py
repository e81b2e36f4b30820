"""Changing who the controllers are, and keeping the transport and the book in step with it.

    add       a learner; it must answer and be without a log, and the book gets its address and its store
    promote   a learner with nearly all of the log becomes a voter
    remove    anybody but the last voter; a leader hands leadership over first
    replace   learners become voters and others go in one joint change (`membership.replacement`)

One at a time; Raft needs a majority to apply each. What would leave a cluster without a living majority is
refused: it could not be undone.

The leader also writes into the book what members say of themselves when they connect: which store they have,
the first time, and where they are, whenever that changes. So moving a node is editing its own file.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, Protocol

from controller_core.raft.confchange.changes import ConfChange, ConfChangeType, ConfChangeV2
from controller_core.raft.tracker.progress import ProgressState
from controller_core.raft.types import NodeId
from controller_core.server.logs import bind
from controller_core.server.membership.members import ControllerMembers
from controller_core.server.membership.replacement import ReplacementError, replacement
from controller_core.server.node.member_book import ControllerMember, encode_member, member_problem
from controller_core.server.node.raft_node import Node
from controller_core.server.node.types import (
    ChangeRefusedError,
    ChangeUnderWayError,
    CommandDroppedError,
    NodeStatus,
    NotLeaderError,
    ProposalLostError,
)
from controller_core.server.peers.codec import Greeting, GreetingAnswer, GreetingReply
from controller_core.server.peers.greeting_rules import Identity, KnownPeer, store_fingerprint
from controller_core.server.settings.peer_list import PEERS_MAX, Peer

PROMOTE_LAG_MAX_ENTRIES: Final = 1_000
"""How far behind the leader a learner may be when it becomes a voter: about what heartbeats bring in a
moment."""
ACTIVE_WITHIN_S: Final = 1.0
"""How long a member that seems away is watched before it counts as away."""
FIRST_INDEX: Final = 1
"""The index at which a founded cluster begins, by its first snapshot."""
_POLL_S: Final = 0.02
_WRITE_RETRY_S: Final = 0.2

_log = logging.getLogger(__name__)


class MembershipError(Exception):
    """A change of membership is refused; nothing happened."""

    def __init__(self, text: str, field: str, value: object = None) -> None:
        super().__init__(text)
        self.field = field
        self.value = value


class NotYetError(MembershipError):
    """A change is refused for a temporary reason: a member is behind or silent."""


class PeerWatch(Protocol):
    """What this asks of the transport."""

    on_greeted: Callable[[Greeting], None]
    has_log: Callable[[], bool]
    waiting: bool

    def set_peers(self, peers: dict[int, KnownPeer]) -> None:
        """Learn who the peers are now."""
        ...

    def greetings(self) -> dict[int, Greeting]:
        """Return what the connected peers said of themselves."""
        ...


Ask = Callable[[Peer, Greeting], Awaitable[GreetingReply | None]]


class MembershipChanges:
    """The membership of one node's cluster, and the changes that this node makes while it leads."""

    def __init__(
        self, node: Node, members: ControllerMembers, own: Identity, peers: PeerWatch, ask: Ask
    ) -> None:
        """Follow `node`, which must not be started yet.

        Args:
            node: Raft.
            members: kept up to date here.
            own: who this node is.
            peers: the transport.
            ask: asks a node who it is.
        """
        self.members = members
        self._node = node
        self._own = own
        self._peers = peers
        self._ask = ask
        self._bell = asyncio.Event()
        peers.on_greeted = lambda _greeting: self._bell.set()
        peers.has_log = lambda: node.commit_index > FIRST_INDEX
        node.on_members(self._follow)
        node.on_leadership(lambda _leads, _term: self._bell.set())
        self._follow()

    @property
    def store(self) -> str:
        """The fingerprint of this node's own store.

        What the members say that this node has may be another one.
        """
        return store_fingerprint(self._own.incarnation)

    def _follow(self) -> None:
        self.members.update(self._node.conf_state, self._node.book)
        self._peers.waiting = self.members.is_empty
        self._peers.set_peers(self.members.known())
        self._bell.set()

    # What people ask for.

    async def add(self, peer: Peer) -> None:
        """Add a learner.

        Raises:
            NotYetError: it does not answer, or another change is under way.
            MembershipError: it is a member, or has a log already.
        """
        known = self.members.peers()
        if self.members.named(peer.name) is not None:
            raise MembershipError("is a member already; remove it first", "member", peer.name)
        if any(peer.address == other.address for other in known):
            raise MembershipError("another member has this address", "member", peer.address)
        if len(known) >= PEERS_MAX:
            raise MembershipError(f"there are {PEERS_MAX} members, which is the most", "member", peer.name)
        reply = await self._ask(peer, self._own.greeting(peer.raft_id, "", asks=True))
        if reply is None:
            raise NotYetError("does not answer; start it first", "member", f"{peer.name}-{peer.address}")
        if reply.why != GreetingAnswer.EMPTY:  # FOUNDING too: it has begun a cluster of its own.
            reason = reply.reason or "it has a log; start it with an empty store"
            raise MembershipError(f"cannot be added: {reason}", "member", peer.name)
        member = ControllerMember(peer.name, peer.address, reply.incarnation)
        await self._change(ConfChangeType.ADD_LEARNER_NODE, peer.raft_id, member)

    async def promote(self, name: str) -> None:
        """Make a learner a voter.

        Raises:
            MembershipError: no learner, too far behind, or the voters there are do not live.
        """
        peer = self._named(name)
        if peer.raft_id in self._node.conf_state.voters:
            raise MembershipError("is a voter already", "name", name)
        await self._look_who_lives()
        await self._until(lambda status: _behind(status, peer), name)
        voters = (*self._node.conf_state.voters, peer.raft_id)
        await self._until(lambda status: _no_quorum(status, voters), name)
        await self._change(ConfChangeType.ADD_NODE, peer.raft_id, None)

    async def remove(self, name: str) -> None:
        """Remove a member that is not this node.

        Raises:
            MembershipError: no member, this node itself, the last voter, or too few of the others live.
        """
        peer = self._named(name)
        voters = tuple(voter for voter in self._node.conf_state.voters if voter != peer.raft_id)
        if not voters:
            raise MembershipError("is the last voter", "name", name)
        if peer.raft_id == self._own.node_id:
            raise MembershipError("leads; hand leadership over first", "name", name)
        if peer.raft_id in self._node.conf_state.voters:
            await self._look_who_lives()
            await self._until(lambda status: _no_quorum(status, voters), name)
        await self._change(ConfChangeType.REMOVE_NODE, peer.raft_id, None)

    async def replace(self, add: Sequence[str], remove: Sequence[str]) -> None:
        """Make learners voters and remove members, all in one joint change.

        Return when its old half is left behind.

        This node may be among those that go: it leads until they have gone.

        Raises:
            NotYetError: a learner is too far behind, or too few live of the voters before or after.
            MembershipError: it makes no sense; the error names the field and the value.
        """
        known = {peer.name: peer.raft_id for peer in self.members.peers()}
        state = self._node.conf_state
        try:
            meant = replacement(state, known, add, remove)
        except ReplacementError as error:
            raise MembershipError(str(error), error.field, error.value) from error
        await self._look_who_lives()
        for name in add:
            peer = self._named(name)
            await self._until(partial(_behind, peer=peer), name, "add")
        for field, voters in (("remove", state.voters), ("add", meant.voters)):
            names = ",".join(add if field == "add" else remove)
            await self._until(partial(_no_quorum, voters=voters), names, field)
        await self._put(meant.change(), ",".join(add))
        while self._node.conf_state.voters_outgoing:  # noqa: ASYNC110 - the leader leaves it automatically, without an event
            await asyncio.sleep(_POLL_S)
        _log.info("members were replaced", extra=bind(added=",".join(add), removed=",".join(remove)))

    def _named(self, name: str) -> Peer:
        peer = self.members.named(name)
        if peer is None:
            raise MembershipError("is not a member", "name", name)
        return peer

    async def _look_who_lives(self) -> None:
        """Wait for as long as Raft takes to notice that somebody is gone."""
        await asyncio.sleep(self._node.config.election_timeout_ms / 1000)

    async def _until(
        self, problem: Callable[[NodeStatus], str | None], name: str, field: str = "name"
    ) -> None:
        """Wait a moment for a problem to go away: Raft forgets who lives once an election timeout."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + ACTIVE_WITHIN_S
        while (text := problem(self._node.status())) is not None:
            if loop.time() > deadline_s:
                raise NotYetError(text, field, name)
            await asyncio.sleep(_POLL_S)

    async def _change(self, kind: ConfChangeType, raft_id: int, member: ControllerMember | None) -> None:
        if member is not None and (problem := member_problem(member)) is not None:
            raise MembershipError(problem, "member", member.name)
        context = b"" if member is None else encode_member(member)
        await self._put(ConfChange(kind, NodeId(raft_id), context), f"n{raft_id - 1}")
        _log.info("the membership has changed", extra=bind(change=kind.name, node=f"n{raft_id - 1}"))

    async def _put(self, change: ConfChange | ConfChangeV2, name: str) -> None:
        try:
            await self._node.change_members(change)
        except ChangeUnderWayError as error:
            raise NotYetError(str(error), "name", name) from error
        except ChangeRefusedError as error:
            raise MembershipError(str(error), "name", name) from error

    # What the leader writes by itself.

    async def run(self) -> None:
        """Write into the book what members say of themselves, while this node leads; until cancelled."""
        while True:
            await self._bell.wait()
            self._bell.clear()
            try:
                while self._node.is_leader and (found := self._unwritten()) is not None:
                    await self._change(ConfChangeType.UPDATE_NODE, *found)
            except (MembershipError, NotLeaderError, CommandDroppedError, ProposalLostError):
                await asyncio.sleep(_WRITE_RETRY_S)
                self._bell.set()

    def _unwritten(self) -> tuple[int, ControllerMember] | None:
        """Return a member of which the book does not say what it says of itself."""
        if not self._own.incarnation:
            return None
        said = {
            raft_id: (greeting.incarnation, greeting.address)
            for raft_id, greeting in self._peers.greetings().items()
        }
        said[self._own.node_id] = (self._own.incarnation, self._own.address)
        for raft_id in self.members.ids():
            if raft_id in said:
                incarnation, address = said[raft_id]
                member = ControllerMember(f"n{raft_id - 1}", address, incarnation)
                # What a peer says of itself goes into the log of all: never beyond the bounds.
                if self._node.book.get(raft_id) != member and member_problem(member) is None:
                    return raft_id, member
        return None


def _behind(status: NodeStatus, peer: Peer) -> str | None:
    """Say why a learner cannot vote yet; None when it can."""
    progress = status.progress.get(peer.raft_id)
    if progress is None or not progress.recent_active or progress.match == 0:
        return "is not heard from"
    lag = status.commit_index - progress.match
    if progress.state is not ProgressState.REPLICATE or lag > PROMOTE_LAG_MAX_ENTRIES:
        return f"is {lag} entries behind; at most {PROMOTE_LAG_MAX_ENTRIES} may be missing"
    return None


def _no_quorum(status: NodeStatus, voters: tuple[int, ...]) -> str | None:
    """Say that fewer than a majority of `voters` live; None when they do."""
    living = [
        voter
        for voter in voters
        if voter == status.node_id or (voter in status.progress and status.progress[voter].recent_active)
    ]
    if len(living) > len(voters) // 2:
        return None
    dead = ", ".join(f"n{voter - 1}" for voter in voters if voter not in living)
    return f"would leave no majority: {dead} of {len(voters)} voters is not heard from"
