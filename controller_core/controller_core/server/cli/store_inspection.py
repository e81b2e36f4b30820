"""A stopped node's store as rows for people: what the log holds, with commands spelt out.

An entry that is not a command of this release says so: `NO EFFECT` for one that every node passes over,
`LATER RELEASE` for one at which this release stops (`node.state_machine`). A command that decodes and does
not fit the state is found by the index that the node's log names. A store is named by its fingerprint, as in
`GET /v1/status`: its incarnation is a secret (`peers.greeting_rules`).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from controller_core.groups.errors import CommandDecodeError, NewerCommandError
from controller_core.log.inspect import Inspected, inspect_store
from controller_core.raft.types import EntryType
from controller_core.remoting.text_bounds import one_line
from controller_core.server.common.log_views import bounded, command_fields, undecoded_text
from controller_core.server.peers.greeting_rules import store_fingerprint


def rows(directory: Path) -> Iterator[dict[str, Any]]:
    """Yield one row a record, a snapshot or a damaged place.

    Raises:
        OSError: the directory or a file cannot be read.
    """
    for row in inspect_store(directory):
        yield {
            "file": row.file,
            "offset": row.offset,
            "size_bytes": row.size_bytes,
            "kind": row.kind,
            "index": row.index,
            "term": row.term,
            "text": _text(row),
        }


def _text(row: Inspected) -> str:
    if row.incarnation:
        return f"{row.text} store {store_fingerprint(row.incarnation)}"
    if row.kind != "ENTRY" or not row.data:
        return row.text
    if row.text != EntryType.NORMAL.name:
        return row.text
    try:
        kind, fields = command_fields(row.data)
    except (NewerCommandError, CommandDecodeError) as error:
        return undecoded_text(error)
    fields.pop("stamp", None)
    return f"{kind} " + " ".join(
        f"{name}={bounded(one_line(str(value)))}" for name, value in fields.items() if value not in (None, "")
    )
