"""Drive one Raft node: feed the core, write its log on one thread, apply committed entries, answer callers.

One task on the event loop owns the core. Every input (a message, ticks, a proposal, a read) goes to the core
or into a queue, and wakes the task. It works off one Ready after the other, in the order of `Ready`:

    messages that reveal nothing ---> out
    write, fsync (writer thread) ---> the loop goes on: messages, ticks, new proposals
    all other messages           ---> out
    snapshot, committed entries  ---> state machine, then the callers' futures
    advance

So one fsync carries every command that came during the previous one, and followers write at the same time. A
batch that only moves the commit index waits for the next write: losing it costs a replay. On a full disk
ticks go on, so a leader that cannot write loses its leadership. A failed disk, an entry of a later release or
a broken invariant ends the node. Never here: what commands mean, and sockets.
"""

import asyncio
import logging
import os
from collections.abc import Callable

from controller_core.raft.confchange.changes import ConfChange, ConfChangeV2
from controller_core.raft.errors import PeerMessageError, ProposalDroppedError, RaftError
from controller_core.raft.peer_checks import PeerChecks
from controller_core.raft.raw_node import RawNode
from controller_core.raft.types import ConfState, Entry, LogIndex, Message, MessageType, Ready
from controller_core.server.node.applied import AppliedLog
from controller_core.server.node.callers import Callers
from controller_core.server.node.conf_changes import ConfChanges
from controller_core.server.node.leadership_transfer import best_successor, came_about
from controller_core.server.node.log_writer import LogWriter
from controller_core.server.node.member_book import MemberBook
from controller_core.server.node.observers import NodeObservers, status_of
from controller_core.server.node.proposals import Waiter
from controller_core.server.node.snapshots import Snapshots
from controller_core.server.node.ticker import Ticker
from controller_core.server.node.types import (
    CommandDroppedError,
    NodeConfig,
    NodeStatus,
    NotLeaderError,
    StateMachine,
    Store,
    Transport,
)

TRANSFER_ELECTION_TIMEOUTS = 2
"""How long a transfer of leadership is waited for; the core gives it up after one."""
_EARLY = frozenset((MessageType.APP, MessageType.HEARTBEAT, MessageType.SNAP))
_ASKS_FOR_A_VOTE = frozenset((MessageType.VOTE, MessageType.PRE_VOTE))

_log = logging.getLogger(__name__)


