"""Reads a broker's revive log, and finds the checkpoints in it that have unacknowledged messages.

A consumer that takes messages by POP (all clients over gRPC) leaves a checkpoint in the topic
`rmq_sys_REVIVE_LOG_<cluster>`, and an acknowledgement for each message that it consumed. When a checkpoint is
due, the broker puts its unacknowledged messages into a retry topic, and commits the offset of
`CID_RMQ_SYS_REVIVE_GROUP`. It commits also when it refused its own put.

Pure. Checkpoints and acknowledgements are JSON: `t` topic, `c` group, `q` queue, `so` first offset, `pt` time
of the pop, `bn` broker name, `n` number of messages, `d` distances of their offsets from `so`, `bm` bits of
the acknowledged ones, `ao` and `aol` acknowledged offsets.

Source: PopReviveService.java (consumeReviveMessage, reviveRetry, rePutCK), PopCheckPoint.java, AckMsg.java,
BatchAckMsg.java, MessageDecoder.java, PopMetricsManager.java (5.2.0 to 5.5.0).
"""

import json
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from controller_core import bounded_json
from controller_core.bounded_json import JsonError
from controller_core.remoting.client_headers import PullMessageRequestHeader, SendMessageRequestHeaderV2

REVIVE_GROUP: Final = "CID_RMQ_SYS_REVIVE_GROUP"
CHECKPOINT, ACK, BATCH_ACK = "ck", "ack", "bAck"
BITS: Final = 32
"""Size of a checkpoint's map of acknowledged messages: a Java int."""

_REFUSED_FOR_NOW: Final = (
    "IN_SYNC_REPLICAS_NOT_ENOUGH",
    "SERVICE_NOT_AVAILABLE",
    "OS_PAGE_CACHE_BUSY",
    "CREATE_MAPPED_FILE_FAILED",
)
"""Statuses with which a broker refuses all puts for a time, also its checkpoint for a retry."""
_COUNTER: Final = "rocketmq_pop_revive_retry_messages_total{"
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_MAGIC_V2: Final = 0xDAA320AB
_HEAD: Final = struct.Struct(">IIIiiqqI")
_FLAG_BORN_HOST_V6: Final = 0x10
_FLAG_STORE_HOST_V6: Final = 0x20
_INT: Final = struct.Struct(">i")
_SHORT: Final = struct.Struct(">h")

Consumer = tuple[str, str]
"""Topic and consumer group of a checkpoint."""


class ReviveLogError(ValueError):
    """A broker's answer to a pull cannot be decoded; the text names the offset in it."""


@dataclass(frozen=True, slots=True)
class ReviveLogEntry:
    """One message of a revive queue; `deliver_ms` is empty where the message names no time."""

    offset: int
    tag: str
    body: bytes
    deliver_ms: str = ""


def topic(cluster: str) -> str:
    """Return the name of a cluster's revive topic."""
    return f"rmq_sys_REVIVE_LOG_{cluster}"


def refusals(page: Iterable[str]) -> dict[Consumer, int]:
    """Return how many puts into retry topics a broker refused for a time; `page` is its metrics as lines."""
    found: dict[Consumer, int] = {}
    for line in page:
        if not line.startswith(_COUNTER):
            continue
        labels = dict(_LABEL.findall(line))
        if labels.get("put_status") not in _REFUSED_FOR_NOW:
            continue
        try:
            count = int(float(line.rpartition("}")[2].split()[0]))
        except (ValueError, IndexError, OverflowError):
            continue
        consumer = (labels.get("topic", ""), labels.get("consumer_group", ""))
        found[consumer] = found.get(consumer, 0) + count
    return found


def pull(revive_topic: str, queue: int, offset: int) -> PullMessageRequestHeader:
    """Return the header of a pull from an offset on, without a long poll."""
    return PullMessageRequestHeader.of_queue(revive_topic, queue, offset)


def send(
    revive_topic: str, queue: int, checkpoint: ReviveLogEntry, group: str, now_ms: int
) -> SendMessageRequestHeaderV2:
    """Return the header that sends a due checkpoint to a revive queue.

    The header keeps the delivery time: the broker compares the newest one that it read with the due times.
    """
    deliver_ms = checkpoint.deliver_ms or str(now_ms)
    properties = {"TAGS": CHECKPOINT, "WAIT": "true", "TIMER_DELIVER_MS": deliver_ms}
    return SendMessageRequestHeaderV2.of_message(revive_topic, queue, properties, now_ms, group=group)


