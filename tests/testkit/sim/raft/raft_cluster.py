"""A simulated Raft cluster: slow disks, a network that loses, delays and doubles, crashes that forget.

What each part may do to the nodes is the contract of the simulation:
    network   loses, delays, reorders and doubles any message; a partition loses all between its sides
    disk      writes take time; a crash loses the write under way, and the commit
              index of writes without fsync
    crash     loses everything in memory; the node comes back from its store after a while
    clock     ticks of different nodes differ by up to `CLOCK_SKEW`
It never corrupts a message or a stored byte.

All randomness comes from one `random.Random(seed)`; the same seed gives the same run.
"""

import hashlib
from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import Random

from controller_core.log.memory import MemoryStore
from controller_core.log.view import Batch
from controller_core.raft.confchange.changer import ConfChangeError
from controller_core.raft.confchange.changes import (
    ConfChange,
    ConfChangeSingle,
    ConfChangeType,
    ConfChangeV2,
    decode_conf_change,
)
from controller_core.raft.config import Config, ReadOnlyOption
from controller_core.raft.errors import PeerNotFoundError, ProposalDroppedError, RefusedMessageError
from controller_core.raft.peer_checks import PeerChecks
from controller_core.raft.raw_node import RawNode
from controller_core.raft.types import (
    ConfState,
    EntryType,
    LogIndex,
    Message,
    MessageType,
    NodeId,
    Ready,
    Snapshot,
    Term,
)
from testkit.sim.raft.raft_checks import SafetyChecks
from testkit.sim.raft.scheduler import Scheduler

TICK = 1.0
CLOCK_SKEW = 0.05
WRITE_TIME_MAX = 1.5
DELAY_MAX = 3.0
COMPACT_EVERY = 15
"""Entries applied between two snapshots of a node."""

_FORWARDED = (MessageType.PROP, MessageType.TRANSFER_LEADER)
"""What these nodes pass to their leader, and controllers do not."""
_FREE = frozenset((MessageType.APP, MessageType.HEARTBEAT, MessageType.SNAP))
"""Messages of a leader that need not wait for its own write."""


@dataclass(slots=True)
class RaftPlan:
    """What a schedule does; drawn from the seed."""

    size: int
    voters: int
    loss: float
    duplication: float
    changes_membership: bool
    settings: dict[str, object] = field(default_factory=dict)

    @classmethod
    def draw(cls, random: Random) -> "RaftPlan":
        """Draw a plan: 3 or 5 nodes, a mild or a bad network, any combination of options."""
        changes = random.random() < 0.3
        size = 5 if changes else random.choice((3, 3, 5))
        # Only these two keep a removed node that campaigns for ever from disturbing (thesis 4.2.3).
        check_quorum = changes or random.random() < 0.7
        lease = check_quorum and random.random() < 0.5
        return cls(
            size=size,
            voters=3 if changes else size,
            loss=random.choice((0.0, 0.02, 0.2)),
            duplication=random.choice((0.0, 0.05)),
            changes_membership=changes,
            settings={
                "pre_vote": changes or random.random() < 0.7,
                "check_quorum": check_quorum,
                "read_only": ReadOnlyOption.LEASE_BASED if lease else ReadOnlyOption.SAFE,
                "inflight_messages_max": random.choice((2, 256)),
                "message_bytes_max": random.choice((0, 64, 1024)),
                # A leader that steps down at once may be the only node that knows of the commit;
                # see `retire_removed_leader`.
                "step_down_on_removal": not changes and random.random() < 0.5,
            },
        )


