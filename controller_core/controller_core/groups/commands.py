"""The writes of the state machine: what one entry of the Raft log holds.

A command goes straight into the log, without a read before it, and is judged when it is *applied*: from the
state and the entry alone. The leader captures all other inputs of the decision when it proposes: the living
members, the end of each log, the time, why an election starts. So each node, and each replay, comes to the
same result.

On the log a command is one version byte and a msgpack map with its kind under `kind`. Whatever does not
decode is of one of two sorts, which follow from the bytes alone:

    a version byte up to `VERSION_RESERVED_MAX`, or an unknown kind,  a later release wrote it and applies it:
    field or cause in an otherwise readable map                       `NewerCommandError`, and the node stops
    more than `COMMAND_BYTES_MAX` bytes, another first byte, not a    no release does: `CommandDecodeError`,
    map, a known field of a wrong type or out of its range            and every node passes over it

So a release that adds a kind, a field or a cause stops older nodes, which then need an upgrade. A release
that changes which commands can be decoded or applied in any other way must raise `COMMAND_VERSION`.

This module knows no rule: what a command does is in `elections` and `members`.
"""

from enum import StrEnum
from typing import Annotated, get_args

import msgspec

from controller_core.groups.errors import CommandDecodeError, CommandTooLargeError, NewerCommandError
from controller_core.groups.keys import BrokerId, LogOffset, MasterEpoch
from controller_core.remoting.header import JAVA_LONG_MAX, JavaInt
from controller_core.remoting.headers import LEARNER_PRIORITY

_LONG = msgspec.Meta(ge=-JAVA_LONG_MAX - 1, le=JAVA_LONG_MAX)
JavaBrokerId = Annotated[BrokerId, _LONG]
JavaOffset = Annotated[LogOffset, _LONG]

COMMAND_VERSION = 1
VERSION_RESERVED_MAX = 31
"""First bytes above `COMMAND_VERSION` up to this one are left to later releases."""
COMMAND_BYTES_MAX = 1 << 20
"""Bytes of an encoded command, in the log and before it is proposed: 8 times the largest that a group of
`GROUP_MEMBERS_MAX` members makes."""

DEFAULT_HEARTBEAT_TIMEOUT_MS = 10_000
DEFAULT_ELECTION_PRIORITY = (1 << 31) - 1
UNKNOWN_EPOCH = -1
UNKNOWN_OFFSET = LogOffset(-1)


class Cause(StrEnum):
    """Why an election starts."""

    CONNECTION_CLOSED = "ConnectionClosed"
    HEARTBEAT_TIMEOUT = "HeartbeatTimeout"
    NODE_LOST = "NodeLost"
    BROKER_REQUEST = "BrokerRequest"
    DESIGNATED = "Designated"
    MASTER_MISSING = "MasterMissing"


class Stamp(msgspec.Struct, frozen=True):
    """One reading of a process's clocks: both of them, and whose they are."""

    utc_ns: int
    monotonic_ns: int
    clock_id: str


class LiveBroker(msgspec.Struct, frozen=True):
    """A member that the leader held for alive when it proposed, and what its last heartbeat said.

    Attributes:
        epoch: the last master epoch in the member's epoch file, -1 when it did not say.
        max_offset: its commit log's end in bytes, -1 when it did not say.
        priority: lower wins, after epoch and offset.
    """

    id: JavaBrokerId
    epoch: JavaInt = UNKNOWN_EPOCH
    max_offset: JavaOffset = UNKNOWN_OFFSET
    priority: JavaInt = DEFAULT_ELECTION_PRIORITY

    @property
    def is_learner(self) -> bool:
        """Whether its heartbeats say that it copies and must never be elected."""
        return self.priority == LEARNER_PRIORITY


class MemberLog(msgspec.Struct, frozen=True):
    """The log of a member, from its list of epochs (request 1007).

    Attributes:
        last_epoch: the newest epoch of the list, -1 for an empty list. It may hold no messages.
        written_epoch: the newest epoch that holds messages, -1 without one.
        max_offset: the end of the commit log in bytes.
    """

    id: JavaBrokerId
    last_epoch: JavaInt
    written_epoch: JavaInt
    max_offset: JavaOffset


class Suspicion(msgspec.Struct, frozen=True):
    """Which master the leader believes dead, at which epoch, since when.

    The epoch makes a repetition harmless: once it has moved on, this suspicion has been dealt with.
    """

    master_id: BrokerId
    master_epoch: MasterEpoch
    suspected: Stamp
    last_heartbeat_ns: int | None = None