class Node:
    """One member of the cluster."""

    def __init__(
        self, config: NodeConfig, store: Store, state_machine: StateMachine, transport: Transport
    ) -> None:
        """Take over `store`, which `stop` closes.

        One that holds its first snapshot is a member of the cluster that this describes. An empty one belongs
        to none: the node waits until a leader adds it, and gives no vote until then.
        """
        self.config = config
        self._store = store
        self._transport = transport
        self._applied = AppliedLog(state_machine, store.snapshot())
        self._raw = RawNode(config.core_config(self._applied.index), store)
        self._checks = PeerChecks(self._raw, config.node_id, self._applied.snapshot_problem)
        self._bell = asyncio.Event()
        self._callers = Callers(self._raw, os.urandom(8), self._bell.set)
        self._changes = ConfChanges(self._raw)
        self._ticker = Ticker(
            config.tick_ms / 1000, config.ticks_at_once_max, self._tick, self._raw.ticks_until_due
        )
        self._writer = LogWriter(store, config.entries_kept)
        self._snapshots = Snapshots(
            store, self._writer, config.snapshot_entries, self._applied.moment, self._end
        )
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self._fatal: BaseException | None = None
        self._observers = NodeObservers()

    # -- life

    async def start(self) -> None:
        """Start to carry messages, to count time and to drive the core."""
        await self._transport.start(self)
        self._ticker.start()
        self._bell.set()
        self._task = asyncio.create_task(self._run(), name=f"raft-node-{self.config.node_id}")

    async def stop(self) -> None:
        """Stop, after the write under way; waiting callers get `ProposalLostError` or `NotLeaderError`."""
        self._stopping = True
        self._ticker.stop()
        self._bell.set()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
        await self._transport.stop()
        await self._snapshots.close()
        self._writer.close()

    def on_leadership(self, callback: Callable[[bool, int], None]) -> None:
        """Call `callback(leads, term)` when leadership begins (first entry applied) or ends."""
        self._observers.leadership.append(callback)

    def on_fatal(self, callback: Callable[[BaseException], None]) -> None:
        """Call `callback(error)` once if the node cannot go on; the caller must still call `stop`."""
        self._observers.fatal.append(callback)

    def on_members(self, callback: Callable[[], None]) -> None:
        """Call `callback()` on the loop after each change of `conf_state` or `book`."""
        self._observers.members.append(callback)

    # -- what callers want

    def propose(self, data: bytes) -> asyncio.Future[object]:
        """Put a command into the log; the future is what applying it here gave.

        Raises:
            ValueError: the command is empty or too large (`Proposals.add`).
            NotLeaderError: this node does not lead; nothing happened.
            CommandDroppedError: too many commands wait, or a handover is under way; nothing happened.
            ProposalLostError: as the future's error: leadership was lost; the fate of the command is unknown.
        """
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self.propose_for(data, future)
        return future

    def propose_for(self, data: bytes, waiter: Waiter) -> None:
        """Put a command into the log and tell `waiter` what became of it, as `propose` tells its future."""
        self._check_leads()
        if len(self._callers.proposals) >= self.config.proposals_max:
            raise CommandDroppedError(f"{self.config.proposals_max} commands are waiting")
        self._callers.proposals.add(data, waiter)
        self._bell.set()

    async def read_barrier(self) -> None:
        """Return once this state machine has every command acknowledged by any node before this call.

        Raises:
            NotLeaderError: this node does not lead, or lost leadership before the answer.
        """
        self._check_leads()
        if self.has_read_lease():
            return
        future = self._callers.reads.add()
        self._bell.set()
        await future

    def read_for(self, waiter: Waiter) -> None:
        """Tell `waiter` once the state machine of this node, which does not lead, is as `read_barrier` says.

        It gets NotLeaderError, FollowerLagsError or ReadLateError if the leader has to be asked instead.

        Raises:
            NotLeaderError: no leader is known.
            CommandDroppedError: too many reads wait.
        """
        if self._ended() or not self._raw.leader_id:
            raise NotLeaderError(None)
        self._callers.follower_reads.add(waiter)

    def has_read_lease(self) -> bool:
        """Say whether `read_barrier` would return at once."""
        return self._ticker.catch_up() and self.is_leader and self._raw.has_valid_lease()

    async def transfer_leadership(self, to: int | None = None) -> bool:
        """Hand leadership to `to`, or to the follower that has most of the log; say whether that came about.

        Raises:
            NotLeaderError: this node does not lead.
        """
        self._check_leads()
        target = best_successor(self._raw.status()) if to is None else to
        if target is None:
            return False
        self._raw.transfer_leadership(target)
        self._bell.set()
        within_s = TRANSFER_ELECTION_TIMEOUTS * self.config.election_timeout_ms / 1000
        return await came_about(self, self.config.node_id, target, within_s)

    async def change_members(self, change: ConfChange | ConfChangeV2) -> ConfState:
        """Change the membership, and return it once it is applied here (a joint change: entered, not left).

        Raises:
            NotLeaderError: this node does not lead; nothing happened.
            ChangeUnderWayError: another change is not applied yet; nothing happened.
            ChangeRefusedError: it does not fit the membership; nothing changed.
            CommandDroppedError: leadership is being handed over; nothing happened.
            ProposalLostError: leadership was lost; whether the change will take effect is unknown.
        """
        self._check_leads()
        future = self._changes.propose(change)
        self._bell.set()
        return await future

    async def make_snapshot(self) -> int:
        """Put a snapshot of the applied state on disk and return its index; of one under way if there is one.

        Raises:
            LogFullError: no space.
        """
        return await self._snapshots.make()

    # -- what observers ask

    @property
    def is_leader(self) -> bool:
        """Whether this node leads and has applied the first entry of its term, and with it all before."""
        return self._raw.is_leader and self._raw.term == self._observers.term and self._fatal is None

    @property
    def leader_id(self) -> int | None:
        """Raft id of the leader, this node included; None while no leader is known."""
        return self._raw.leader_id if self._raw.hears_leader and not self._ended() else None

    @property
    def role(self) -> int:
        """0 for a node that has ended, 1 candidate, 2 follower, 3 leader."""
        return self.status().role

    @property
    def term(self) -> int:
        """Raft's term."""
        return self._raw.term

    @property
    def commit_index(self) -> int:
        """Highest index known to be committed."""
        return self._raw.commit_index

    @property
    def applied_index(self) -> int:
        """Index of the last applied entry."""
        return self._applied.index

    @property
    def conf_state(self) -> ConfState:
        """Raft's membership as of the applied index; empty until this node belongs to a cluster."""
        return self._applied.conf_state

    @property
    def book(self) -> MemberBook:
        """The book of members as of the applied index."""
        return self._applied.book

    @property
    def log_is_full(self) -> bool:
        """Whether the log waits for space on its disk."""
        return self._writer.is_full

    def log_entries(self, low: int, high: int, bytes_max: int) -> tuple[Entry, ...]:
        """Return the entries that the log has from `low` to before `high`, at most so many bytes."""
        low, high = max(low, self._store.first_index()), min(high, self._store.last_index() + 1)
        return self._store.entries(LogIndex(low), LogIndex(high), bytes_max) if low < high else ()

    def status(self) -> NodeStatus:
        """Return a copy of the node's state."""
        return status_of(
            self._raw,
            self._store,
            self._applied.index,
            self.leader_id,
            is_leader=self.is_leader,
            has_ended=self._ended(),
        )

    # -- what the transport and the clock tell

    def receive(self, message: Message) -> None:
        """Feed a message from another node.

        Raises:
            RefusedMessageError: no member sends it; nothing happened.
        """
        if self._ended():
            return
        self._checks.check(message)
        if message.type in _ASKS_FOR_A_VOTE and not self._applied.conf_state.voters:
            return  # A node without a membership must not vote.
        is_on_time = self._ticker.catch_up()  # Its time is now, and not that of the last tick.
        if message.type is MessageType.READ_INDEX and not is_on_time:
            return  # After a pause the lease may be over; a follower without an answer asks again.
        try:
            self._raw.step(message)
        except PeerMessageError as error:
            _log.warning("dropped %s of node %d: %s", message.type.name, message.from_, error)
        except ProposalDroppedError:
            pass  # A forwarded read or proposal; whoever sent it tries again.
        except RaftError as error:
            self._end(error)
        self._after_input()

    def peer_unreachable(self, node_id: int) -> None:
        """Tell the core that a message could not be sent."""
        if not self._ended():
            self._raw.report_unreachable(node_id)

    def snapshot_sent(self, node_id: int, ok: bool) -> None:
        """Tell the core whether a snapshot left this process."""
        if not self._ended():
            self._raw.report_snapshot(node_id, ok)
            self._bell.set()

    def _tick(self, count: int) -> None:
        try:
            for _ in range(count):
                self._raw.tick()
        except RaftError as error:
            self._end(error)
        if not self._raw.is_leader:
            self._ticker.forgive()
        self._after_input()

    def _after_input(self) -> None:
        self._callers.check_leadership()
        self._changes.check_leadership()
        if self._observers.term and not self._raw.is_leader:
            self._observers.tell_leadership(0)
        self._ticker.rearm()
        if self._raw.has_ready():
            self._bell.set()

    # -- the task that works off Readys

    async def _run(self) -> None:
        try:
            while not self._ended():
                await self._bell.wait()
                self._bell.clear()
                self._callers.hand_over()
                while not self._ended() and self._raw.has_ready():
                    await self._work_off(self._raw.ready())
                    self._callers.hand_over()
        except Exception as error:  # the node cannot go on after any of them, and says so
            self._end(error)
        finally:
            self._close_callers()

    async def _work_off(self, ready: Ready) -> None:
        """Do what one Ready asks for, in its order."""
        self._callers.proposals.place(ready.entries)
        early = [message for message in ready.messages if message.type in _EARLY]
        late = [message for message in ready.messages if message.type not in _EARLY]
        self._transport.send(early)
        batch = self._store.prepare(ready)
        if not await self._writer.write(batch, self._ended):
            return
        self._store.commit(batch)
        self._transport.send(late)
        self._apply(ready)
        self._raw.advance()
        self._callers.serve_reads(ready.read_states, self._applied.index)
        self._after_input()

    def _apply(self, ready: Ready) -> None:
        applied, entries = self._applied, ready.committed_entries
        before = applied.conf_state, applied.book
        if ready.snapshot is not None:
            applied.restore(ready.snapshot)
        applied.apply(entries, self._raw, self._callers, self._changes)
        if entries and self._raw.is_leader and entries[-1].term == self._raw.term:
            self._observers.tell_leadership(self._raw.term)
        changed = before != (applied.conf_state, applied.book)
        if changed:
            self._observers.tell_members()
        self._snapshots.applied(applied.index, soon=changed)

    # -- the end

    def _ended(self) -> bool:
        return self._stopping or self._fatal is not None

    def _end(self, error: BaseException) -> None:
        """End the node because it cannot go on."""
        if self._ended():
            return
        self._fatal = error
        _log.critical("the node ends: %s", error, exc_info=error)
        self._ticker.stop()
        self._bell.set()
        self._close_callers()
        self._observers.tell_end(error)

    def _close_callers(self) -> None:
        self._callers.close()
        self._changes.lose("the node has ended; the outcome of the change is unknown")
        self._observers.tell_leadership(0)

    def _check_leads(self) -> None:
        if self._ended() or not self._raw.is_leader:
            raise NotLeaderError(None if self._ended() else self.leader_id)
