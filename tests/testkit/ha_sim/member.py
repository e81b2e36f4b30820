"""One member of a simulated group: a real store, link and sessions, without their threads and sockets.

`SteppedLink` is the replica's own `HaLink` whose socket is a `Wire` and whose thread is the
schedule. `Session` is the master's machine over the real views of a store. A member that
crashes loses all but its disk.
"""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

from controller_core.remoting.numbers import LogOffset
from ha_sidecar.commitlog.cuts import LogCutError
from ha_sidecar.commitlog.layout import LogLayoutError
from ha_sidecar.commitlog.record_ends import RecordEnds
from ha_sidecar.commitlog.room import NoRoomError
from ha_sidecar.commitlog.served import ServedStore
from ha_sidecar.commitlog.store import ARCHIVE_DIRECTORY, ARCHIVES_MAX, ReplicaStore
from ha_sidecar.common.ha_link import NO_ROOM, DiskFailedError, HaLink, LinkEnd
from ha_sidecar.transfer.actions import AdoptEpochs, Close, HandshakeDone, SendBytes, SendFrame
from ha_sidecar.transfer.errors import HaProtocolError
from ha_sidecar.transfer.master import MasterMachine, MasterState
from ha_sidecar.transfer.reconcile import SlaveConfig
from ha_sidecar.transfer.served_log import MasterConfig
from ha_sidecar.transfer.slave import SlaveState
from testkit.check.errors import PowerLossError, SafetyViolation
from testkit.ha.messages import blank, message
from testkit.ha_sim.checks import Held, check_labels, check_recovered
from testkit.ha_sim.disk import SimulatedDisk

FILE_BYTES: Final = 4096
UNREAD_BYTES_MAX: Final = 8192
"""What a socket's buffers take before its writer has to wait."""
TEMPTATION: Final = 0.3
REFUSE_ABOVE: Final = 0.95
"""Share of its disk that a log keeps below, as a log replica does by default."""
_DIRECTORY = Path("/store")


class Wire:
    """One TCP connection: two rows of bytes, and whether each side knows of its end."""

    def __init__(self) -> None:
        self.to_master = bytearray()
        self.to_slave = bytearray()
        self.cut = False

    def send_all(self, data: bytes) -> None:
        """Send what the slave says, as a socket would."""
        if self.cut:
            raise BrokenPipeError
        self.to_master += data


class SteppedLink(HaLink):
    """A slave's link that a schedule moves."""

    def __init__(
        self,
        member: "SimulatedMember",
        master: "SimulatedMember",
        clock_ms: Callable[[], int],
        *,
        after_sync: bool,
    ) -> None:
        """Prepare a link of `member` to `master`."""
        assert member.store is not None
        wake = member.want_sync if after_sync else None
        config = SlaveConfig(member.id, FILE_BYTES)
        super().__init__(("", 0), member.store, config, member, wake, clock_ms)
        self.master: Final = master
        self.wire: Final = Wire()
        self._member: Final = member

    def begin(self) -> None:
        """Shake hands."""
        self._socket = self.wire  # type: ignore[assignment]  # all that a link asks of a socket is send_all
        self._send(self.machine.connected(self._clock_ms()))

    def deliver(self, length: int) -> LinkEnd | None:
        """Let some bytes arrive; return the link's end if they bring it."""
        data = bytes(self.wire.to_slave[:length])
        del self.wire.to_slave[:length]
        try:
            actions = self.machine.received(data, self._clock_ms())
            if any(isinstance(action, AdoptEpochs) for action in actions):
                self._member.tempt()
            return self._carry_out(actions)
        except HaProtocolError as error:
            raise SafetyViolation(f"slave {self._member.id}: {error}") from error
        except BrokenPipeError:
            return LinkEnd("ConnectionLost")
        except NoRoomError as error:
            self._member.refusals += 1
            return LinkEnd(NO_ROOM, str(error))
        except DiskFailedError as error:
            raise error.cause from error

    def pass_time(self) -> LinkEnd | None:
        """Let the machine see the time."""
        try:
            return self._send(self.machine.tick(self._clock_ms()))
        except BrokenPipeError:
            return LinkEnd("ConnectionLost")

    def _write(self, offset: LogOffset, run: list[memoryview]) -> None:
        if run:
            self._member.held.write(offset, b"".join(run))
        try:
            super()._write(offset, run)
        except NoRoomError:
            del self._member.held.data[offset:]
            raise

    def _truncate(self, to_offset: LogOffset) -> LinkEnd | None:
        self._member.tempt()
        held = self._member.held
        held.floor = min(held.floor, to_offset)
        end = super()._truncate(to_offset)
        if end is None:
            del held.data[to_offset:]
            held.floor = to_offset
            self._member.truncations += 1
        return end


