"""A simulated broker group: some members, a controller that never errs, clients, and a schedule of mishaps.

What each part may do is the contract of the simulation:
    controller  elects any living member of the SyncStateSet at any time, in a new epoch; takes the
                master's changes of the set at once; its notices arrive in any order and after any
                time, so that old masters go on
    clients     receive "stored" when every member of the master's set has acknowledged
    network     delivers bytes of one connection in order and in any pieces; a connection breaks at any time,
                and its two ends notice at different times, so that an old one outlives the next
    disk        see `disk`; in some schedules it has hardly any room left, for a while; a process is killed,
                loses power or meets an error at any step of its I/O
    clock       one for all; time passes in jumps

All randomness comes from one `random.Random(seed)`; the same seed gives the same run.
"""

import contextlib
from dataclasses import dataclass
from random import Random
from typing import Final

from ha_sidecar.commitlog.room import NoRoomError
from ha_sidecar.commitlog.store import StoreError
from testkit.check.errors import PowerLossError, SafetyViolation
from testkit.ha_sim.checks import (
    AcknowledgedLog,
    check_kept,
    check_labels,
    messages,
    written,
)
from testkit.ha_sim.member import FILE_BYTES, Session, SimulatedMember

MEMBERS: Final = 3
SETTLE_STEPS_MAX: Final = 4_000
PIECE_BYTES_MAX: Final = 3_000
FULL_DISKS: Final = 0.3
"""Share of schedules in which disks run full."""
FILLS, EMPTIES = 0.01, 0.03
"""Chances of a step, in such a schedule."""


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """What a schedule is like; drawn from the seed.

    Attributes:
        steps: how long it is.
        after_sync: whether acks and reads wait for the disk. If not, only processes die, never machines:
            no guarantee covers power loss then.
        batch_bytes: the largest body of a frame. mishaps: share of steps at which something
        breaks. long_properties: whether messages have texts of more than a sector, which no
        checksum covers. heartbeats: chance that a notice arrives when it is looked for; old
        masters go on for long where it is low.
    """

    steps: int
    after_sync: bool
    batch_bytes: int
    mishaps: float
    long_properties: bool
    heartbeats: float

    @classmethod
    def draw(cls, random: Random) -> "GroupPlan":
        """Draw a plan."""
        return cls(
            steps=random.choice((300, 800, 1_500)),
            after_sync=random.random() < 0.75,
            batch_bytes=random.choice((64, 700, 2_000, 8_192)),
            mishaps=random.choice((0.01, 0.03, 0.08)),
            long_properties=random.random() < 0.3,
            heartbeats=random.choice((0.05, 0.3, 1.0)),
        )


