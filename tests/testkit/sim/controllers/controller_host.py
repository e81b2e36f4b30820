"""One simulated controller: the real one, from its log on disk to its connections, in a process that may die.

Real here: `log` (over a simulated file system), `raft`, `groups`, `channel`, and of `server` everything that
`Controller` puts together: node, log writer, heartbeats, failover, command submission, notifier, role
changes, handlers, leader rule, forwarding. Not real: the transport between Raft nodes (messages that the
simulated network may lose), the HTTP interface (not started), clocks, random numbers, the command line, and
the supervisor that starts a dead process again.

A process dies in three ways. *Killed*: what it wrote stays, synced or not. *Without power*: unsynced writes
may be lost, torn or holed. *By itself*: its disk failed; whatever else ends it is a violation.
"""

import contextlib
import errno
from collections.abc import Callable, Iterable
from random import Random

from controller_core.log.errors import LogCorruptError, LogFailedError, LogFullError
from controller_core.log.store import DiskStore
from controller_core.raft.errors import RefusedMessageError
from controller_core.raft.types import (
    ConfState,
    HardState,
    LogIndex,
    Message,
    MessageType,
    NodeId,
    Snapshot,
    Term,
)
from controller_core.server.controller import Controller
from controller_core.server.node.raft_node import Node
from controller_core.server.node.state_machine import GroupsMachine
from controller_core.server.node.types import NotLeaderError, Receiver
from controller_core.server.requests.direct.follower_answers import FollowerAnswers
from controller_core.server.settings import config
from controller_core.server.settings.live_config import LiveConfig
from testkit.check.errors import PowerLossError
from testkit.raft.disk import SimulatedFiles
from testkit.sim.checks.invariants import Invariants
from testkit.sim.controllers.controller_parts import (
    NoHttp,
    Promise,
    SimClock,
    SimNodeConfig,
    WatchedMachine,
    WatchedStore,
    Watcher,
)
from testkit.sim.loop.simulated_network import Network
from testkit.sim.loop.virtual_loop import Process, VirtualLoop

TICK_MS = 25
ELECTION_TIMEOUT_MS = 400
HEARTBEAT_INTERVAL_MS = 100
SEGMENT_BYTES = 16 * 1024
FSYNC_S = (0.0002, 0.003)
DAMAGE_BYTES_MIN = 1_500
"""A file is damaged in its first half, and only if so long: what follows then proves that it was durable."""
PORT = 9878
_OWNER = "sim"
_ENDED_BY_DISK = (LogFailedError,)


class _RaftTransport:
    """A node's end of the message network between controllers."""

    def __init__(self, host: "ControllerHost") -> None:
        self._host = host
        self.receiver: Receiver | None = None

    async def start(self, receiver: Receiver) -> None:
        """Begin to hear."""
        self.receiver = receiver

    def send(self, messages: Iterable[Message]) -> None:
        """Send, and tell what a transport would know of each."""
        for message in messages:
            self._host.post(message)

    async def stop(self) -> None:
        """Hear no more."""
        self.receiver = None