class Session:
    """A master's side of one connection."""

    def __init__(self, master: "SimulatedMember", wire: Wire, batch_bytes: int, now_ms: int) -> None:
        """Accept a connection."""
        assert master.store is not None
        assert master.served is not None
        self.wire: Final = wire
        self._disk: Final = master.disk
        self._layout: Final = master.store.log.layout
        self._served: Final = master.served
        ends = RecordEnds(self._layout)
        self.machine: Final = MasterMachine(MasterConfig(FILE_BYTES, batch_bytes), ends.record_end)
        self.machine.connected(now_ms)

    @property
    def is_over(self) -> bool:
        """Say whether the master gave it up."""
        return self.machine.state is MasterState.CLOSED

    def deliver(self, length: int, now_ms: int) -> None:
        """Let some bytes arrive."""
        data = bytes(self.wire.to_master[:length])
        del self.wire.to_master[:length]
        try:
            actions = self.machine.received(data, self._served.view(), now_ms)
        except LogCutError:
            self.end()
            return
        except HaProtocolError as error:
            raise SafetyViolation(f"master: {error}") from error
        for action in actions:
            if isinstance(action, SendBytes):
                self.wire.to_slave += action.data
            elif isinstance(action, Close):
                self.end()

    def write(self, now_ms: int) -> bool:
        """Write the next frame if one is due; return whether one was."""
        if len(self.wire.to_slave) > UNREAD_BYTES_MAX or self.is_over:
            return False
        try:
            frame = self.machine.next_frame(self._served.view(), now_ms)
        except LogCutError:
            self.end()
            return False
        if isinstance(frame, SendFrame):
            self.wire.to_slave += frame.header
            offset, end = frame.offset, frame.offset + frame.body_bytes
            if offset < end:
                start = self._layout.start_of(offset)
                with self._disk.content(self._layout.path(start)) as content:
                    self.wire.to_slave += content[offset - start : end - start]
        elif isinstance(frame, Close):
            self.end()
        return isinstance(frame, SendFrame)

    def end(self) -> None:
        """Close; the slave reads it when it has read everything else."""
        self.machine.close()
        self.wire.cut = True


