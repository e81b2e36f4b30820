"""Build the parts that change masters, and give requests one entrance to them.

Submit a command, report a seen epoch.
"""

from collections.abc import Callable, Coroutine
from typing import Any, Final

from controller_core.access.signing import Sign
from controller_core.groups.commands import AlterSyncStateSet, AnyCommand, ElectMaster
from controller_core.groups.elections.kept_replicas import drops_too_early
from controller_core.groups.keys import ReplicaKey, comma_list
from controller_core.groups.replies import GroupReply, Outcome
from controller_core.groups.state import GroupsState
from controller_core.remoting.codes import ResponseCode
from controller_core.server.clock import Clock
from controller_core.server.common.metrics import Metrics
from controller_core.server.node.proposals import Waiter
from controller_core.server.notices.notice_order import RoleChanges
from controller_core.server.notices.notifier import Notifier
from controller_core.server.proposals.commands import AliveOf
from controller_core.server.proposals.election_follow_up import ElectionFollowUp
from controller_core.server.proposals.election_proposer import ElectionProposer
from controller_core.server.proposals.failover_times import FailoverTimesRecorder
from controller_core.server.proposals.log_ends import LogEnds
from controller_core.server.proposals.proposer import CommandProposer, ProposingNode
from controller_core.server.proposals.replica_detacher import ReplicaDetacher
from controller_core.server.write_guards.write_guard import WriteGuards
from controller_core.tls.dialling import ClientTls

_NO_EPOCH: Final = {"newSyncStateSetEpoch": 0}
"""RocketMQ sends this header with a refusal too."""


class CommandSubmitter:
    """Owns the parts that change masters; each part does its own work.

    Attributes:
        notifier: tells and asks brokers.
        changes: which groups are in the middle of a change of master.
        guards: stops and restores the writes of living masters.
        follow_up: what happens after an election.
    """

    def __init__(
        self,
        node: ProposingNode,
        state: GroupsState,
        clock: Clock,
        metrics: Metrics,
        *,
        alive_of: AliveOf,
        may_notify: Callable[[], bool],
        leads_newly: Callable[[], bool],
        dial_at: Callable[[str], str] = str,
        broker_tls: ClientTls | None = None,
        sign: Sign | None = None,
    ) -> None:
        self._state = state
        self._proposer = CommandProposer(node, metrics)
        self._recorder = FailoverTimesRecorder(clock, self._proposer.propose)
        self._watched = self._recorder.watched
        self.notifier = Notifier(self._recorder.notice_sent, dial_at, broker_tls, sign)
        self.changes = RoleChanges(self.notifier)
        self.guards = WriteGuards(
            state=state,
            clock=clock,
            ask=self.notifier.ask,
            forget=self.notifier.forget,
            propose=self._proposer.propose,
            alive_of=alive_of,
            changes=self.changes,
            leads=lambda: node.is_leader,
        )
        self.follow_up = ElectionFollowUp(self.notifier, self.changes, self._recorder, may_notify)
        self._elections = ElectionProposer(
            state=state,
            proposer=self._proposer,
            guards=self.guards,
            detacher=ReplicaDetacher(state, self.notifier.ask),
            log_ends=LogEnds(state, self.notifier.ask, self.notifier.forget),
            changes=self.changes,
            follow_up=self.follow_up,
            clock=clock,
            metrics=metrics,
            may_notify=may_notify,
            leads_newly=leads_newly,
        )

    def submit(self, command: AnyCommand) -> Coroutine[Any, Any, Outcome]:
        """Propose a command and return what applying it led to.

        An election is guarded before and followed up after.

        Raises:
            NotLeaderError, ProposalDroppedError, ProposalLostError: as `CommandProposer.propose`.
        """
        if isinstance(command, ElectMaster):
            return self._elections.elect(command)
        return self._checked(command)

    def submit_for(self, command: AnyCommand, waiter: Waiter) -> Outcome | None:
        """Propose a command that is not an election for a waiter; see `CommandProposer.propose_for`."""
        return self._refusal(command) or self._proposer.propose_for(command, waiter)

    async def _checked(self, command: AnyCommand) -> Outcome:
        return self._refusal(command) or await self._proposer.propose(command)

    def _refusal(self, command: AnyCommand) -> Outcome | None:
        """Refuse another SyncStateSet that drops a replica which the election has just kept."""
        if not isinstance(command, AlterSyncStateSet):
            return None
        group = self._state.group_of(command)
        if group is None:
            return None
        record = self._state.history.failover(group.key, group.master_epoch)
        if early := drops_too_early(group, record, command):
            remark = f"The election has just kept {comma_list(early)} in the SyncStateSet"
            code = ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED
            return Outcome(GroupReply(code, _NO_EPOCH, remark))
        return None

    def saw_epoch(self, key: ReplicaKey, epoch: int, *, is_beat: bool) -> None:
        """Learn that a member acts in an epoch.

        Every heartbeat comes here, so this does two look-ups and no more.
        """
        self.notifier.seen(key, epoch)
        if key in self._watched:
            self._recorder.saw_epoch(key, epoch, is_beat=is_beat)

    async def stop(self) -> None:
        """Stop elections, records, guards and notices."""
        await self._elections.stop()
        await self._recorder.stop()
        await self.guards.stop()
        await self.notifier.stop()
