"""The wait before the first election of a group whose members have a past unknown to these controllers.

`groups.elections.first_elections` says which member wins, and why. The leader adds knowledge of a running
process: whether all members have sent heartbeats, when the last one came, which one acts as master.

    a broker asks for a master (1002)   the leader waits for its heartbeat, which tells its log; it refuses
                                        the request while unregistered members of the group send heartbeats,
                                        for one wait
    every scan                          a group is due if all members have sent heartbeats, and no member came
                                        for `firstElectionWaitMs`
    a group is due                      the leader asks each member that did not ask for a master its role
                                        (907), then every member its list of epochs (1007, `member_logs`)

A restarted broker asks for a master (1002) until it knows one; until then it refuses writes. A running broker
does not ask while its own epoch is above ours; it continues as master or slave. So a member that reports to
be master, and has not asked, acts as master and takes writes.

This state is not replicated: a new leader waits again.

Source: ReplicasManager.java 5.5.0, startBasicService, schedulingSyncBrokerMetadata.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from controller_core.groups.commands import ElectMaster
from controller_core.groups.elections.first_elections import is_first, told_epoch, unheard_ids
from controller_core.groups.elections.policy import is_electable
from controller_core.groups.group import Group
from controller_core.groups.keys import BrokerId, GroupKey, ReplicaKey, comma_list
from controller_core.groups.replies import GroupReply
from controller_core.groups.state import GroupsState
from controller_core.remoting.bodies import HARuntimeInfo
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.server.clock import Clock
from controller_core.server.common.broker_questions import ASK_ERRORS, Ask, ask_or_raise
from controller_core.server.elections.heartbeats import HeartbeatReceiver
from controller_core.server.elections.member_logs import MemberLogs
from controller_core.server.logs import bind

BEAT_WITHIN_S: Final = 1.0
"""How long a broker's first heartbeat is awaited; it sends it before it asks, by another thread."""
STRANGER_WAITS: Final = 10
"""For how many waits a due election is held while unregistered members send heartbeats.

Any client can send them, so the wait has an end.
"""

_log = logging.getLogger(__name__)


class RoleUnknownError(Exception):
    """A living member did not say whether it acts as master; the text names the member and the error."""


@dataclass(frozen=True, slots=True)
class _Wait:
    """One state of a waiting group: its members, the ids not heard, and when this state began."""

    members: tuple[int, ...]
    unheard: tuple[int, ...]
    since_ms: int


class FirstElections:
    """Holds back first elections until all members are compared."""

    def __init__(
        self,
        state: GroupsState,
        heartbeats: HeartbeatReceiver,
        clock: Clock,
        ask: Ask,
        wait_ms: Callable[[], int],
        forget: Callable[[str], None] = lambda _address: None,
    ) -> None:
        """Take the applied groups, the heartbeats, and the wait after the last new member in ms.

        `forget` closes the connection that `ask` keeps to an address.
        """
        self._state = state
        self._heartbeats = heartbeats
        self._clock = clock
        self._ask = ask
        self._wait_ms = wait_ms
        self._waits: dict[GroupKey, _Wait] = {}
        self._held: dict[GroupKey, int] = {}
        self._asked: set[ReplicaKey] = set()
        self._logs = MemberLogs(ask, clock, forget)

    async def refusal(self, key: ReplicaKey) -> GroupReply | None:
        """Return why a broker's own 1002 cannot be judged yet; None if it can."""
        group = self._state.get(key.group)
        if group is None or not is_first(group) or key.broker_id not in group.replicas:
            return None
        self._asked.add(key)
        if not await self._heartbeats.has_beaten(key, BEAT_WITHIN_S):
            return _refused(f"no heartbeat of broker {key.broker_id} has told how far its log goes")
        if self._heartbeats.is_learner(key):
            return _refused(f"broker {key.broker_id} is a learner, which is never elected")
        strangers = self._heartbeats.unregistered_ids(group)
        if strangers and not self._is_over(self._held.setdefault(group.key, self._clock.now_ms())):
            return _refused(f"members {comma_list(strangers)} of an earlier life are not registered yet")
        return None

    def due(self) -> list[Group]:
        """Return the groups whose first election is due now."""
        waiting = {group.key: group for group in self._state.groups() if is_first(group)}
        for key in self._waits.keys() - waiting.keys():
            del self._waits[key]
        for key in self._held.keys() - waiting.keys():
            del self._held[key]
        self._asked = {key for key in self._asked if key.group in waiting}
        due = [group for group in waiting.values() if self._is_due(group)]
        self._logs.keep({group.key for group in due})
        return due

    async def prepared(self, group: Group, command: ElectMaster) -> ElectMaster:
        """Add who acts as master, and the logs of the members.

        Raises:
            RoleUnknownError: a living member that may act as master does not answer.
            LogUnknownError: a living member does not tell its epochs, and the wait for it is not over.
        """
        acting_id = await self.acting_id(group)
        return replace(command, acting_id=acting_id, logs=await self._logs.of(group, command.alive))

    def _is_due(self, group: Group) -> bool:
        alive = self._heartbeats.table.alive(group.key)
        if told_epoch(group, alive) == 0:
            return False
        members = tuple(group.replicas)
        unheard = unheard_ids(
            group, {member.id: member.max_offset for member in alive if member.max_offset >= 0}
        )
        wait = self._waits.get(group.key)
        if wait is None or (wait.members, wait.unheard) != (members, unheard):
            wait = self._waits[group.key] = _Wait(members, unheard, self._clock.now_ms())
            fields = bind(
                broker_group=str(group.key), members=comma_list(members), unheard=comma_list(unheard)
            )
            _log.warning(
                "the first election of a group with a past waits for a heartbeat of every member",
                extra=fields,
            )
        if unheard or not self._is_over(wait.since_ms):
            return False
        return not self._heartbeats.unregistered_ids(group) or self._is_over(
            wait.since_ms, waits=STRANGER_WAITS
        )

    def _is_over(self, since_ms: int, *, waits: int = 1) -> bool:
        return self._clock.now_ms() - since_ms >= waits * self._wait_ms()

    async def acting_id(self, group: Group) -> int | None:
        """Return the member that acts as master, with the greatest epoch if several say so; None without one.

        Raises:
            RoleUnknownError: a living member that may act as master does not answer.
        """
        members = [
            member
            for member in self._heartbeats.table.alive(group.key)
            if is_electable(group, member.id)
            and not member.is_learner
            and ReplicaKey(*group.key, member.id) not in self._asked
        ]
        says_so = await asyncio.gather(*(self._is_master(group, member.id) for member in members))
        acting = [member for member, yes in zip(members, says_so, strict=True) if yes]
        return max(acting, key=lambda member: member.epoch).id if acting else None

    async def _is_master(self, group: Group, broker_id: BrokerId) -> bool:
        try:
            answer = await ask_or_raise(
                self._ask, group.address(broker_id) or "", RequestCode.GET_BROKER_HA_STATUS
            )
            return HARuntimeInfo.decode(answer.body).master
        except ASK_ERRORS as error:
            raise RoleUnknownError(f"broker {broker_id} does not tell its role: {error}") from error


def _refused(why: str) -> GroupReply:
    remark = f"Failed to elect a new master: {why}"
    return GroupReply(ResponseCode.CONTROLLER_ELECT_MASTER_FAILED, {}, remark)
