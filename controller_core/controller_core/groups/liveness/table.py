"""The liveness of brokers, as one controller node sees it: heartbeats, their connections, and silence.

Each node keeps a table of its own from the heartbeats (904) that brokers send to every controller; nothing of
it is replicated. A leader captures the parts it needs in its commands. A member in the table is alive. There
are two ways out, and both name a cause:

- the connection that carried the latest heartbeat closes: dead at once. Each beat rebinds its sender to the
  connection it came by, so the late close of an older connection kills no member;
- silence for longer than the sender announced: dead when `expire` is next called. A member that came alive
  less than `STARTING_MS` ago may be silent for `STARTING_SILENCE_MS_MIN` at least: a process that has just
  started stands still for seconds on a full machine, and to replace it costs clients more than to wait for
  it.

A table that slept itself cannot judge silence: when `expire` is called far later than the earliest deadline,
this process was stopped or starved, and heartbeats wait unread in its sockets. Then overdue members get a
short grace.

Epoch and offsets are those of the newest beat. RocketMQ's controller keeps the highest pair ever seen, so
that a broker whose log was truncated keeps an offset that it no longer has, and may be elected for it.

Deadlines are in a heap with one valid entry a member; a beat that moves a deadline later leaves the heap
alone, and the entry returns to the heap when it comes up. So a beat costs O(1), and the heap never outgrows
the table by much.

Times are milliseconds of one monotonic clock, given by the caller. No clock is read here.

Source: DefaultBrokerHeartbeatManager.java, BrokerLiveInfo.java of 5.4.0; controller.md for the defaults.
"""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

from controller_core.groups.commands import (
    DEFAULT_ELECTION_PRIORITY,
    DEFAULT_HEARTBEAT_TIMEOUT_MS,
    UNKNOWN_EPOCH,
    UNKNOWN_OFFSET,
    Cause,
    LiveBroker,
)
from controller_core.groups.keys import BrokerId, GroupKey, LogOffset, ReplicaKey

LIVE_BROKERS_MAX = 100_000
"""More members than this are not taken up: a peer can invent names without end, and each costs memory."""
EXPIRY_LATENESS_MS_MAX = 1_000
"""How late `expire` may be for the earliest deadline before the table takes itself to have slept."""
STARTING_MS = 20_000
"""How long a member that came alive is taken to be starting: class loading and the first collections of a
Java process."""
STARTING_SILENCE_MS_MIN = 5_000
"""How long such a member may be silent, however short a time-out it announced.

A closed connection is a death at once all the same.
"""
SLEEP_GRACE_MS = 1_000
"""Time for overdue members after that: enough to read the heartbeats that wait in the sockets."""


@dataclass(frozen=True, slots=True)
class Death:
    """A member that left the table.

    Attributes:
        at_ms: when this table learned it.
    """

    key: ReplicaKey
    cause: Cause
    last_beat_ms: int
    at_ms: int


@dataclass(slots=True)
class LiveEntry:
    """What the newest heartbeat of a living member said, and when and where it came in."""

    key: ReplicaKey
    channel_id: int
    last_beat_ms: int = 0
    timeout_ms: int = DEFAULT_HEARTBEAT_TIMEOUT_MS
    address: str = ""
    epoch: int = UNKNOWN_EPOCH
    max_offset: LogOffset = UNKNOWN_OFFSET
    confirm_offset: LogOffset = UNKNOWN_OFFSET
    priority: int = DEFAULT_ELECTION_PRIORITY
    starting_until_ms: int = 0
    deadline_ms: int = 0
    heap_deadline_ms: int = 0
    heap_token: int = 0
    has_beaten: bool = False
    """Whether a heartbeat has come.

    A member that only asked for something has not told how far its log goes.
    """

    def as_live_broker(self) -> LiveBroker:
        """Return what an election needs to know."""
        return LiveBroker(self.key.broker_id, self.epoch, self.max_offset, self.priority)