class SimulatedMember:
    """One replica of the group.

    Attributes:
        store: None while its process is dead.
        office: the epoch in which it takes itself for the master, None if it does not.
        knows: the newest epoch that it heard of.
        members: the SyncStateSet as far as it knows, while it is master.
        truncations: cuts of its log so far.
        refusals: writes that its log refused so far, since its disk had no room.
        is_tempted: whether its disk may stop where most can go wrong.
    """

    def __init__(self, broker_id: int, random: Random, *, after_sync: bool) -> None:
        """Make a member with an empty disk; it is dead."""
        self.id: Final = broker_id
        self.disk = SimulatedDisk()
        self.held = Held()
        self.store: ReplicaStore | None = None
        self.served: ServedStore | None = None
        self.link: SteppedLink | None = None
        self.sessions: list[Session] = []
        self.office: int | None = None
        self.knows = 0
        self.members: set[int] = set()
        self.archived = False
        self.truncations = 0
        self.refusals = 0
        self.is_tempted = True
        self._random: Final = random
        self._after_sync: Final = after_sync
        self._wants_sync = False

    def start(self) -> None:
        """Start its process: recover the log and hold it against what it was."""
        try:
            store = ReplicaStore(_DIRECTORY, FILE_BYTES, self.disk, REFUSE_ABOVE)
        except LogLayoutError as error:
            raise SafetyViolation(f"member {self.id} cannot recover: {error}") from error
        self.store = store
        found = self.content()
        if not self.archived or found:
            check_recovered(self.held, found, FILE_BYTES)
        # Moving a log aside begins with its epoch list: without one it is not continued by anybody.
        if not self.archived or len(store.epochs):
            check_labels(found, store.epochs, FILE_BYTES)
        self.held = Held(bytearray(found), len(found))
        self.archived = bool(found) and not len(store.epochs)
        self.served = ServedStore(store, lambda: -1, after_sync=self._after_sync)

    def crash(self, *, power: bool) -> None:
        """End its process, or its machine."""
        if power:
            self.disk = self.disk.after_power_loss(self._random)
        self.disk.fuse = None
        self.store = self.served = self.link = None
        self.sessions = []
        self.office = None
        self._wants_sync = False

    def content(self) -> bytes:
        """Return its log's bytes."""
        assert self.store is not None
        log = self.store.log
        data = bytearray()
        for start in log.layout.starts():
            with self.disk.content(log.layout.path(start)) as content:
                data += content
        return bytes(data[: log.max_offset])

    def append(self, body: bytes, properties: bytes) -> None:
        """Write a client's message, as a master does."""
        assert self.store is not None
        log = self.store.log
        at = log.max_offset
        rest_bytes = FILE_BYTES - at % FILE_BYTES
        record = message(at, body, properties=properties)
        if len(record) + 8 > rest_bytes:
            self._append(at, blank(rest_bytes))
            at = LogOffset(at + rest_bytes)
            record = message(at, body, properties=properties)
        self._append(at, record)

    def _append(self, at: int, data: bytes) -> None:
        assert self.store is not None
        self.held.write(at, data)
        try:
            self.store.log.append(LogOffset(at), [memoryview(data)])
        except NoRoomError:
            del self.held.data[at:]
            self.refusals += 1
            raise
        self.want_sync()

    def want_sync(self) -> None:
        """Note that there is something to sync."""
        self._wants_sync = True

    def sync(self) -> None:
        """Do what the syncing thread does."""
        if self.store is None or not self._wants_sync:
            return
        self._wants_sync = False
        end = self.store.log.sync()
        self.held.floor = max(self.held.floor, end)
        if self.link is not None:
            self.link.synced()

    def tempt(self) -> None:
        """Let the disk stop within the next steps, now and then: what follows has many."""
        if self.is_tempted and self._random.random() < TEMPTATION:
            self.disk.fuse, self.disk.fuse_error = self._random.randrange(10), PowerLossError

    def take_office(self, epoch: int, members: set[int]) -> None:
        """Become master."""
        assert self.store is not None
        self.drop_link()
        self.tempt()
        ends = [end for end in _record_ends(bytes(self.held.data)) if end <= self.store.log.max_offset]
        self.held.floor = min(self.held.floor, ends[-1])
        self.store.open_epoch(epoch)
        del self.held.data[self.store.log.max_offset :]
        self.held.floor = len(self.held.data)
        self.office = epoch
        self.members = members

    def step_down(self) -> None:
        """Stop being master."""
        self.office = None
        for session in self.sessions:
            session.end()

    def follow(self, master: "SimulatedMember", clock_ms: Callable[[], int], batch_bytes: int) -> None:
        """Connect to a master."""
        self.drop_link()
        self.link = SteppedLink(self, master, clock_ms, after_sync=self._after_sync)
        assert self.store is not None
        self.held.floor = max(self.held.floor, self.store.log.synced_offset)
        master.sessions.append(Session(master, self.link.wire, batch_bytes, clock_ms()))
        self.link.begin()

    def drop_link(self) -> None:
        """Leave the master; it hears of it later."""
        if self.link is not None:
            self.link.wire.cut = True
            self.link = None

    def start_over(self) -> None:
        """Move a diverged log aside."""
        assert self.store is not None
        self.drop_link()
        parent = _DIRECTORY / ARCHIVE_DIRECTORY
        if len(self.disk.list(parent)) >= ARCHIVES_MAX:
            self.disk.drop_directory(parent)
        self.tempt()
        self.held.floor = 0
        self.archived = True
        self.store.archive()
        self.held = Held()
        self.archived = False

    @property
    def is_transferring(self) -> bool:
        """Say whether it takes a master's bytes."""
        return self.link is not None and self.link.machine.state is SlaveState.TRANSFER

    def on_handshake(self, done: HandshakeDone) -> None:
        """Nothing to note."""

    def on_truncate(self, from_offset: int, to_offset: int) -> None:
        """Nothing to note."""

    def on_caught_up(self, offset: int) -> None:
        """Nothing to note."""

    def on_end(self, end: LinkEnd) -> None:
        """Never called: a stepped link runs without a thread."""


def _record_ends(data: bytes) -> list[int]:
    ends, at = [0], 0
    while at + 8 <= len(data):
        at += int.from_bytes(data[at : at + 4])
        ends.append(at)
    return ends
