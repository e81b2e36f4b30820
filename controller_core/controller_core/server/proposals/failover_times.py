"""Record the times of a new master after its election for the history of failovers.

Its notice and its first act.

    proposed -> committed -> noticed (the new master has its notice) -> role taken (it acted in the new epoch)

Only the leader learns what happens after the commit, so it proposes these times as a second command, and as a
third if the new master needs longer than `RECORD_SOON_S` to act. Each record is proposed once: if it is lost,
a time is missing from the history. If the new master's set has other members from the election on, its first
act is recorded at once, because the operator waits for that event.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Container
from dataclasses import dataclass, field
from typing import Final

from controller_core.groups.commands import AnyCommand, RecordFailoverTimes, Stamp
from controller_core.groups.keys import MasterEpoch, ReplicaKey
from controller_core.groups.replies import Outcome, RoleNotice
from controller_core.server.clock import Clock
from controller_core.server.logs import bind
from controller_core.server.node.types import CommandDroppedError, NotLeaderError, ProposalLostError

RECORD_SOON_S: Final = 0.3
"""After this time the known times are recorded, so that readers need not wait for the rest."""
ROLE_TAKEN_WITHIN_S: Final = 300.0
"""How long the recorder waits for a new master's first act in the new epoch.

Why so long: a Java broker whose log has not grown since the previous epoch opens no new epoch entry. Its
heartbeats carry the old epoch until something is written, or until it asks for another SyncStateSet.
"""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Watch:
    """One election whose later times are still missing.

    Attributes:
        has_copies: the new master's set has other members already, so clients can use it when it acts.
        taken: set with `role_taken`.
        done: set when every time is known, or another election is watched.
    """

    member: ReplicaKey
    epoch: MasterEpoch
    committed: Stamp | None
    expires_s: float
    has_copies: bool
    noticed: Stamp | None = None
    role_taken: Stamp | None = None
    first_beat: Stamp | None = None
    taken: asyncio.Event = field(default_factory=asyncio.Event)
    done: asyncio.Event = field(default_factory=asyncio.Event)


class FailoverTimesRecorder:
    """Watches new masters after their election and records their times."""

    def __init__(self, clock: Clock, propose: Callable[[AnyCommand], Awaitable[Outcome]]) -> None:
        self._clock = clock
        self._propose = propose
        self._watches: dict[ReplicaKey, _Watch] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def watched(self) -> Container[ReplicaKey]:
        """The members that are watched now; always the same object."""
        return self._watches

    def watch(self, notices: tuple[RoleNotice, ...], committed: Stamp | None) -> None:
        """Start watching the master of these notices.

        Without `committed`, an earlier leader held the election.
        """
        master = next((notice for notice in notices if notice.broker_id == notice.master_id), None)
        if master is None:
            return
        member = ReplicaKey(*master.key, master.master_id)
        expires_s = asyncio.get_running_loop().time() + ROLE_TAKEN_WITHIN_S
        has_copies = len(master.sync_state_set) > 1
        watch = _Watch(member, master.master_epoch, committed, expires_s, has_copies)
        replaced = self._watches.get(member)
        self._watches[member] = watch
        if replaced is not None:
            replaced.taken.set()
            replaced.done.set()
        task = asyncio.create_task(self._record(watch))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def notice_sent(self, notice: RoleNotice) -> None:
        """Learn that a notice was written to its broker's socket."""
        watch = self._watches.get(ReplicaKey(*notice.key, notice.broker_id))
        if watch is not None and watch.epoch == notice.master_epoch and watch.noticed is None:
            watch.noticed = self._clock.stamp()

    def saw_epoch(self, key: ReplicaKey, epoch: int, *, is_beat: bool) -> None:
        """Learn that a member acts in an epoch."""
        watch = self._watches.get(key)
        if watch is None or (epoch < watch.epoch and not is_beat):
            return
        stamp = self._clock.stamp()
        if is_beat and watch.first_beat is None:
            watch.first_beat = stamp
        if epoch >= watch.epoch and watch.role_taken is None:
            watch.role_taken = stamp
            watch.taken.set()
        if watch.role_taken is not None and watch.first_beat is not None:
            watch.done.set()

    async def stop(self) -> None:
        """Stop watching; times not yet recorded are lost."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _record(self, watch: _Watch) -> None:
        """Record the known times soon, and later times once more."""
        soon_s = asyncio.get_running_loop().time() + RECORD_SOON_S
        try:
            if not await _within(watch.taken if watch.has_copies else watch.done, soon_s):
                await self._record_now(watch)
            if watch.has_copies and await _within(watch.taken, watch.expires_s) and not watch.done.is_set():
                await self._record_now(watch)
            if await _within(watch.done, watch.expires_s):
                await self._record_now(watch)
        finally:
            if self._watches.get(watch.member) is watch:
                del self._watches[watch.member]

    async def _record_now(self, watch: _Watch) -> None:
        record = RecordFailoverTimes(
            cluster=watch.member.cluster,
            broker_name=watch.member.broker_name,
            stamp=self._clock.stamp(),
            master_epoch=watch.epoch,
            committed=watch.committed,
            noticed=watch.noticed,
            role_taken=watch.role_taken,
            first_beat=watch.first_beat,
        )
        try:
            await self._propose(record)
        except (NotLeaderError, CommandDroppedError, ProposalLostError) as error:
            fields = bind(broker_group=watch.member.broker_name, epoch=watch.epoch, error=str(error))
            _log.info("times of a failover are not recorded", extra=fields)


async def _within(event: asyncio.Event, deadline_s: float) -> bool:
    """Wait for the event until the loop's time `deadline_s`; return whether it happened."""
    try:
        async with asyncio.timeout_at(deadline_s):
            await event.wait()
    except TimeoutError:
        return False
    return True
