"""Putting commands into the log, and what follows an election that succeeded.

One place proposes, so that whoever starts an election (a broker, a person, the leader itself) its notices go out and
its times are recorded in the same way:

    (a living master's writes stopped, or its log replica gone) -> proposed -> committed -> noticed (the new master was told) -> role taken (it acted in the new epoch)

What happens after the commit is known to the leader alone, so it enters the log as a second command, and as a third if
the new master needs longer than `RECORD_SOON_S` to act. They are for the record only: losing them loses a time, never a decision, so they are proposed once.
"""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

from msgspec.structs import replace

from controller_core.groups import commands
from controller_core.groups.commands import AnyCommand, ElectMaster, RecordFailoverTimes, Stamp
from controller_core.groups.errors import CommandTooLargeError
from controller_core.groups.first_elections import has_absurd_epoch, told_epoch
from controller_core.groups.history import EventKind
from controller_core.groups.keys import ReplicaKey
from controller_core.groups.replies import Outcome, Reply, RoleNotice
from controller_core.groups.state import GroupsState
from controller_core.remoting.codes import ResponseCode
from controller_core.remoting.errors import shown
from controller_core.server.clock import Clock
from controller_core.server.common.metrics import UNKNOWN_GROUP, Metrics
from controller_core.server.logs import bind
from controller_core.server.masters.commands import AliveOf
from controller_core.server.masters.notice_order import RoleChanges
from controller_core.server.masters.notifier import Notifier
from controller_core.server.masters.replica_detacher import Partings
from controller_core.server.masters.write_guard import SwitchoverRefusedError, WriteGuards
from controller_core.server.node.types import NotLeaderError, ProposalDroppedError, ProposalLostError

RECORD_SOON_S: Final = 0.3
"""After how long the times known by then are written down, so that readers need not wait for the rest."""
ROLE_TAKEN_WITHIN_S: Final = 300.0
"""How long a new master is watched for its first act in the new epoch.

Why so long: a Java broker whose log has not grown since the epoch before opens no new epoch entry, so its heartbeats
keep telling the old epoch until something is written, or until it asks for another SyncStateSet.
"""

_log = logging.getLogger(__name__)

T = TypeVar("T")


class Proposer(Protocol):
    """What this asks of the node."""

    @property
    def is_leader(self) -> bool:
        """Whether this node leads now."""
        ...

    def propose(self, data: bytes) -> Awaitable[object]:
        """Put a command into the log and return what applying it gave."""
        ...


@dataclass(slots=True)
class _Watch:
    """One election whose later times are awaited."""

    member: ReplicaKey
    epoch: int
    committed: Stamp | None
    expires_s: float
    noticed: Stamp | None = None
    role_taken: Stamp | None = None
    first_beat: Stamp | None = None
    done: asyncio.Event = field(default_factory=asyncio.Event)


