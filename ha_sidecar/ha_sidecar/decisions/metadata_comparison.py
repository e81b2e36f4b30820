"""Does a slave know its master's topics, subscription groups and consumer offsets? A comparison of names.

A slave copies them every few seconds, so it may lack one for a while; what it has lacked for `GRACE_MS`
without a break is missing. Slaves of RocketMQ 5.3.2 to 5.4 empty their topic table on each copy: promoted,
they refuse every send. Only names are compared, of offsets the pairs of topic and group: figures move all the
time, and a slave's are behind by nature.

A broker that is promoted without what its master had a moment ago gets topics and groups back by the requests
that mqadmin uses, consumer offsets by the one that consumers use (`put_back`), never over something that is
there. While it is a slave that would not last until its next copy. A restored offset may be older than the
last committed one, so messages may come twice; a group without any would begin at the end of its queues and
miss some.

Java writes numbers as map keys without quotes; they get some before the text is read as JSON. A text that
cannot be read all the same says nothing, and nothing is missing because of it.

Source: SlaveSynchronize.java (what a slave copies, when), ConsumerManageProcessor.updateConsumerOffset 5.4.0.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from controller_core.remoting import lenient_json
from controller_core.remoting.client_headers import CreateTopicRequestHeader
from controller_core.remoting.codes import RequestCode
from controller_core.remoting.errors import RemotingProtocolError
from controller_core.remoting.header import Header, JavaInt, JavaLong
from controller_core.remoting.numbers import whole_number
from ha_sidecar.decisions.metadata_tables import BY_CODE, MetadataKind, MetadataSnapshot, holds_entries

GRACE_MS: Final = 30_000
TOPICS: Final = BY_CODE[RequestCode.GET_ALL_TOPIC_CONFIG]
GROUPS: Final = BY_CODE[RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG]
OFFSETS: Final = BY_CODE[RequestCode.GET_ALL_CONSUMER_OFFSET]
COMPARED: Final = (TOPICS, GROUPS, OFFSETS)
"""The order of restoring: an offset needs its topic and its group."""


def table(kind: MetadataKind, text: bytes) -> dict[str, Any] | None:
    """Return a kind's table by name, None if the text cannot be read."""
    try:
        found = lenient_json.decode(text)[kind.table]
    except (RemotingProtocolError, KeyError, TypeError):
        return None
    return found if isinstance(found, dict) else None


def names(kind: MetadataKind, text: bytes) -> frozenset[str] | None:
    """Return the names in a kind's table, None if the text cannot be read."""
    found = table(kind, text)
    return None if found is None else frozenset(found)


def missing_names(slave: MetadataSnapshot, master: MetadataSnapshot) -> frozenset[tuple[str, str]]:
    """Return (file, name) of everything that the master knows and the slave does not."""
    found: set[tuple[str, str]] = set()
    for kind in COMPARED:
        theirs, own = (names(kind, texts.get(kind, b"")) for texts in (master, slave))
        if theirs is not None and own is not None:
            found |= {(kind.file_name, name) for name in theirs - own}
    return frozenset(found)


class UpdateConsumerOffsetRequestHeader(Header, frozen=True):
    """15 UPDATE_CONSUMER_OFFSET of one queue; the offset is counted in messages."""

    consumer_group: str
    topic: str
    queue_id: JavaInt
    commit_offset: JavaLong


@dataclass(frozen=True, slots=True)
class PutBack:
    """One request that restores a topic, a subscription group, or a group's offset in one queue."""

    file_name: str
    name: str
    code: int
    header: CreateTopicRequestHeader | UpdateConsumerOffsetRequestHeader | None
    body: bytes = b""


def put_back(own: MetadataSnapshot, good: MetadataSnapshot) -> list[PutBack]:
    """Return the requests that give a broker the missing entries of a good snapshot, in order of sending."""
    found: list[PutBack] = []
    lacks = missing_names(own, good)
    for kind in COMPARED:
        for name in sorted(name for file_name, name in lacks if file_name == kind.file_name):
            value = (table(kind, good[kind]) or {}).get(name)
            if isinstance(value, dict):
                found += _requests(kind, name, value)
    return found


def is_of_topics(request: PutBack, topics: Collection[str]) -> bool:
    """Say whether the request is for one of the topics, or for an offset in one."""
    topic = request.name.partition("@")[0] if request.file_name == OFFSETS.file_name else request.name
    return request.file_name != GROUPS.file_name and topic in topics


def _requests(kind: MetadataKind, name: str, value: Mapping[str, Any]) -> list[PutBack]:
    if kind is TOPICS:
        attributes = {f"+{key}": text for key, text in (value.get("attributes") or {}).items()}
        header = CreateTopicRequestHeader.of_config(name, value, attributes)
        return [PutBack(kind.file_name, name, RequestCode.UPDATE_AND_CREATE_TOPIC, header)]
    if kind is GROUPS:
        return [
            PutBack(
                kind.file_name,
                name,
                RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
                None,
                body=json.dumps(value).encode(),
            )
        ]
    topic, separator, group = name.partition("@")
    queues = [(queue, offset) for queue, offset in value.items() if isinstance(offset, int) and offset >= 0]
    return [
        PutBack(
            kind.file_name,
            name,
            RequestCode.UPDATE_CONSUMER_OFFSET,
            UpdateConsumerOffsetRequestHeader(group, topic, number, offset),
        )
        for queue, offset in queues
        if separator and (number := whole_number(queue)) is not None
    ]


class MetadataComparison:
    """Remembers since when a slave lacks what; times are milliseconds of one monotonic clock.

    Attributes:
        good: the newest tables of a master that had entries; the source of a restore.
    """

    def __init__(self) -> None:
        """Know nothing yet."""
        self.good: dict[MetadataKind, bytes] = {}
        self._since_ms: dict[tuple[str, str], int] = {}
        self._compared = False

    def take_comparison(self, slave: MetadataSnapshot, master: MetadataSnapshot, now_ms: int) -> None:
        """Take a comparison; ignore one without a kind that both sides gave."""
        if not any(kind in slave and kind in master for kind in COMPARED):
            return
        self._compared = True
        self.good |= {kind: text for kind, text in master.items() if holds_entries(kind, text)}
        lacks = missing_names(slave, master)
        self._since_ms = {item: self._since_ms.get(item, now_ms) for item in lacks}

    def put_back(self, refused: Iterable[PutBack], now_ms: int) -> None:
        """Learn that a new master has all of `good` but what it refused; that is missing at once."""
        self.good = {}
        self._compared = True
        self._since_ms = {(request.file_name, request.name): now_ms - GRACE_MS for request in refused}

    def has(self, own: MetadataSnapshot) -> None:
        """Learn which lacking entries the broker has by now.

        Entries that came once and were deleted are not missed again.
        """
        known = {(kind.file_name, name) for kind in own for name in names(kind, own[kind]) or ()}
        self._since_ms = {item: since_ms for item, since_ms in self._since_ms.items() if item not in known}

    def forget(self) -> None:
        """Learn that the broker is not a slave now, or follows another master."""
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
