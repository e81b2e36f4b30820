"""The values that Raft's core takes and returns: entries, messages, hard state, snapshots, Ready.

Everything here is frozen data without behaviour beyond construction, so that the core (`raw_node`), the log
on disk (`controller_core.log`), the transport between peers and the text scenarios speak about the same
things. Names and meanings are those of etcd's raft (raftpb); ids are integers from 1, and 0 means "none"
everywhere.

This module never does I/O and never validates: a message from a peer is checked where it is decoded.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated, NewType

import msgspec

Term = NewType("Term", int)
LogIndex = NewType("LogIndex", int)
NodeId = NewType("NodeId", int)

NO_NODE = NodeId(0)
NO_TERM = Term(0)
NO_INDEX = LogIndex(0)


class EntryType(IntEnum):
    """What an entry's data is: a command of the state machine, or a change of the membership."""

    NORMAL = 0
    CONF_CHANGE = 1
    CONF_CHANGE_V2 = 2


class MessageType(IntEnum):
    """What a message asks for or answers; the numbers are raftpb's and are what peers exchange."""

    HUP = 0
    BEAT = 1
    PROP = 2
    APP = 3
    APP_RESP = 4
    VOTE = 5
    VOTE_RESP = 6
    SNAP = 7
    HEARTBEAT = 8
    HEARTBEAT_RESP = 9
    UNREACHABLE = 10
    SNAP_STATUS = 11
    CHECK_QUORUM = 12
    TRANSFER_LEADER = 13
    TIMEOUT_NOW = 14
    READ_INDEX = 15
    READ_INDEX_RESP = 16
    PRE_VOTE = 17
    PRE_VOTE_RESP = 18
    STORAGE_APPEND = 19
    STORAGE_APPEND_RESP = 20
    STORAGE_APPLY = 21
    STORAGE_APPLY_RESP = 22
    FORGET_LEADER = 23


class StateType(IntEnum):
    """The role of a node at this moment."""

    FOLLOWER = 0
    CANDIDATE = 1
    LEADER = 2
    PRE_CANDIDATE = 3


class Entry(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """One position of the replicated log.

    Why a Struct: a leader makes one for each command and writes it into a message for each follower. A Struct
    is made five times faster than a dataclass, and `server.peers.codec` reads and writes it as it is.
    """

    term: Annotated[Term, msgspec.Meta(ge=0)]
    index: Annotated[LogIndex, msgspec.Meta(ge=0)]
    type: EntryType = EntryType.NORMAL
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class HardState:
    """The state that must be on disk before a message reveals it: term, vote, and the known commit index."""

    term: Term = NO_TERM
    vote: NodeId = NO_NODE
    commit: LogIndex = NO_INDEX


@dataclass(frozen=True, slots=True)
class SoftState:
    """State for observers that is not persisted: the leader, and our own role."""

    lead: NodeId = NO_NODE
    state: StateType = StateType.FOLLOWER


@dataclass(frozen=True, slots=True)
class ConfState:
    """The membership as of a log index; `voters_outgoing` is not empty only inside a joint configuration."""

    voters: tuple[NodeId, ...] = ()
    voters_outgoing: tuple[NodeId, ...] = ()
    learners: tuple[NodeId, ...] = ()
    learners_next: tuple[NodeId, ...] = ()
    auto_leave: bool = False


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state machine's bytes after applying `index`, with the membership of that moment.

    Index 0 is "none".
    """

    index: LogIndex = NO_INDEX
    term: Term = NO_TERM
    conf_state: ConfState = ConfState()
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Message:
    """One message between nodes (or of a node to itself); fields not used by a type stay at their zero."""

    type: MessageType
    to: NodeId = NO_NODE
    from_: NodeId = NO_NODE
    term: Term = NO_TERM
    log_term: Term = NO_TERM
    index: LogIndex = NO_INDEX
    entries: tuple[Entry, ...] = ()
    commit: LogIndex = NO_INDEX
    vote: NodeId = NO_NODE
    snapshot: Snapshot | None = None
    reject: bool = False
    reject_hint: LogIndex = NO_INDEX
    context: bytes = b""


@dataclass(frozen=True, slots=True)
class ReadState:
    """A linearizable read may be answered once `index` is applied; `context` is the caller's own token."""

    index: LogIndex
    context: bytes


@dataclass(frozen=True, slots=True)
class Ready:
    """What the shell must do now, in this order, before it calls `advance`.

    1. Persist `hard_state`, `entries` and `snapshot`; fsync when `must_sync`.
    2. Send `messages`. MsgApp, MsgHeartbeat and MsgSnap of a leader may leave while step 1 is under way
       (Raft thesis 10.2.1); everything else reveals a term, a vote or an entry and waits for it.
    3. Apply `snapshot`, then `committed_entries`, to the state machine.
    4. Serve the reads of `read_states` whose index is applied.
    """

    soft_state: SoftState | None = None
    hard_state: HardState | None = None
    read_states: tuple[ReadState, ...] = ()
    entries: tuple[Entry, ...] = ()
    snapshot: Snapshot | None = None
    committed_entries: tuple[Entry, ...] = ()
    messages: tuple[Message, ...] = field(default=())
    must_sync: bool = False