class Command(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag_field="kind",
    forbid_unknown_fields=True,
    omit_defaults=True,
):
    """What every command carries.

    Fields at their default are left out, so that older nodes can read the rest.

    Attributes:
        cluster: empty when the request did not say and the leader could not tell from the sender's
            heartbeats.
        stamp: the leader's clocks when it proposed.
    """

    cluster: str
    broker_name: str
    stamp: Stamp


class ApplyBrokerId(Command, frozen=True, kw_only=True, tag="ApplyBrokerId"):
    """Claim a broker id (request 1013).

    Attributes:
        check_code: `<address>;<millis>`, what tells a repetition from a second claimant.
        log_replica: the id belongs to a log replica, which is never elected.
    """

    broker_id: JavaBrokerId
    check_code: str
    log_replica: bool = False


class RegisterBroker(Command, frozen=True, kw_only=True, tag="RegisterBroker"):
    """Announce the address of a claimed id (request 1003).

    Attributes:
        alive: ids of the group's members that are alive; the answer names the master only if it is one of
            them.
        take_up: record an id that is unknown here; earlier controllers gave it to the broker.
    """

    broker_id: JavaBrokerId
    address: str
    log_replica: bool = False
    alive: tuple[JavaBrokerId, ...] = ()
    take_up: bool = False


class AlterSyncStateSet(Command, frozen=True, kw_only=True, tag="AlterSyncStateSet"):
    """Replace the SyncStateSet (request 1001).

    Attributes:
        members: the wanted set.
        set_epoch: the epoch of the set that it replaces.
        alive: ids of the group's members that are alive.
    """

    master_id: JavaBrokerId
    master_epoch: JavaInt
    members: tuple[JavaBrokerId, ...]
    set_epoch: JavaInt
    alive: tuple[JavaBrokerId, ...]


class ElectMaster(Command, frozen=True, kw_only=True, tag="ElectMaster"):
    """Choose a master (request 1002, or the leader's own decision).

    Attributes:
        requester_id: the member that asks, or with `designate` the wanted master; None if the leader itself
            asks.
        unclean_allowed: a member outside the SyncStateSet may win if no member inside can
            (enableElectUncleanMaster).
        suspicion: set when a master's death, seen or inferred, is the reason.
        replaced_epoch: the master epoch that a guarded election ends; an election of another epoch does
            nothing. None for any epoch.
        told_epoch: the greatest master epoch that living members told, 0 if none is above the recorded one
            (`elections.first_elections.told_epoch`).
        acting_id: the member that acts as master although none is recorded; None without one.
        logs: before a first election, the logs of the members that answered; empty for any other.
        withheld: why the leader allows no winner, one word (`elections.log_ends`); empty if it allows one.
        kept: log replicas that stay in the SyncStateSet with the winner (`elections.kept_replicas`).
    """

    requester_id: JavaBrokerId | None = None
    designate: bool = False
    cause: Cause
    alive: tuple[LiveBroker, ...]
    unclean_allowed: bool = False
    suspicion: Suspicion | None = None
    replaced_epoch: int | None = None
    told_epoch: JavaInt = 0
    acting_id: JavaBrokerId | None = None
    logs: tuple[MemberLog, ...] = ()
    withheld: str = ""
    kept: tuple[JavaBrokerId, ...] = ()


class CleanBrokerData(Command, frozen=True, kw_only=True, tag="CleanBrokerData"):
    """Forget members of a group, or a whole group (request 1011).

    Attributes:
        ids_text: ids as the request wrote them, `1;2`; empty for the whole group.
        clean_living: forget the whole group even if members live.
        alive: ids of the group's members that are alive.
    """

    ids_text: str = ""
    clean_living: bool = False
    alive: tuple[BrokerId, ...] = ()


class RecordFailoverTimes(Command, frozen=True, kw_only=True, tag="RecordFailoverTimes"):
    """Add to a failover's record what only the leader saw, after the election was committed.

    Attributes:
        master_epoch: which election of the group is meant.
        committed: the election's entry was known to be committed.
        noticed: a notice (1008) or the answer to its own 1002 reached the new master.
        role_taken: the new master was first seen to act in the new epoch.
        first_beat: its first heartbeat after the election.
    """

    master_epoch: MasterEpoch
    committed: Stamp | None = None
    noticed: Stamp | None = None
    role_taken: Stamp | None = None
    first_beat: Stamp | None = None


