"""The body of an answer to PULL_MESSAGE: stored messages one after another.

Pure. Only what a reader of canary messages needs is taken out: where a message lies in its queue, and its
body.

| bytes | field |
|---|---|
| 4 | size of the whole message |
| 4 | magic |
| 4 | CRC of the body |
| 4 | queue id |
| 4 | flag |
| 8 | queue offset |
| 8 | physical offset |
| 4 | system flag: bit 4 born host is IPv6, bit 5 store host is IPv6 |
| 8 + 8 or 20 | born time and host |
| 8 + 8 or 20 | store time and host |
| 4 + 8 | consumed again, prepared transaction offset |
| 4 + n | body |
| rest | topic and properties |

Source: MessageDecoder.java, MessageSysFlag.java (5.2.0 to 5.5.0).
"""

import struct
from dataclasses import dataclass

_HEAD = struct.Struct(">iIIiiqqi")
_BORN_HOST_V6 = 1 << 4
_STORE_HOST_V6 = 1 << 5
_TIME_BYTES = 8
_HOST_BYTES = {False: 8, True: 20}
_AFTER_HOSTS_BYTES = 12
_LENGTH = struct.Struct(">i")


class StoredMessageError(ValueError):
    """A broker's answer does not hold stored messages; the text names the offset in it."""


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """One message of a pulled batch."""

    queue_id: int
    queue_offset: int
    body: bytes


def decode_messages(data: bytes) -> list[StoredMessage]:
    """Return the messages of a pulled body, in its order.

    Raises:
        StoredMessageError: a size or length leads out of the data.
    """
    messages: list[StoredMessage] = []
    at = 0
    while at < len(data):
        if at + _HEAD.size > len(data):
            raise StoredMessageError(f"{len(data) - at} bytes are left at {at}")
        size, _, _, queue_id, _, queue_offset, _, system_flag = _HEAD.unpack_from(data, at)
        if size < _HEAD.size or at + size > len(data):
            raise StoredMessageError(f"size {size} at {at} of {len(data)}")
        body_at = at + _HEAD.size + _hosts_bytes(system_flag) + _AFTER_HOSTS_BYTES
        if body_at + _LENGTH.size > at + size:
            raise StoredMessageError(f"no room for a body at {body_at}")
        (length,) = _LENGTH.unpack_from(data, body_at)
        body_at += _LENGTH.size
        if not 0 <= length <= at + size - body_at:
            raise StoredMessageError(f"body of {length} bytes at {body_at}")
        messages.append(StoredMessage(queue_id, queue_offset, data[body_at : body_at + length]))
        at += size
    return messages


def _hosts_bytes(system_flag: int) -> int:
    born = _HOST_BYTES[bool(system_flag & _BORN_HOST_V6)]
    store = _HOST_BYTES[bool(system_flag & _STORE_HOST_V6)]
    return 2 * _TIME_BYTES + born + store