class ControllerHost:
    """A machine that runs one controller.

    Attributes:
        name: `n0`, `n1` ...
        process: the process of now; dead between a death and the next start.
        life: how many processes there were.
        is_lost: its disk is damaged; it stays down.
    """

    def __init__(
        self,
        number: int,
        peers: int,
        loop: VirtualLoop,
        network: Network,
        random: Random,
        invariants: Invariants,
        watcher: Watcher,
        others: "list[ControllerHost]",
        *,
        rate: float = 1.0,
        snapshot_entries: int = 200,
        set_keys: dict[str, str] | None = None,
        on_started: Callable[[str, Process, Controller], None] | None = None,
    ) -> None:
        self.name = f"n{number}"
        self.raft_id = number + 1
        self.host = host_of(number)
        self.address = f"{self.host}:{PORT}"
        self.files = SimulatedFiles()
        self.life = 0
        self.is_lost = False
        self.is_damaged = False
        self.controller: Controller | None = None
        self.node: Node | None = None
        self.machine: GroupsMachine | None = None
        self.processes: dict[str, Process] = {}
        self.fsync_s = FSYNC_S
        self.disk_errors = self.full_writes = self.power_losses_in_writes = 0
        self.torn = self.refused_starts = 0
        self._followers: list[FollowerAnswers] = []
        self._loop = loop
        self._network = network
        self._random = random
        self._invariants = invariants
        self._watcher = watcher
        self._others = others
        self._rate = rate
        self._snapshot_entries = snapshot_entries
        self._on_started = on_started
        self._promise = Promise(HardState())
        self._transport: _RaftTransport | None = None
        self._voters = tuple(NodeId(one + 1) for one in range(peers))
        given = {
            "controllerDLegerGroup": _OWNER,
            "controllerDLegerPeers": ";".join(f"n{one}-{host_of(one)}:{PORT}" for one in range(peers)),
            "controllerDLegerSelfId": self.name,
            "controllerStorePath": "/store",
            "bindAddress": self.host,
            **(set_keys or {}),
        }
        self._given = given
        self._settings, _ = config.load(given)
        self.process = Process(loop, f"{self.name}.0")
        self.process.alive = False

    # -- life

    def start(self) -> None:
        """Start a process, from what the disk holds."""
        if self.process.alive or self.is_lost:
            return
        self.life += 1
        clock_id = f"{self.name}.{self.life}"
        self.process = self.processes[clock_id] = Process(self._loop, clock_id, self._rate)
        self.process.call_delay_s = lambda: self._random.uniform(*self.fsync_s)
        self.process.on_call_failed = self._call_failed
        self._network.place(self.process, self.host)
        self._network.host_is_back(self.host)
        self.files.locks.clear()
        self.files.on_step = None
        if self.files.capacity_bytes < 1 << 40:  # no node starts on a full disk: the supervisor tries again
            self.process.kill()
            self._loop.call_in(None, 0.5, self.start)
            return
        try:
            store = self._open()
        except LogCorruptError as error:
            self.refused_starts += 1
            self.is_lost = True
            self._invariants.require(self.is_damaged, f"S6: {self.name} does not start: {error}")
            self.process.kill()
            return
        self._invariants.require(
            not self.is_damaged, f"S6: {self.name} starts from a damaged log as if nothing were"
        )
        self._check_promise(store)
        self.process.context.run(self._run, store, clock_id)

    def _open(self) -> WatchedStore:
        initial = Snapshot(LogIndex(1), Term(1), ConfState(voters=self._voters), GroupsMachine().snapshot())
        opened = WatchedStore.open(
            self._settings.store_directory,
            initial,
            owner=_OWNER,
            files=self.files,
            segment_bytes_max=SEGMENT_BYTES,
        )
        if not isinstance(opened, WatchedStore):
            raise TypeError("open() returned another class than the requested one")
        opened.promise = self._promise
        self.torn += opened.cut is not None
        return opened

    def _check_promise(self, store: DiskStore) -> None:
        hard_state, promise = store.initial_state()[0], self._promise
        said = promise.hard_state
        self._invariants.require(
            hard_state.term > said.term
            or (hard_state.term, hard_state.vote) == (said.term, said.vote)
            or (hard_state.term == said.term and said.vote == 0),
            f"S6: {self.name} forgot term {said.term} or its vote {said.vote}, has {hard_state}",
        )
        # A later leader's entries may have replaced it in a write whose end no process lived to see.
        held = store.term(store.last_index()) > promise.last_term or (
            store.last_index() >= promise.last_index
            and (
                promise.last_index < store.first_index()
                or store.term(LogIndex(promise.last_index)) == promise.last_term
            )
        )
        self._invariants.require(
            held, f"S6: {self.name} forgot entry {promise.last_index}, ends at {store.last_index()}"
        )
        # What opening found is durable from now on, also writes whose end no process lived to see.
        promise.hard_state, promise.last_index = hard_state, store.last_index()
        promise.last_term = store.term(store.last_index())

    def _run(self, store: DiskStore, clock_id: str) -> None:
        machine = WatchedMachine(clock_id, self._invariants, self._watcher)
        node_config = SimNodeConfig(
            self.raft_id,
            tick_ms=TICK_MS,
            election_timeout_ms=ELECTION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
            snapshot_entries=self._snapshot_entries,
            entries_kept=self._snapshot_entries // 4,
            random=self._random,
        )
        self._transport = _RaftTransport(self)
        node = Node(node_config, store, machine, self._transport)
        live = LiveConfig(self._settings, self._given)
        controller = Controller(live, SimClock(self.process, clock_id), node, machine)
        controller._http = NoHttp()  # type: ignore[assignment] # a real port is the one thing that must not be opened
        self.controller, self.node, self.machine = controller, node, machine
        self._followers.append(controller.followers)
        process = self.process
        if self._on_started is not None:
            self._on_started(self.name, process, controller)
        controller.failed.add_done_callback(lambda done: self._ended(process, done.result()))
        process.spawn(controller.start())

    @property
    def follower_reads(self) -> int:
        """Return how many reads its processes answered while another node led."""
        return sum(followers.served for followers in self._followers)

    def _ended(self, process: Process, error: BaseException) -> None:
        self._invariants.require(
            isinstance(error, _ENDED_BY_DISK), f"{self.name} ends by itself: {type(error).__name__}: {error}"
        )
        if self.process is process:
            self.kill()
            self._loop.call_in(None, self._random.uniform(0.1, 1.0), self.start)

    def kill(self) -> None:
        """End the process; what it wrote stays."""
        self.process.kill()
        self.controller = self.node = self.machine = None

    def lose_store(self) -> None:
        """Forget everything that was on disk; the process must be dead."""
        self.files = SimulatedFiles()
        self._promise = Promise(HardState())

    def lose_power(self) -> None:
        """End the process, and lose the unsynced writes."""
        self._network.darken(self.host)
        self.kill()
        self.files = self.files.after_power_loss(self._random)

    # -- disk

    def tear_next_write(self) -> None:
        """Lose power in the middle of one of the next writes."""
        at = len(self.files.steps) + self._random.randrange(4)

        def on_step(number: int, _kind: str) -> None:
            if number >= at:
                raise PowerLossError

        self.files.on_step = on_step

    def fail_next_sync(self) -> None:
        """Answer one of the next syncs with an error."""

        def on_step(_number: int, kind: str) -> None:
            if kind == "sync":
                self.files.on_step = None
                self.disk_errors += 1
                raise OSError(errno.EIO, "simulated")

        self.files.on_step = on_step

    def fill_disk(self, full: bool) -> None:
        """Leave no room, or room again."""
        used = sum(len(inode.current) for inode in self.files.names.values())
        self.files.capacity_bytes = used + 64 if full else 1 << 40

    def calm(self) -> None:
        """End the disk's faults."""
        self.fsync_s = FSYNC_S
        self.fill_disk(False)
        self.files.on_step = None

    def damage(self) -> bool:
        """Flip one bit of old durable data; say whether there was enough of it. The node must be down."""
        names = sorted(path for path in self.files.names if path.suffix == ".wal")
        sized = [path for path in names if len(self.files.names[path].durable) > DAMAGE_BYTES_MIN]
        if not sized or self.process.alive:
            return False
        inode = self.files.names[sized[-1]]
        position = self._random.randrange(len(inode.durable) // 2)
        changed = bytearray(inode.durable)
        changed[position] ^= 1 << self._random.randrange(8)
        inode.durable, inode.current = bytes(changed), bytearray(changed)
        self.is_damaged = True
        return True

    def _call_failed(self, error: BaseException) -> bool:
        self.full_writes += isinstance(error, LogFullError)
        if not isinstance(error, PowerLossError):
            return False
        self.power_losses_in_writes += 1
        self.lose_power()
        self._loop.call_in(None, self._random.uniform(0.2, 3.0), self.start)
        return True

    async def transfer(self) -> None:
        """Hand leadership over, if it is here."""
        if self.node is not None:
            with contextlib.suppress(NotLeaderError):
                await self.node.transfer_leadership()

    # -- Raft's messages

    def post(self, message: Message) -> None:
        """Send a message of this node to another."""
        self._invariants.sent(message)
        self._check_durable(message)
        target = next((one for one in self._others if one.raft_id == message.to), None)
        if target is None:
            return
        sent = self._network.post(self.host, target.host, target.process, lambda: target.deliver(message))
        if message.snapshot is not None:
            self._loop.call_in(self.process, 0.05, self._snapshot_sent, int(message.to), sent)
        elif not sent:
            self._loop.call_in(self.process, 0.0, self._unreachable, int(message.to))

    def _check_durable(self, message: Message) -> None:
        """Nothing may tell of a vote or an entry that is not on disk."""
        promise = self._promise
        if message.reject:
            return
        if message.type is MessageType.VOTE_RESP:
            kept = (promise.hard_state.term, promise.hard_state.vote)
            self._invariants.require(
                kept[0] > message.term or kept == (message.term, message.to),
                f"S6: {self.name} tells of a vote for {message.to} in term {message.term}, durable is {kept}",
            )
        elif message.type is MessageType.APP_RESP:
            self._invariants.require(
                message.index <= promise.last_index,
                f"S6: {self.name} acknowledges entry {message.index}, durable is {promise.last_index}",
            )

    def deliver(self, message: Message) -> None:
        """Take a message from another node.

        All are honest, so only a snapshot may be refused, by a node that restarted.
        """
        if self._transport is not None and self._transport.receiver is not None:
            try:
                self._transport.receiver.receive(message)
            except RefusedMessageError as error:
                self._invariants.require(error.reason == "leader", f"{self.name} refuses {message}: {error}")

    def _snapshot_sent(self, node_id: int, ok: bool) -> None:
        if self._transport is not None and self._transport.receiver is not None:
            self._transport.receiver.snapshot_sent(node_id, ok)

    def _unreachable(self, node_id: int) -> None:
        if self._transport is not None and self._transport.receiver is not None:
            self._transport.receiver.peer_unreachable(node_id)


def host_of(number: int) -> str:
    """Return the address of a controller's machine."""
    return f"10.0.0.{number + 1}"
