"""Stores of a log with bytes that a test chose: appended like a stream, or made by the megabyte."""

from typing import Final

from controller_core.remoting.numbers import LogOffset
from ha_sidecar.commitlog.store import ReplicaStore
from ha_sidecar.epoch import EpochList
from testkit.ha.messages import blank, message

_BLANK_HEAD_BYTES: Final = 8
_PARTS_MAX: Final = 4_096


def append(store: ReplicaStore, data: bytes) -> None:
    """Append log bytes at the end, never across a file's end in one go; nothing is synced."""
    view, log = memoryview(data), store.log
    while len(view):
        length = min(len(view), log.layout.file_bytes - log.max_offset % log.layout.file_bytes)
        log.append(log.max_offset, [view[:length]])
        view = view[length:]


def next_record(offset: int, file_bytes: int, body: bytes, queue_offset: int = 0) -> bytes:
    """Return what a broker writes at `offset` for a message: the message, or the file's end before it."""
    record = message(offset, body, queue_offset=queue_offset)
    rest_bytes = file_bytes - offset % file_bytes
    return blank(rest_bytes) if len(record) + _BLANK_HEAD_BYTES > rest_bytes else record


def fill(store: ReplicaStore, total_bytes: int, body_bytes: int) -> int:
    """Write a log of about this size into an empty store, durably, in epoch 0; return where it ends.

    The messages are those of one queue, numbered from 0, so that a broker that is started on the
    store builds its consume queue from them without complaint. No controller elects in epoch 0: a
    master's own begins behind the log.
    """
    store.adopt(EpochList.of((0, 0)))
    log, file_bytes, body = store.log, store.log.layout.file_bytes, bytes(body_bytes)
    parts: list[memoryview] = []
    start = offset = number = 0
    while offset < total_bytes:
        record = next_record(offset, file_bytes, body, number)
        number += offset % file_bytes + len(record) < file_bytes
        parts.append(memoryview(record))
        offset += len(record)
        if len(parts) >= _PARTS_MAX or offset % file_bytes == 0:
            log.append(LogOffset(start), parts)
            start, parts = offset, []
    if parts:
        log.append(LogOffset(start), parts)
    log.sync()
    return offset
