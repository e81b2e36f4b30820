"""What a broker knows and its log does not hold: topics, subscription groups, consumer offsets, delay offsets.

A broker writes each of the four as one JSON file below `config`, and answers requests for them (21, 201, 43, 45) with the
same text. So the answer is kept as it came and serves both ways: it is the file for a broker that starts on this store,
and the answer for a broker that follows us. Nothing here reads more of it than whether its table is there and holds
anything: Java writes map keys without quotes, which is no JSON.

A table without an entry never replaces one that has some: some versions empty their topics on a change of role, and a
broker on a new disk has none at all.

Source: AdminBrokerProcessor.java (getAllTopicConfig, getAllSubscriptionGroup, getAllConsumerOffset, getAllDelayOffset),
BrokerPathConfigHelper.java 5.4.0.
"""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from controller_core.channel.asking import Asker, AskError
from controller_core.channel.refusals import RefusalLog
from controller_core.remoting.codes import RequestCode, ResponseCode
from ha_sidecar.commitlog.disk import write_atomically

CONFIG_DIRECTORY: Final = "config"
TABLE_BYTES_MAX: Final = 64 << 20
"""More than a hundred thousand topics take; whatever is larger is no table of names."""

_log = logging.getLogger(__name__)
_refusals: Final = RefusalLog(_log)


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of metadata: the request for it, its file, and the key of its table in both."""

    code: int
    file_name: str
    table: str


KINDS: Final = (
    Kind(RequestCode.GET_ALL_TOPIC_CONFIG, "topics.json", "topicConfigTable"),
    Kind(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, "subscriptionGroup.json", "subscriptionGroupTable"),
    Kind(RequestCode.GET_ALL_CONSUMER_OFFSET, "consumerOffset.json", "offsetTable"),
    Kind(RequestCode.GET_ALL_DELAY_OFFSET, "delayOffset.json", "offsetTable"),
)
BY_CODE: Final = {kind.code: kind for kind in KINDS}

Snapshot = Mapping[Kind, bytes]


def holds_entries(kind: Kind, text: bytes) -> bool | None:
    """Say whether the table has an entry; None if this is no text of that kind."""
    found = re.search(rb'"%s"\s*:\s*\{\s*(\}?)' % kind.table.encode(), text)
    return None if found is None or not text.lstrip().startswith(b"{") else not found.group(1)


async def fetch(asker: Asker) -> Snapshot:
    """Ask a broker, or a replica that keeps metadata, for all kinds; those that it does not give are left out.

    Raises:
        AskError: nobody answers there.
    """
    found: dict[Kind, bytes] = {}
    for kind in KINDS:
        try:
            answer = await asker.ask(kind.code)
        except AskError as error:
            if error.code is None:
                raise
            # A log replica has no metadata before its first copy, and says then that it does not know the request.
            if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                _log.debug("%s: %s", kind.file_name, error)
            else:
                _refusals.refused(
                    f"{asker.address[0]}:{asker.address[1]}, asked for {kind.file_name},", str(error)
                )
            continue
        _refusals.answered(f"{asker.address[0]}:{asker.address[1]}, asked for {kind.file_name},")
        if len(answer.body) <= TABLE_BYTES_MAX and holds_entries(kind, answer.body) is not None:
            found[kind] = answer.body
    return found


def read(store: Path, kind: Kind) -> bytes | None:
    """Return what the store keeps of one kind, None if nothing."""
    path = store / CONFIG_DIRECTORY / kind.file_name
    return path.read_bytes() if path.exists() else None


def keep(store: Path, snapshot: Snapshot) -> list[Kind]:
    """Write what is new, durably; return its kinds. An empty table replaces nothing that has entries."""
    changed: list[Kind] = []
    (store / CONFIG_DIRECTORY).mkdir(parents=True, exist_ok=True)
    for kind, text in snapshot.items():
        kept = read(store, kind)
        if kept == text or (kept is not None and holds_entries(kind, kept) and not holds_entries(kind, text)):
            continue
        write_atomically(store / CONFIG_DIRECTORY / kind.file_name, text)
        changed.append(kind)
    return changed