class SimulatedGroup:
    """The group and its schedule.

    Attributes:
        epoch: the newest master epoch.
        master: whom the controller elected last.
        members: the SyncStateSet.
        crashes: ends of processes and machines so far.
        elections: changes of master so far.
    """

    def __init__(self, seed: int, plan: GroupPlan | None = None, members: int = MEMBERS) -> None:
        """Prepare so many members with empty disks, the first of them master."""
        self.random: Final = Random(seed)
        self.plan: Final = plan or GroupPlan.draw(self.random)
        self.now_ms = 0
        self.all: Final = [
            SimulatedMember(number + 1, self.random, after_sync=self.plan.after_sync)
            for number in range(members)
        ]
        self.acknowledged: Final = AcknowledgedLog()
        self.epoch = 1
        self.master = self.all[0]
        self.members = {1}
        self.crashes = 0
        self.elections = 0
        self._written = 0
        # Chance of its own: what disks are full does not change what else a seed does before that.
        self._disk_random: Final = Random(f"disks of {seed}")
        self._disks_fill: Final = self._disk_random.random() < FULL_DISKS
        for member in self.all:
            member.start()

    def run(self) -> None:
        """Run the schedule, then heal everything and see all logs become equal.

        Raises:
            SafetyViolation: something happened that must never happen.
        """
        for _ in range(self.plan.steps):
            if self.random.random() < self.plan.mishaps:
                self._mishap()
            if self._disks_fill:
                self._fill_or_empty()
            self._step()
        self._heal()

    # What a schedule does.

    def _step(self) -> None:
        self.now_ms += self.random.choice((0, 1, 5, 20, 60))
        member = self.random.choice(self.all)
        if member.store is None:
            if self.random.random() < 0.2:
                self._guarded(member, member.start, self._check_kept)
            return
        action = self.random.choices((self._hear, self._write, self._sync, self._move), (1, 1, 2, 10))[0]
        self._guarded(member, lambda: action(member))

    def _mishap(self) -> None:
        random = self.random
        member = random.choice(self.all)
        match random.randrange(7):
            case 0:
                self._crash(member, power=self.plan.after_sync and random.random() < 0.7)
            case 1:
                # The disk stops, or fails once, some steps from now.
                member.disk.fuse = random.randrange(12)
                member.disk.fuse_error = PowerLossError if random.random() < 0.7 else OSError
            case 2:
                if member.link is not None:
                    member.link.wire.cut = True
            case 3 | 4 | 5:
                # Often while the old master writes on: its log then ends in a tail that no
                # other member has, which must go.
                self._guarded(self.master, lambda: self._write(self.master))
                self.elect()
                self._guarded(member, lambda: self._write(member))
            case _:
                self.now_ms += random.choice((500, 3_000, 25_000))

    def _fill_or_empty(self) -> None:
        """Let others take most of a disk, or all that is left, or give it back."""
        chance, member = self._disk_random.random(), self._disk_random.choice(self.all)
        if chance < FILLS:
            member.disk.capacity_bytes = member.disk.used_bytes() + self._disk_random.randrange(
                4 * FILE_BYTES
            )
        elif chance < FILLS + EMPTIES:
            member.disk.capacity_bytes = None

    def elect(self) -> None:
        """Elect a living member of the set."""
        living = [member for member in self.all if member.id in self.members and member.store is not None]
        if not living:
            return
        others = [member for member in living if member is not self.master]
        self.epoch += 1
        self.elections += 1
        self.master = self.random.choice(others if others and self.random.random() < 0.7 else living)
        self.members = {self.master.id}

    def _guarded(self, member: SimulatedMember, *works: object) -> None:
        """Let a member do something; it dies if its disk says so."""
        try:
            for work in works:
                work()  # type: ignore[operator]  # functions without arguments
        except PowerLossError:
            self._crash(member, power=self.plan.after_sync)
        except OSError:
            # A process ends at any error of its disk; what the disk holds then, recovery has to find out.
            self._crash(member, power=self.plan.after_sync and self.random.random() < 0.5)

    def _crash(self, member: SimulatedMember, *, power: bool) -> None:
        if member.store is None:
            return
        self.crashes += 1
        if member.link is not None:
            member.link.wire.cut = True
        for session in member.sessions:
            session.wire.cut = True
        member.crash(power=power)

    def _check_kept(self) -> None:
        for member in self.all:
            if member.store is not None and member.id in self.members:
                check_kept(self.acknowledged, member.content(), FILE_BYTES)

    @property
    def refusals(self) -> int:
        """Count the writes that a log refused for want of room."""
        return sum(member.refusals for member in self.all)

    @property
    def truncations(self) -> int:
        """Count the cuts of diverged tails."""
        return sum(member.truncations for member in self.all)

    # What members do.

    def _hear(self, member: SimulatedMember) -> None:
        self._learn(member, self.plan.heartbeats)

    def _learn(self, member: SimulatedMember, chance: float) -> None:
        """Hear of the newest role, perhaps."""
        is_news = member.knows != self.epoch or (member.office is None and self.master is member)
        if not is_news or self.random.random() > chance:
            return
        member.knows = self.epoch
        if self.master is not member:
            if member.office is not None:
                member.step_down()
            member.drop_link()
            return
        if member.office is None:
            # A process that died as master becomes master again, in a new epoch.
            if member.store is not None and member.store.epochs.last_epoch >= self.epoch:
                self.epoch += 1
                self.members = {member.id}
            member.knows = self.epoch
            member.take_office(self.epoch, set(self.members))
            check_kept(self.acknowledged, member.content(), FILE_BYTES)
        elif member.office != self.epoch:
            for session in member.sessions:
                session.end()
            member.take_office(self.epoch, set(self.members))

    def _write(self, member: SimulatedMember) -> None:
        if member.office is None or member.store is None:
            return
        for _ in range(self.random.randint(1, 3)):
            self._written += 1
            body = written(member.office, self._written, self.random.choice((5, 60, 300, 1_500)))
            long = self.plan.long_properties and self.random.random() < 0.5
            with contextlib.suppress(NoRoomError):
                member.append(body, b"P\x01" + b"v" * (1_400 if long else 10) + b"\x02")

    def _sync(self, member: SimulatedMember) -> None:
        member.sync()

    def _move(self, member: SimulatedMember) -> None:
        if member.office is not None:
            self._serve(member)
            return
        link = member.link
        if link is None:
            master = self.master
            # A master gives its HA address once it has taken office.
            if master is not member and master.office == self.epoch == member.knows:
                member.follow(master, lambda: self.now_ms, self.plan.batch_bytes)
            return
        if link.wire.cut and not link.wire.to_slave:
            member.drop_link()
            return
        end = link.deliver(self.random.randint(1, PIECE_BYTES_MAX)) if link.wire.to_slave else None
        if end is None and not link.wire.cut:
            end = link.pass_time()
        if end is not None and end.diverged is not None:
            if member.id in self.members and self.acknowledged.data:
                raise SafetyViolation(f"member {member.id} of the set cannot go on: {end}")
            self.members.discard(member.id)
            member.start_over()
        elif end is not None:
            member.drop_link()
        elif member.is_transferring and any(
            session.wire is link.wire and not session.is_over for session in link.master.sessions
        ):
            self._check_prefix(member, link.master)

    def _check_prefix(self, member: SimulatedMember, master: SimulatedMember) -> None:
        if bytes(member.held.data) != bytes(master.held.data[: len(member.held.data)]):
            raise SafetyViolation(f"the log of {member.id} is not a prefix of its master's")

    def _serve(self, master: SimulatedMember) -> None:
        for session in list(master.sessions):
            if session.is_over or (session.wire.cut and self.random.random() < 0.3):
                session.end()
                master.sessions.remove(session)
                continue
            if session.wire.to_master:
                session.deliver(self.random.randint(1, 64), self.now_ms)
            session.write(self.now_ms)
            session.machine.tick(self.now_ms)
        if master.office == self.epoch:
            self._keep_set(master)
        self._acknowledge(master)

    def _keep_set(self, master: SimulatedMember) -> None:
        """Add members that have the whole log, and now and then remove absent ones."""
        assert master.store is not None
        last = master.store.epochs.last
        there: dict[int, int] = {}
        for session in master.sessions:
            if session.machine.handshake is not None and session.machine.ack_offset >= 0:
                broker_id = session.machine.handshake.broker_id
                there[broker_id] = max(there.get(broker_id, 0), session.machine.ack_offset)
        for broker_id, ack_offset in there.items():
            if ack_offset >= master.store.log.max_offset and last and ack_offset >= last.start_offset:
                self.members.add(broker_id)
        if self.random.random() < 0.1:
            self.members &= {master.id, *there}
        master.members = set(self.members)

    def _acknowledge(self, master: SimulatedMember) -> None:
        """Tell clients what every member of the set has."""
        assert master.store is not None
        log = master.store.log
        own = log.synced_offset if self.plan.after_sync else log.max_offset
        others = sorted(master.members - {master.id})
        acks = [max((_ack(session, other) for session in master.sessions), default=0) for other in others]
        end = min(own, *acks) if acks else own
        if end <= len(self.acknowledged.data):
            return
        # A BLANK is not a message: recovery may give it up.
        whole = [found for _, found, _ in messages(bytes(master.held.data), FILE_BYTES) if found <= end]
        if whole and whole[-1] > len(self.acknowledged.data):
            self.acknowledged.grow(bytes(master.held.data[: whole[-1]]))

    # The end.

    def _heal(self) -> None:
        for member in self.all:
            member.disk.fuse, member.is_tempted, member.disk.capacity_bytes = None, False, None
            if member.store is None:
                member.start()
        self._check_kept()
        self.elect()
        for _ in range(SETTLE_STEPS_MAX):
            self.now_ms += 60
            for member in self.all:
                self._learn(member, 1.0)
                member.sync()
                self._move(member)
            if self._is_settled():
                break
        else:
            raise SafetyViolation("the group never settles")
        data = self.master.content()
        for member in self.all:
            if member.content() != data:
                raise SafetyViolation(f"the log of {member.id} differs from its master's")
            assert member.store is not None
            check_labels(data, member.store.epochs, FILE_BYTES)
        self._acknowledge(self.master)
        check_kept(self.acknowledged, data, FILE_BYTES)

    def _is_settled(self) -> bool:
        master = self.master.store
        assert master is not None
        return all(
            member.store is not None
            and member.store.log.max_offset == master.log.max_offset
            and member.store.epochs == master.epochs
            and member.id in self.members
            for member in self.all
        )


def _ack(session: Session, broker_id: int) -> int:
    handshake = session.machine.handshake
    return session.machine.ack_offset if handshake is not None and handshake.broker_id == broker_id else 0


def run_schedule(seed: int) -> SimulatedGroup:
    """Run the schedule of a seed; raise `SafetyViolation` if an invariant breaks."""
    group = SimulatedGroup(seed)
    try:
        group.run()
    except StoreError as error:
        raise SafetyViolation(str(error)) from error
    return group
