"""Does a slave know the topics, subscription groups and consumer offsets that its master knows? A comparison of names.

A slave copies them every few seconds, so it may lack one for a while; what it has lacked for `GRACE_MS` without a break is
missing. Slaves of RocketMQ 5.3.2 to 5.4 empty their topic table on each copy: promoted, they refuse every send. Only names
are compared, of offsets the pairs of topic and group: figures move all the time, and a slave's are behind by nature.

Java writes numbers as map keys without quotes; they get some before the text is read as JSON. A text that cannot be read
all the same says nothing, and nothing is missing because of it.

Source: SlaveSynchronize.java (what a slave copies, when) 5.4.0.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from controller_core.remoting.codes import RequestCode
from ha_sidecar.roles.metadata import BY_CODE, Kind, Snapshot

GRACE_MS: Final = 30_000
COMPARED: Final = tuple(
    BY_CODE[code]
    for code in (
        RequestCode.GET_ALL_TOPIC_CONFIG,
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        RequestCode.GET_ALL_CONSUMER_OFFSET,
    )
)
_BARE_KEY: Final = re.compile(rb"([{,]\s*)(-?\d+)(\s*:)")


def names(kind: Kind, text: bytes) -> frozenset[str] | None:
    """Return the names in a kind's table, None if the text cannot be read."""
    try:
        table: Any = json.loads(_BARE_KEY.sub(rb'\1"\2"\3', text))[kind.table]
    except (ValueError, KeyError, TypeError):
        return None
    return frozenset(table) if isinstance(table, dict) else None


def lacking(slave: Snapshot, master: Snapshot) -> frozenset[tuple[str, str]]:
    """Return (file, name) of everything that the master knows and the slave does not."""
    found: set[tuple[str, str]] = set()
    for kind in COMPARED:
        theirs, own = (names(kind, texts.get(kind, b"")) for texts in (master, slave))
        if theirs is not None and own is not None:
            found |= {(kind.file_name, name) for name in theirs - own}
    return frozenset(found)


class MetadataGuard:
    """Remembers since when a slave lacks what; times are milliseconds of one monotonic clock."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._since_ms: dict[tuple[str, str], int] = {}
        self._compared = False

    def compared(self, slave: Snapshot, master: Snapshot, now_ms: int) -> None:
        """Take a comparison; one in which nothing was given on both sides is none."""
        if not any(kind in slave and kind in master for kind in COMPARED):
            return
        self._compared = True
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
