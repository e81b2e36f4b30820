"""What a simulated controller gets instead of the real thing, or around it.

These are clocks, chance, and an observed log and state.

Each of these is the product's own class with one thing changed, so that the product's code
runs and the invariants see it.
"""

from dataclasses import dataclass, replace
from random import Random
from typing import Protocol

from controller_core.groups.commands import AnyCommand, Stamp, decode
from controller_core.groups.group import Group
from controller_core.groups.keys import GroupKey
from controller_core.groups.replies import Outcome
from controller_core.log.store import DiskStore
from controller_core.log.view import Batch
from controller_core.raft.config import Config
from controller_core.raft.types import HardState
from controller_core.server.clock import Clock
from controller_core.server.node.state_machine import GroupsMachine
from controller_core.server.node.types import NodeConfig
from testkit.sim.checks.invariants import Invariants
from testkit.sim.loop.virtual_loop import Process

UTC_START_S = 1_795_000_000
"""November 2026: after the second from which controllers count the set epochs of first
elections (`SET_EPOCHS_SINCE_S`)."""
_NS_PER_S = 1_000_000_000
_MS_PER_S = 1_000


class Watcher(Protocol):
    """Learns what the nodes apply."""

    def first_applied(
        self,
        key: GroupKey,
        before: Group | None,
        after: Group | None,
        command: AnyCommand,
        outcome: Outcome,
    ) -> None:
        """An entry was applied for the first time anywhere."""
        ...


@dataclass(frozen=True, slots=True)
class SimNodeConfig(NodeConfig):
    """A node's settings, with the schedule's chance for its election timeouts."""

    random: Random | None = None

    def core_config(self, applied: int) -> Config:
        """Return the core's settings with the schedule's own chance."""
        chance = self.random or Random(0)
        return replace(NodeConfig.core_config(self, applied), jitter=chance.randrange)


class SimClock(Clock):
    """A process's clocks in simulated time."""

    def __init__(self, process: Process, clock_id: str) -> None:
        self.clock_id = clock_id
        self._process = process

    def _monotonic_s(self) -> float:
        return self._process.local_s(self._process.loop.now_s)

    def _utc_ns(self) -> int:
        wall_s = UTC_START_S + self._process.loop.now_s + self._process.utc_offset_s
        return int(wall_s * _MS_PER_S) * (_NS_PER_S // _MS_PER_S)

    def stamp(self) -> Stamp:
        """Read both clocks now."""
        return Stamp(self._utc_ns(), int(self._monotonic_s() * _NS_PER_S), self.clock_id)

    def stamp_at(self, monotonic_ms: int) -> Stamp:
        """Return the stamp of an earlier reading."""
        ago_ns = int(self._monotonic_s() * _NS_PER_S) - monotonic_ms * (_NS_PER_S // _MS_PER_S)
        return Stamp(self._utc_ns() - ago_ns, monotonic_ms * (_NS_PER_S // _MS_PER_S), self.clock_id)

    def now_ms(self) -> int:
        """Read the monotonic clock."""
        return int(self._monotonic_s() * _MS_PER_S)


class WatchedMachine(GroupsMachine):
    """The state machine, with the invariants looking on."""

    def __init__(self, name: str, invariants: Invariants, watcher: Watcher) -> None:
        super().__init__()
        self._name = name
        self._invariants = invariants
        self._watcher = watcher

    def apply(self, index: int, term: int, data: bytes) -> Outcome:
        """Apply an entry; the first node to apply it shows its changes."""
        first = self._invariants.applies(self._name, index, term, data)
        if not first:
            return super().apply(index, term, data)
        command = decode(data)
        before = dict.fromkeys(group.key for group in self.state.groups())
        groups = {key: self.state.get(key) for key in before}
        outcome = super().apply(index, term, data)
        for key in sorted({*groups, *(group.key for group in self.state.groups())}):
            old, new = groups.get(key), self.state.get(key)
            if old is not new:
                self._invariants.changed(key, old, new, command)
                self._watcher.first_applied(key, old, new, command, outcome)
        return outcome

    def snapshot(self) -> bytes:
        """Return the state as bytes, the same on every node."""
        data = super().snapshot()
        self._invariants.image(self._name, self.state.applied_index, data)
        return data

    def restore(self, data: bytes) -> None:
        """Take over a state."""
        super().restore(data)
        self._invariants.image(self._name, self.state.applied_index, data)


@dataclass(slots=True)
class Promise:
    """The durable content of a store: no later opening may find less."""

    hard_state: HardState
    last_index: int = 0
    last_term: int = 0


class WatchedStore(DiskStore):
    """The store, noting what it promised."""

    promise: Promise

    def write(self, batch: Batch) -> None:
        """Write, and note the new durable content."""
        super().write(batch)
        if batch.snapshot is not None:  # its file is synced, whatever becomes of the record that names it
            self.promise.last_index, self.promise.last_term = batch.snapshot.index, batch.snapshot.term
        if not batch.must_sync:
            return
        if batch.hard_state is not None:
            self.promise.hard_state = batch.hard_state
        if batch.entries:
            last = batch.entries[-1]
            self.promise.last_index, self.promise.last_term = last.index, last.term


class NoHttp:
    """Stands where the HTTP interface is."""

    async def start(self, _host: str, _port: int) -> None:
        """Open nothing."""

    async def stop(self) -> None:
        """Close nothing."""
