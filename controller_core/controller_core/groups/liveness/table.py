"""The liveness of brokers, as one controller node sees it: heartbeats, their connections, and silence.

Each node keeps a table of its own from the heartbeats (904) that brokers send to every controller; nothing of
it is replicated. A leader captures the parts it needs in its commands. A member in the table is alive. There
are three ways out, and each names a cause:

- the connection that holds the member closes: dead at once. Which connection that is, and when another one
  takes over, is in `liveness.holders`;
- silence for longer than the sender announced: dead when `expire` is next called. A member that came alive
  less than `STARTING_MS` ago may be silent for `STARTING_SILENCE_MS_MIN` at least: a process that has just
  started stands still for seconds on a full machine, and to replace it costs clients more than to wait for
  it. None is dead by silence before `judges_from_ms`: masters go on without any controller for as long as a
  process that has just started judges no silence (`ha_sidecar.decisions.write_lease`);
- its node is lost: dead when the caller says so by `lose`. The rule is in `liveness.node_agents`.

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
from collections.abc import Callable, Iterable
from typing import Final

from controller_core.groups.commands import (
    DEFAULT_ELECTION_PRIORITY,
    DEFAULT_HEARTBEAT_TIMEOUT_MS,
    UNKNOWN_EPOCH,
    UNKNOWN_OFFSET,
    Cause,
    LiveBroker,
)
from controller_core.groups.keys import BrokerId, GroupKey, LogOffset, ReplicaKey
from controller_core.groups.liveness.entries import (
    MEMBER_BOUNDS,
    Death,
    LiveEntry,
    TableBounds,
    forget_link,
    one_source,
)
from controller_core.groups.liveness.holders import Holders

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


class LivenessTable:
    """The living members of all groups, as this node hears them."""

    def __init__(
        self,
        *,
        starting_ms: int = 0,
        judges_from_ms: int = 0,
        bounds: TableBounds = MEMBER_BOUNDS,
        source_of: Callable[[int], str] = one_source,
    ) -> None:
        """Begin with an empty table.

        Args:
            starting_ms: how long a member that came alive is taken to be starting; 0 for not at all.
            judges_from_ms: no member dies by silence before.
            bounds: members beyond them are not taken up.
            source_of: returns the source address of a connection.
        """
        self.holders: Final = Holders(source_of)
        self._bounds: Final = bounds
        self._starting_ms = starting_ms
        self._judges_from_ms = judges_from_ms
        self._members: dict[ReplicaKey, LiveEntry] = {}
        self._groups: dict[GroupKey, dict[int, LiveEntry]] = {}
        self._addresses: dict[str, LiveEntry] = {}
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
            one that is not taken up because the table is full, and for one of another connection that does
            not count.
        """
        known = self._members.get(key)
        entry = self._enter(key, channel_id, now_ms) if known is None else known
        if entry is None:
            return False
        if known is not None and not self.holders.take(entry, channel_id, now_ms):
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
        self._heard(entry, now_ms)
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
        if self.holders.take(known, channel_id, now_ms, by_request=True):
            if address not in {"", known.address}:
                self._announced(known, address)
            self._heard(known, now_ms)
        return False

    def _enter(self, key: ReplicaKey, channel_id: int, now_ms: int) -> LiveEntry | None:
        """Take up a member that is not in the table, its fields still to be set.

        None if the table is full.
        """
        bounds = self._bounds
        if (
            len(self._members) >= bounds.total_max
            or len(self._groups.get(key.group, ())) >= bounds.group_max
            or self.holders.count(channel_id) >= bounds.channel_max
            or self.holders.source_count(channel_id) >= bounds.source_max
        ):
            return None
        self._deaths.pop(key, None)
        entry = LiveEntry(key, channel_id, starting_until_ms=now_ms + self._starting_ms)
        self._members[key] = self._groups.setdefault(key.group, {})[key.broker_id] = entry
        self.holders.hold(entry, channel_id)
        return entry

    def _announced(self, entry: LiveEntry, address: str) -> None:
        """Note the address that a member announces; of two that announce the same, the last one owns it."""
        self._unannounced(entry)
        entry.address = address
        self._addresses[address] = entry

    def _unannounced(self, entry: LiveEntry) -> None:
        if self._addresses.get(entry.address) is entry:
            del self._addresses[entry.address]

    def _heard(self, entry: LiveEntry, now_ms: int) -> None:
        """Note the time of a heartbeat.

        The deadline follows from its timeout and from the age of the member.
        """
        entry.last_beat_ms = now_ms
        is_starting = now_ms < entry.starting_until_ms
        silence_ms = max(entry.timeout_ms, STARTING_SILENCE_MS_MIN) if is_starting else entry.timeout_ms
        entry.deadline_ms = max(now_ms + silence_ms, self._judges_from_ms)
        if not entry.heap_token or entry.deadline_ms < entry.heap_deadline_ms:
            self._schedule(entry)

    def _schedule(self, entry: LiveEntry) -> None:
        self._tokens += 1
        entry.heap_deadline_ms, entry.heap_token = entry.deadline_ms, self._tokens
        heapq.heappush(self._heap, (entry.deadline_ms, entry.heap_token, entry.key))

    def _bury(self, entry: LiveEntry, cause: Cause, now_ms: int) -> Death:
        self._forget(entry)
        death = Death(entry.key, cause, entry.last_beat_ms, now_ms)
        self._deaths[entry.key] = death
        if len(self._deaths) > self._bounds.total_max:
            del self._deaths[next(iter(self._deaths))]
        return death

    def lose(self, key: ReplicaKey, now_ms: int) -> Death | None:
        """Bury a member whose node is lost; return None if it is not alive."""
        entry = self._members.get(key)
        return None if entry is None else self._bury(entry, Cause.NODE_LOST, now_ms)

    def remove(self, key: ReplicaKey) -> LiveEntry | None:
        """Take a member out that did not die; return its entry."""
        entry = self._members.get(key)
        if entry is not None:
            self._forget(entry)
        return entry

    def _forget(self, entry: LiveEntry) -> None:
        self.holders.release(entry)
        self._unannounced(entry)
        del self._members[entry.key]
        group = self._groups[entry.key.group]
        del group[entry.key.broker_id]
        if not group:
            del self._groups[entry.key.group]

    def channel_closed(self, channel_id: int, now_ms: int, count_max: int | None = None) -> list[Death]:
        """Bury the members that a closed connection holds, in order of their keys.

        At most `count_max` at once: call it again while the connection holds any.
        """
        for key in self.holders.linked(channel_id):
            if (linked := self.get(key)) is not None:
                forget_link(linked, channel_id)
        deaths = []
        for key in self.holders.keys(channel_id, count_max):
            entry = self._members[key]
            if not self.holders.move_on(entry, now_ms):
                deaths.append(self._bury(entry, Cause.CONNECTION_CLOSED, now_ms))
                continue
            entry.deadline_ms = max(now_ms, entry.last_beat_ms + entry.timeout_ms, self._judges_from_ms)
            self._schedule(entry)
        return deaths

    def expire(self, now_ms: int, count_max: int | None = None) -> list[Death]:
        """Bury members that have been silent for too long, or spare them if this process has slept.

        At most `count_max` at once: call it again while that many are buried.

        Call it at `next_deadline_ms` or a little later, and at least every few hundred milliseconds while it
        is past.
        """
        first_ms = self.next_deadline_ms()
        slept = first_ms is not None and now_ms - first_ms > EXPIRY_LATENESS_MS_MAX
        deaths: list[Death] = []
        while len(deaths) != count_max and (due := self._pop_overdue(now_ms)) is not None:
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

    def groups(self) -> tuple[GroupKey, ...]:
        """Return the groups that have a living member, sorted."""
        return tuple(sorted(key for key, members in self._groups.items() if members))

    def alive_ids(self, key: GroupKey, ids: Iterable[BrokerId]) -> tuple[BrokerId, ...]:
        """Return those of these ids that are living members of a group, ascending."""
        members = self._groups.get(key, {})
        return tuple(sorted(broker_id for broker_id in ids if broker_id in members))

    def keys_of_channel(self, channel_id: int) -> tuple[ReplicaKey, ...]:
        """Return the members that a connection holds."""
        return self.holders.keys(channel_id)

    def keys_of(self, channel_id: int, broker_name: str) -> tuple[ReplicaKey, ...]:
        """Return which members of groups of this name a connection holds."""
        return tuple(self.holders.keys_named(channel_id, broker_name))

    def cluster_of(self, channel_id: int, broker_name: str) -> str:
        """Return the cluster of the members with this brokerName that a connection holds.

        It gives requests without a cluster their cluster; empty without such a member, or with members of
        several clusters.
        """
        cluster: str | None = None
        for key in self.holders.keys_named(channel_id, broker_name):
            if cluster is not None and key.cluster != cluster:
                return ""
            cluster = key.cluster
        return cluster or ""

    def last_death(self, key: ReplicaKey) -> Death | None:
        """Return how a member that is not alive died, None if this node never saw it die."""
        return self._deaths.get(key)

    def __len__(self) -> int:
        return len(self._members)