class LivenessTable:
    """The living members of all groups, as this node hears them."""

    def __init__(self, *, starting_ms: int = 0) -> None:
        """Begin with an empty table.

        Args:
            starting_ms: how long a member that came alive is taken to be starting; 0 for not at all.
        """
        self._starting_ms = starting_ms
        self._members: dict[ReplicaKey, LiveEntry] = {}
        self._groups: dict[GroupKey, dict[int, LiveEntry]] = {}
        self._addresses: dict[str, LiveEntry] = {}
        self._channels: dict[int, dict[str, set[ReplicaKey]]] = {}
        self._deaths: dict[ReplicaKey, Death] = {}
        self._heap: list[tuple[int, int, ReplicaKey]] = []
        self._tokens = 0

    def beat(
        self,
        key: ReplicaKey,
        channel_id: int,
        now_ms: int,
        *,
        timeout_ms: int | None = None,
        epoch: int | None = None,
        max_offset: LogOffset | None = None,
        confirm_offset: LogOffset | None = None,
        priority: int | None = None,
        address: str = "",
    ) -> bool:
        """Take up a heartbeat (904); fields that it does not carry have RocketMQ's defaults.

        Args:
            key: who beats.
            channel_id: the connection that it came by.
            now_ms: when.
            timeout_ms: after how much silence the sender wants to be held for dead; 10,000 if absent or not
                positive.
            epoch: last master epoch in the sender's epoch file.
            max_offset: end of its commit log, bytes.
            confirm_offset: its confirm offset, bytes.
            priority: its election priority, lower wins.
            address: where it listens.

        Returns:
            Whether the member was not alive before, so that a group may now be able to elect. False also for
            one that is not taken up because the table is full.
        """
        known = self._members.get(key)
        entry = self._enter(key, channel_id, now_ms) if known is None else known
        if entry is None:
            return False
        if entry.address != address:
            self._announced(entry, address)
        entry.timeout_ms = (
            timeout_ms if timeout_ms is not None and timeout_ms > 0 else DEFAULT_HEARTBEAT_TIMEOUT_MS
        )
        entry.epoch = UNKNOWN_EPOCH if epoch is None else epoch
        entry.max_offset = UNKNOWN_OFFSET if max_offset is None else max_offset
        entry.confirm_offset = UNKNOWN_OFFSET if confirm_offset is None else confirm_offset
        entry.priority = DEFAULT_ELECTION_PRIORITY if priority is None else priority
        entry.has_beaten = True
        self._heard(entry, channel_id, now_ms)
        return known is None

    def touch(self, key: ReplicaKey, channel_id: int, now_ms: int, *, address: str = "") -> bool:
        """Take a member's own request (1002, 1003) over a live connection as proof of life.

        It keeps what the last heartbeat said. Without it a broker that registers loses a race against its own
        first heartbeat, which it sends on another thread. Not for requests that people send in a broker's
        name.

        Returns:
            As `beat`.
        """
        known = self._members.get(key)
        if known is None:
            is_new = self.beat(key, channel_id, now_ms, address=address)
            if (entered := self.get(key)) is not None:
                entered.has_beaten = False
            return is_new
        if address not in {"", known.address}:
            self._announced(known, address)
        self._heard(known, channel_id, now_ms)
        return False

    def _enter(self, key: ReplicaKey, channel_id: int, now_ms: int) -> LiveEntry | None:
        """Take up a member that is not in the table, its fields still to be set.

        None if the table is full.
        """
        if len(self._members) >= LIVE_BROKERS_MAX:
            return None
        self._deaths.pop(key, None)
        entry = LiveEntry(key, channel_id, starting_until_ms=now_ms + self._starting_ms)
        self._members[key] = self._groups.setdefault(key.group, {})[key.broker_id] = entry
        self._bind(entry)
        return entry

    def _announced(self, entry: LiveEntry, address: str) -> None:
        """Note the address that a member announces; of two that announce the same, the last one owns it."""
        self._unannounced(entry)
        entry.address = address
        self._addresses[address] = entry

    def _unannounced(self, entry: LiveEntry) -> None:
        if self._addresses.get(entry.address) is entry:
            del self._addresses[entry.address]

    def _heard(self, entry: LiveEntry, channel_id: int, now_ms: int) -> None:
        """Note the time and connection of a heartbeat.

        The deadline follows from its timeout and from the age of the member.
        """
        entry.last_beat_ms = now_ms
        is_starting = now_ms < entry.starting_until_ms
        silence_ms = max(entry.timeout_ms, STARTING_SILENCE_MS_MIN) if is_starting else entry.timeout_ms
        entry.deadline_ms = now_ms + silence_ms
        if entry.channel_id != channel_id:
            self._unbind(entry)
            entry.channel_id = channel_id
            self._bind(entry)
        if not entry.heap_token or entry.deadline_ms < entry.heap_deadline_ms:
            self._schedule(entry)

    def _schedule(self, entry: LiveEntry) -> None:
        self._tokens += 1
        entry.heap_deadline_ms, entry.heap_token = entry.deadline_ms, self._tokens
        heapq.heappush(self._heap, (entry.deadline_ms, entry.heap_token, entry.key))

    def _bind(self, entry: LiveEntry) -> None:
        names = self._channels.setdefault(entry.channel_id, {})
        names.setdefault(entry.key.broker_name, set()).add(entry.key)

    def _unbind(self, entry: LiveEntry) -> None:
        names = self._channels[entry.channel_id]
        keys = names[entry.key.broker_name]
        keys.discard(entry.key)
        if not keys:
            del names[entry.key.broker_name]
        if not names:
            del self._channels[entry.channel_id]

    def _bury(self, entry: LiveEntry, cause: Cause, now_ms: int) -> Death:
        self._unbind(entry)
        self._unannounced(entry)
        del self._members[entry.key]
        group = self._groups[entry.key.group]
        del group[entry.key.broker_id]
        if not group:
            del self._groups[entry.key.group]
        death = Death(entry.key, cause, entry.last_beat_ms, now_ms)
        self._deaths[entry.key] = death
        if len(self._deaths) > LIVE_BROKERS_MAX:
            del self._deaths[next(iter(self._deaths))]
        return death

    def channel_closed(self, channel_id: int, now_ms: int) -> list[Death]:
        """Bury all members whose latest heartbeat came by this connection, in order of their keys."""
        entries = (self.get(key) for key in self.keys_of_channel(channel_id))
        return [self._bury(entry, Cause.CONNECTION_CLOSED, now_ms) for entry in entries if entry is not None]

    def expire(self, now_ms: int) -> list[Death]:
        """Bury all members that have been silent for too long, or spare them if this process has slept.

        Call it at `next_deadline_ms` or a little later, and at least every few hundred milliseconds while it
        is past.
        """
        first_ms = self.next_deadline_ms()
        slept = first_ms is not None and now_ms - first_ms > EXPIRY_LATENESS_MS_MAX
        deaths = []
        while (due := self._pop_overdue(now_ms)) is not None:
            if slept:
                due.deadline_ms = now_ms + SLEEP_GRACE_MS
                self._schedule(due)
            else:
                deaths.append(self._bury(due, Cause.HEARTBEAT_TIMEOUT, now_ms))
        return deaths

    def _pop_overdue(self, now_ms: int) -> LiveEntry | None:
        """Take the next overdue member off the heap; a heartbeat *at* the deadline is in time."""
        while (top := self._valid_top()) is not None and top.deadline_ms < now_ms:
            heapq.heappop(self._heap)
            return top
        return None

    def _valid_top(self) -> LiveEntry | None:
        """Bring the member with the earliest deadline to the heap's top.

        Drop and correct stale entries on the way.
        """
        while self._heap:
            _, token, key = self._heap[0]
            entry = self.get(key)
            if entry is None or entry.heap_token != token:
                heapq.heappop(self._heap)
            elif entry.deadline_ms > entry.heap_deadline_ms:
                heapq.heappop(self._heap)
                self._schedule(entry)
            else:
                return entry
        return None

    def next_deadline_ms(self) -> int | None:
        """Return the instant after which some member is overdue; None if the table is empty."""
        top = self._valid_top()
        return None if top is None else top.deadline_ms

    def get(self, key: ReplicaKey) -> LiveEntry | None:
        """Return a living member's entry; do not change it."""
        return self._members.get(key)

    def at(self, address: str) -> LiveEntry | None:
        """Return the entry of the living member that announced an address; do not change it."""
        return self._addresses.get(address)

    def is_alive(self, key: ReplicaKey) -> bool:
        """Tell whether a member is in the table."""
        return key in self._members

    def alive(self, key: GroupKey, ids: Iterable[BrokerId] | None = None) -> tuple[LiveBroker, ...]:
        """Return a group's living members as commands carry them, by ascending id.

        With `ids`, only those: whoever decides gives the registered ids, since anybody may beat in any other
        name.
        """
        members = self._groups.get(key, {})
        wanted = members if ids is None else (broker_id for broker_id in ids if broker_id in members)
        return tuple(members[broker_id].as_live_broker() for broker_id in sorted(wanted))

    def keys_of_channel(self, channel_id: int) -> tuple[ReplicaKey, ...]:
        """Return whose latest heartbeat came by a connection."""
        names = self._channels.get(channel_id, {})
        return tuple(sorted(key for keys in names.values() for key in keys))

    def keys_of(self, channel_id: int, broker_name: str) -> tuple[ReplicaKey, ...]:
        """Return which members of groups of this name have a connection's latest heartbeats."""
        return tuple(self._channels.get(channel_id, {}).get(broker_name, ()))

    def cluster_of(self, channel_id: int, broker_name: str) -> str:
        """Return the cluster of the members with this brokerName whose latest heartbeat came by a connection.

        It gives requests without a cluster their cluster; empty without such a member, or with members of
        several clusters.
        """
        names = self._channels.get(channel_id)
        keys = None if names is None else names.get(broker_name)
        if not keys:
            return ""
        if len(keys) == 1:
            return next(iter(keys)).cluster
        clusters = {key.cluster for key in keys}
        return clusters.pop() if len(clusters) == 1 else ""

    def last_death(self, key: ReplicaKey) -> Death | None:
        """Return how a member that is not alive died, None if this node never saw it die."""
        return self._deaths.get(key)

    def __len__(self) -> int:
        return len(self._members)
