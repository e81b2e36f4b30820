"""What a canary message carries: enough to recognize it, and to detect any change.

Layout, big-endian:

| bytes | meaning |
|---|---|
| 4 | `RMQC` |
| 8 | sequence, unique within the group |
| 4 | CRC-32 of the sequence and the group's name |

Pure. The group's name is part of the sum, so a message of another group's canary in the same topic is not
taken for ours.
"""

import struct
import zlib

_MAGIC = b"RMQC"
_FORMAT = struct.Struct(">4sqI")


def encode(group: str, sequence: int) -> bytes:
    """Return the body of a canary message."""
    return _FORMAT.pack(_MAGIC, sequence, _sum(group, sequence))


def decode(group: str, body: bytes) -> int | None:
    """Return the sequence in a body, None if this group's canary did not send it or it was changed."""
    if len(body) != _FORMAT.size:
        return None
    magic, sequence, found = _FORMAT.unpack(body)
    if magic != _MAGIC or found != _sum(group, sequence):
        return None
    return int(sequence)


def _sum(group: str, sequence: int) -> int:
    return zlib.crc32(f"{group}/{sequence}".encode())
