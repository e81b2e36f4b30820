"""Snapshot files: one a snapshot, whole or absent, checked by a CRC32C over all of it.

    field       bytes  meaning (little endian)
    magic           4  "RHSN"
    version         4  1
    index, term  8, 8  the last entry that the snapshot holds
    conf size       4  bytes of the membership, as JSON
    data size       8  bytes of the state machine's own form
    conf, data         as above
    checksum        4  CRC32C of everything above

A file gets its name only after its bytes are synced (`files.durable_write`), so a bad checksum is never a
torn write: it is damage, and the store refuses to start. Falling back to an older snapshot would lose
entries, because the log before the newest snapshot may be gone.
"""

import re
import struct
from pathlib import Path

import google_crc32c
import msgspec

from controller_core.log.errors import LogBoundsError, LogCorruptError
from controller_core.log.files import Files, durable_write
from controller_core.raft.bounds import STORED_INDEX_MAX, STORED_TERM_MAX
from controller_core.raft.types import ConfState, LogIndex, Snapshot, Term

SNAPSHOT_MAGIC = b"RHSN"
SNAPSHOT_VERSION = 1
_HEAD = struct.Struct("<4sIQQIQ")
_CHECKSUM = struct.Struct("<I")
_NAME = re.compile(r"^snapshot-(\d{20})\.snap$")


def snapshot_name(index: int) -> str:
    """Return the file name of the snapshot at `index`; names sort as indices do."""
    return f"snapshot-{index:020d}.snap"


def snapshot_names(names: list[str]) -> list[str]:
    """Return the names of snapshots among `names`, oldest first."""
    return sorted(name for name in names if _NAME.match(name))


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Return a snapshot file's bytes."""
    conf = msgspec.json.encode(snapshot.conf_state)
    head = _HEAD.pack(
        SNAPSHOT_MAGIC, SNAPSHOT_VERSION, snapshot.index, snapshot.term, len(conf), len(snapshot.data)
    )
    whole = b"".join((head, conf, snapshot.data))
    return whole + _CHECKSUM.pack(google_crc32c.value(whole))


def decode_snapshot(data: bytes, path: str) -> Snapshot:
    """Return the snapshot that a file holds.

    Raises:
        LogCorruptError: the bytes are not what `encode_snapshot` made.
    """
    if len(data) < _HEAD.size + _CHECKSUM.size:
        raise LogCorruptError(path, 0, f"at least {_HEAD.size + _CHECKSUM.size} bytes", f"{len(data)} bytes")
    (checksum,) = _CHECKSUM.unpack_from(data, len(data) - _CHECKSUM.size)
    actual = google_crc32c.value(data[: -_CHECKSUM.size])
    if checksum != actual:
        raise LogCorruptError(
            path, len(data) - _CHECKSUM.size, f"checksum {checksum:#010x}", f"{actual:#010x}"
        )
    magic, version, index, term, conf_size, data_size = _HEAD.unpack_from(data)
    if magic != SNAPSHOT_MAGIC or version != SNAPSHOT_VERSION:
        expected = f"{SNAPSHOT_MAGIC!r} version {SNAPSHOT_VERSION}"
        raise LogCorruptError(path, 0, expected, f"{magic!r} version {version}")
    conf_end = _HEAD.size + conf_size
    if conf_end + data_size + _CHECKSUM.size != len(data):
        raise LogCorruptError(path, 0, f"{conf_end + data_size + _CHECKSUM.size} bytes", f"{len(data)} bytes")
    conf = msgspec.json.decode(data[_HEAD.size : conf_end], type=ConfState)
    return Snapshot(LogIndex(index), Term(term), conf, data[conf_end : conf_end + data_size])


def write_snapshot(files: Files, directory: Path, snapshot: Snapshot) -> None:
    """Put a snapshot in place durably, then remove older ones.

    Raises:
        OSError: some step failed; older snapshots are then still there.
    """
    name = snapshot_name(snapshot.index)
    durable_write(files, directory / name, encode_snapshot(snapshot))
    for old in snapshot_names(files.list(directory)):
        if old < name:
            files.remove(directory / old)


def read_newest(files: Files, directory: Path, names: list[str]) -> Snapshot:
    """Return the newest snapshot among `names`; index 0 without one.

    Raises:
        LogCorruptError: the newest file is damaged, its name and content disagree, or a number is over its
            bound.
    """
    found = snapshot_names(names)
    if not found:
        return Snapshot()
    path = directory / found[-1]
    snapshot = decode_snapshot(files.read(path), str(path))
    if snapshot_name(snapshot.index) != found[-1]:
        raise LogCorruptError(str(path), 0, f"the snapshot of {found[-1]}", f"that of index {snapshot.index}")
    if snapshot.index > STORED_INDEX_MAX:
        raise LogBoundsError(str(path), 0, "index", snapshot.index, STORED_INDEX_MAX)
    if snapshot.term > STORED_TERM_MAX:
        raise LogBoundsError(str(path), 0, "term", snapshot.term, STORED_TERM_MAX)
    return snapshot
