"""How many bytes an entry counts for, wherever a limit in bytes is applied.

The measure is the length of the entry in raftpb's encoding, whatever the log on disk really writes: limits
then cut at the same entry on every node and for every storage.
"""

from collections.abc import Iterable, Sequence
from operator import attrgetter

from controller_core.raft.types import Entry

UNLIMITED_BYTES = 2**63 - 1
ENTRY_OVERHEAD_BYTES_MAX = 32
"""An encoded entry is longer than its data by at most this much."""
_VARINT_BYTES = tuple(max((bits + 6) // 7, 1) for bits in range(65))
"""How long the varint of a number is, by the number of its bits."""
_data = attrgetter("data")


def entry_size_bytes(entry: Entry) -> int:
    """Return the encoded size of `entry`: tagged varints for type, term, index and length, then the data."""
    size = 4 + _VARINT_BYTES[entry.term.bit_length()] + _VARINT_BYTES[entry.index.bit_length()]
    data = len(entry.data)
    return size + 1 + _VARINT_BYTES[data.bit_length()] + data if data else size


def entries_size_bytes(entries: Iterable[Entry]) -> int:
    """Return the encoded size of all `entries`."""
    return sum(map(entry_size_bytes, entries))


def payload_size_bytes(entries: Iterable[Entry]) -> int:
    """Return the bytes of data alone; an empty entry counts nothing."""
    return sum(map(len, map(_data, entries)))


def limit_size(entries: Sequence[Entry], bytes_max: int) -> tuple[Entry, ...]:
    """Return the longest prefix of at most `bytes_max` encoded bytes, but at least the first entry."""
    if len(entries) <= 1 or bytes_max >= UNLIMITED_BYTES:
        return tuple(entries)
    if payload_size_bytes(entries) + len(entries) * ENTRY_OVERHEAD_BYTES_MAX <= bytes_max:
        return tuple(entries)  # Surely: nearly all messages are far below their bound.
    size = 0
    for count, entry in enumerate(entries):
        size += entry_size_bytes(entry)
        if size > bytes_max and count > 0:
            return tuple(entries[:count])
    return tuple(entries)