def entries(data: bytes) -> list[ReviveLogEntry]:
    """Return the messages of an answer to a pull, in its order.

    Raises:
        ReviveLogError: a size or length leads out of the data.
    """
    found: list[ReviveLogEntry] = []
    at = 0
    try:
        while at < len(data):
            size, *_ = _HEAD.unpack_from(data, at)
            if not _HEAD.size <= size <= len(data) - at:
                raise ReviveLogError(f"size {size} at {at} of {len(data)}")
            found.append(_entry(data[at : at + size]))
            at += size
    except (struct.error, IndexError) as error:
        raise ReviveLogError(f"no message at {at} of {len(data)}: {error}") from error
    return found


def _entry(message: bytes) -> ReviveLogEntry:
    _, magic, _, _, _, offset, _, flags = _HEAD.unpack_from(message)
    hosts = (20 if flags & _FLAG_BORN_HOST_V6 else 8) + (20 if flags & _FLAG_STORE_HOST_V6 else 8)
    at = _HEAD.size + 8 + 8 + hosts + 4 + 8
    body, at = _cut(message, at + _INT.size, _INT.unpack_from(message, at)[0])
    if magic == _MAGIC_V2:
        _, at = _cut(message, at + _SHORT.size, _SHORT.unpack_from(message, at)[0])
    else:
        _, at = _cut(message, at + 1, message[at])
    text, _ = _cut(message, at + _SHORT.size, _SHORT.unpack_from(message, at)[0])
    pairs = (pair.partition("\x01") for pair in text.decode(errors="replace").split("\x02"))
    properties = {key: value for key, _, value in pairs}
    return ReviveLogEntry(offset, properties.get("TAGS", ""), body, properties.get("TIMER_DELIVER_MS", ""))


def _cut(message: bytes, at: int, length: int) -> tuple[bytes, int]:
    if not 0 <= length <= len(message) - at:
        raise ReviveLogError(f"{length} bytes at {at} of a message of {len(message)}")
    return message[at : at + length], at + length


def owed(
    found: Sequence[ReviveLogEntry], through: int, consumers: frozenset[Consumer], group: str
) -> Iterator[ReviveLogEntry]:
    """Return the unacknowledged checkpoints up to an offset, with the bits of the acknowledged messages set.

    Args:
        found: messages of one revive queue, also after that offset: acknowledgements may come later.
        through: offset of the last checkpoint to return.
        consumers: return only checkpoints of these.
        group: the brokerName of messages without one.
    """
    values = [(entry, value) for entry in found if (value := _value(entry)) is not None]
    acknowledged: dict[tuple[str, ...], set[int]] = {}
    for entry, value in values:
        if entry.tag in (ACK, BATCH_ACK):
            acknowledged.setdefault(_key(value, group), set()).update(_offsets(entry.tag, value))
    for entry, value in values:
        consumer = (str(value.get("t")), str(value.get("c")))
        if entry.tag != CHECKPOINT or entry.offset > through or consumer not in consumers:
            continue
        bits = _bits(value, acknowledged.get(_key(value, group), set()))
        if bits is not None:
            body = json.dumps({**value, "bm": bits}, ensure_ascii=False, separators=(",", ":")).encode()
            yield ReviveLogEntry(entry.offset, CHECKPOINT, body, entry.deliver_ms)


def _value(entry: ReviveLogEntry) -> Mapping[str, Any] | None:
    if entry.tag not in (CHECKPOINT, ACK, BATCH_ACK):
        return None
    try:
        value = bounded_json.decode(entry.body)
    except JsonError:
        return None
    return value if isinstance(value, dict) else None


def _key(value: Mapping[str, Any], group: str) -> tuple[str, ...]:
    return (*(str(value.get(name)) for name in ("t", "c", "q", "so", "pt")), str(value.get("bn") or group))


def _offsets(tag: str, value: Mapping[str, Any]) -> list[int]:
    named = value.get("aol") if tag == BATCH_ACK else [value.get("ao")]
    return _ints(named) if isinstance(named, list) else []


def _ints(values: Iterable[object]) -> list[int]:
    return [value for value in values if isinstance(value, int)]


def _bits(value: Mapping[str, Any], acknowledged: set[int]) -> int | None:
    """Return the map of acknowledged messages; None if all are, or if the checkpoint cannot be read."""
    first, count, bits = value.get("so"), value.get("n"), value.get("bm", 0)
    if not isinstance(first, int) or not isinstance(bits, int) or not isinstance(count, int):
        return None
    if not 0 < count <= BITS:
        return None
    named = value.get("d")
    distances = _ints(named) if isinstance(named, list) and named else list(range(count))
    bits &= (1 << BITS) - 1
    for place, distance in enumerate(distances[:count]):
        if first + distance in acknowledged:
            bits |= 1 << place
    every = (1 << count) - 1
    if bits & every == every:
        return None
    return bits - (1 << BITS) if bits >> (BITS - 1) else bits
