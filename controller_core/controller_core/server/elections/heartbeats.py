"""Receive heartbeats and closed connections of brokers, keep the liveness table, and report deaths.

The table (`groups.liveness.table`) decides which members are alive; this shell gives it the time and the
connections. Every node receives heartbeats, leader or not, so a follower can take over without waiting. A
closed connection is a death at once; silence is found by a task that sleeps until the earliest deadline, at
most `TICK_S`.

Only registered members live. A heartbeat in any other name goes into a small table of its own
(`unregistered`), whose members can neither die nor come alive: it tells of brokers that a store which was
lost had recorded. They become members when a group registers them, with what their heartbeats told.

Many deaths at once, when one connection held many members, are reported in slices of `SLICE`, between which
the loop serves others.

Node agents send heartbeats too (`agents`); their rule is in `groups.liveness.node_agents`, and the leader
acts on it (`node_losses`).

A broker's connection also shows its host. After an address takeover on Kubernetes, the announced address may
lead to another broker, but the heartbeats of a broker come from its own host.

A request in a broker's own name (1002, 1003) proves that it lives. When it came through another node, the
connection that ends here is not the broker's, so it only revives a broker that is not alive, and is bound to
no connection.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from itertools import islice

from controller_core.groups.commands import DEFAULT_HEARTBEAT_TIMEOUT_MS, LiveBroker
from controller_core.groups.elections.first_elections import has_absurd_epoch
from controller_core.groups.elections.policy import log_replicas_in_sync
from controller_core.groups.group import Group
from controller_core.groups.keys import BrokerId, GroupKey, LogOffset, ReplicaKey
from controller_core.groups.liveness.deliveries import Deliveries
from controller_core.groups.liveness.entries import UNREGISTERED_BOUNDS, Death, LiveEntry
from controller_core.groups.liveness.holders import NO_CHANNEL_ID
from controller_core.groups.liveness.node_agents import NodeAgents, Verdict
from controller_core.groups.liveness.scan import listening_left_ms
from controller_core.groups.liveness.table import EXPIRY_LATENESS_MS_MAX, STARTING_MS, LivenessTable
from controller_core.groups.state import GroupsState
from controller_core.remoting.headers import BrokerHeartbeatRequestHeader
from controller_core.remoting.numbers import whole_number
from controller_core.remoting.text_bounds import GROUP_MEMBERS_MAX
from controller_core.server.clock import Clock
from controller_core.server.common.json_views import Beat

TICK_S = 0.1
EMPTY_S = 0.4
"""Without members: the first deadline of the first one may be seen so late."""
SLICE = 256
"""Deaths that are reported in one turn of the loop."""
_TICK_MIN_S = 0.005
_MS_PER_S = 1_000


class HeartbeatReceiver:
    """The liveness table with a clock, and callbacks for deaths and revivals."""

    def __init__(self, state: GroupsState, clock: Clock) -> None:
        self._hosts: dict[int, str] = {}
        self._channels_of: dict[str, set[int]] = {}
        started_ms = clock.now_ms()
        self.table = LivenessTable(
            starting_ms=STARTING_MS,
            judges_from_ms=started_ms + DEFAULT_HEARTBEAT_TIMEOUT_MS,
            source_of=self.host_of,
        )
        self.unregistered = LivenessTable(bounds=UNREGISTERED_BOUNDS, source_of=self.host_of)
        self.agents = NodeAgents()
        self._deliveries = Deliveries()
        self.listening_since_ms = started_ms
        self.on_deaths: Callable[[list[Death]], None] = _ignore
        self.on_revival: Callable[[ReplicaKey], None] = _ignore
        self._state = state
        self._clock = clock
        self._first_beats: dict[ReplicaKey, asyncio.Event] = {}

    def channel_opened(self, channel_id: int, peer: str) -> None:
        """Learn of a connection and the address of its other end."""
        host = peer.rpartition(":")[0]
        self._hosts[channel_id] = host
        self._channels_of.setdefault(host, set()).add(channel_id)

    def host_of(self, channel_id: int) -> str:
        """Return the source address of an open connection; empty without one."""
        return self._hosts.get(channel_id, "")

    def delivers_late(self, channel_id: int) -> bool:
        """Return whether a request that a connection delivers now may be old."""
        return self._deliveries.is_late(channel_id, self._clock.now_ms())

    def direct_address(self, announced: str) -> str:
        """Return the `host:port` at which the living member that announced this address can be reached.

        `announced` itself if unknown.
        """
        entry = self.table.at(announced)
        host = "" if entry is None else self._hosts.get(entry.channel_id, "")
        return f"{host}:{announced.rpartition(':')[2]}" if host else announced

    def beat(self, channel_id: int, header: BrokerHeartbeatRequestHeader, broker_id: BrokerId) -> ReplicaKey:
        """Take up a heartbeat (904); return the key of its sender."""
        key = ReplicaKey(header.cluster_name, header.broker_name, broker_id)
        is_registered = self._is_registered(key)
        if not is_registered and self.table.is_alive(key):
            self.table.remove(key)  # an administrator has cleaned it out of its group
        table = self.table if is_registered else self.unregistered
        now_ms = self._clock.now_ms()
        self._deliveries.beat(channel_id, now_ms)
        is_new = table.beat(
            key,
            channel_id,
            now_ms,
            timeout_ms=header.heartbeat_timeout_mills,
            epoch=header.epoch,
            max_offset=_offset(header.max_offset),
            confirm_offset=_offset(header.confirm_offset),
            priority=header.election_priority,
            address=header.broker_addr,
        )
        self.agents.member_heard(key, now_ms)
        if self._first_beats and (awaited := self._first_beats.pop(key, None)) is not None:
            awaited.set()
        if is_new and is_registered:
            self.unregistered.remove(key)
            self.on_revival(key)
        return key

    def registered(self, key: GroupKey) -> None:
        """Learn that a group may have new members: those that have sent heartbeats live from now on."""
        for member in self.unregistered.alive(key):
            replica = ReplicaKey(*key, member.id)
            if self._is_registered(replica) and (entry := self.unregistered.remove(replica)) is not None:
                self._take_over(entry)

    def _take_over(self, told: LiveEntry) -> None:
        """Take up a member with what its latest heartbeat told before it was registered."""
        is_new = self.table.beat(
            told.key,
            told.channel_id,
            told.last_beat_ms,
            timeout_ms=told.timeout_ms,
            epoch=told.epoch,
            max_offset=told.max_offset,
            confirm_offset=told.confirm_offset,
            priority=told.priority,
            address=told.address,
        )
        if is_new:
            self.on_revival(told.key)

    def _is_registered(self, key: ReplicaKey) -> bool:
        group = self._state.get(key.group)
        return group is not None and key.broker_id in group.replicas

    async def has_beaten(self, key: ReplicaKey, within_s: float) -> bool:
        """Return whether a heartbeat of a member has come, waiting for the first one."""
        entry = self.table.get(key)
        if entry is not None and not entry.has_beaten:
            came = self._first_beats.setdefault(key, asyncio.Event())
            try:
                async with asyncio.timeout(within_s):
                    await came.wait()
            except TimeoutError:
                self._first_beats.pop(key, None)
        entry = self.table.get(key)
        return entry is None or entry.has_beaten

    def unregistered_ids(self, group: Group) -> tuple[BrokerId, ...]:
        """Return the unregistered ids whose heartbeats name this group and tell a master epoch."""
        return tuple(
            member.id
            for member in self.unregistered.alive(group.key)
            if member.id not in group.replicas and member.epoch > 0 and not has_absurd_epoch(group, member)
        )

    def proof_of_life(self, channel_id: int, key: ReplicaKey, address: str = "") -> bool:
        """Take a registered broker's own request as a sign of life; return whether it was not alive before.

        `channel_id` is its own connection, or `NO_CHANNEL_ID`.
        """
        alive = self.table.is_alive(key)
        if alive and channel_id == NO_CHANNEL_ID:
            return False
        if not self._is_registered(key):
            return False
        revived = self.table.touch(key, channel_id, self._clock.now_ms(), address=address)
        if revived:
            self.on_revival(key)
        return revived

    def channel_closed(self, channel_id: int) -> None:
        """Remove the members that this connection holds."""
        now_ms = self._clock.now_ms()
        self.agents.channel_closed(channel_id)
        self._deliveries.channel_closed(channel_id)
        self.unregistered.channel_closed(channel_id, now_ms)
        deaths = self.table.channel_closed(channel_id, now_ms, SLICE)
        if self.table.holders.count(channel_id):
            asyncio.get_running_loop().call_soon(self.channel_closed, channel_id)
        else:
            self._forget(channel_id)
        if deaths:
            self.on_deaths(deaths)

    def _forget(self, channel_id: int) -> None:
        host = self._hosts.pop(channel_id, None)
        channels = set[int]() if host is None else self._channels_of[host]
        channels.discard(channel_id)
        if host is not None and not channels:
            del self._channels_of[host]

    def node_verdict(self, key: ReplicaKey, timeout_ms: int, early_ms: int = 0) -> Verdict:
        """Return what the heartbeats of agents and member say about a member and its node."""
        return self.agents.verdict(key, self.table.get(key), self._clock.now_ms(), timeout_ms, early_ms)

    def lose(self, keys: Iterable[ReplicaKey]) -> None:
        """Bury members whose node is lost."""
        now_ms = self._clock.now_ms()
        deaths = [death for key in keys if (death := self.table.lose(key, now_ms)) is not None]
        if deaths:
            self.on_deaths(deaths)

    def alive_of(self, cluster: str, broker_name: str) -> tuple[LiveBroker, ...]:
        """Return the registered members of a group that are alive, by ascending id, without learners.

        Empty for an unknown or ambiguous group. Heartbeats of unclaimed ids are left out, so that strangers
        cannot change what commands capture. Without learners no entry can elect one or put one into the
        SyncStateSet, whichever release applies it.
        """
        group = self._state.find_one(broker_name, cluster)
        if group is None:
            return ()
        return tuple(one for one in self.table.alive(group.key, captured(group)) if not one.is_learner)

    def alive_ids_of(self, cluster: str, broker_name: str) -> tuple[BrokerId, ...]:
        """Return the ids of those that `alive_of` returns, ascending."""
        return tuple(one.id for one in self.alive_of(cluster, broker_name))

    def is_learner(self, key: ReplicaKey) -> bool:
        """Say whether the heartbeats of a living member say that it is a learner."""
        entry = self.table.get(key)
        return entry is not None and entry.as_live_broker().is_learner

    def cluster_of(self, channel_id: int, broker_name: str) -> str:
        """Return the cluster that the heartbeats of a connection, or of its host, named for this group.

        Empty if they named none or several. Why the host: a broker that spells a controller's address in two
        ways has a second connection, without heartbeats.
        """
        if told := self.table.cluster_of(channel_id, broker_name):
            return told
        if told := self.unregistered.cluster_of(channel_id, broker_name):
            return told
        if not (self._state.is_ambiguous(broker_name) or len(self.unregistered)):
            return ""
        clusters = {
            key.cluster
            for channel in self._channels_of.get(self.host_of(channel_id), ())
            for table in (self.table, self.unregistered)
            for key in table.holders.keys_named(channel, broker_name)
        }
        return clusters.pop() if len(clusters) == 1 else ""

    def beat_of(self, key: ReplicaKey) -> Beat | None:
        """Return the newest heartbeat of a member for display."""
        entry = self.table.get(key)
        if entry is None:
            return None
        age_ms = self._clock.now_ms() - entry.last_beat_ms
        return Beat(
            alive=True,
            epoch=entry.epoch,
            max_offset=entry.max_offset,
            confirm_offset=entry.confirm_offset,
            last_beat_age_ms=age_ms,
            learner=entry.as_live_broker().is_learner,
        )

    def lease_ms(self, ext: Mapping[str, str]) -> int | None:
        """Return for how much longer the member that a request names may be silent.

        None if the request names no member, or one that is unknown to a node without a master for its group:
        the store of such a node was lost. 0 if this node takes it for dead. A node that has just started has
        not heard the member yet, and replaces no silent master while it listens: the rest of that time.

        This node does not take the member's node for lost before, unless the member says that the lease does
        not bind (`leaseBinds`) and a log replica is in the SyncStateSet: without it the member acknowledges
        nothing.
        """
        broker_id = whole_number(ext.get("brokerId", ""))
        if broker_id is None:
            return None
        key = ReplicaKey(ext.get("clusterName", ""), ext.get("brokerName", ""), BrokerId(broker_id))
        entry = self.table.get(key)
        now_ms = self._clock.now_ms()
        if entry is None:
            if self.table.last_death(key) is not None:
                return 0
            group = self._state.get(key.group)
            if group is None or (group.master_id is None and key.broker_id not in group.replicas):
                return None
            return listening_left_ms(now_ms, self.listening_since_ms)
        lease_ms = max(0, entry.deadline_ms - now_ms)
        if ext.get("leaseBinds") != "false" or not self._has_log_replica_in_sync(key):
            entry.lease_until_ms = now_ms + lease_ms
        return lease_ms

    def _has_log_replica_in_sync(self, key: ReplicaKey) -> bool:
        group = self._state.get(key.group)
        return group is not None and bool(log_replicas_in_sync(group))

    async def run(self) -> None:
        """Find members that are silent for too long, until cancelled."""
        last_ms = self._clock.now_ms()
        while True:
            await asyncio.sleep(self._delay_s())
            now_ms = self._clock.now_ms()
            if now_ms - last_ms > EXPIRY_LATENESS_MS_MAX:
                self.listening_since_ms = now_ms  # this process slept, so missing heartbeats prove nothing
            last_ms = now_ms
            self.unregistered.expire(now_ms, SLICE)
            while deaths := self.table.expire(now_ms, SLICE):
                self.on_deaths(deaths)
                await asyncio.sleep(0)

    def _delay_s(self) -> float:
        deadline_ms = self.table.next_deadline_ms()
        if deadline_ms is None:
            return EMPTY_S
        # Why + 1: a beat exactly at its deadline is in time, so no member is overdue before the next
        # millisecond.
        return min(TICK_S, max(_TICK_MIN_S, (deadline_ms + 1 - self._clock.now_ms()) / _MS_PER_S))


def captured(group: Group) -> Iterable[BrokerId]:
    """Return the ids whose life commands capture.

    All, or of a group that outgrew its bound the SyncStateSet first.
    """
    if len(group.replicas) <= GROUP_MEMBERS_MAX:
        return group.replicas
    return islice(dict.fromkeys((*group.sync_state_set, *group.replicas)), GROUP_MEMBERS_MAX)


def _ignore(_value: Iterable[object]) -> None:
    """Do nothing: the callback before somebody sets it."""


def _offset(told: int | None) -> LogOffset | None:
    return None if told is None else LogOffset(told)
