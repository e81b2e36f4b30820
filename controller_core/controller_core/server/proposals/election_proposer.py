"""Propose elections so that no acknowledged message is lost with the old master, and follow them up.

Every election passes here, whether a broker, a person or the leader itself asked for it:

    take the epochs that living members tell -> guard the writes of a living master (`write_guard`), or detach
    the log replicas of a silent one (`replica_detacher`) and take the ends of its slaves' logs (`log_ends`)
    -> propose -> follow up (`election_follow_up`) -> lift the guard

While this node leads newly, brokers may still send their requests to the leader before it. So the election
keeps the log replicas that detached in the set (`groups.elections.kept_replicas`).
"""

import asyncio
import logging
from collections.abc import Callable

from msgspec.structs import replace

from controller_core.groups.commands import ElectMaster
from controller_core.groups.elections.first_elections import has_absurd_epoch, told_epoch
from controller_core.groups.history import EventKind
from controller_core.groups.keys import GroupKey
from controller_core.groups.replies import GroupReply, Outcome
from controller_core.groups.state import GroupsState
from controller_core.remoting.codes import ResponseCode
from controller_core.server.clock import Clock
from controller_core.server.common.metrics import UNKNOWN_GROUP, Metrics
from controller_core.server.logs import bind
from controller_core.server.notices.notice_order import RoleChanges
from controller_core.server.proposals.election_follow_up import ElectionFollowUp
from controller_core.server.proposals.log_ends import LogEnds
from controller_core.server.proposals.proposer import CommandProposer
from controller_core.server.proposals.replica_detacher import ReplicaDetacher
from controller_core.server.write_guards.write_guard import SwitchoverRefusedError, WriteGuards

_log = logging.getLogger(__name__)


class ElectionProposer:
    """Proposes elections.

    Each runs in its own task, so that a caller that gives up does not leave brokers untold.
    """

    def __init__(
        self,
        *,
        state: GroupsState,
        proposer: CommandProposer,
        guards: WriteGuards,
        detacher: ReplicaDetacher,
        log_ends: LogEnds,
        changes: RoleChanges,
        follow_up: ElectionFollowUp,
        clock: Clock,
        metrics: Metrics,
        may_notify: Callable[[], bool],
        leads_newly: Callable[[], bool],
    ) -> None:
        self._state = state
        self._proposer = proposer
        self._guards = guards
        self._detacher = detacher
        self._log_ends = log_ends
        self._changes = changes
        self._follow_up = follow_up
        self._clock = clock
        self._metrics = metrics
        self._may_notify = may_notify
        self._leads_newly = leads_newly
        self._tasks: set[asyncio.Task[Outcome]] = set()

    async def elect(self, command: ElectMaster) -> Outcome:
        """Hold an election; return what applying it led to once its notices are on their way.

        Raises:
            NotLeaderError, ProposalDroppedError, ProposalLostError: as `CommandProposer.propose`.
        """
        task = asyncio.create_task(self._elect(command))
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    async def stop(self) -> None:
        """Cancel the elections that are under way; their entries may still be applied."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[Outcome]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # The caller has it too, unless it gave up.

    async def _elect(self, command: ElectMaster) -> Outcome:
        try:
            with self._changes.open(self._key_of(command)):
                outcome, writes_stopped = await self._guard_and_propose(command)
                self._metrics.election(self._counted_group(command), _result_label(outcome), command.cause)
                if outcome.reply.code == ResponseCode.SUCCESS:
                    _log_election(outcome)
                    await self._follow_up.after(outcome, self._clock.stamp(), writes_stopped=writes_stopped)
        finally:
            self._guards.lift_of(command)
        return outcome

    async def _guard_and_propose(self, command: ElectMaster) -> tuple[Outcome, bool]:
        """Return what the election led to, and whether a write guard stopped the old master's writes."""
        command = guarded = self._with_told_epoch(command)
        writes_stopped = False
        try:
            if self._may_notify():
                guarded = await self._guards.before(command)
                writes_stopped = guarded is not command
                if not writes_stopped:
                    answered = await self._detacher.detach_before(command)
                    guarded = await self._log_ends.before(command, answered if self._leads_newly() else ())
        except SwitchoverRefusedError as error:
            _log.warning(
                "a switchover is refused", extra=bind(broker_group=command.broker_name, error=str(error))
            )
            reply = GroupReply(ResponseCode.CONTROLLER_ELECT_MASTER_FAILED, {}, str(error))
            return Outcome(reply), False
        if self._is_known(guarded):
            remark = f"No master is elected: {guarded.withheld}"
            return Outcome(GroupReply(ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE, {}, remark)), False
        return await self._proposer.propose(guarded), writes_stopped

    def _key_of(self, command: ElectMaster) -> GroupKey:
        group = self._state.group_of(command)
        return GroupKey(command.cluster, command.broker_name) if group is None else group.key

    def _is_known(self, command: ElectMaster) -> bool:
        """Return whether the leader's own election would fail for the reason that is recorded already."""
        group = self._state.group_of(command)
        if not command.withheld or command.requester_id is not None or group is None:
            return False
        return group.master_id is None and group.failure_reason == command.withheld

    def _with_told_epoch(self, command: ElectMaster) -> ElectMaster:
        """Add the greatest epoch that living members tell, so that the election goes above it."""
        group = self._state.group_of(command)
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

    def _counted_group(self, command: ElectMaster) -> tuple[str, str]:
        """Return the metric labels of the command's group.

        Unregistered names share one label, which bounds their number.
        """
        group = self._state.group_of(command)
        return UNKNOWN_GROUP if group is None else group.key


def _log_election(outcome: Outcome) -> None:
    for event in outcome.events:
        if event.kind is EventKind.MASTER_ELECTED:
            fields = bind(cluster=event.cluster, broker_group=event.group, epoch=event.epoch, **event.attrs)
            _log.info("a master was elected", extra=fields)


def _result_label(outcome: Outcome) -> str:
    match outcome.reply.code:
        case ResponseCode.SUCCESS:
            return "elected"
        case ResponseCode.CONTROLLER_MASTER_STILL_EXIST:
            return "kept"
        case _:
            return "failed"
