"""Changes of the membership as values, and the bytes they have in the log.

Two kinds travel as entries. `ConfChange` (entry type CONF_CHANGE) alters one member. `ConfChangeV2`
(CONF_CHANGE_V2) alters any number; more than one, or an explicit wish, goes through a joint configuration. An
empty ConfChangeV2 says "leave the joint configuration", and its encoding is empty, so that no limit on sizes
can refuse it.

Layout, big-endian. ConfChange: type u8, node u64, context. ConfChangeV2: transition u8, count u16, count
times (type u8, node u64), context.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum

from controller_core.raft.errors import PeerMessageError
from controller_core.raft.types import Entry, EntryType, NodeId

_SINGLE = struct.Struct(">BQ")
_HEAD_V2 = struct.Struct(">BH")


class ConfChangeType(IntEnum):
    """What happens to one node."""

    ADD_NODE = 0
    REMOVE_NODE = 1
    UPDATE_NODE = 2
    ADD_LEARNER_NODE = 3


class ConfChangeTransition(IntEnum):
    """Whether a change uses a joint configuration, and whether the leader leaves it automatically."""

    AUTO = 0
    """Only for more than one change; left automatically."""
    JOINT_IMPLICIT = 1
    """Always; left by itself."""
    JOINT_EXPLICIT = 2
    """Always; left when an empty ConfChangeV2 is proposed."""


class ConfChangeDecodeError(PeerMessageError):
    """An entry of a membership change cannot be decoded."""


@dataclass(frozen=True, slots=True)
class ConfChangeSingle:
    """One node's part of a change; node 0 changes nothing."""

    type: ConfChangeType
    node_id: NodeId


@dataclass(frozen=True, slots=True)
class ConfChangeV2:
    """Any number of changes made as one."""

    changes: tuple[ConfChangeSingle, ...] = ()
    transition: ConfChangeTransition = ConfChangeTransition.AUTO
    context: bytes = b""

    def as_v2(self) -> "ConfChangeV2":
        """Return itself."""
        return self

    def leaves_joint(self) -> bool:
        """Return whether this asks to leave a joint configuration."""
        return not self.changes and self.transition == ConfChangeTransition.AUTO

    def enters_joint(self) -> bool:
        """Return whether this goes through a joint configuration."""
        return self.transition != ConfChangeTransition.AUTO or len(self.changes) > 1

    def auto_leaves(self) -> bool:
        """Return whether the joint configuration it enters is left by itself."""
        return self.transition != ConfChangeTransition.JOINT_EXPLICIT


@dataclass(frozen=True, slots=True)
class ConfChange:
    """A change of one node."""

    type: ConfChangeType
    node_id: NodeId
    context: bytes = b""

    def as_v2(self) -> ConfChangeV2:
        """Return the same change in the general form."""
        return ConfChangeV2((ConfChangeSingle(self.type, self.node_id),), context=self.context)


def encode_conf_change(change: ConfChange | ConfChangeV2) -> tuple[EntryType, bytes]:
    """Return the type and the data of the entry that carries `change`."""
    if isinstance(change, ConfChange):
        return EntryType.CONF_CHANGE, _SINGLE.pack(change.type, change.node_id) + change.context
    if change == ConfChangeV2():
        return EntryType.CONF_CHANGE_V2, b""
    singles = b"".join(_SINGLE.pack(single.type, single.node_id) for single in change.changes)
    head = _HEAD_V2.pack(change.transition, len(change.changes))
    return EntryType.CONF_CHANGE_V2, head + singles + change.context


def decode_conf_change(entry: Entry) -> ConfChange | ConfChangeV2:
    """Return the change that `entry` carries.

    Raises:
        ConfChangeDecodeError: the data is not a change of membership.
    """
    try:
        if entry.type == EntryType.CONF_CHANGE:
            return _decode_v1(entry.data)
        if entry.type == EntryType.CONF_CHANGE_V2:
            return _decode_v2(entry.data)
    except (struct.error, ValueError) as error:
        raise ConfChangeDecodeError(f"entry {entry.index}: {len(entry.data)} bytes: {error}") from error
    raise ConfChangeDecodeError(f"entry {entry.index} has type {entry.type.name}")


def _decode_v1(data: bytes) -> ConfChange:
    kind, node = _SINGLE.unpack_from(data)
    return ConfChange(ConfChangeType(kind), NodeId(node), data[_SINGLE.size :])


def _decode_v2(data: bytes) -> ConfChangeV2:
    if not data:
        return ConfChangeV2()
    transition, count = _HEAD_V2.unpack_from(data)
    end = _HEAD_V2.size + count * _SINGLE.size
    if end > len(data):
        raise ValueError(f"{count} changes announced")
    singles = tuple(
        ConfChangeSingle(ConfChangeType(kind), NodeId(node))
        for kind, node in _SINGLE.iter_unpack(data[_HEAD_V2.size : end])
    )
    return ConfChangeV2(singles, ConfChangeTransition(transition), data[end:])
