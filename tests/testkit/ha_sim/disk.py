"""A disk in memory that loses power, tears writes and fails on demand.

It is a `ha_sidecar.commitlog.disk.Disk` for a simulation.

Writes stay volatile until their file is synced. When power goes, each file keeps its durable part, and of
the rest nothing, all, the first operations, or each sector as it was at some time: a disk may write them
in any order. Names are volatile until a directory is synced, and survive in the order in which they were
made, as a journal keeps them.

A disk may be given a size. Files are sparse: what counts is sectors that are not all zeros, and a write that
finds no room for all of it does a part.

A fuse makes the disk stop, or fail once, at a later step; which one, the schedule chooses.
"""

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from ha_sidecar.commitlog.disk import Bytes
from testkit.check.errors import PowerLossError

SECTOR_BYTES = 512


@dataclass
class Content:
    """A file's bytes: the durable content, the later writes in order, and the content that a reader sees."""

    durable: bytes = b""
    volatile: list[tuple[int, bytes | None]] = field(default_factory=list)
    """(at, data) of a write, (size, None) of a change of the length."""
    current: bytearray = field(default_factory=bytearray)

    def write(self, at: int, data: bytes) -> None:
        """Write at a place; a hole before it reads as zeros."""
        _place(self.current, at, data)
        self.volatile.append((at, data))

    def resize(self, size_bytes: int) -> None:
        """Cut, or lengthen with zeros."""
        _resize(self.current, size_bytes)
        self.volatile.append((size_bytes, None))

    def sync(self) -> None:
        """Make all of it durable."""
        self.durable = bytes(self.current)
        self.volatile.clear()

    def used_bytes(self) -> int:
        """Return the length of all sectors that are not zeros."""
        data = bytes(self.current)
        sectors = range(0, len(data), SECTOR_BYTES)
        return sum(SECTOR_BYTES for at in sectors if data[at : at + SECTOR_BYTES].strip(b"\0"))

    def survivor(self, random: Random) -> bytes:
        """Return the content after a power loss."""
        kind = random.randrange(4)
        if kind == 0:
            return self.durable
        if kind == 1:
            return bytes(self.current)
        data = bytearray(self.durable)
        kept = random.randint(0, len(self.volatile))
        written: dict[int, int] = {}
        for number, (at, new) in enumerate(self.volatile):
            if new is None:
                # Changes of the length are journalled: they survive in order.
                if number < kept:
                    _resize(data, at)
            elif kind == 2 and number < kept:
                _place(data, at, new)
            elif kind == 3:
                self._place_sectors(data, number, written, random)
        return bytes(data)

    def _place_sectors(self, data: bytearray, number: int, written: dict[int, int], random: Random) -> None:
        """Do what one write did to the sectors that reached the platter; `written` tells when each did."""
        position, new = self.volatile[number]
        assert new is not None
        end = position + len(new)
        at = position
        while at < end:
            sector = at // SECTOR_BYTES
            part_end = min((sector + 1) * SECTOR_BYTES, end)
            last = written.setdefault(sector, random.randint(0, len(self.volatile)))
            if part_end <= len(data) and number < last:
                data[at:part_end] = new[at - position : part_end - position]
            at = part_end


def _resize(data: bytearray, size_bytes: int) -> None:
    del data[size_bytes:]
    data.extend(bytes(size_bytes - len(data)))


def _place(data: bytearray, at: int, new: bytes) -> None:
    if at > len(data):
        data.extend(bytes(at - len(data)))
    data[at : at + len(new)] = new


_Changes = list[tuple[Path | None, Path, Content | None]]
"""(old name, name, content); no content: the name goes."""


class SimulatedLogFile:
    """An open file."""

    def __init__(self, disk: "SimulatedDisk", content: Content) -> None:
        self._disk = disk
        self._content = content

    def write_at(self, parts: Sequence[memoryview], at: int) -> None:
        """Write the parts one after another; on a full disk only a part of them."""
        data = b"".join(parts)
        room_bytes = self._disk.room_bytes()
        self._content.write(at, data[:room_bytes])
        self._disk.step("write")
        if len(data) > room_bytes:
            raise OSError(errno.ENOSPC, "no space left on the simulated disk")

    def read_at(self, length: int, at: int) -> bytes:
        """Return the bytes from `at`."""
        return bytes(self._content.current[at : at + length])

    def resize(self, size_bytes: int) -> None:
        """Cut or lengthen."""
        self._content.resize(size_bytes)
        self._disk.step("resize")

    def sync_data(self) -> None:
        """Make bytes durable; the length must be so already."""
        assert all(data is not None for _, data in self._content.volatile), "the length is not durable"
        self.sync()

    def sync(self) -> None:
        """Make all durable."""
        self._disk.step("sync")
        self._content.sync()

    def close(self) -> None:
        """Close; never fails."""


