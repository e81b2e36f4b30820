"""Observations from outside during a run: calls of the API with their times, and acknowledged messages.

One history a group. A call without an answer stays open: it may have had its effect, or not, or later.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from controller_core.groups.commands import AlterSyncStateSet, AnyCommand, ElectMaster
from controller_core.groups.group import Group
from controller_core.groups.keys import GroupKey
from controller_core.groups.replies import Outcome
from controller_core.remoting.codes import ResponseCode
from testkit.check.linearizability import PENDING_S, Interval, SearchResult, SearchVerdict, check
from testkit.check.registers import Alter, Call, Register, Transition, step
from testkit.sim.brokers.broker_log import BrokerLog
from testkit.sim.checks.invariants import Invariants, register_of
from testkit.sim.loop.virtual_loop import Process, VirtualLoop

_NS_PER_S = 1_000_000_000


@dataclass(slots=True)
class OpenCall:
    """A request 1001 whose answer may still come."""

    loop: VirtualLoop
    began_s: float
    call: Alter
    ended_s: float = PENDING_S

    def answered(self, code: int, new_set_epoch: int) -> None:
        """Note its answer."""
        self.ended_s = self.loop.now_s
        self.call = replace(self.call, code=code, new_set_epoch=new_set_epoch)


@dataclass(frozen=True, slots=True)
class AcknowledgedMessage:
    """A message that a master acknowledged."""

    at_s: float
    epoch: int
    broker_id: int
    offset: int
    message: str


@dataclass(slots=True)
class GroupHistory:
    """The observations of one group."""

    calls: list[Interval[Call]] = field(default_factory=list)
    open_calls: list[OpenCall] = field(default_factory=list)
    acknowledged: list[AcknowledgedMessage] = field(default_factory=list)

    def intervals(self) -> list[Interval[Call]]:
        """Return all calls."""
        calls = list(self.calls)
        calls.extend(Interval(one.began_s, one.ended_s, one.call) for one in self.open_calls)
        return calls

    def verdict(self) -> SearchResult[Call]:
        """Say whether one register can have answered like this."""
        return check(self.intervals(), Register(), step)


class ObservedBroker(Protocol):
    """The observed state of a broker: its log outlives its process."""

    broker_id: int
    log: BrokerLog


class Observations:
    """The histories of all groups, and a running digest of everything that happened.

    Attributes:
        members: the brokers of each group.
    """

    def __init__(self, loop: VirtualLoop, invariants: Invariants) -> None:
        self.groups: dict[str, GroupHistory] = {}
        self.processes: dict[str, Process] = {}
        self.members: Mapping[str, Sequence[ObservedBroker]] = {}
        self._loop = loop
        self._invariants = invariants
        self._trace = hashlib.blake2b(digest_size=16)
        self._life_began_s = 0.0

    @property
    def trace(self) -> str:
        """The digest of this run: the same seed gives the same."""
        return self._trace.hexdigest()

    def note(self, text: str) -> None:
        """Put something that happened into the digest."""
        self._trace.update(f"{self._loop.now_s:.9f} {text}\n".encode())

    def call(self, group: str, began_s: float, call: Call) -> None:
        """A call was answered now; one that controllers of an earlier life answered is left out."""
        if began_s < self._life_began_s:
            return
        self._history(group).calls.append(Interval(began_s, self._loop.now_s, call))

    def open_call(self, group: str, began_s: float, call: Alter) -> OpenCall:
        """A request 1001 was sent."""
        opened = OpenCall(self._loop, began_s, call)
        self._history(group).open_calls.append(opened)
        return opened

    def carried_out(self, group: str) -> list[Alter]:
        """Return the requests 1001 that were answered with success."""
        calls = (one.call for one in self._history(group).open_calls)
        return [call for call in calls if call.code == ResponseCode.SUCCESS]

    def acknowledged(
        self, cluster: str, group: str, epoch: int, broker_id: int, offset: int, message: str
    ) -> None:
        """A master acknowledged a message."""
        self.note(f"ack {group} {epoch} {broker_id} {offset} {message}")
        self._invariants.acknowledged(GroupKey(cluster, group), epoch, broker_id)
        self._history(group).acknowledged.append(
            AcknowledgedMessage(self._loop.now_s, epoch, broker_id, offset, message)
        )

    def first_applied(
        self,
        key: GroupKey,
        before: Group | None,
        after: Group | None,
        command: AnyCommand,
        outcome: Outcome,
    ) -> None:
        """An entry was applied for the first time: an election, say, is a call without a caller."""
        self.note(f"applied {type(command).__name__} {key} {outcome.reply.code}")
        if after is not None and after.master_id is None:
            self._judge_preceding_set(after)
        if after is not None and isinstance(command, ElectMaster):
            self._judge_epochs(before, after)
        old, new = register_of(before), register_of(after)
        if old == new or isinstance(command, AlterSyncStateSet):
            return
        process = self.processes.get(command.stamp.clock_id)
        proposed_s = 0.0 if process is None else process.global_s(command.stamp.monotonic_ns / _NS_PER_S)
        transition = Transition(old, new, type(command).__name__)
        began_s = min(proposed_s, self._loop.now_s)
        self._history(key.broker_name).calls.append(Interval(began_s, self._loop.now_s, transition))

    def _judge_epochs(self, before: Group | None, after: Group) -> None:
        if before is not None and before.master_epoch == after.master_epoch:
            return
        name = after.key.broker_name
        for member in self.members.get(name, ()):
            self._invariants.require(
                member.log.last_epoch < after.master_epoch,
                f"S2: an election of {name} makes epoch {after.master_epoch}, "
                f"the log of member {member.broker_id} is of epoch {member.log.last_epoch}",
            )

    def _judge_preceding_set(self, group: Group) -> None:
        name = group.key.broker_name
        for member in self.members.get(name, ()):
            if member.broker_id not in group.preceding_set:
                continue
            kept = {record.message for record in member.log.records}
            lacking = [one for one in self._history(name).acknowledged if one.message not in kept]
            self._invariants.require(
                not lacking,
                f"S7: {member.broker_id} of {name}, in the set before {group.sync_state_set}, "
                f"lacks {lacking[:2]}",
            )

    def begin_anew(self) -> None:
        """All controllers lose their stores: judge their observations, and begin new histories.

        Acknowledged messages stay.
        """
        self.judge()
        self._life_began_s = self._loop.now_s
        for history in self.groups.values():
            history.calls.clear()
            history.open_calls = []

    def judge(self) -> None:
        """Add to the violations what the histories show."""
        for name, history in self.groups.items():
            finding = history.verdict()
            self._invariants.require(
                finding.verdict is SearchVerdict.VALID,
                f"S5: the history of {name} is {finding.verdict}: "
                f"after {finding.placed} calls none of {finding.stuck[:4]}",
            )

    def _history(self, group: str) -> GroupHistory:
        return self.groups.setdefault(group, GroupHistory())
