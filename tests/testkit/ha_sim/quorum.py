"""The simulated group with quorum acknowledgements: some copies of all are enough for "stored".

What differs from `group`:

    numbers     two copies of three members, three of five, or two of five (`NUMBERS`)
    client      receives "stored" when as many members have the message, the master included, as RocketMQ
                counts for `inSyncReplicas`
    writes      a master refuses them while the set has fewer members than that (`minInSyncReplicas`)
    set         a slave joins when it has what every member of the set has, as in RocketMQ; the controllers
                record it later, and its acknowledgements count before that; a member that left is
                removed when the others have the master's log
    controller  elects only after the master's process ended, by the rule under test; it learns the logs from
                heartbeats, which are up to `BEAT_MS` old, and may ask living members
    last member is a log replica in some schedules: it copies and counts, and is never elected

The invariant is that each elected master holds every acknowledged message (`SimulatedGroup._learn` checks
it). Several members may be dead at once, and all come back: a group may stay without a master until then.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from controller_core.groups.commands import Cause, ElectMaster, LiveBroker, MemberLog, Stamp
from controller_core.groups.elections.log_ends import with_log_ends
from controller_core.groups.elections.member_logs import log_of_list
from controller_core.groups.elections.policy import elect_from
from controller_core.groups.group import Group as ControllersGroup
from controller_core.groups.group import Replica
from controller_core.groups.keys import BrokerId, GroupKey, LogOffset, MasterEpoch
from ha_sidecar.commitlog.store import StoreError
from testkit.check.errors import SafetyViolation
from testkit.ha_sim.checks import messages
from testkit.ha_sim.group import GroupPlan, SimulatedGroup
from testkit.ha_sim.member import FILE_BYTES, SimulatedMember

BEAT_MS: Final = 300
STEPS: Final = 1_000
"""Of a group of three; more members need three times as many."""
MISHAPS: Final = 0.015
LOG_REPLICAS: Final = 0.4
"""Share of schedules in which the last member is a log replica."""
RECORDED: Final = 0.1
"""Chance of a step of the master that the controllers record a slave as joined; it counts already."""
WRITES: Final = 0.05
CHANGES_OF_SPEED: Final = 0.02
SLOWNESS: Final = 0.1
"""Chances of a step: of a write, of another slow member, and that the slow one moves."""
KILLS: Final = 0.5
"""Share of mishaps that end the master's process while it writes."""
KILLS_MORE: Final = 0.7
"""Chance that another member ends in the same moment, of each as many as there are copies."""


@dataclass(frozen=True, slots=True)
class QuorumNumbers:
    """How many members a group has, and how many have a message when it is acknowledged."""

    members: int
    copies: int


NUMBERS: Final = (
    QuorumNumbers(3, 2),
    QuorumNumbers(3, 2),
    QuorumNumbers(5, 3),
    QuorumNumbers(5, 2),
)
"""What a schedule draws from."""

Rule = Callable[["QuorumGroup"], int | None]
"""Returns the id of the next master; None to hold no election now."""


def by_heartbeats(group: "QuorumGroup") -> int | None:
    """Elect by the log ends of the last heartbeats, as RocketMQ does. It loses acknowledged messages."""
    recorded = group.recorded()
    return elect_from(recorded.sync_state_set, recorded, group.alive(), None)


def by_log_ends(group: "QuorumGroup") -> int | None:
    """Elect by the ends that living members tell when they are asked, and by the group's number."""
    return with_copies(group, group.numbers.copies)


def with_copies(group: "QuorumGroup", copies: int) -> int | None:
    """Elect by the ends that living members tell, as if so many had each acknowledged message."""
    recorded, alive = group.recorded(), group.alive()
    logs = {BrokerId(member.id): _log(member) for member in group.all if member.store is not None}
    asked = ElectMaster(
        cluster="c",
        broker_name="g",
        stamp=Stamp(0, 0, ""),
        cause=Cause.CONNECTION_CLOSED,
        alive=tuple(alive.values()),
    )
    command = with_log_ends(recorded, asked, logs, copies)
    if command.withheld:
        return None
    fresh = {broker.id: broker for broker in command.alive}
    return elect_from(recorded.sync_state_set, recorded, fresh, None)


