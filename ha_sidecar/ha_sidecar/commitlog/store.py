"""A replica's store: the log, the epoch file beside it, and the order in which the two change.

The directory looks like a broker's, so that either can take over the other's: `commitlog/`,
`epochFileCheckpoint`, and `lock`, held while a process has the store open. On opening, the log is recovered
first and entries that start beyond its end are dropped: an epoch is written before the bytes behind its
start, so after a crash the list may be ahead of the log but never behind it.

A diverged log is never deleted here: `archive` moves it aside, a bounded number of times.

Source: MessageStoreConfig.java (paths) 5.4.0.
"""

import fcntl
import os
from pathlib import Path
from typing import Final

from controller_core.remoting.numbers import LogOffset, whole_number
from ha_sidecar.commitlog.disk import OS_DISK, Disk, remove_durably, write_atomically
from ha_sidecar.commitlog.files import CommitLog
from ha_sidecar.commitlog.layout import Layout, LogLayoutError, guess_file_bytes
from ha_sidecar.commitlog.record_ends import RecordEnds
from ha_sidecar.commitlog.records import CheckedRecord
from ha_sidecar.commitlog.room import Room
from ha_sidecar.epoch import EpochList, file_format
from ha_sidecar.transfer.reconcile import OwnLog

LOG_DIRECTORY: Final = "commitlog"
EPOCH_FILE: Final = "epochFileCheckpoint"
EPOCH_FILE_BACKUP: Final = "epochFileCheckpoint.bak"
ARCHIVE_DIRECTORY: Final = "diverged"
LOCK_FILE: Final = "lock"
ARCHIVES_MAX: Final = 3
"""More than this many diverged logs on one disk is for a person to look at."""


class StoreError(Exception):
    """The store cannot be used as it is; a person has to look."""


def read_epochs(directory: Path, disk: Disk = OS_DISK) -> EpochList:
    """Return the list in the store's epoch file, empty without a file; raise `EpochFileError` on damage.

    Not Java's way: where the file is missing or damaged, Java takes the backup, the list before the last
    change, and its log's newest bytes then pass for those of an older epoch. A master that was elected past
    them, and wrote more in that older epoch, shares the label and not the bytes, and the truncation point
    leaves them in place. A log without a list is refused at the handshake instead, and one with a damaged
    list is not opened. Our own file needs no backup: it is replaced whole.

    Source: CheckpointFile.read, MixAll.string2File 5.2.0 and 5.3.3.
    """
    path = directory / EPOCH_FILE
    if disk.size(path) is None:
        return EpochList()
    with disk.content(path) as data:
        return file_format.decode(bytes(data))


def write_epochs(directory: Path, epochs: EpochList, disk: Disk = OS_DISK) -> None:
    """Make `epochs` the store's list, durably.

    An empty list leaves neither a file nor Java's backup of one.
    """
    if len(epochs):
        write_atomically(directory / EPOCH_FILE, file_format.encode(epochs), disk)
        return
    # Backup first: Java reads it when the file itself is missing.
    remove_durably(directory / EPOCH_FILE_BACKUP, disk)
    remove_durably(directory / EPOCH_FILE, disk)