class SimNode:
    """One node: core, store, state machine (a running digest), and the write under way."""

    def __init__(self, node: int, cluster: "RaftCluster") -> None:
        self.id = node
        self.cluster = cluster
        self.store = MemoryStore()
        self.alive = True
        self.life = 0
        self.synced_commit = 0
        self.tick_time = TICK * (1 + cluster.random.uniform(-CLOCK_SKEW, CLOCK_SKEW))
        self.pending_reads: dict[bytes, int] = {}
        self.raw: RawNode
        self.writing = False
        self.must_snapshot = False
        self.digest = b""
        self.applied = 0
        self.acknowledged: list[bytes] = []

    def start(self) -> None:
        """Start from what the store holds."""
        snapshot = self.store.snapshot()
        self.life += 1
        self.alive, self.writing = True, False
        self.digest, self.applied = snapshot.data, snapshot.index
        self.pending_reads.clear()
        config = Config(
            id=self.id, heartbeat_ticks=2, applied=self.applied, jitter=self.cluster.random.randrange
        )
        self.raw = RawNode(replace(config, **self.cluster.plan.settings), self.store)  # type: ignore[arg-type]  # drawn by name
        self._schedule_tick(self.life)

    def crash(self) -> None:
        """Lose memory, the write under way, and writes without fsync."""
        self.alive = False
        hard_state = self.store.initial_state()[0]
        commit = LogIndex(max(self.synced_commit, self.store.snapshot().index))
        if self.cluster.random.random() < 0.5 and commit < hard_state.commit:
            self.store.set_hard_state(replace(hard_state, commit=commit))

    def receive(self, message: Message) -> None:
        """Take a message off the network."""
        if not self.alive or not self._passes(message):
            return
        with suppress(ProposalDroppedError, PeerNotFoundError):
            self.raw.step(message)
        self.work()

    def _passes(self, message: Message) -> bool:
        """Say whether the node's own checks let a message pass.

        All here are honest, so only one reason may refuse any.

        A node that restarted knows no leader, and waits for more of it than a snapshot.
        """
        if message.type in _FORWARDED:
            return True
        try:
            PeerChecks(self.raw, self.id).check(message)
        except RefusedMessageError as error:
            if error.reason != "leader":
                raise
            return False
        return True

    def work(self) -> None:
        """Begin the next write if there is something to do and no write is under way."""
        if self.raw.is_leader:
            self.cluster.checks.leads(self.id, self.raw.term, self.store, self.raw._raft.log.unstable)
        if self.writing or not self.raw.has_ready():
            return
        self.writing = True
        ready = self.raw.ready()
        batch = self.store.prepare(ready)
        for message in ready.messages:
            if message.type in _FREE:
                self.cluster.send(message)
        life = self.life
        delay = self.cluster.random.uniform(0, WRITE_TIME_MAX) if ready.must_sync else 0.0
        self.cluster.scheduler.after(delay, lambda: self._written(life, ready, batch))

    def _written(self, life: int, ready: Ready, batch: Batch) -> None:
        if life != self.life or not self.alive:
            return
        self.store.commit(batch)
        self.cluster.checks.persists(self.id, self.store.initial_state()[0])
        if ready.must_sync or ready.snapshot is not None:
            self.synced_commit = self.store.initial_state()[0].commit
        for message in ready.messages:
            if message.type not in _FREE:
                self.cluster.send(message)
        self._apply(ready)
        self.raw.advance()
        self.writing = False
        self._maybe_compact()
        self.work()

    def _apply(self, ready: Ready) -> None:
        checks = self.cluster.checks
        if ready.snapshot is not None:
            self.digest, self.applied = ready.snapshot.data, ready.snapshot.index
            checks.restores(self.id, self.applied, self.digest)
        for entry in ready.committed_entries:
            if entry.type != EntryType.NORMAL:
                with suppress(ConfChangeError):  # The same on every node, hence no change.
                    self.raw.apply_conf_change(decode_conf_change(entry))
                self.must_snapshot = True
            self.digest = hashlib.blake2b(
                self.digest + b"%d %d %d " % (entry.index, entry.term, entry.type) + entry.data,
                digest_size=16,
            ).digest()
            self.applied = entry.index
            checks.applies(self.id, entry, self.digest)
            if entry.data and entry.type == EntryType.NORMAL:
                self.acknowledged.append(entry.data)
        for read in ready.read_states:
            before = self.pending_reads.pop(read.context, None)
            if before is not None:
                checks.reads_at(self.id, read.index, before, "confirmed")

    def _maybe_compact(self) -> None:
        """Snapshot every so often, and after a change of membership.

        The latter is for the added node: it refuses an older snapshot, which does not name it.
        """
        due = self.applied - self.store.snapshot().index >= COMPACT_EVERY
        if not due and not (self.must_snapshot and self.applied > self.store.snapshot().index):
            return
        self.must_snapshot = False
        conf_state = self.raw.status().conf_state
        self.store.create_snapshot(LogIndex(self.applied), conf_state, self.digest)
        keep_from = self.applied - self.cluster.random.randrange(COMPACT_EVERY)
        if keep_from >= self.store.first_index():
            self.store.compact(LogIndex(keep_from))

    def _schedule_tick(self, life: int) -> None:
        def tick() -> None:
            if life == self.life and self.alive:
                self.raw.tick()
                self.work()
                self._schedule_tick(life)

        self.cluster.scheduler.after(self.tick_time, tick)


