"""The log of one node on disk: a view in memory, a write-ahead log and snapshot files below it.

The work is split by thread. `prepare`, `commit`, `publish_snapshot`, `compact` and all reads run on the
thread of the core and touch memory only (`compact` also unlinks files). `write` and `write_snapshot` block on
the disk and touch nothing that the reads see. Batches come from one thread; a snapshot may be written at the
same time from another, because its file is its own. A batch counts for the core only after `commit`.

A store that failed once stays failed: every later write raises `LogFailedError`. A store without space does
not fail: `write` raises `LogFullError` and may be called again with the same batch.
"""

import contextlib
import threading
from pathlib import Path

from controller_core.log.errors import LogCorruptError, LogFailedError, LogMisuseError
from controller_core.log.files import TEMPORARY_SUFFIX, Files, Lock, OsFiles
from controller_core.log.memory import founding_batch, stored_from
from controller_core.log.reads import StoreReads
from controller_core.log.recovery import Cut, Recovered, Tail, recover, segment_names
from controller_core.log.snapshots import read_newest, snapshot_name, snapshot_names
from controller_core.log.snapshots import write_snapshot as write_snapshot_file
from controller_core.log.view import Batch, LogView, StoredState
from controller_core.log.wal import SEGMENT_BYTES_MAX, WalWriter
from controller_core.raft.types import ConfState, LogIndex, Snapshot

LOCK_NAME = "LOCK"
_MARK = "\0"
"""Between owner and incarnation in a segment's head."""


