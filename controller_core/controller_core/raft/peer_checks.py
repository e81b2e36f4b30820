"""Which messages of another node reach the core: the checks between the transport and `RawNode.step`.

Raft trusts its members. A message that no member can send shows that the sender is not one, or that it is
broken; it must change nothing here, least of all the term on disk. Each check has a reason of its own, which
the transport counts:

    type       never sent between nodes: a node's own timers and reports, proposals, a request for a transfer
    sender     from this node itself, or from or to no valid id
    term       none, over `TERM_MAX`, or more than `TERM_AHEAD_MAX` past ours
    index      over `INDEX_MAX`, more than `INDEX_AHEAD_MAX` past our log, or acknowledged beyond our log
    entries    not consecutive, with terms that decrease or are above the message's, or where none belong
    leader     a snapshot, or a call to campaign, from a node that does not lead us in this term
    snapshot   the membership is not a valid one, or the state would go backwards or cannot be read

An honest leader sends a snapshot only to a follower that has answered it in its term, so that follower
follows it (or voted for it) already. A follower that restarted in between refuses that one snapshot; the
leader's next probe leads to another. A message of a lower term than ours passes: the core drops or answers
it, and it changes nothing.

A node without a log cannot compare terms or indices. It takes any within the absolute bounds: only a member
that knows its store reaches it (`server.peers.greeting_rules`).

Pure, like the core.
"""

from collections.abc import Callable
from typing import Final

from controller_core.raft.bounds import (
    INDEX_AHEAD_MAX,
    INDEX_MAX,
    MEMBERS_MAX,
    NODE_ID_MAX,
    TERM_AHEAD_MAX,
    TERM_MAX,
)
from controller_core.raft.confchange.changer import ConfChangeError
from controller_core.raft.confchange.restore import restore
from controller_core.raft.errors import RefusedMessageError
from controller_core.raft.raw_node import RawNode
from controller_core.raft.tracker.tracker import ProgressTracker
from controller_core.raft.types import ConfState, Message, MessageType, Snapshot

_TRAVELS: Final = frozenset(
    (
        MessageType.APP,
        MessageType.APP_RESP,
        MessageType.VOTE,
        MessageType.VOTE_RESP,
        MessageType.PRE_VOTE,
        MessageType.PRE_VOTE_RESP,
        MessageType.SNAP,
        MessageType.HEARTBEAT,
        MessageType.HEARTBEAT_RESP,
        MessageType.TIMEOUT_NOW,
        MessageType.READ_INDEX,
        MessageType.READ_INDEX_RESP,
    )
)
_READS: Final = frozenset((MessageType.READ_INDEX, MessageType.READ_INDEX_RESP))
_FROM_OUR_LEADER: Final = frozenset((MessageType.SNAP, MessageType.TIMEOUT_NOW))


def _no_problem(_snapshot: Snapshot) -> str | None:
    """Find nothing wrong with a snapshot's state."""
    return None


