"""A file system in memory that loses power, tears writes, runs full and fails on demand.

It stands in for `controller_core.log.files.OsFiles`. Each call is a numbered step; a test asks for
something to happen at a step. Unsynced writes are volatile: `after_power_loss` gives the file system that a
machine finds when it comes back, with the volatile part kept, lost, cut anywhere or holed by lost sectors,
as a seeded generator chooses. Names are volatile too until their directory is synced; they survive in the
order in which they were made.
"""

import errno
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from controller_core.log.errors import LogLockedError

SECTOR_BYTES = 512


@dataclass
class Inode:
    """A file's bytes: what the disk has, and what a reader sees."""

    durable: bytes = b""
    current: bytearray = field(default_factory=bytearray)


class SimulatedFile:
    """An open file of a `SimulatedFiles`."""

    def __init__(self, files: "SimulatedFiles", inode: Inode) -> None:
        self._files = files
        self._inode = inode

    def write(self, data: bytes) -> None:
        """Append; on a full disk only what fits goes in."""
        self._files.step("write")
        room = self._files.room_bytes()
        self._inode.current += data[:room]
        if len(data) > room:
            raise OSError(errno.ENOSPC, "no space left on the simulated disk")

    def sync(self) -> None:
        """Make the bytes durable."""
        self._files.step("sync")
        self._inode.durable = bytes(self._inode.current)

    def truncate(self, size_bytes: int) -> None:
        """Cut the file."""
        self._files.step("truncate")
        del self._inode.current[size_bytes:]

    def close(self) -> None:
        """Close; never fails."""


class SimulatedLock:
    """A lock of a `SimulatedFiles`."""

    def __init__(self, files: "SimulatedFiles", path: Path) -> None:
        self._files = files
        self._path = path

    def close(self) -> None:
        """Give it up."""
        self._files.locks.discard(self._path)


class SimulatedFiles:
    """A file system with one flat name table; directories exist as soon as they are made."""

    def __init__(self, capacity_bytes: int = 1 << 40) -> None:
        self.capacity_bytes = capacity_bytes
        self.steps: list[str] = []
        self.on_step: Callable[[int, str], None] | None = None
        self.locks: set[Path] = set()
        self.names: dict[Path, Inode] = {}
        self._name_log: list[tuple[str, Path, Inode | None]] = []
        self._durable_names: dict[Path, Inode] = {}

    def step(self, kind: str) -> None:
        """Count a step and let the test interfere."""
        number = len(self.steps)
        self.steps.append(kind)
        if self.on_step is not None:
            self.on_step(number, kind)

    def room_bytes(self) -> int:
        """Return how many bytes still fit."""
        return max(0, self.capacity_bytes - sum(len(inode.current) for inode in self.names.values()))

    def make_directory(self, path: Path) -> None:
        """Directories need no keeping here."""

    def list(self, path: Path) -> list[str]:
        """Return the names in a directory."""
        return sorted(name.name for name in self.names if name.parent == path)

    def read(self, path: Path) -> bytes:
        """Return what a reader sees."""
        self.step("read")
        return bytes(self.names[path].current)

    def create(self, path: Path) -> SimulatedFile:
        """Make a new file."""
        self.step("create")
        inode = Inode()
        self._set_name(path, inode)
        return SimulatedFile(self, inode)

    def append(self, path: Path) -> SimulatedFile:
        """Open an existing file."""
        return SimulatedFile(self, self.names[path])

    def rename(self, source: Path, target: Path) -> None:
        """Move a name; one step of the name log, as a journal does it."""
        self.step("rename")
        inode = self.names.pop(source)
        self.names[target] = inode
        self._name_log.append((str(source), target, inode))

    def remove(self, path: Path) -> None:
        """Drop a name."""
        self.step("remove")
        if path not in self.names:
            raise FileNotFoundError(path)
        del self.names[path]
        self._name_log.append(("", path, None))

    def sync_directory(self, path: Path) -> None:
        """Make all names durable."""
        self.step("sync_directory")
        self._durable_names = dict(self.names)
        self._name_log.clear()

    def lock(self, path: Path) -> SimulatedLock:
        """Take a lock."""
        if path in self.locks:
            raise LogLockedError(f"{path} is held by another process")
        self.locks.add(path)
        return SimulatedLock(self, path)

    def put(self, path: Path, data: bytes) -> None:
        """Place a durable file (tests set a scene with it)."""
        self.names[path] = Inode(data, bytearray(data))
        self._durable_names[path] = self.names[path]

    def after_power_loss(self, rng: random.Random) -> "SimulatedFiles":
        """Return the file system that is found when the machine comes back."""
        names = dict(self._durable_names)
        for source, target, inode in self._name_log[: rng.randint(0, len(self._name_log))]:
            names.pop(Path(source), None)
            if inode is None:
                names.pop(target, None)
            else:
                names[target] = inode
        found = SimulatedFiles(self.capacity_bytes)
        for path, inode in names.items():
            found.put(path, _survive(inode, rng))
        return found

    def _set_name(self, path: Path, inode: Inode) -> None:
        self.names[path] = inode
        self._name_log.append(("", path, inode))


def _survive(inode: Inode, rng: random.Random) -> bytes:
    """Return a file's bytes after power loss: the durable part, and some of the later writes."""
    durable, current = inode.durable, bytes(inode.current)
    if current[: len(durable)] != durable:
        return rng.choice((durable, current))
    volatile = bytearray(current)
    match rng.randrange(4):
        case 0:
            return durable
        case 1:
            return current
        case 2:
            return current[: rng.randint(len(durable), len(current))]
        case _:
            _lose_sectors(volatile, len(durable), rng)
            return bytes(volatile)


def _lose_sectors(data: bytearray, start: int, rng: random.Random) -> None:
    """Fill some sectors after `start` with zeros; a sector that holds durable bytes too keeps those."""
    position = start
    while position < len(data):
        end = min((position // SECTOR_BYTES + 1) * SECTOR_BYTES, len(data))
        if rng.random() < 0.5:
            data[position:end] = bytes(end - position)
        position = end