class DiskStore(StoreReads):
    """The log of one node, on disk."""

    def __init__(
        self,
        files: Files,
        directory: Path,
        lock: Lock,
        stored: StoredState,
        writer: WalWriter,
        cut: Cut | None,
        incarnation: str,
    ) -> None:
        self._files = files
        self._directory = directory
        self._lock = lock
        self._view = LogView(stored)
        self._writer = writer
        self._snapshots_lock = threading.Lock()
        self._failure: OSError | None = None
        self._closed = False
        self.cut = cut
        """The torn tail that opening cut off, for the node to report; None without one."""
        self.incarnation = incarnation
        """Which store this is: chosen when it was made, and lost with it; empty if none was chosen."""

    @classmethod
    def open(
        cls,
        directory: Path,
        initial: Snapshot | None = None,
        *,
        owner: str = "",
        new_incarnation: str = "",
        files: Files | None = None,
        segment_bytes_max: int = SEGMENT_BYTES_MAX,
    ) -> "DiskStore":
        """Open the store in `directory`, or make a new one there.

        Args:
            directory: created when missing.
            initial: the first snapshot of a new store, with the membership; ignored by a store that exists.
                Without one a new store is empty until `found` or a leader fills it.
            owner: whose store this is, as any text; a store of another owner is refused.
            new_incarnation: a text that no other store has; kept by a new store, ignored by one that exists.
            files: the file system; the operating system's when None.
            segment_bytes_max: size at which the log goes on in a new file.

        Raises:
            LogLockedError: another process has it open.
            LogCorruptError: it is damaged; the text names file and offset.
            LogMisuseError: it belongs to another owner.
            LogFullError: the disk is full.
            LogFailedError: reading or writing failed.
        """
        files = files or OsFiles()
        try:
            files.make_directory(directory)
            lock = files.lock(directory / LOCK_NAME)
        except OSError as error:
            raise LogFailedError(f"{directory} cannot be opened: {error}") from error
        try:
            identity = (owner, new_incarnation)
            return cls._open_locked(files, directory, lock, initial, identity, segment_bytes_max)
        except OSError as error:
            lock.close()
            raise LogFailedError(f"{directory} cannot be opened: {error}") from error
        except BaseException:
            lock.close()
            raise

    @classmethod
    def _open_locked(
        cls,
        files: Files,
        directory: Path,
        lock: Lock,
        initial: Snapshot | None,
        identity: tuple[str, str],
        segment_bytes_max: int,
    ) -> "DiskStore":
        owner, incarnation = identity
        names = files.list(directory)
        recovered = recover(files, directory, names)
        if recovered is None:
            stored = _make_new(files, directory, names, initial)
            tail = Tail(0, 0, stored.snapshot.index, stored.snapshot.term, stored.hard_state)
            signed = owner + _MARK + incarnation if incarnation else owner
            writer = WalWriter.create(files, directory, signed, tail, segment_bytes_max)
            return cls(files, directory, lock, stored, writer, None, incarnation)
        found_owner, _, incarnation = recovered.owner.partition(_MARK)
        if owner and found_owner != owner:
            raise LogMisuseError(f"{directory} is the store of {found_owner!r}, not of {owner!r}")
        _remove_leftovers(files, directory, names, recovered)
        writer = WalWriter.resume(files, directory, recovered, segment_bytes_max)
        return cls(files, directory, lock, recovered.stored, writer, recovered.cut, incarnation)

    def found(self, initial: Snapshot) -> None:
        """Put the first snapshot of a new cluster into an empty store; blocks.

        Raises:
            LogMisuseError: the store is not empty.
            LogFullError: no space; nothing has changed.
            LogFailedError: the disk failed, now or before.
        """
        if not self.is_empty:
            raise LogMisuseError(f"{self._directory} is not empty")
        batch = founding_batch(initial)
        self.write(batch)
        self.commit(batch)

    def write(self, batch: Batch) -> None:
        """Put a batch on disk, synced when it must be; blocks; from one thread at a time.

        Raises:
            LogFullError: no space; nothing is written, and the batch may come again.
            LogFailedError: the disk failed, now or before.
        """
        self._check_usable()
        try:
            if batch.snapshot is not None:
                self._write_snapshot(batch.snapshot)
            if not batch.is_empty or batch.must_sync:
                self._writer.append(batch)
        except OSError as error:
            raise self._fail(error) from error

    def commit(self, batch: Batch) -> None:
        """Make a written batch visible to the reads."""
        self._view.apply(batch)
        if batch.snapshot is not None:
            self._writer.drop_through(batch.snapshot.index)

    def write_snapshot(self, snapshot: Snapshot) -> None:
        """Put a snapshot on disk; blocks; from any one thread.

        Raises:
            LogFullError: no space; nothing has changed.
            LogFailedError: the disk failed, now or before.
        """
        self._check_usable()
        try:
            self._write_snapshot(snapshot)
        except OSError as error:
            raise self._fail(error) from error

    def _write_snapshot(self, snapshot: Snapshot) -> None:
        # One at a time: each removes older files.
        with self._snapshots_lock:
            write_snapshot_file(self._files, self._directory, snapshot)

    def publish_snapshot(self, snapshot: Snapshot) -> None:
        """Make a written snapshot the newest one."""
        self._view.publish_snapshot(snapshot)

    def create_snapshot(self, index: LogIndex, conf_state: ConfState, data: bytes) -> Snapshot:
        """Build, write and publish a snapshot in one blocking call."""
        snapshot = self.build_snapshot(index, conf_state, data)
        self.write_snapshot(snapshot)
        self.publish_snapshot(snapshot)
        return snapshot

    def compact(self, index: LogIndex) -> None:
        """Forget entries up to and including `index` and remove the files that hold nothing else."""
        self._view.compact(index)
        self._writer.drop_through(index)

    def close(self) -> None:
        """Close the files and give up the lock; nothing is synced; closing twice is allowed."""
        if not self._closed:
            self._closed = True
            self._writer.close()
            self._lock.close()

    def _check_usable(self) -> None:
        if self._closed:
            raise LogMisuseError("the store is closed")
        if self._failure is not None:
            raise LogFailedError(f"the store failed before: {self._failure}")

    def _fail(self, error: OSError) -> LogFailedError:
        self._failure = error
        return LogFailedError(f"writing to {self._directory} failed: {error}")


def _make_new(files: Files, directory: Path, names: list[str], initial: Snapshot | None) -> StoredState:
    """Put the first snapshot of a new store in place, again if an earlier try stopped after it."""
    found = read_newest(files, directory, names)
    expected = initial or Snapshot()
    if found.index and (found.index, found.term) != (expected.index, expected.term):
        raise LogCorruptError(str(directory), 0, "log segments beside the snapshots", "none")
    if initial is not None:
        write_snapshot_file(files, directory, initial)
    return stored_from(initial)


def _remove_leftovers(files: Files, directory: Path, names: list[str], recovered: Recovered) -> None:
    """Remove unfinished files, older snapshots and unneeded segments that a crash left behind."""
    newest = snapshot_name(recovered.stored.snapshot.index)
    old = [name for name in snapshot_names(names) if name < newest]
    old += [name for name in segment_names(names) if name < recovered.segments[0].name]
    for name in [*old, *(name for name in names if name.endswith(TEMPORARY_SUFFIX))]:
        with contextlib.suppress(OSError):
            files.remove(directory / name)