class SimulatedDisk:
    """One machine's disk.

    Attributes:
        steps: how many steps were taken so far.
        fuse: steps until something happens, None for never.
        fuse_error: what happens then.
        capacity_bytes: the disk's size, None for one that never runs full.
    """

    def __init__(self) -> None:
        self.steps = 0
        self.fuse: int | None = None
        self.fuse_error: type[Exception] = PowerLossError
        self.capacity_bytes: int | None = None
        self._names: dict[Path, Content] = {}
        self._durable_names: dict[Path, Content] = {}
        self._name_log: list[_Changes] = []

    def step(self, kind: str) -> None:
        """Count a step; stop or fail if it is the one."""
        self.steps += 1
        if self.fuse is None:
            return
        self.fuse -= 1
        if self.fuse < 0:
            self.fuse = None
            raise self.fuse_error(f"at step {self.steps}: {kind}")

    def make_directory(self, path: Path) -> None:
        """Directories need no keeping here."""

    def list(self, path: Path) -> list[str]:
        """Return the names in a directory."""
        depth = len(path.parts)
        return sorted({name.parts[depth] for name in self._names if name.parts[:depth] == path.parts})

    def size(self, path: Path) -> int | None:
        """Return a file's length."""
        content = self._names.get(path)
        return None if content is None else len(content.current)

    def open(self, path: Path, *, create: bool = False) -> SimulatedLogFile:
        """Open a file."""
        if path not in self._names:
            if not create:
                raise FileNotFoundError(path)
            self._change([(None, path, Content())])
            self.step("create")
        return SimulatedLogFile(self, self._names[path])

    @contextmanager
    def content(self, path: Path) -> Iterator[Bytes]:
        """Return a file whole."""
        yield bytes(self._names[path].current)

    def rename(self, source: Path, target: Path) -> None:
        """Rename a file, or all files of a directory; one step of the journal either way."""
        moved = [name for name in self._names if name == source or source in name.parents]
        self._change([(name, target / name.relative_to(source), self._names[name]) for name in moved])
        self.step("rename")

    def remove(self, path: Path) -> None:
        """Remove a file."""
        if path not in self._names:
            raise FileNotFoundError(path)
        self._change([(None, path, None)])
        self.step("remove")

    def sync_directory(self, path: Path) -> None:
        """Make all names durable."""
        self.step("sync_directory")
        self._durable_names = dict(self._names)
        self._name_log.clear()

    def usage(self, path: Path) -> tuple[int, int]:
        """Return (used, all) bytes; a disk without a size is empty."""
        return (self.used_bytes(), self.capacity_bytes) if self.capacity_bytes is not None else (0, 1 << 60)

    def volume(self, path: Path) -> int:
        """Say that everything is on one disk."""
        return 1

    def used_bytes(self) -> int:
        """Return what files take, in whole sectors."""
        return sum(content.used_bytes() for content in self._names.values())

    def room_bytes(self) -> int:
        """Return how many bytes still fit."""
        if self.capacity_bytes is None:
            return 1 << 60
        return max(0, self.capacity_bytes - self.used_bytes())

    def drop_directory(self, path: Path) -> None:
        """Remove a directory durably, as a person does it."""
        for names in (self._names, self._durable_names):
            for name in [name for name in names if path in name.parents]:
                del names[name]
        self._name_log.clear()
        self._durable_names = dict(self._names)

    def after_power_loss(self, random: Random) -> "SimulatedDisk":
        """Return the disk as it is found when the machine comes back."""
        names = dict(self._durable_names)
        for change in self._name_log[: random.randint(0, len(self._name_log))]:
            _apply(names, change)
        found = SimulatedDisk()
        found.capacity_bytes = self.capacity_bytes
        for path, content in names.items():
            data = content.survivor(random)
            found._names[path] = Content(data, [], bytearray(data))
        found._durable_names = dict(found._names)
        return found

    def _change(self, changes: _Changes) -> None:
        _apply(self._names, changes)
        self._name_log.append(changes)


def _apply(names: dict[Path, Content], changes: _Changes) -> None:
    for source, path, content in changes:
        if source is not None:
            names.pop(source, None)
        if content is None:
            names.pop(path, None)
        else:
            names[path] = content