def lock_store(directory: Path) -> int:
    """Take the store for this process; return the descriptor that holds it until closed.

    Raises:
        StoreError: another process has it.
    """
    directory.mkdir(parents=True, exist_ok=True)
    fd = os.open(directory / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(fd)
        raise StoreError(f"{directory} is open in another process") from error
    return fd


class ReplicaStore:
    """An open store; one process at a time.

    Attributes:
        directory: the store's root.
        log: the log's files.
        epochs: the epoch list, as on disk.
        recovered: what stood at the log's end when it was opened.
    """

    def __init__(
        self, directory: Path, file_bytes: int, disk: Disk = OS_DISK, refuse_above: float | None = None
    ) -> None:
        """Open the store, recover its log, drop epochs beyond the log's end.

        With `refuse_above`, a share of the volume from 0 to 1, the log refuses writes that would fill it
        beyond.

        Only a store of the operating system's disk is locked: no other process can see another one.

        Raises:
            StoreError: another process has it.
            LogLayoutError: the files make no log of files of `file_bytes` bytes.
            EpochFileError: the epoch file is damaged.
        """
        self.directory: Final = directory
        self._disk: Final = disk
        self._lock_fd: int | None = lock_store(directory) if disk is OS_DISK else None
        self._layout: Final = Layout(directory / LOG_DIRECTORY, file_bytes, disk)
        self._room: Final = (
            None if refuse_above is None else Room(disk, self._layout.directory, file_bytes, refuse_above)
        )
        self.log: CommitLog
        self.recovered: CheckedRecord
        try:
            self.log, self.recovered = CommitLog.open(self._layout, room=self._room)
            self.epochs: EpochList = read_epochs(directory, disk)
            epochs = self.epochs.starting_up_to(self.log.max_offset)
            # Epochs of files that retention removed; while it runs, the list may name them still.
            self.adopt(epochs if self.log.is_empty else epochs.truncate_prefix_by_offset(self.log.min_offset))
        except BaseException:
            self._unlock()
            raise

    def own_log(self) -> OwnLog:
        """Return what the handshake needs to know; make all of it durable first."""
        self.log.sync()
        return OwnLog(
            self.log.min_offset, self.log.max_offset, self.epochs.starting_up_to(self.log.max_offset)
        )

    def adopt(self, epochs: EpochList) -> None:
        """Make this the epoch list, durably."""
        if epochs != self.epochs:
            write_epochs(self.directory, epochs, self._disk)
            self.epochs = epochs

    def open_epoch(self, epoch: int) -> EpochList:
        """Begin to be the log of a master in `epoch`: end at a whole record, durably; return the epoch list.

        A slave that ended on half a message could not be promoted.

        Raises:
            EpochOrderError: the log holds bytes of this epoch or of a later one.
            StoreError: nothing says of which epochs its bytes are.
        """
        log = self.log
        if not log.is_empty and not len(self.epochs):
            raise StoreError(f"{self.directory} holds bytes and no epochs for them")
        epochs = self.epochs.opened(epoch, self._last_record_end())
        self.cut_torn_record()
        self.adopt(epochs)
        return epochs

    def cut_torn_record(self) -> LogOffset:
        """End the log at its last whole record, durably; return where that is."""
        end_offset = self._last_record_end()
        if end_offset < self.log.max_offset:
            self.log.truncate(end_offset)
        self.log.sync()
        return end_offset

    def _last_record_end(self) -> LogOffset:
        log = self.log
        walk = RecordEnds(self._layout, log.record_offset)
        try:
            from_offset = max(self._layout.start_of(log.max_offset), log.min_offset)
            return LogOffset(walk.record_end(from_offset, log.max_offset))
        finally:
            walk.close()

    def archive(self) -> Path:
        """Move log and epoch file aside and go on with an empty store; return where they lie now.

        Raises:
            StoreError: `ARCHIVES_MAX` are there already.
        """
        parent, disk = self.directory / ARCHIVE_DIRECTORY, self._disk
        disk.make_directory(parent)
        taken = sorted(number for name in disk.list(parent) if (number := whole_number(name)) is not None)
        if len(taken) >= ARCHIVES_MAX:
            raise StoreError(f"{parent} holds {len(taken)} diverged logs already")
        target = parent / str((taken[-1] if taken else 0) + 1)
        disk.make_directory(target)
        with self.log.cuts.cutting():
            self.log.close()
            # The epoch file goes first: an unlabelled log is refused at the next handshake, a label without a
            # log is dropped. Its backup goes before it: a broker that takes the store over would read it for
            # the new log's.
            for name in (EPOCH_FILE_BACKUP, EPOCH_FILE):
                if disk.size(self.directory / name) is not None:
                    disk.rename(self.directory / name, target / name)
            disk.rename(self._layout.directory, target / LOG_DIRECTORY)
            disk.sync_directory(target)
            disk.sync_directory(parent)
            disk.sync_directory(self.directory)
            self.log, self.recovered = CommitLog.open(self._layout, self.log.cuts, self._room)
            self.epochs = EpochList()
        return target

    def close(self) -> None:
        """Make everything durable and let the store go."""
        self.log.close()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None


def existing_layout(directory: Path, file_bytes: int | None) -> Layout:
    """Return the layout of a closed store (or of its log directory itself).

    Raises:
        LogLayoutError: no log there, and no length given to start with.
    """
    log_directory = directory / LOG_DIRECTORY if (directory / LOG_DIRECTORY).is_dir() else directory
    found = file_bytes or guess_file_bytes(log_directory)
    if not found:
        raise LogLayoutError(f"no log files in {log_directory}")
    return Layout(log_directory, found)