class PeerChecks:
    """The checks of one node."""

    __slots__ = ("_node_id", "_raw", "_snapshot_problem")

    def __init__(
        self, raw: RawNode, node_id: int, snapshot_problem: Callable[[Snapshot], str | None] = _no_problem
    ) -> None:
        """Judge by what `raw` knows.

        `snapshot_problem` says why the state in a snapshot cannot replace ours, None if it can.
        """
        self._raw = raw
        self._node_id = node_id
        self._snapshot_problem = snapshot_problem

    def check(self, message: Message) -> None:
        """Return if the message may be stepped.

        Raises:
            RefusedMessageError: no member sends it; it must change nothing.
        """
        kind = message.type
        if kind not in _TRAVELS:
            raise RefusedMessageError("type", f"{kind.name} never travels between nodes")
        self._check_ends(message)
        self._check_term(message)
        _check_parts(message)
        if message.term < self._raw.term and kind is not MessageType.READ_INDEX:
            return
        self._check_indices(message)
        if message.entries and kind is MessageType.APP:
            _check_entries(message)
        if kind in _FROM_OUR_LEADER and not self._follows(message):
            text = (
                f"{kind.name} of term {message.term} from node {message.from_}, "
                "expected it from the leader that this node follows"
            )
            raise RefusedMessageError("leader", text)
        if message.snapshot is not None:
            self._check_snapshot(message, message.snapshot)

    def _check_ends(self, message: Message) -> None:
        if not 1 <= message.from_ <= NODE_ID_MAX or message.from_ == self._node_id:
            raise RefusedMessageError("sender", f"a message from node {message.from_}, expected another node")
        if message.to != self._node_id:
            raise RefusedMessageError(
                "sender", f"a message to node {message.to}, this is node {self._node_id}"
            )

    def _check_term(self, message: Message) -> None:
        term, own = message.term, self._raw.term
        if message.type is MessageType.READ_INDEX:  # A read that is forwarded; it carries no term.
            if term:
                raise RefusedMessageError("term", f"term {term} in READ_INDEX, expected none")
            return
        if not 1 <= term <= TERM_MAX:
            raise RefusedMessageError("term", f"term {term}, expected 1 to {TERM_MAX}")
        if own and term > own + TERM_AHEAD_MAX:
            text = f"term {term}, expected at most {TERM_AHEAD_MAX} past this node's {own}"
            raise RefusedMessageError("term", text)

    def _check_indices(self, message: Message) -> None:
        last = self._raw.last_index
        high = min(last + INDEX_AHEAD_MAX, INDEX_MAX) if last else INDEX_MAX
        for name, index in (
            ("index", message.index + len(message.entries)),
            ("commit index", message.commit),
            ("hint", message.reject_hint),
        ):
            if index > high:
                raise RefusedMessageError("index", f"{name} {index}, expected at most {high}")
        if message.log_term > message.term:
            text = f"an entry of term {message.log_term} in a message of term {message.term}"
            raise RefusedMessageError("term", text)
        # A leader that restarted may hear of entries that it sent and lost; it leads no more, and ignores
        # that.
        leads = self._raw.is_leader and message.term == self._raw.term
        if message.type is MessageType.APP_RESP and leads and message.index > last:
            text = f"an acknowledgement of index {message.index}, the log ends at {last}"
            raise RefusedMessageError("index", text)
        # From our leader it means that this node lost entries that it had acknowledged: the core ends the
        # node.
        if message.type is MessageType.HEARTBEAT and message.commit > last and not self._follows(message):
            text = f"commit index {message.commit} in a heartbeat, the log ends at {last}"
            raise RefusedMessageError("index", text)

    def _follows(self, message: Message) -> bool:
        raw = self._raw
        return message.term == raw.term and message.from_ in (raw.leader_id, raw.vote)

    def _check_snapshot(self, message: Message, snapshot: Snapshot) -> None:
        raw = self._raw
        last = raw.last_index
        high = min(last + INDEX_AHEAD_MAX, INDEX_MAX) if last else INDEX_MAX
        if not 1 <= snapshot.index <= high:
            raise RefusedMessageError("index", f"a snapshot at index {snapshot.index}, expected 1 to {high}")
        if not 1 <= snapshot.term <= message.term:
            text = f"a snapshot of term {snapshot.term} in a message of term {message.term}"
            raise RefusedMessageError("term", text)
        if snapshot.index <= raw.commit_index:
            return  # Late, or repeated: the core answers it with what this node has.
        if snapshot.term < raw.commit_term:
            text = (
                f"a snapshot of term {snapshot.term} at {snapshot.index}, "
                f"this node committed an entry of term {raw.commit_term} before"
            )
            raise RefusedMessageError("snapshot", text)
        if problem := membership_problem(snapshot.conf_state) or self._snapshot_problem(snapshot):
            raise RefusedMessageError("snapshot", f"a snapshot at index {snapshot.index}: {problem}")


def membership_problem(state: ConfState) -> str | None:
    """Say why a membership is not a valid one; None if it is."""
    lists = (state.voters, state.voters_outgoing, state.learners, state.learners_next)
    members = {node for ids in lists for node in ids}
    if not state.voters:
        return "its membership is without voters"
    if len(members) > MEMBERS_MAX or any(len(set(ids)) != len(ids) for ids in lists):
        return f"its membership names a node twice or has more than {MEMBERS_MAX} members"
    if not all(1 <= node <= NODE_ID_MAX for node in members):
        return f"its membership has ids outside 1 to {NODE_ID_MAX}"
    try:
        found, _ = restore(ProgressTracker(1, 1), 0, state)
    except ConfChangeError as error:
        return f"its membership is not valid: {error}"
    restored = found.conf_state()
    kept = (restored.voters, restored.voters_outgoing, restored.learners, restored.learners_next)
    if tuple(map(sorted, kept)) != tuple(map(sorted, lists)) or restored.auto_leave != state.auto_leave:
        return "its membership contradicts itself"
    return None


def _check_parts(message: Message) -> None:
    """Check which parts a message of its type has."""
    kind, entries = message.type, len(message.entries)
    if (kind in _READS and entries != 1) or (entries and kind not in _READS | {MessageType.APP}):
        raise RefusedMessageError("entries", f"{kind.name} with {entries} entries")
    if (kind is MessageType.SNAP) != (message.snapshot is not None):
        has = "without a" if message.snapshot is None else "with a"
        raise RefusedMessageError("snapshot", f"{kind.name} {has} snapshot")


def _check_entries(message: Message) -> None:
    term: int = message.log_term
    for expected, entry in enumerate(message.entries, start=message.index + 1):
        if entry.index != expected:
            raise RefusedMessageError("entries", f"an entry at index {entry.index}, expected {expected}")
        if not term <= entry.term <= message.term:
            text = f"an entry of term {entry.term} at {entry.index}, expected {term} to {message.term}"
            raise RefusedMessageError("entries", text)
        term = entry.term