class Submitting:
    """Proposes commands and follows elections up."""

    def __init__(
        self,
        node: Proposer,
        state: GroupsState,
        clock: Clock,
        metrics: Metrics,
        *,
        alive_of: AliveOf,
        may_notify: Callable[[], bool],
        dial_at: Callable[[str], str] = str,
        broker_ssl: ssl.SSLContext | None = None,
    ) -> None:
        self.notifier = Notifier(self._noticed, dial_at, broker_ssl)
        self.changes = RoleChanges(self.notifier)
        self.guards = WriteGuards(
            state=state,
            clock=clock,
            ask=self.notifier.ask,
            forget=self.notifier.forget,
            propose=self._propose,
            alive_of=alive_of,
            changes=self.changes,
            leads=lambda: node.is_leader,
        )
        self._state = state
        self._partings = Partings(state, self.notifier.ask)
        self._node = node
        self._clock = clock
        self._metrics = metrics
        self._may_notify = may_notify
        self._watches: dict[ReplicaKey, _Watch] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    def submit(self, command: AnyCommand) -> Coroutine[Any, Any, Outcome]:
        """Propose a command, return what applying it led to, and tell brokers of a new master.

        A command that no log entry can hold is refused (2005) and not proposed.

        Raises:
            NotLeaderError: this node does not lead; nothing happened.
            ProposalDroppedError: the log could not take it; nothing happened.
            ProposalLostError: leadership was lost meanwhile; whether it happened is not known.
        """
        return self._elect_to_the_end(command) if isinstance(command, ElectMaster) else self._propose(command)

    async def _elect_to_the_end(self, command: ElectMaster) -> Outcome:
        # In a task of its own: a caller that gives up must not leave brokers untold.
        return await asyncio.shield(self._start(self._elect(command)))

    async def _elect(self, command: ElectMaster) -> Outcome:
        try:
            with self.changes.open(command.broker_name):
                outcome = await self._decided(command)
                self._metrics.election(self._counted_group(command), _election_result(outcome), command.cause)
                if outcome.reply.code == ResponseCode.SUCCESS:
                    _log_election(outcome)
                    self._watch(outcome.notices, self._clock.stamp())
                    if self._may_notify():
                        await self.changes.tell(outcome.notices, _replaced(outcome))
        finally:
            self.guards.lift_of(command)
        return outcome

    def _counted_group(self, command: ElectMaster) -> tuple[str, str]:
        """Return the labels of a command's group: names that nobody registered would be without bound."""
        group = self._state.find_one(command.broker_name, command.cluster)
        return UNKNOWN_GROUP if group is None else group.key

    async def _decided(self, command: ElectMaster) -> Outcome:
        """Propose an election, when nothing can stay behind with the master that it ends."""
        command = guarded = self._heeding(command)
        try:
            if self._may_notify():
                guarded = await self.guards.before(command)
                if guarded is command:
                    await self._partings.before(command)
        except SwitchoverRefusedError as error:
            _log.warning(
                "a switchover is refused", extra=bind(broker_group=command.broker_name, error=str(error))
            )
            return Outcome(Reply(ResponseCode.CONTROLLER_ELECT_MASTER_FAILED, {}, str(error)))
        return await self._propose(guarded)

    def _heeding(self, command: ElectMaster) -> ElectMaster:
        """Add the greatest epoch that living members tell, so that the election goes above it."""
        group = self._state.find_one(command.broker_name, command.cluster)
        if group is None:
            return command
        for member in command.alive:
            if member.id in group.replicas and has_absurd_epoch(group, member):
                self._metrics.told_epoch_ignored()
                _log.warning(
                    "the master epoch that a member tells is ignored: it is too far above the recorded one",
                    extra=bind(
                        broker_group=str(group.key), id=member.id, told=member.epoch, epoch=group.master_epoch
                    ),
                )
        return replace(command, told_epoch=told_epoch(group, command.alive))

    def expect(self, address: str) -> None:
        """A member came alive at `address`: be ready to tell it of its master."""
        if self._may_notify():
            self.notifier.prepare(address)

    def saw_epoch(self, key: ReplicaKey, epoch: int, *, is_beat: bool) -> None:
        """Learn that a member acts in an epoch; cheap, since every heartbeat comes here."""
        self.notifier.seen(key, epoch)
        watch = self._watches.get(key)
        if watch is None or (epoch < watch.epoch and not is_beat):
            return
        stamp = self._clock.stamp()
        if is_beat and watch.first_beat is None:
            watch.first_beat = stamp
        if epoch >= watch.epoch and watch.role_taken is None:
            watch.role_taken = stamp
        if watch.role_taken is not None and watch.first_beat is not None:
            watch.done.set()

    async def stop(self) -> None:
        """Stop telling and watching."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.guards.stop()
        await self.notifier.stop()

    async def _propose(self, command: AnyCommand) -> Outcome:
        try:
            data = commands.encode(command)
        except CommandTooLargeError as error:
            self._metrics.commit("refused")
            _log.error(
                "a command is not proposed: %s", error, extra=bind(broker_group=shown(command.broker_name))
            )
            return Outcome(Reply(ResponseCode.CONTROLLER_INVALID_REQUEST, None, str(error)))
        try:
            outcome = await self._node.propose(data)
        except NotLeaderError:
            self._metrics.commit("not_leader")
            raise
        except ProposalDroppedError:
            self._metrics.commit("dropped")
            raise
        except ProposalLostError:
            self._metrics.commit("lost")
            raise
        self._metrics.commit("applied")
        if not isinstance(outcome, Outcome):
            raise TypeError(f"applying {type(command).__name__} gave {outcome!r}")
        return outcome

    def follow_up(self, notices: tuple[RoleNotice, ...], committed: Stamp | None) -> None:
        """Tell brokers of their master and watch for its first acts; `committed` None if another node saw that."""
        if self._may_notify():
            self.notifier.notify(notices)
        self._watch(notices, committed)

    def _watch(self, notices: tuple[RoleNotice, ...], committed: Stamp | None) -> None:
        master = next((notice for notice in notices if notice.broker_id == notice.master_id), None)
        if master is None:
            return
        member = ReplicaKey(*master.key, master.master_id)
        expires_s = asyncio.get_running_loop().time() + ROLE_TAKEN_WITHIN_S
        watch = _Watch(member, master.master_epoch, committed, expires_s)
        replaced = self._watches.get(member)
        self._watches[member] = watch
        if replaced is not None:
            replaced.done.set()
        self._start(self._record(watch))

    def _start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # its caller has it too, unless it gave up

    def _noticed(self, notice: RoleNotice) -> None:
        watch = self._watches.get(ReplicaKey(*notice.key, notice.broker_id))
        if watch is not None and watch.epoch == notice.master_epoch and watch.noticed is None:
            watch.noticed = self._clock.stamp()

    async def _record(self, watch: _Watch) -> None:
        """Write into the log what is known soon, and once more what came later."""
        try:
            if not await _within(watch.done, asyncio.get_running_loop().time() + RECORD_SOON_S):
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
        except (NotLeaderError, ProposalDroppedError, ProposalLostError) as error:
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


def _log_election(outcome: Outcome) -> None:
    for event in outcome.events:
        if event.kind is EventKind.MASTER_ELECTED:
            fields = bind(cluster=event.cluster, broker_group=event.group, epoch=event.epoch, **event.attrs)
            _log.info("a master was elected", extra=fields)


def _replaced(outcome: Outcome) -> int | None:
    """Return the id of the master that an election replaced."""
    for event in outcome.events:
        if event.kind is EventKind.MASTER_ELECTED and "old_master_id" in event.attrs:
            return int(event.attrs["old_master_id"])
    return None


def _election_result(outcome: Outcome) -> str:
    match outcome.reply.code:
        case ResponseCode.SUCCESS:
            return "elected"
        case ResponseCode.CONTROLLER_MASTER_STILL_EXIST:
            return "kept"
        case _:
            return "failed"
