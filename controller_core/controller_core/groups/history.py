"""What happened to the groups, kept in the replicated state.

A stream of events and a record of each failover.

Both come from applied entries only, so every controller node holds and serves the same stream with the same
sequence numbers, and a reader may change nodes in mid-stream. What only the leader sees, after an election
was committed (when the notice went out, when the new master acted), follows as commands of its own and is
added here.

The stream is a ring without gaps in its sequences. A reader that asks for a dropped event learns how many it
missed and gets the oldest event of the ring. Nothing here reads a clock; times are those that the leader
captured.

The ring holds encoded events. A snapshot of 10,000 events is then a copy of their bytes: encoding all of them
stopped every node for 6 ms, at the same index. They also take a third of the memory of objects.
"""

from collections import OrderedDict, deque
from enum import StrEnum
from itertools import islice
from typing import NamedTuple

import msgspec

from controller_core.groups.commands import Cause, Stamp
from controller_core.groups.keys import BrokerId, GroupKey, MasterEpoch, correlation_id

EVENTS_MAX = 10_000
FAILOVERS_MAX = 1_000
EVENT_SOURCE = "controller"


class EventKind(StrEnum):
    """What a controller's event tells."""

    BROKER_SUSPECTED = "BrokerSuspected"
    MASTER_ELECTED = "MasterElected"
    ELECTION_FAILED = "ElectionFailed"
    ROLE_NOTIFIED = "RoleNotified"
    ROLE_TAKEN = "RoleTaken"
    SYNC_STATE_SET_CHANGED = "SyncStateSetChanged"
    BROKER_REGISTERED = "BrokerRegistered"
    BROKER_CLEANED = "BrokerCleaned"
    WRITES_STOPPED = "WritesStopped"
    WRITES_ALLOWED = "WritesAllowed"


class Event(msgspec.Struct, frozen=True):
    """One thing that happened, as files, streams and reports carry it.

    Attributes:
        sequence: position in this stream, from 1, without gaps.
        event_id: the same on every node and after every restart; a reader may drop repetitions by it.
        ts_ns: UTC.
        monotonic_ns: the same instant on the monotonic clock of `clock_id`.
        clock_id: the process that read both clocks.
        namespace: left empty by the state, which must not depend on a node's settings; the server fills it
            in.
        group: the brokerName.
        epoch: the group's master epoch after the event.
        correlation_id: names the change of master that this belongs to.
    """

    sequence: int
    event_id: str
    ts_ns: int
    monotonic_ns: int
    clock_id: str
    kind: EventKind
    cluster: str
    group: str
    broker_id: BrokerId | None
    epoch: MasterEpoch | None
    term: int | None
    index: int | None
    correlation_id: str | None
    attrs: dict[str, str]
    source: str = EVENT_SOURCE
    namespace: str = ""


_EVENT_ENCODER = msgspec.msgpack.Encoder()
_EVENT_DECODER = msgspec.msgpack.Decoder(Event)


def encode_event(event: Event) -> msgspec.Raw:
    """Return an event's bytes, as snapshots hold them."""
    return msgspec.Raw(_EVENT_ENCODER.encode(event))


def decode_event(data: msgspec.Raw) -> Event:
    """Return the event of these bytes.

    Raises:
        msgspec.DecodeError: they are not an event.
    """
    return _EVENT_DECODER.decode(data)


class Fact(msgspec.Struct, frozen=True):
    """An event before the state has given it its place in the stream."""

    kind: EventKind
    stamp: Stamp
    broker_id: BrokerId | None
    epoch: MasterEpoch
    attrs: dict[str, str]
    correlation_epoch: MasterEpoch | None = None


class FailoverRecord(msgspec.Struct, frozen=True):
    """One change of master, the first election of a group included.

    Times are UTC in nanoseconds, None if not (yet) known.

    Attributes:
        cause: why the old master was lost, or why it was replaced.
        trigger: what started the election that succeeded; differs from `cause` when earlier ones failed.
        unclean: the winner was outside the SyncStateSet.
    """

    cluster: str
    group: str
    cause: Cause
    trigger: Cause
    term: int
    index: int
    old_master_id: BrokerId | None
    old_master_address: str | None
    old_epoch: MasterEpoch
    new_master_id: BrokerId
    new_master_address: str
    new_epoch: MasterEpoch
    sync_state_set_before: tuple[BrokerId, ...]
    sync_state_set_after: tuple[BrokerId, ...]
    unclean: bool
    last_heartbeat_ns: int | None
    suspected_ns: int | None
    proposed_ns: int
    committed_ns: int | None = None
    noticed_ns: int | None = None
    role_taken_ns: int | None = None
    first_beat_ns: int | None = None


