"""The leader's own elections: on a death at once, on a scan for what deaths could not tell.

    a member died that is its group's recorded master       ->  elect now; if no member can win, the group
                                                                gets a new epoch without a master, which
                                                                fences the old one
    a member came alive in a group without a living master  ->  elect, if a member can win
    leadership gained, every scanInactiveMasterInterval     ->  the same for all groups, and due first
                                                                elections (`first_elections`)

Silence counts only after this node has listened for one heartbeat timeout (`groups.liveness.scan.may_elect`);
a connection that this node saw close counts at once. At most one election per group is under way; events
during it are examined after it. Every suspicion names master and epoch, so that a repetition is harmless.

A proposal that the log could not take is repeated, at most `electMasterMaxRetryCount` times. If the result of
a proposal is unknown, the next scan decides.
"""

import asyncio
import logging
from itertools import islice
from typing import Final, Protocol

from controller_core.groups.commands import Cause, ElectMaster, Suspicion
from controller_core.groups.elections.election import role_notices
from controller_core.groups.elections.first_elections import is_first
from controller_core.groups.group import Group
from controller_core.groups.keys import GroupKey, ReplicaKey
from controller_core.groups.liveness.entries import Death
from controller_core.groups.liveness.scan import (
    ElectionNeed,
    election_need,
    groups_needing_election,
    may_elect,
)
from controller_core.server.clock import Clock
from controller_core.server.elections.first_elections import FirstElections, RoleUnknownError
from controller_core.server.elections.heartbeats import HeartbeatReceiver
from controller_core.server.elections.member_logs import LogUnknownError
from controller_core.server.logs import bind
from controller_core.server.node.state_machine import GroupsMachine
from controller_core.server.node.types import CommandDroppedError, NotLeaderError, ProposalLostError
from controller_core.server.proposals.commands import CommandMaker
from controller_core.server.proposals.submission import CommandSubmitter
from controller_core.server.settings.live_config import LiveConfig

RETRY_S: Final = 0.02
REVIVED_GROUPS_AT_ONCE: Final = 64
TELL_AGAIN_NS: Final = 10_000_000_000
"""How old an election may be for a new leader to tell of it again; brokers' own poll finds out after 5 s."""
_MS_PER_S = 1_000
_NS_PER_MS = 1_000_000

_log = logging.getLogger(__name__)


class LeaderView(Protocol):
    """What this asks of the node."""

    @property
    def is_leader(self) -> bool:
        """Whether this node leads and has applied all entries of earlier terms."""
        ...