class QuorumGroup(SimulatedGroup):
    """A group in which some copies are enough.

    Attributes:
        numbers: of members and copies.
        waits: how often the controller elected no broker although a member of the set lived.
    """

    def __init__(self, seed: int, rule: Rule, numbers: QuorumNumbers | None = None) -> None:
        """Draw the plan of the seed, and elect by `rule`; without `numbers` draw them too."""
        # Chance of its own: the numbers do not change what else a seed does.
        self.numbers: Final = numbers or Random(f"numbers of {seed}").choice(NUMBERS)
        super().__init__(
            seed,
            replace(
                GroupPlan.draw(Random(seed)),
                steps=STEPS if self.numbers == NUMBERS[0] else 3 * STEPS,
                mishaps=MISHAPS,
                heartbeats=1.0,
            ),
            self.numbers.members,
        )
        self.waits = 0
        self._rule: Final = rule
        self._has_log_replica: Final = self.random.random() < LOG_REPLICAS
        self._slow: set[int] = set()
        self._ends: Final = Random(f"ends of {seed}")
        self._is_healing = False
        self._beats: Final[dict[int, tuple[int, int]]] = {}
        self._beaten_ms: Final[dict[int, int]] = {}

    def living(self) -> list[SimulatedMember]:
        """Return the members of the set whose process runs."""
        return [member for member in self.all if member.id in self.members and member.store is not None]

    def recorded(self) -> ControllersGroup:
        """Return the group as the controllers hold it: without a living master."""
        replicas = {
            BrokerId(member.id): Replica(f"m:{member.id}", "", electable=not self._is_log_replica(member))
            for member in self.all
        }
        return ControllersGroup(
            GroupKey("c", "g"),
            replicas=replicas,
            master_epoch=MasterEpoch(self.epoch),
            sync_state_set=tuple(BrokerId(member) for member in sorted(self.members)),
        )

    def alive(self) -> dict[BrokerId, LiveBroker]:
        """Return the living members with what their last heartbeats told."""
        beats = {member.id: self._beats.get(member.id, (-1, -1)) for member in self.living()}
        return {
            BrokerId(member): LiveBroker(BrokerId(member), epoch, LogOffset(end))
            for member, (epoch, end) in beats.items()
        }

    def elect(self) -> None:
        """Elect by the rule if the master's process has ended.

        Where a member outside the set is dead, not more are than an acknowledgement outlives.
        """
        if self.master.store is not None:
            return
        dead = {member.id for member in self.all if member.store is None}
        if dead - self.members and len(dead) >= self.numbers.copies:
            return
        chosen = self._rule(self)
        if chosen is None:
            self.waits += bool(self.living())
            return
        self.epoch += 1
        self.elections += 1
        self.master = self.all[chosen - 1]
        self.members = {chosen}

    def _is_log_replica(self, member: SimulatedMember) -> bool:
        return self._has_log_replica and member.id == len(self.all)

    def _step(self) -> None:
        super()._step()
        if self.random.random() < WRITES:
            self._guarded(self.master, lambda: self._write(self.master))
        if self.random.random() < CHANGES_OF_SPEED:
            self._slow = self._any_slow(self.random.randint(1, len(self.all)))
        for member in self.all:
            if member.store is not None and self.now_ms >= self._beaten_ms.get(member.id, 0) + BEAT_MS:
                self._beaten_ms[member.id] = self.now_ms
                self._beats[member.id] = (member.store.epochs.last_epoch, _end(member))

    def _write(self, member: SimulatedMember) -> None:
        if len(member.members) >= self.numbers.copies:  # minInSyncReplicas
            super()._write(member)

    def _move(self, member: SimulatedMember) -> None:
        if member.id not in self._slow or self._is_healing or self.random.random() < SLOWNESS:
            super()._move(member)

    def _heal(self) -> None:
        self._is_healing = True
        super()._heal()

    def _mishap(self) -> None:
        if self.random.random() < KILLS:
            self._guarded(self.master, lambda: self._write(self.master))
            self._crash(self.master, power=self.plan.after_sync and self.random.random() < 0.5)
            self._end_others()
            self.elect()
        else:
            super()._mishap()

    def _any_slow(self, first: int) -> set[int]:
        """Return members that are slow: as many as an acknowledgement does not need."""
        others = [member.id for member in self.all if member.id != first]
        count = self.numbers.members - self.numbers.copies - 1
        return {first, *self._ends.sample(others, count)}

    def _end_others(self) -> None:
        """End others with the master, perhaps all that have some message; not in a group of three."""
        fast = [member for member in self.all if member.id not in self._slow and member is not self.master]
        for member in self._ends.sample(fast, min(self.numbers.copies - 1, len(fast))):
            if self.numbers != NUMBERS[0] and self._ends.random() < KILLS_MORE:
                self._crash(member, power=False)

    def _check_kept(self) -> None:
        """A member of the set may lack a message that two others have."""

    def _keep_set(self, master: SimulatedMember) -> None:
        assert master.store is not None
        last = master.store.epochs.last
        acks = self._acks(master)
        own_end = master.store.log.max_offset
        confirmed = min([own_end, *(acks.get(member, 0) for member in self.members - {master.id})])
        for broker_id, ack in acks.items():
            has_all = ack >= confirmed and last and ack >= last.start_offset
            if has_all and (self._is_healing or self._ends.random() < RECORDED):
                self.members.add(broker_id)
        remaining = self.members & {master.id, *acks}
        if self.random.random() < 0.1 and all(acks[member] == own_end for member in remaining - {master.id}):
            self.members = remaining
        master.members = set(self.members)

    def _acknowledge(self, master: SimulatedMember) -> None:
        """Tell clients what enough members have, the master included."""
        if master.store is None:
            return
        log = master.store.log
        own = log.synced_offset if self.plan.after_sync else log.max_offset
        acks = sorted(self._acks(master).values(), reverse=True)
        others = self.numbers.copies - 1
        end = min([own, *acks[:others]]) if len(acks) >= others else 0
        whole = [found for _, found, _ in messages(bytes(master.held.data), FILE_BYTES) if found <= end]
        if whole and whole[-1] > len(self.acknowledged.data):
            self.acknowledged.grow(bytes(master.held.data[: whole[-1]]))

    def _acks(self, master: SimulatedMember) -> dict[int, int]:
        """Return the greatest acknowledgement of each connected slave."""
        acks: dict[int, int] = {}
        for session in master.sessions:
            if session.machine.handshake is not None and session.machine.ack_offset >= 0:
                broker_id = session.machine.handshake.broker_id
                acks[broker_id] = max(acks.get(broker_id, 0), session.machine.ack_offset)
        return acks


def _end(member: SimulatedMember) -> int:
    assert member.store is not None
    return member.store.log.max_offset


def _log(member: SimulatedMember) -> MemberLog:
    assert member.store is not None
    starts = ((entry.epoch, entry.start_offset) for entry in member.store.epochs)
    return log_of_list(BrokerId(member.id), starts, LogOffset(_end(member)))


def run_quorum_schedule(
    seed: int, rule: Rule = by_log_ends, numbers: QuorumNumbers | None = None
) -> QuorumGroup:
    """Run the schedule of a seed; raise `SafetyViolation` if an invariant breaks."""
    group = QuorumGroup(seed, rule, numbers)
    try:
        group.run()
    except StoreError as error:
        raise SafetyViolation(str(error)) from error
    return group
