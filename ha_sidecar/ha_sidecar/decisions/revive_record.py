"""The text of the file in which a companion keeps the checkpoints that it owes to POP consumers.

One JSON object: cluster and group, the offsets of each revive queue, and for each consumer its refused
messages and whether its checkpoints are owed. A file of another group is not ours.

Bounds: `CONSUMERS_MAX` consumers, the owed ones first, and `RECORD_BYTES_MAX` bytes. A consumer that does not
fit is remembered by the running companion only.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from controller_core import bounded_json
from controller_core.bounded_json import JsonError
from controller_core.remoting.numbers import whole_number
from ha_sidecar.decisions.revive_debt import DebtRecord
from ha_sidecar.decisions.revive_log import Consumer

CONSUMERS_MAX: Final = 5_000
RECORD_BYTES_MAX: Final = 4 << 20
_OFFSET_KINDS: Final = ("after", "through", "safe")
_OFFSET_MIN: Final = -1
"""As `after`: nothing of the queue was revived yet."""
_LONG_MAX: Final = (1 << 63) - 1


class DebtRecordError(ValueError):
    """A record cannot be read or written; the text says why."""


def encode(record: DebtRecord, cluster: str, group: str) -> bytes:
    """Return the file's bytes.

    Raises:
        DebtRecordError: they exceed `RECORD_BYTES_MAX`.
    """
    consumers = sorted(
        record.consumers | record.counts.keys(), key=lambda each: (each not in record.consumers, each)
    )
    value = {
        "cluster": cluster,
        "group": group,
        "refused": record.refused,
        **{
            kind: {str(queue): offset for queue, offset in getattr(record, kind).items()}
            for kind in _OFFSET_KINDS
        },
        "consumers": [
            [topic, name, record.counts.get((topic, name), 0), (topic, name) in record.consumers]
            for topic, name in consumers[:CONSUMERS_MAX]
        ],
    }
    data = json.dumps(value, separators=(",", ":")).encode() + b"\n"
    if len(data) > RECORD_BYTES_MAX:
        raise DebtRecordError(f"{len(data)} bytes (expected at most {RECORD_BYTES_MAX})")
    return data


def decode(data: bytes, cluster: str, group: str) -> DebtRecord:
    """Return the record that a file of this group holds.

    Raises:
        DebtRecordError: the file is damaged, too large, or of another group.
    """
    if len(data) > RECORD_BYTES_MAX:
        raise DebtRecordError(f"{len(data)} bytes (expected at most {RECORD_BYTES_MAX})")
    try:
        value = bounded_json.decode(data)
    except JsonError as error:
        raise DebtRecordError(f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise DebtRecordError("not a JSON object")
    if (value.get("cluster"), value.get("group")) != (cluster, group):
        named = f"{value.get('cluster')!r}, {value.get('group')!r}"
        raise DebtRecordError(f"of cluster and group {named} (expected {cluster!r}, {group!r})")
    after, through, safe = (_offsets(value, kind) for kind in _OFFSET_KINDS)
    consumers, counts = _consumers(value.get("consumers"))
    if not consumers:
        raise DebtRecordError("no owed consumer")
    return DebtRecord(after, through, safe, consumers, counts, _integer("refused", value.get("refused"), 0))


def _offsets(value: Mapping[str, Any], kind: str) -> dict[int, int]:
    named = value.get(kind)
    if not isinstance(named, dict) or any(whole_number(queue) is None for queue in named):
        raise DebtRecordError(f"{kind}: not offsets by queue")
    return {int(queue): _integer(kind, offset, _OFFSET_MIN) for queue, offset in named.items()}


def _consumers(named: object) -> tuple[frozenset[Consumer], dict[Consumer, int]]:
    if not isinstance(named, list):
        raise DebtRecordError("consumers: not a list")
    owed, counts = set[Consumer](), dict[Consumer, int]()
    for each in named:
        match each:
            case [str() as topic, str() as name, count, bool() as is_owed]:
                counts[topic, name] = _integer("consumers", count, 0)
                if is_owed:
                    owed.add((topic, name))
            case _:
                raise DebtRecordError(f"consumers: invalid entry {each!r:.80}")
    return frozenset(owed), counts


def _integer(name: str, value: object, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= _LONG_MAX:
        raise DebtRecordError(f"{name}: invalid number {value!r:.40}")
    return value