class FailoverKey(NamedTuple):
    """Which change of master: a group has one for each epoch at most."""

    cluster: str
    group: str
    new_epoch: MasterEpoch


class EventsPage(NamedTuple):
    """A piece of the stream.

    Attributes:
        missed: how many events after the requested sequence were dropped; 0 for an unbroken stream.
    """

    events: tuple[Event, ...]
    missed: int


class History:
    """The last events and failovers, each bounded, in order.

    Invariant: `events[i].sequence == events[0].sequence + i`, and the last one's is `last_sequence`.

    Attributes:
        last_sequence: of the newest event, 0 before the first.
    """

    def __init__(
        self,
        encoded_events: tuple[msgspec.Raw, ...] = (),
        failovers: tuple[FailoverRecord, ...] = (),
        last_sequence: int = 0,
    ) -> None:
        self._events: deque[msgspec.Raw] = deque(encoded_events, maxlen=EVENTS_MAX)
        self._failovers: OrderedDict[FailoverKey, FailoverRecord] = OrderedDict(
            (_failover_key(record), record) for record in failovers
        )
        self.last_sequence = last_sequence

    def add_event(self, key: GroupKey, fact: Fact, index: int, term: int, number: int) -> Event:
        """Give a fact its place in the stream; `number` counts the facts of one entry from 0."""
        self.last_sequence += 1
        event = Event(
            sequence=self.last_sequence,
            event_id=f"{key.cluster}/{key.broker_name}/{term}.{index}.{number}/{fact.stamp.utc_ns}",
            ts_ns=fact.stamp.utc_ns,
            monotonic_ns=fact.stamp.monotonic_ns,
            clock_id=fact.stamp.clock_id,
            kind=fact.kind,
            cluster=key.cluster,
            group=key.broker_name,
            broker_id=fact.broker_id,
            epoch=fact.epoch,
            term=term,
            index=index,
            correlation_id=None
            if fact.correlation_epoch is None
            else correlation_id(key, fact.correlation_epoch),
            attrs=fact.attrs,
        )
        self._events.append(encode_event(event))
        return event

    def events_after(self, sequence: int, count_max: int = EVENTS_MAX) -> EventsPage:
        """Return up to `count_max` events that follow `sequence` (0 for the beginning)."""
        if not self._events or sequence >= self.last_sequence:
            return EventsPage((), 0)
        oldest = self.last_sequence - len(self._events) + 1
        skip = max(0, sequence + 1 - oldest)
        events = tuple(map(decode_event, islice(self._events, skip, skip + count_max)))
        return EventsPage(events, max(0, oldest - sequence - 1))

    def add_failover(self, record: FailoverRecord) -> None:
        """Keep a change of master, in the place of an older version of itself.

        Drop the oldest beyond `FAILOVERS_MAX`.
        """
        self._failovers[_failover_key(record)] = record
        if len(self._failovers) > FAILOVERS_MAX:
            self._failovers.popitem(last=False)

    def failover(self, key: GroupKey, new_epoch: MasterEpoch) -> FailoverRecord | None:
        """Return the change of master that made `new_epoch`, if it is still kept."""
        return self._failovers.get(FailoverKey(key.cluster, key.broker_name, new_epoch))

    @property
    def events(self) -> tuple[Event, ...]:
        """All kept events, oldest first."""
        return tuple(map(decode_event, self._events))

    @property
    def encoded_events(self) -> tuple[msgspec.Raw, ...]:
        """All kept events as snapshots hold them, oldest first."""
        return tuple(self._events)

    @property
    def failovers(self) -> tuple[FailoverRecord, ...]:
        """All kept changes of master, oldest first."""
        return tuple(self._failovers.values())


def _failover_key(record: FailoverRecord) -> FailoverKey:
    return FailoverKey(record.cluster, record.group, record.new_epoch)
