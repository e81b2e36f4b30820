"""CommitLog records made by hand: logs whose every byte a test knows, in the form a broker writes.

Source: MessageExtEncoder.java 5.4.0 for the order of the fields.
"""

import struct
import zlib

MAGIC_V1 = 0xDAA320A7
MAGIC_V2 = 0xDAA320AB
MAGIC_BLANK = 0xCBD43194
_BLANK_HEAD_BYTES = 8


def message(
    offset: int,
    body: bytes = b"body",
    topic: bytes = b"T",
    *,
    v6: bool = False,
    v2: bool = False,
    properties: bytes = b"KEYS\x01k\x02",
    queue_offset: int = 0,
) -> bytes:
    """Return one message record that stands at `offset`.

    Args:
        offset: its place in the log.
        body: payload.
        topic: topic name, at most 127 bytes unless `v2`.
        v6: hosts as IPv6 addresses, 12 bytes longer each.
        v2: the record form with a two byte topic length.
        properties: text of the properties, at most 32767 bytes.
        queue_offset: its number in its queue.
    """
    host = (b"\0" * 15 + b"\1" if v6 else b"\x7f\0\0\1") + struct.pack(">i", 10911)
    topic_part = struct.pack(">h" if v2 else ">b", len(topic)) + topic
    tail = struct.pack(">i", len(body)) + body + topic_part + struct.pack(">h", len(properties)) + properties
    middle = struct.pack(">q", 1) + host + struct.pack(">q", 2) + host + struct.pack(">iq", 0, 0)
    flags = 0x30 if v6 else 0
    total = 40 + len(middle) + len(tail)
    magic = MAGIC_V2 if v2 else MAGIC_V1
    crc = zlib.crc32(body) & 0x7FFFFFFF
    head = struct.pack(">IIIiiqqi", total, magic, crc, 0, 0, queue_offset, offset, flags)
    return head + middle + tail


def blank(rest_bytes: int) -> bytes:
    """Return a BLANK record that takes the file's last `rest_bytes` bytes."""
    return struct.pack(">II", rest_bytes, MAGIC_BLANK).ljust(rest_bytes, b"\0")


def log_bytes(
    count: int, file_bytes: int, start_offset: int = 0, body_bytes: int = 20, mark: bytes = b"m"
) -> bytes:
    """Return a log of `count` messages from `start_offset`.

    A BLANK ends each file that cannot take the next message.
    """
    log = bytearray()
    for number in range(count):
        body = (mark + str(number).encode()).ljust(body_bytes, b".")
        record = message(start_offset + len(log), body)
        rest_bytes = file_bytes - (start_offset + len(log)) % file_bytes
        if len(record) + _BLANK_HEAD_BYTES > rest_bytes:
            log += blank(rest_bytes)
            record = message(start_offset + len(log), body)
        log += record
    return bytes(log)


def boundaries(log: bytes, file_bytes: int, start_offset: int = 0) -> list[int]:
    """Return the offsets at which a record starts, and the log's end."""
    found, at = [], 0
    while at < len(log):
        found.append(start_offset + at)
        total, magic = struct.unpack_from(">II", log, at)
        at += file_bytes - (start_offset + at) % file_bytes if magic == MAGIC_BLANK else total
    return [*found, start_offset + len(log)]
