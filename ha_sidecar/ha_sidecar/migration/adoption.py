"""Make the store of a broker without controllers the store of a broker in controller mode, before it starts.

    keep      the log, its queues, topics, groups and offsets stay; the store moves to where our brokers
              have theirs; its old identity goes; an epoch file is written
    empty     the store goes: its broker copies the group's log from its master
    metadata  all goes but topics, subscription groups, and users with their rights: what a log in DLedger's
              format leaves behind

**The epoch file.** Without one, a log lacks a history that two brokers could compare. A slave whose list is
empty cuts nothing and goes on at the end of its own log, whatever is in it; a master without an entry for its
older bytes cannot serve a slave that lies below its first epoch: it then sends bytes that are not a valid
stream. So all that was written before controller mode is epoch 0 from offset 0, in each kept store, and the
first elected master begins epoch 1 where its log ends. An empty log gets no entry: an epoch cannot
start at the start of the previous one.

**`abort` stays.** It is not a lock: it says that the broker did not stop in good order, and makes Java check
its store for that.

Each part may be done again: a process that was killed goes on where it was. Nothing outside the store is
touched.

Source: AutoSwitchHAClient.doTruncate, EpochFileCache.appendEntry, DefaultMessageStore.load,
LocalAuthenticationMetadataProvider, LocalAuthorizationMetadataProvider 5.5.0; RocketMQ's
docs/cn/controller/deploy.md, upgrade.
"""

import os
import shutil
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Final

from ha_sidecar.commitlog.disk import OS_DISK
from ha_sidecar.commitlog.layout import Layout
from ha_sidecar.commitlog.recovery import find_end
from ha_sidecar.commitlog.store import (
    EPOCH_FILE,
    EPOCH_FILE_BACKUP,
    LOCK_FILE,
    LOG_DIRECTORY,
    StoreError,
    lock_store,
    write_epochs,
)
from ha_sidecar.common.identity import IDENTITY_FILE, TEMPORARY_FILE
from ha_sidecar.common.metadata import CONFIG_DIRECTORY
from ha_sidecar.epoch import EpochList
from ha_sidecar.seed.seed import NOTE_FILE

STORE: Final = "store"
"""Where a broker of the operator's has its store on its volume."""
BEFORE_CONTROLLERS: Final = EpochList.of((0, 0))
NOT_OF_STORE: Final = frozenset({STORE, "lost+found"})
"""What lies beside a store that is its volume's root."""
OLD_IDENTITY: Final = (EPOCH_FILE, EPOCH_FILE_BACKUP, IDENTITY_FILE, TEMPORARY_FILE, NOTE_FILE, LOCK_FILE)
METADATA_KEPT: Final = ("topics.json", "subscriptionGroup.json", "users", "acls")
"""In the directory of a store's metadata; the last two are directories of RocksDB (ACL 2.0)."""


class KeepMode(StrEnum):
    """The part of a store that stays."""

    KEEP = "keep"
    EMPTY = "empty"
    METADATA = "metadata"


@dataclass(frozen=True, slots=True)
class Adoption:
    """What there is now; offsets of the log in bytes."""

    kept: str
    min_offset: int
    max_offset: int
    stopped_in_order: bool


@dataclass(frozen=True, slots=True)
class StoreLocation:
    """Where a store lies on its volume.

    Attributes:
        volume: the volume's root.
        store: the store in it; empty for the root itself.
        commit_log: its log's directory in the volume.
        file_bytes: length of a file of its log.
    """

    volume: Path
    store: str
    commit_log: str
    file_bytes: int


def adopt(place: StoreLocation, keeping: KeepMode) -> Adoption:
    """Make the store ours; do nothing where that is done.

    Raises:
        StoreError: a process has it open, or something else lies at the target.
        LogLayoutError: its log is not a commit log.
        OSError: the volume refused.
    """
    for part in (place.store, place.commit_log):
        if PurePosixPath(part).is_absolute() or ".." in PurePosixPath(part).parts:
            raise StoreError(f"{part} is not inside the volume")
    _unlocked(place)
    _moved(place)
    store = place.volume / STORE
    if keeping is not KeepMode.KEEP:
        _emptied(store, METADATA_KEPT if keeping is KeepMode.METADATA else ())
        return Adoption(keeping.value, 0, 0, stopped_in_order=True)
    for name in OLD_IDENTITY:
        (store / name).unlink(missing_ok=True)
    end = find_end(Layout(store / LOG_DIRECTORY, place.file_bytes))
    write_epochs(store, BEFORE_CONTROLLERS if end.max_offset else EpochList())
    return Adoption(
        keeping.value, end.min_offset, end.max_offset, stopped_in_order=not (store / "abort").exists()
    )


def _unlocked(place: StoreLocation) -> None:
    """Refuse a store that a broker has open."""
    for store in {place.volume / place.store, place.volume / STORE}:
        if (store / LOCK_FILE).exists():
            os.close(lock_store(store))


def _moved(place: StoreLocation) -> None:
    """Move a store, and its log if that lies elsewhere, by renames: each is done whole or not at all."""
    old, new = place.volume / place.store, place.volume / STORE
    if old == place.volume or new in old.parents:
        # One inside the other: its parts are moved, each by itself.
        new.mkdir(exist_ok=True)
        for name in OS_DISK.list(old):
            if name not in NOT_OF_STORE:
                _rename(old / name, new / name)
    elif old != new and old.exists():
        _rename(old, new)
    new.mkdir(parents=True, exist_ok=True)
    log = place.volume / place.commit_log
    inside = PurePosixPath(place.store) / LOG_DIRECTORY
    if PurePosixPath(place.commit_log) not in (inside, PurePosixPath(STORE) / LOG_DIRECTORY) and log.exists():
        _rename(log, new / LOG_DIRECTORY)
    OS_DISK.sync_directory(new)
    OS_DISK.sync_directory(place.volume)


def _rename(source: Path, target: Path) -> None:
    """Give something its new name, which nothing else may have."""
    if target.exists():
        raise StoreError(f"{target} exists already: {source} cannot be moved there")
    source.rename(target)


def _emptied(store: Path, kept: tuple[str, ...]) -> None:
    for path in sorted(store.iterdir()):
        if path.name == CONFIG_DIRECTORY and kept:
            for file in sorted(path.iterdir()):
                if file.name not in kept:
                    _remove(file)
        else:
            _remove(path)
    OS_DISK.sync_directory(store)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
