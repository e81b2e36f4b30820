"""Fetch a broker's metadata, and keep it in a store: one file for each kind (`decisions.metadata_tables`).

A table without an entry never replaces one that has some: some versions empty their topics on a change of
role, and a broker on a new disk has an empty one.

Source: AdminBrokerProcessor.java (getAllTopicConfig, getAllSubscriptionGroup, getAllConsumerOffset,
getAllDelayOffset), BrokerPathConfigHelper.java 5.4.0.
"""

import logging
from pathlib import Path
from typing import Final

from controller_core.channel.asking import Asker, AskError
from controller_core.channel.refusals import RefusalLog
from controller_core.remoting.codes import ResponseCode
from controller_core.remoting.host_port import join_host_port
from ha_sidecar.commitlog.disk import write_atomically
from ha_sidecar.decisions.metadata_tables import KINDS, MetadataKind, MetadataSnapshot, holds_entries

CONFIG_DIRECTORY: Final = "config"
TABLE_BYTES_MAX: Final = 64 << 20
"""More than a hundred thousand topics take; a larger text cannot be a table of names."""

_log = logging.getLogger(__name__)
_refusals: Final = RefusalLog(_log)


async def fetch(asker: Asker) -> MetadataSnapshot:
    """Ask a broker, or a replica that keeps metadata, for all kinds; leave out those that it does not give.

    Raises:
        AskError: the address does not answer.
    """
    found: dict[MetadataKind, bytes] = {}
    for kind in KINDS:
        try:
            answer = await asker.ask(kind.code)
        except AskError as error:
            if error.code is None:
                raise
            # Before its first copy a log replica answers that it does not know the request.
            if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                _log.debug("%s: %s", kind.file_name, error)
            else:
                _refusals.refused(
                    f"{join_host_port(*asker.address)}, asked for {kind.file_name},", str(error)
                )
            continue
        _refusals.answered(f"{join_host_port(*asker.address)}, asked for {kind.file_name},")
        if len(answer.body) <= TABLE_BYTES_MAX and holds_entries(kind, answer.body) is not None:
            found[kind] = answer.body
    return found


def read(store: Path, kind: MetadataKind) -> bytes | None:
    """Return what the store keeps of one kind, None if nothing."""
    path = store / CONFIG_DIRECTORY / kind.file_name
    return path.read_bytes() if path.exists() else None


def keep(store: Path, snapshot: MetadataSnapshot) -> list[MetadataKind]:
    """Write the new tables durably; return their kinds. An empty table replaces nothing that has entries."""
    changed: list[MetadataKind] = []
    (store / CONFIG_DIRECTORY).mkdir(parents=True, exist_ok=True)
    for kind, text in snapshot.items():
        kept = read(store, kind)
        if kept == text or (kept is not None and holds_entries(kind, kept) and not holds_entries(kind, text)):
            continue
        write_atomically(store / CONFIG_DIRECTORY / kind.file_name, text)
        changed.append(kind)
    return changed
