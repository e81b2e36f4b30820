"""Does a slave know the topics, subscription groups and consumer offsets that its master knows? A comparison of names.

A slave copies them every few seconds, so it may lack one for a while; what it has lacked for `GRACE_MS` without a break is
missing. Slaves of RocketMQ 5.3.2 to 5.4 empty their topic table on each copy: promoted, they refuse every send. Only names
are compared, of offsets the pairs of topic and group: figures move all the time, and a slave's are behind by nature.

A broker that is promoted without what its master had a moment ago gets topics and groups back by the requests that mqadmin
uses (`put_back`), never over something that is there. While it is a slave that would not last until its next copy.

Java writes numbers as map keys without quotes; they get some before the text is read as JSON. A text that cannot be read
all the same says nothing, and nothing is missing because of it.

Source: SlaveSynchronize.java (what a slave copies, when) 5.4.0.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from controller_core.remoting.client_headers import CreateTopicRequestHeader
from controller_core.remoting.codes import RequestCode
from ha_sidecar.roles.metadata import BY_CODE, Kind, Snapshot, holds_entries

GRACE_MS: Final = 30_000
UPDATE_AND_CREATE_GROUP: Final = 200
TOPICS: Final = BY_CODE[RequestCode.GET_ALL_TOPIC_CONFIG]
GROUPS: Final = BY_CODE[RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG]
COMPARED: Final = (TOPICS, GROUPS, BY_CODE[RequestCode.GET_ALL_CONSUMER_OFFSET])
_BARE_KEY: Final = re.compile(rb"([{,]\s*)(-?\d+)(\s*:)")


def _table(kind: Kind, text: bytes) -> dict[str, Any] | None:
    try:
        table: Any = json.loads(_BARE_KEY.sub(rb'\1"\2"\3', text))[kind.table]
    except (ValueError, KeyError, TypeError):
        return None
    return table if isinstance(table, dict) else None


def names(kind: Kind, text: bytes) -> frozenset[str] | None:
    """Return the names in a kind's table, None if the text cannot be read."""
    table = _table(kind, text)
    return None if table is None else frozenset(table)


def lacking(slave: Snapshot, master: Snapshot) -> frozenset[tuple[str, str]]:
    """Return (file, name) of everything that the master knows and the slave does not."""
    found: set[tuple[str, str]] = set()
    for kind in COMPARED:
        theirs, own = (names(kind, texts.get(kind, b"")) for texts in (master, slave))
        if theirs is not None and own is not None:
            found |= {(kind.file_name, name) for name in theirs - own}
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class PutBack:
    """One admin request that gives a broker a topic or a subscription group again."""

    file_name: str
    name: str
    code: int
    header: CreateTopicRequestHeader | None
    body: bytes


def put_back(own: Snapshot, good: Snapshot) -> list[PutBack]:
    """Return what gives a broker the topics and groups that it lacks of a good snapshot; offsets come with consumers."""
    found: list[PutBack] = []
    for file_name, name in sorted(lacking(own, good)):
        kind = next(kind for kind in COMPARED if kind.file_name == file_name)
        value = (_table(kind, good[kind]) or {}).get(name)
        if not isinstance(value, dict):
            continue
        if kind is TOPICS:
            header = _topic_header(name, value)
            found.append(PutBack(file_name, name, RequestCode.UPDATE_AND_CREATE_TOPIC, header, b""))
        elif kind is GROUPS:
            body = json.dumps(value).encode()
            found.append(PutBack(file_name, name, UPDATE_AND_CREATE_GROUP, None, body))
    return found


def _topic_header(name: str, value: Mapping[str, Any]) -> CreateTopicRequestHeader:
    attributes = value.get("attributes") or {}
    return CreateTopicRequestHeader(
        topic=name,
        read_queue_nums=int(value.get("readQueueNums", 8)),
        write_queue_nums=int(value.get("writeQueueNums", 8)),
        perm=int(value.get("perm", 6)),
        topic_filter_type=str(value.get("topicFilterType", "SINGLE_TAG")),
        topic_sys_flag=int(value.get("topicSysFlag", 0)),
        order=bool(value.get("order", False)),
        attributes=",".join(f"+{key}={text}" for key, text in attributes.items()) or None,
    )


class MetadataGuard:
    """Remembers since when a slave lacks what; times are milliseconds of one monotonic clock.

    Attributes:
        good: the newest tables of a master that had entries, what is put back from.
    """

    def __init__(self) -> None:
        """Know nothing yet."""
        self.good: dict[Kind, bytes] = {}
        self._since_ms: dict[tuple[str, str], int] = {}
        self._compared = False

    def compared(self, slave: Snapshot, master: Snapshot, now_ms: int) -> None:
        """Take a comparison; one in which nothing was given on both sides is none."""
        if not any(kind in slave and kind in master for kind in COMPARED):
            return
        self._compared = True
        self.good |= {kind: text for kind, text in master.items() if holds_entries(kind, text)}
        lacks = lacking(slave, master)
        self._since_ms = {item: self._since_ms.get(item, now_ms) for item in lacks}

    def forget(self) -> None:
        """Learn that the broker is no slave now, or of another master."""
        self._since_ms, self._compared = {}, False

    def missing(self, now_ms: int) -> Mapping[str, list[str]] | None:
        """Return the missing names by file, empty if none are; None while nothing was compared."""
        if not self._compared:
            return None
        found: dict[str, list[str]] = {}
        for (file_name, name), since_ms in sorted(self._since_ms.items()):
            if now_ms - since_ms >= GRACE_MS:
                found.setdefault(file_name, []).append(name)
        return found
