"""What applying a command, or reading the state, gives back: values for the shell to turn into frames.

A `GroupReply` names the code, the header's fields by their names on the wire with typed values, the remark
and a typed body. `ext` None means "no header object", an empty mapping means "a header with nothing in it":
RocketMQ's own controller makes that difference, and the recorded transcripts show it.

They are Structs and not dataclasses because every node makes some for each applied command, and a Struct is
made five times faster.
"""

from collections.abc import Mapping

import msgspec

from controller_core.groups.errors import AmbiguousGroupError
from controller_core.groups.history import Event
from controller_core.groups.keys import BrokerId, GroupKey, MasterEpoch, SetEpoch
from controller_core.remoting.codes import ResponseCode

ExtValue = str | int


class SyncStateSetView(msgspec.Struct, frozen=True):
    """The body of 1001, 1003, 1004 and 1008: the set, ascending, and its epoch."""

    members: tuple[BrokerId, ...]
    epoch: SetEpoch


class ElectionView(msgspec.Struct, frozen=True):
    """The body of 1002.

    `addresses` holds every registered id, and is None when the master did not change (2011).
    """

    key: GroupKey
    sync_state_set: tuple[BrokerId, ...]
    addresses: Mapping[BrokerId, str] | None


class ReplicaView(msgspec.Struct, frozen=True):
    """One member in the body of 1006.

    `address` is what it announced, `direct_address` leads to its own process.
    """

    broker_name: str
    broker_id: BrokerId
    address: str
    alive: bool
    log_replica: bool = False
    direct_address: str = ""


class GroupSyncStateView(msgspec.Struct, frozen=True):
    """One group in the body of 1006.

    Without a master, the master fields are None and a preceding set is possible.
    """

    key: GroupKey
    master_id: BrokerId | None
    master_address: str | None
    master_epoch: MasterEpoch
    set_epoch: SetEpoch
    in_sync: tuple[ReplicaView, ...]
    not_in_sync: tuple[ReplicaView, ...]
    preceding_set: tuple[BrokerId, ...] = ()


Body = SyncStateSetView | ElectionView | tuple[GroupSyncStateView, ...] | None


class GroupReply(msgspec.Struct, frozen=True):
    """One answer: code, header fields by wire name, remark, body."""

    code: ResponseCode
    ext: Mapping[str, ExtValue] | None = None
    remark: str | None = None
    body: Body = None


class RoleNotice(msgspec.Struct, frozen=True):
    """One 1008 to send: to whom, and what it says.

    Only the leader sends it; a newer epoch for the same address makes an unsent older one worthless.
    """

    key: GroupKey
    broker_id: BrokerId
    address: str
    master_id: BrokerId
    master_address: str
    master_epoch: MasterEpoch
    set_epoch: SetEpoch
    sync_state_set: tuple[BrokerId, ...]


class Outcome(msgspec.Struct, frozen=True):
    """All that one applied command led to."""

    reply: GroupReply
    notices: tuple[RoleNotice, ...] = ()
    events: tuple[Event, ...] = ()


def ambiguous(error: AmbiguousGroupError, ext: Mapping[str, ExtValue] | None = None) -> GroupReply:
    """Answer a request that fits groups of several clusters: 2005, naming them."""
    return GroupReply(ResponseCode.CONTROLLER_INVALID_REQUEST, ext, str(error))