class RaiseWriteGuard(Command, frozen=True, kw_only=True, tag="RaiseWriteGuard"):
    """Note that a living master is about to be kept from taking writes.

    Attributes:
        master_id: the master whose writes stop.
        master_epoch: in which epoch it is master.
        min_in_sync_replicas: its setting before, which it gets back.
    """

    master_id: BrokerId
    master_epoch: MasterEpoch
    min_in_sync_replicas: int


class LiftWriteGuard(Command, frozen=True, kw_only=True, tag="LiftWriteGuard"):
    """Note that a member has its setting back."""

    broker_id: BrokerId


class ImportedMember(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A member of a group that another controller recorded."""

    id: JavaBrokerId
    address: str


class ImportedGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A group as another controller recorded it.

    Attributes:
        next_broker_id: higher than every id that was ever claimed there.
        master_id: None without a master.
        alive: ids of the members that send heartbeats to the leader that proposes.
    """

    cluster: str
    broker_name: str
    next_broker_id: JavaBrokerId
    members: tuple[ImportedMember, ...]
    master_id: JavaBrokerId | None
    master_epoch: JavaInt
    set_epoch: JavaInt
    sync_state_set: tuple[JavaBrokerId, ...]
    alive: tuple[JavaBrokerId, ...] = ()


class ImportGroups(Command, frozen=True, kw_only=True, tag="ImportGroups"):
    """Take over all groups of another controller; cluster and brokerName of the command are empty."""

    groups: tuple[ImportedGroup, ...]


GroupCommand = (
    ApplyBrokerId
    | RegisterBroker
    | AlterSyncStateSet
    | ElectMaster
    | CleanBrokerData
    | RecordFailoverTimes
    | RaiseWriteGuard
    | LiftWriteGuard
)
"""The commands that concern one group."""
AnyCommand = GroupCommand | ImportGroups

_ENCODER = msgspec.msgpack.Encoder(order="deterministic")
_DECODER: msgspec.msgpack.Decoder[AnyCommand] = msgspec.msgpack.Decoder(AnyCommand)


_FIELDS = {
    str(kind.__struct_config__.tag): frozenset(("kind", *kind.__struct_encode_fields__))
    for kind in get_args(AnyCommand)
}
_CAUSES = frozenset(Cause)


def encode(command: AnyCommand) -> bytes:
    """Write a command as the payload of one log entry.

    Raises:
        CommandTooLargeError: it has more than `COMMAND_BYTES_MAX` bytes, or a value that no log entry can
            hold.
    """
    kind = type(command).__name__
    try:
        data = bytes([COMMAND_VERSION]) + _ENCODER.encode(command)
    except (OverflowError, UnicodeEncodeError) as error:
        raise CommandTooLargeError(f"command {kind} has a value that cannot be encoded: {error}") from error
    if len(data) > COMMAND_BYTES_MAX:
        raise CommandTooLargeError(
            f"command {kind} has {len(data)} bytes, at most {COMMAND_BYTES_MAX} are allowed"
        )
    return data


def decode(data: bytes) -> AnyCommand:
    """Read the payload of one log entry.

    Raises:
        NewerCommandError: these bytes look like a command of a later release.
        CommandDecodeError: these bytes are not a command of any release.
    """
    if not data or len(data) > COMMAND_BYTES_MAX:
        raise CommandDecodeError(f"a command of {len(data)} bytes; 1 to {COMMAND_BYTES_MAX} are possible")
    if COMMAND_VERSION < data[0] <= VERSION_RESERVED_MAX:
        raise NewerCommandError(f"command version {data[0]} is unknown; this node knows {COMMAND_VERSION}")
    if data[0] != COMMAND_VERSION:
        raise CommandDecodeError(f"the first byte {data[0]:#04x} is not a command version")
    body = memoryview(data)[1:]
    try:
        return _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        sort = NewerCommandError if _looks_newer(body) else CommandDecodeError
        raise sort(f"a command of {len(data)} bytes cannot be read: {error}") from error


def _looks_newer(body: memoryview) -> bool:
    """Return whether the bytes are a readable command with an unknown kind, field or cause."""
    try:
        fields = msgspec.msgpack.decode(body, type=dict[str, msgspec.Raw])
        kind = _text(fields.get("kind"))
        cause = _text(fields.get("cause"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    if not kind.isidentifier():
        return False
    unknown_cause = cause.isidentifier() and cause not in _CAUSES
    return kind not in _FIELDS or bool(fields.keys() - _FIELDS[kind]) or unknown_cause


def _text(field: msgspec.Raw | None) -> str:
    """Return a field's text; an empty one if it is absent or another type."""
    value = "" if field is None else msgspec.msgpack.decode(field)
    return value if isinstance(value, str) else ""
