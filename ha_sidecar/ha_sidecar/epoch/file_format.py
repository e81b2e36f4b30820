"""The text of RocketMQ's epoch file, so that a broker and a replica can read each other's store.

The file is UTF-8 text, one number a line: how many entries follow, a checksum over the entry lines, then one
`epoch-startOffset` line an entry, ascending. The checksum is CRC-32 of the entry lines with their line ends,
without the sign bit; 0 says "do not check".

    2
    773307083
    7-7000
    8-8000

Java writes no file for an empty list (the old one survives and returns after a restart), so this module
refuses to encode one: a caller with an empty list removes the file instead. Reading is strict: a file that
lies about its entries would let a replica keep a diverged tail.

Source: CheckpointFile.java, EpochFileCache.java (EpochEntry line format) 5.4.0.
"""

import zlib
from typing import Final

from controller_core.remoting.numbers import LogOffset
from ha_sidecar.epoch.entries import EpochEntry, EpochList, EpochOrderError

FILE_BYTES_MAX: Final = 1 << 20
"""A list of a thousand epochs takes 30 KB; a larger file cannot be an epoch file."""

_DIGITS_MAX: Final = 19
"""Digits of 2^63 - 1, the largest number a line can hold."""

_CRC_MASK: Final = 0x7FFFFFFF
_CRC_UNCHECKED: Final = 0


class EpochFileError(ValueError):
    """The bytes are not an epoch file."""


def encode(epochs: EpochList) -> bytes:
    """Return the file's bytes; raise `ValueError` for an empty list, for which Java writes no file."""
    if not len(epochs):
        raise ValueError("an empty epoch list must not be written (remove the file instead)")
    body = "".join(f"{entry.epoch}-{entry.start_offset}\n" for entry in epochs).encode()
    return f"{len(epochs)}\n{zlib.crc32(body) & _CRC_MASK}\n".encode() + body


def decode(data: bytes) -> EpochList:
    """Return the list in the file's bytes; raise `EpochFileError` naming the line when they are damaged."""
    if len(data) > FILE_BYTES_MAX:
        raise EpochFileError(f"{len(data)} bytes, at most {FILE_BYTES_MAX} expected")
    lines = data.splitlines(keepends=True)
    if len(lines) < 2:
        raise EpochFileError(f"{len(lines)} lines, a count and a checksum expected")
    count = _number(lines[0], 1)
    checksum = _number(lines[1], 2)
    body = lines[2:]
    if count != len(body):
        raise EpochFileError(f"line 1 announces {count} entries, {len(body)} follow")
    actual = zlib.crc32(b"".join(body)) & _CRC_MASK
    if checksum not in (_CRC_UNCHECKED, actual):
        raise EpochFileError(f"line 2 holds checksum {checksum}, the entries have {actual}")
    try:
        return EpochList(_entry(line, number) for number, line in enumerate(body, start=3))
    except EpochOrderError as error:
        raise EpochFileError(str(error)) from error


def _entry(line: bytes, line_number: int) -> EpochEntry:
    epoch, separator, start_offset = line.partition(b"-")
    if not separator:
        raise EpochFileError(f"line {line_number} lacks a '-': {line!r}")
    return EpochEntry(_number(epoch, line_number), LogOffset(_number(start_offset, line_number)))


def _number(text: bytes, line_number: int) -> int:
    digits = text.strip()
    # int() would also take signs, underscores and non-ASCII digits, none of which Java writes.
    if not digits.isdigit() or len(digits) > _DIGITS_MAX:
        raise EpochFileError(f"line {line_number} holds {text!r} where a number is expected")
    return int(digits)
