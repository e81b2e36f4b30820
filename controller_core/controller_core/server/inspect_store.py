"""A stopped node's store as rows for people: what the log holds, with commands spelt out."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from controller_core.groups import commands
from controller_core.groups.errors import CommandDecodeError
from controller_core.log.inspect import Inspected, inspect_store


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
    if row.kind != "ENTRY" or not row.data:
        return row.text
    try:
        command = commands.decode(row.data)
    except CommandDecodeError:
        return row.text
    fields = msgspec.to_builtins(command)
    kind = fields.pop("kind", type(command).__name__)
    fields.pop("stamp", None)
    return f"{kind} " + " ".join(
        f"{name}={value}" for name, value in fields.items() if value not in (None, "")
    )
