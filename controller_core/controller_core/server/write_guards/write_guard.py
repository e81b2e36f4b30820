"""Stop the writes of a living master before a switchover, so that no acknowledged message is lost with it.

Why: a master that steps down answers the writes that still wait for its slaves, although its slaves have
left. Java then counts the master alone and answers "stored", and the message is gone when that broker follows
the new master. (RocketMQ 5.5.0: 5 of 12 switchovers under load lost 1 to 4 messages with notices to all at
once, 1 of 26 with the first notice to the old master.) So, before the election is proposed:

    ask the master for its minInSyncReplicas (26)                 port closed: go on without a guard, as
                                                                  RocketMQ does
    note it in the replicated state (RaiseWriteGuard)
    set it out of reach, refuse sends for a minute (25)           no send begins any more; those on their way
                                                                  are refused if they wait for copies
    wait until every slave of the set has the required part of the log (907)
    ask for the setting once more (26)                            an administrator may have changed it
    elect, tell, new master first (`notice_order`)
    set both back (25), strike the note off (LiftWriteGuard)      repeated until done, the broker dies, or
                                                                  another leads

Why two settings. RocketMQ looks at minInSyncReplicas only in a master. A send that passed the look at the
role (HookUtils.checkBeforePutMessage), and comes to that second look (needHandleHA) as a slave's, is stored
and acknowledged without a copy. So sends are refused earlier, where the broker takes them up
(`startAcceptSendRequestTimeStamp`): between that and the change of role lie a round to the master, an entry
of the Raft log, and 20 ms.

Whatever else goes wrong before the election refuses it (2012) with the broker's own words: no answer, a
connection that fails otherwise, a refusal (access control), slaves that do not catch up. A switchover without
a guard loses messages: with ACL on, 3 of 8,674 in three switchovers. Where the port is closed no client can
write either: the process is dead, or has never served one.

A refused write was not written: the client tries again, and is served by the new master some 0.1 s later.
While a guard is up, all clients are refused, so tries that failed are spaced (`GuardSpacing`).

The required part of the log. A broker's own writes go on and grow the log (commits of transactions,
deliveries of delayed messages, retries of consumers). No client was promised a copy of those. The time
between a send's looks at the settings and its place in the log is short. So the required part ends where the
log ended when two answers were equal, or `APPENDED_WITHIN_S` after the guard was set, whichever is first.

The note stays for `LATE_WITHIN_S` after the setting is back, and is struck off if it still is: a request of
an earlier leader may arrive over another connection after ours, and only the note knows the setting then.

If a leader dies during a guard, its note stays in the state, and its successor restores the setting. The
broker keeps the setting in its file, so a broker that crashed during the guard gets the old value when it
registers again. If a broker refuses its old setting, the leader repeats the request while the broker lives
and the note exists. The leader does not touch a setting that an administrator changed during the guard.

Failovers (`elections.leader_elections`) never come here: their master does not live for the controllers, so
`would_replace` is false. A silent master cannot answer: its log replica detaches from it
(`replica_detacher`), and its companion's fence stops its writes.

Never here: the choice of the winner. `groups.elections.election` says whether an election would replace a
living master at all.

Source: SendMessageProcessor.preSend, CommitLog.asyncPutMessage and needHandleHA,
GroupTransferService.doWaitTransfer, AutoSwitchHAService.getRuntimeInfo of 5.5.0.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Protocol

from msgspec.structs import replace

from controller_core.broker_settings import MIN_IN_SYNC
from controller_core.channel.errors import PortClosedError
from controller_core.channel.refusals import RefusalLog
from controller_core.groups.commands import (
    AnyCommand,
    ElectMaster,
    LiftWriteGuard,
    LiveBroker,
    RaiseWriteGuard,
)
from controller_core.groups.elections.election import would_replace
from controller_core.groups.group import Group
from controller_core.groups.keys import BrokerId, GroupKey, ReplicaKey
from controller_core.groups.replies import Outcome
from controller_core.groups.state import GroupsState
from controller_core.remoting.bodies import HARuntimeInfo
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.server.clock import Clock
from controller_core.server.common.broker_questions import ASK_ERRORS, Ask, RefusedError, ask_or_raise
from controller_core.server.logs import bind
from controller_core.server.node.types import CommandDroppedError, NotLeaderError, ProposalLostError
from controller_core.server.write_guards.guard_spacing import GuardSpacing
from controller_core.server.write_guards.write_settings import BrokerWriteSettings, WriteSettings

OUT_OF_REACH: Final = 1_000
"""More copies than any group has members; a write that asks for so many is refused before it is written."""
DRAINED_WITHIN_S: Final = 1.0
"""How long slaves may need for the rest of the log; with all else, mqadmin's 3 s are not used up."""
DRAIN_PAUSE_S: Final = 0.01
APPENDED_WITHIN_S: Final = 0.1
"""How long a write may take from its look at the setting until it is in the log."""
LIFT_TRIES_OF_DEAD_MAX: Final = 20
LIFT_PAUSE_S: Final = 0.5
"""Before the second try to set a broker back; doubled for each further one."""
LIFT_PAUSE_S_MAX: Final = 8.0
LATE_WITHIN_S: Final = 2.0
"""For how long a guard's request may still arrive over a connection that nobody waits for any more."""