class LeaderElections:
    """Holds the elections that no broker asked for."""

    def __init__(
        self,
        *,
        node: LeaderView,
        machine: GroupsMachine,
        heartbeats: HeartbeatReceiver,
        submitter: CommandSubmitter,
        maker: CommandMaker,
        config: LiveConfig,
        clock: Clock,
        first_elections: FirstElections,
    ) -> None:
        self._node = node
        self._machine = machine
        self._heartbeats = heartbeats
        self._submitter = submitter
        self._maker = maker
        self._config = config
        self._clock = clock
        self._first_elections = first_elections
        self._running: dict[GroupKey, asyncio.Task[None]] = {}
        self._again: set[GroupKey] = set()
        self._revived: dict[GroupKey, None] = {}
        self._wake = asyncio.Event()
        self._gained = False

    def on_deaths(self, deaths: list[Death]) -> None:
        """Act on members that died, if this node leads."""
        for death in deaths:
            _log.info(
                "a broker is dead",
                extra=bind(
                    cluster=death.key.cluster,
                    broker_group=death.key.broker_name,
                    id=death.key.broker_id,
                    cause=str(death.cause),
                ),
            )
            if not self._node.is_leader:
                continue
            if death.key.group in self._running:
                self._again.add(death.key.group)  # it may be the winner, who is not recorded yet
            group = self._machine.state.get(death.key.group)
            if group is not None and group.master_id == death.key.broker_id:
                self._start(_need_after(group, death))

    def on_revival(self, key: ReplicaKey) -> None:
        """Act on a member that came alive: its group may be able to elect now.

        Why not at once: many members of one group may come alive in one turn of the loop, and a look at the
        group costs O(its members).
        """
        if not self._revived:
            asyncio.get_running_loop().call_soon(self._look_at_revived)
        self._revived[key.group] = None

    def _look_at_revived(self) -> None:
        for key in tuple(islice(self._revived, REVIVED_GROUPS_AT_ONCE)):
            del self._revived[key]
            if self._node.is_leader:
                self._look_at(key)
        if self._revived:
            asyncio.get_running_loop().call_soon(self._look_at_revived)

    def wake(self) -> None:
        """Leadership was gained: finish the work of the previous leader."""
        self._gained = True
        self._wake.set()

    async def run(self) -> None:
        """Scan whenever woken and every so often, until cancelled."""
        while True:
            self._wake.clear()
            if self._node.is_leader:
                if self._gained:
                    self._gained = False
                    self._tell_again()
                self._scan()
            interval_s = self._config.settings.scan_inactive_master_interval_ms / _MS_PER_S
            try:
                async with asyncio.timeout(interval_s):
                    await self._wake.wait()
            except TimeoutError:
                pass

    async def stop(self) -> None:
        """Cancel elections that are under way; their entries may still be applied."""
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _tell_again(self) -> None:
        """Tell brokers of elections whose leader may have died before it told them."""
        oldest_ns = self._clock.stamp().utc_ns - TELL_AGAIN_NS
        for group in self._machine.state.groups():
            record = self._machine.state.history.failover(group.key, group.master_epoch)
            if record is not None and record.role_taken_ns is None and record.proposed_ns >= oldest_ns:
                living = self._heartbeats.table.alive_ids(group.key, group.replicas)
                self._submitter.follow_up.repeat(role_notices(group, living))

    def _scan(self) -> None:
        unclean = self._config.settings.elect_unclean_master
        for need in groups_needing_election(
            self._machine.state, self._heartbeats.table, unclean_allowed=unclean
        ):
            self._start_if_certain(need)
        for group in self._first_elections.due():
            self._start(ElectionNeed(group.key, None, group.master_epoch, Cause.MASTER_MISSING, None))

    def _look_again(self, key: GroupKey) -> None:
        """Make up for what happened while an election was under way, its winner's death above all."""
        group = self._machine.state.get(key)
        if group is None or group.master_id is None:
            self._look_at(key)
            return
        member = ReplicaKey(*key, group.master_id)
        death = self._heartbeats.table.last_death(member)
        if death is not None and not self._heartbeats.table.is_alive(member):
            self._start(_need_after(group, death))

    def _look_at(self, key: GroupKey) -> None:
        group = self._machine.state.get(key)
        if group is None:
            return
        unclean = self._config.settings.elect_unclean_master
        need = election_need(group, self._heartbeats.table, unclean_allowed=unclean)
        if need is not None:
            self._start_if_certain(need)

    def _start_if_certain(self, need: ElectionNeed) -> None:
        listening_since_ms = self._heartbeats.listening_since_ms
        if may_elect(need, now_ms=self._clock.now_ms(), listening_since_ms=listening_since_ms):
            self._start(need)

    def _start(self, need: ElectionNeed) -> None:
        if need.key in self._running:
            self._again.add(need.key)
            return
        task = asyncio.create_task(self._elect(need))
        self._running[need.key] = task
        task.add_done_callback(lambda _task: self._finished(need.key))

    def _finished(self, key: GroupKey) -> None:
        self._running.pop(key, None)
        if key in self._again:
            self._again.discard(key)
            if self._node.is_leader:
                self._look_again(key)

    async def _elect(self, need: ElectionNeed) -> None:
        suspicion = self._suspicion(need)
        for _attempt in range(1 + self._config.settings.elect_master_retries_max):
            try:
                command = self._maker.elect_after(need.key, need.cause, suspicion)
                outcome = await self._submitter.submit(await self._prepared(command))
            except (RoleUnknownError, LogUnknownError) as error:
                _log.warning(
                    "a first election waits", extra=bind(broker_group=str(need.key), error=str(error))
                )
                return
            except CommandDroppedError:
                await asyncio.sleep(RETRY_S)
                continue
            except (NotLeaderError, ProposalLostError) as error:
                _log.info(
                    "an election is left to the next leader",
                    extra=bind(broker_group=str(need.key), error=str(error)),
                )
                return
            _log.info(
                "an election was held",
                extra=bind(
                    broker_group=str(need.key),
                    cause=str(need.cause),
                    code=int(outcome.reply.code),
                    remark=outcome.reply.remark,
                ),
            )
            return

    async def _prepared(self, command: ElectMaster) -> ElectMaster:
        """Add what a first election is decided by, where no master was ever recorded."""
        group = self._machine.state.get(GroupKey(command.cluster, command.broker_name))
        if group is None or not is_first(group):
            return command
        return await self._first_elections.prepared(group, command)

    def _suspicion(self, need: ElectionNeed) -> Suspicion | None:
        if need.master_id is None:
            return None
        death = need.death
        return Suspicion(
            master_id=need.master_id,
            master_epoch=need.master_epoch,
            suspected=self._clock.stamp() if death is None else self._clock.stamp_at(death.at_ms),
            last_heartbeat_ns=None if death is None else self._clock.stamp_at(death.last_beat_ms).utc_ns,
        )


def _need_after(group: Group, death: Death) -> ElectionNeed:
    return ElectionNeed(group.key, group.master_id, group.master_epoch, death.cause, death)