class RaftCluster:
    """Nodes, network, and a client that proposes, reads and changes the membership."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.scheduler = Scheduler()
        self.checks = SafetyChecks()
        self.plan = RaftPlan.draw(self.random)
        self.faults = True
        self.side: dict[int, int] = {}
        self.proposed = 0
        voters = tuple(NodeId(node) for node in range(1, self.plan.voters + 1))
        snapshot = Snapshot(LogIndex(1), Term(0), ConfState(voters))
        self.nodes = {node: SimNode(node, self) for node in range(1, self.plan.size + 1)}
        for node in self.nodes.values():
            if node.id in voters:
                node.store.apply_snapshot(snapshot)
            node.start()

    def send(self, message: Message) -> None:
        """Put a message on the network."""
        self.checks.sends(message)
        if self.faults and self.random.random() < self.plan.loss:
            self._report(message, ok=False)
            return
        copies = 2 if self.faults and self.random.random() < self.plan.duplication else 1
        for _ in range(copies):
            delay = self.random.uniform(0, DELAY_MAX if self.faults else 0.2)
            self.scheduler.after(delay, lambda: self._arrive(message))

    def run(self, until: float) -> None:
        """Let time pass."""
        self.scheduler.run_until(until)

    def disturb(self, until: float) -> None:
        """Let time pass with client work and a fault every few ticks."""
        while self.scheduler.now < until:
            self._client()
            if self.random.random() < 0.15:
                self._fault()
            self.run(self.scheduler.now + self.random.uniform(0, 4))

    def heal(self) -> None:
        """Bring everybody back and everything through."""
        self.faults = False
        self.side.clear()
        for node in self.nodes.values():
            if not node.alive:
                node.start()

    def retire_removed_leader(self) -> bool:
        """Stop a leader that is not a voter any more, as an operator does after the others know of it."""
        leader = self.leader()
        if leader is None or leader.id in leader.raw.status().conf_state.voters:
            return False
        leader.crash()
        return True

    def leader(self) -> SimNode | None:
        """Return the living leader of the highest term."""
        leading = [node for node in self.nodes.values() if node.alive and node.raw.is_leader]
        return max(leading, key=lambda node: node.raw.term, default=None)

    def propose(self, node: SimNode) -> bytes | None:
        """Propose something new to `node`; return it, or None if it was dropped."""
        self.proposed += 1
        data = b"%d" % self.proposed
        try:
            node.raw.propose(data)
        except ProposalDroppedError:
            return None
        node.work()
        return data

    def _client(self) -> None:
        living = [node for node in self.nodes.values() if node.alive]
        if not living:
            return
        node = self.random.choice(living)
        self.propose(node)
        self._read(node)
        leader = self.leader()
        if leader is not None and self.plan.changes_membership and self.random.random() < 0.2:
            self._change_membership(leader)
        if leader is not None and self.random.random() < 0.02:
            leader.raw.transfer_leadership(self.random.choice(list(self.nodes)))
            leader.work()

    def _read(self, node: SimNode) -> None:
        before = self.checks.committed_max
        if node.raw.has_valid_lease():
            self.checks.reads_at(node.id, node.raw.commit_index, before, "lease")
        self.proposed += 1
        context = b"r%d" % self.proposed
        node.pending_reads[context] = before
        try:
            node.raw.read_index(context)
        except ProposalDroppedError:
            node.pending_reads.pop(context)
        node.work()

    def _change_membership(self, leader: SimNode) -> None:
        """Propose one or two changes of nodes other than the leader.

        A leader that goes itself may take with it the only knowledge of the commit that removed it, and of
        two voters none is left then that could be elected; it hands over its office first.
        """
        others = [node for node in self.nodes if node != leader.id]
        changes = tuple(
            ConfChangeSingle(self.random.choice(list(ConfChangeType)), NodeId(self.random.choice(others)))
            for _ in range(self.random.choice((1, 1, 2)))
        )
        change: ConfChange | ConfChangeV2 = ConfChangeV2(changes)
        if len(changes) == 1:
            change = ConfChange(changes[0].type, changes[0].node_id)
        with suppress(ProposalDroppedError):
            leader.raw.propose_conf_change(change)
        leader.work()

    def _fault(self) -> None:
        match self.random.choice(("crash", "crash", "restart", "partition", "join")):
            case "crash":
                node = self.random.choice(list(self.nodes.values()))
                if node.alive:
                    node.crash()
                    self.scheduler.after(self.random.uniform(0, 40), lambda: self._revive(node))
            case "restart":
                node = self.random.choice(list(self.nodes.values()))
                if node.alive:
                    node.crash()
                    node.start()
            case "partition":
                self.side = {node: self.random.randrange(2) for node in self.nodes}
            case _:
                self.side.clear()

    def _revive(self, node: SimNode) -> None:
        if not node.alive:
            node.start()

    def _arrive(self, message: Message) -> None:
        reachable = self.side.get(message.from_) == self.side.get(message.to)
        target = self.nodes[message.to]
        self._report(message, ok=reachable and target.alive)
        if reachable:
            target.receive(message)

    def _report(self, message: Message, *, ok: bool) -> None:
        """Tell the sender what a transport would know about its message."""
        sender = self.nodes[message.from_]
        if not sender.alive:
            return
        if message.type == MessageType.SNAP:
            sender.raw.report_snapshot(message.to, ok)
        elif not ok:
            sender.raw.report_unreachable(message.to)