_log = logging.getLogger(__name__)


class SwitchoverRefusedError(Exception):
    """The living master cannot be replaced without loss now.

    Attributes:
        why: the reason, without the names of group and master.
    """

    def __init__(self, group: Group, why: str) -> None:
        self.why = why
        name = group.key.broker_name
        super().__init__(
            f"Master {group.master_id} of {name} stays master, a switchover could lose messages: {why}"
        )


class OpenChanges(Protocol):
    """What this asks about changes of master."""

    def is_open(self, key: GroupKey) -> bool:
        """Whether a change of this group's master is being decided or told."""
        ...

    async def settled(self, key: GroupKey) -> None:
        """Wait until no change of this group is open."""
        ...


class WriteGuards:
    """Raises a guard before an election that needs one, and lifts it again."""

    def __init__(
        self,
        *,
        state: GroupsState,
        clock: Clock,
        ask: Ask,
        forget: Callable[[str], None],
        propose: Callable[[AnyCommand], Awaitable[Outcome]],
        alive_of: Callable[[str, str], tuple[LiveBroker, ...]],
        changes: OpenChanges,
        leads: Callable[[], bool],
    ) -> None:
        """Take the state and the functions to use.

        Args:
            state: the applied groups; read only.
            clock: stamps the notes.
            ask: asks a broker.
            forget: closes the connection to an address that questions use.
            propose: puts a note into the log.
            alive_of: returns the living members of a group.
            changes: which groups are in the middle of a change of master.
            leads: whether this node leads now.
        """
        self._state = state
        self._clock = clock
        self._ask = ask
        self._settings: Final = BrokerWriteSettings(ask, forget)
        self._propose = propose
        self._alive_of = alive_of
        self._changes = changes
        self._leads = leads
        self._spacing = GuardSpacing()
        self._refusals = RefusalLog(_log)
        self._lifting: dict[ReplicaKey, asyncio.Task[None]] = {}
        self._raised_again: dict[ReplicaKey, asyncio.Event] = {}
        # One lock for each group: raising and lifting must not overtake each other.
        self._locks: dict[GroupKey, asyncio.Lock] = {}

    async def before(self, command: ElectMaster) -> ElectMaster:
        """Stop the writes of the living master that this election would replace.

        Return the command to propose.

        Raises:
            SwitchoverRefusedError: the guard cannot be set, or its slaves do not catch up in time.
            NotLeaderError, CommandDroppedError, ProposalLostError: as `Node.propose`.
        """
        group = self._state.group_of(command)
        if group is None or group.master_id is None or not would_replace(group, command):
            return command
        address = group.master_address or ""
        async with self._lock(group.key):
            if problem := self._spacing.problem(group.key):
                raise SwitchoverRefusedError(group, problem)
            before = await self._noted(group, group.master_id, address)
            if before is None:
                return command
            try:
                await self._guard(group, address, before)
            except SwitchoverRefusedError as error:
                self._spacing.failed(group.key, error.why)
                raise
            self._spacing.succeeded(group.key)
        return replace(
            command,
            stamp=self._clock.stamp(),
            alive=self._alive_of(*group.key),
            replaced_epoch=group.master_epoch,
        )

    def lift(self, key: GroupKey) -> None:
        """Give the members of a group their setting back, once no change of its master is open."""
        group = self._state.get(key)
        for broker_id in () if group is None else group.write_guards:
            member = ReplicaKey(*key, broker_id)
            if member in self._lifting:
                self._raised_again[member].set()
            else:
                self._raised_again[member] = asyncio.Event()
                self._lifting[member] = task = asyncio.create_task(self._lift(member))
                task.add_done_callback(partial(self._lifted, member))

    def _lifted(self, member: ReplicaKey, _task: asyncio.Task[None]) -> None:
        self._lifting.pop(member, None)
        self._raised_again.pop(member, None)

    def lift_of(self, command: ElectMaster) -> None:
        """Do the same for the group of an election."""
        group = self._state.group_of(command)
        if group is not None:
            self.lift(group.key)

    def lift_all(self) -> None:
        """Do the same for all groups: after a change of leader, guards of its predecessor may remain."""
        for group in self._state.groups():
            if group.write_guards:
                self.lift(group.key)

    async def stop(self) -> None:
        """Stop lifting; the next leader lifts the guards that are still noted."""
        tasks = list(self._lifting.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # The steps of a guard.

    async def _noted(self, group: Group, master_id: BrokerId, address: str) -> WriteSettings | None:
        """Note the guard and the master's setting without it.

        Return the settings that the master has now, None if its port is closed.
        """
        try:
            found = await self._settings.asked_twice(address)
        except PortClosedError as error:
            _log.warning(
                "a master is replaced without a write guard: its port is closed",
                extra=_bind(ReplicaKey(*group.key, master_id), error=str(error)),
            )
            return None
        except ASK_ERRORS as error:
            raise SwitchoverRefusedError(group, f"its {MIN_IN_SYNC} cannot be read: {error}") from error
        setting = found.min_in_sync
        if setting >= OUT_OF_REACH:
            # A request of an earlier guard came late: its note has the setting.
            setting = group.write_guards.get(master_id, setting)
        note = RaiseWriteGuard(
            cluster=group.key.cluster,
            broker_name=group.key.broker_name,
            stamp=self._clock.stamp(),
            master_id=master_id,
            master_epoch=group.master_epoch,
            min_in_sync_replicas=setting,
        )
        reply = (await self._propose(note)).reply
        if reply.code != ResponseCode.SUCCESS:
            # Another master was elected in the meantime, and the guard is not for that one.
            raise SwitchoverRefusedError(group, reply.remark or f"code {reply.code}")
        return found

    async def _guard(self, group: Group, address: str, before: WriteSettings) -> None:
        """Stop the master's writes; return when every slave of the set has the required part of its log."""
        now_ms = self._clock.stamp().utc_ns // 1_000_000
        try:
            await self._settings.put(address, before.stopped(OUT_OF_REACH, now_ms))
        except ASK_ERRORS as error:
            raise SwitchoverRefusedError(group, f"its writes cannot be stopped: {error}") from error
        try:
            async with asyncio.timeout(DRAINED_WITHIN_S):
                await self._drained(address, slaves=len(group.sync_state_set) - 1)
                if (await self._settings.of(address)).min_in_sync != OUT_OF_REACH:
                    raise SwitchoverRefusedError(group, f"its {MIN_IN_SYNC} was changed during the guard")
        except ASK_ERRORS as error:
            why = str(error) or f"its slaves lack part of its log after {DRAINED_WITHIN_S} s"
            raise SwitchoverRefusedError(group, why) from error

    async def _drained(self, address: str, *, slaves: int) -> None:
        """Wait until every slave of the set has the log up to the point where the guard took effect."""
        loop = asyncio.get_running_loop()
        holds_from_s = loop.time() + APPENDED_WITHIN_S
        end_before, must_have = -1, -1
        while True:
            asked_s = loop.time()
            answer = await ask_or_raise(self._ask, address, RequestCode.GET_BROKER_HA_STATUS)
            status = HARuntimeInfo.decode(answer.body)
            end = status.master_commit_log_max_offset
            if must_have < 0 and asked_s >= holds_from_s:
                must_have = end
            wanted = end if end == end_before else must_have
            if wanted >= 0:
                held = [
                    slave.in_sync and slave.slave_ack_offset >= wanted for slave in status.ha_connection_info
                ]
                if held.count(True) >= slaves:
                    return
            end_before = end
            await asyncio.sleep(DRAIN_PAUSE_S)

    async def _lift(self, member: ReplicaKey) -> None:
        """Restore a broker's setting.

        Repeat while it lives and this node leads, and a little longer if it is dead.
        """
        pause_s, tries_of_dead, given = LIFT_PAUSE_S, 0, -1
        while tries_of_dead < LIFT_TRIES_OF_DEAD_MAX:
            if not self._leads():
                return
            try:
                if (now := await self._set_back(member, given)) is None:
                    self._refusals.answered(str(member))
                    return
                is_over = await self._late_requests(member, LATE_WITHIN_S if now != given else 0.0)
                given = now if is_over else -1  # Cut short, the time does not count.
            except (NotLeaderError, ProposalLostError):
                return  # The broker is set back; who leads now does it again and strikes the note off.
            except (*ASK_ERRORS, CommandDroppedError) as error:
                if isinstance(error, RefusedError):
                    self._refusals.refused(str(member), f"its writes stay stopped: {error}")
                else:
                    _log.info("a write guard is not lifted yet", extra=_bind(member, error=str(error)))
                alive = {broker.id for broker in self._alive_of(*member.group)}
                tries_of_dead = 0 if member.broker_id in alive else tries_of_dead + 1
                await asyncio.sleep(pause_s if member.broker_id in alive else LIFT_PAUSE_S)
                pause_s = min(2 * pause_s, LIFT_PAUSE_S_MAX)
        _log.warning("a write guard stays until its broker sends a heartbeat again", extra=_bind(member))

    async def _late_requests(self, member: ReplicaKey, within_s: float) -> bool:
        """Wait for requests that come late; return False if a guard of this member is to be lifted before."""
        again = self._raised_again[member]
        try:
            async with asyncio.timeout(within_s):
                await again.wait()
        except TimeoutError:
            return True
        again.clear()
        return False

    async def _set_back(self, member: ReplicaKey, given: int) -> int | None:
        """Do it once no change is open, and return the value that the broker has now.

        Strike the note off and return None if it still has the value that was given before. Return that value
        if a change was opened before it was our turn.
        """
        await self._changes.settled(member.group)
        async with self._lock(member.group):
            if self._changes.is_open(member.group):
                return given
            group = self._state.get(member.group)
            setting = None if group is None else group.write_guards.get(member.broker_id)
            if group is None or setting is None:
                return None
            address = group.address(member.broker_id) or ""
            settings = await self._settings.of(address)
            found = settings.min_in_sync
            if found != given and (found >= OUT_OF_REACH or found == setting):
                # Set it in any case: a late answer to the guard must not have the last word.
                rest = max(found - OUT_OF_REACH, 0)  # of a companion's fence
                await self._settings.put(address, settings.allowed(setting + rest))
                return setting + rest
            if found not in (given, setting):
                await self._settings.put(address, settings.allowed(found))
                _log.warning(
                    "the setting of a broker was changed while its writes were stopped: it is left as it is",
                    extra=_bind(member, setting=str(found), before=str(setting)),
                )
            note = LiftWriteGuard(
                cluster=member.cluster,
                broker_name=member.broker_name,
                stamp=self._clock.stamp(),
                broker_id=member.broker_id,
            )
            await self._propose(note)
        return None

    def _lock(self, key: GroupKey) -> asyncio.Lock:
        return self._locks.setdefault(key, asyncio.Lock())


def _bind(member: ReplicaKey, **fields: str) -> dict[str, object]:
    return bind(cluster=member.cluster, broker_group=member.broker_name, id=member.broker_id, **fields)
