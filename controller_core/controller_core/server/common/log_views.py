"""The entries of the log as people and programs read them: what each one was.

A command's fields are those of `groups.commands`. Never shown: the check code of a claim, by which a broker
proves that an id is its own, and the context of a change of membership, which has the stores of members.
Texts and lists are cut, so that no entry makes a page large.
"""

from typing import Any, Final

import msgspec

from controller_core.groups import commands
from controller_core.groups.errors import CommandDecodeError, NewerCommandError
from controller_core.raft.confchange.changes import ConfChangeDecodeError, decode_conf_change
from controller_core.raft.types import Entry, EntryType
from controller_core.remoting.text_bounds import one_line
from controller_core.server.common.json_views import Json

TEXT_CHARS_MAX: Final = 4_096
LIST_VALUES_MAX: Final = 256
EMPTY_KIND: Final = "Empty"
"""Kind of the entry with which a leader begins its term."""
MEMBERS_KIND: Final = "ChangeMembers"
_SECRET_FIELDS: Final = frozenset({"check_code"})


def command_fields(data: bytes) -> tuple[str, dict[str, Any]]:
    """Return the kind and the fields of a command.

    Raises:
        NewerCommandError: a later release wrote it.
        CommandDecodeError: it is a command of no release.
    """
    command = commands.decode(data)
    fields: dict[str, Any] = msgspec.to_builtins(command)
    return fields.pop("kind", type(command).__name__), fields


def undecoded_text(error: Exception) -> str:
    """Say what every node does with an entry that did not decode."""
    what = "LATER RELEASE" if isinstance(error, NewerCommandError) else "NO EFFECT"
    return f"{what}: {one_line(str(error))}"


def entry_json(entry: Entry, commit_index: int) -> Json:
    """Return one entry: kind, size, and its command; null for a command that does not decode."""
    value: Json = {
        "index": entry.index,
        "term": entry.term,
        "kind": None,
        "committed": entry.index <= commit_index,
        "size_bytes": len(entry.data),
        "proposed_ns": None,
        "problem": None,
        "command": None,
    }
    if entry.type is not EntryType.NORMAL:
        return value | {"kind": MEMBERS_KIND} | _change(entry)
    if not entry.data:
        return value | {"kind": EMPTY_KIND}
    try:
        kind, fields = command_fields(entry.data)
    except (NewerCommandError, CommandDecodeError) as error:
        return value | {"problem": undecoded_text(error)}
    proposed = fields.pop("stamp", {}).get("utc_ns")
    shown = {name: bounded(field) for name, field in fields.items() if name not in _SECRET_FIELDS}
    return value | {"kind": kind, "proposed_ns": proposed, "command": shown}


def _change(entry: Entry) -> Json:
    try:
        change = decode_conf_change(entry).as_v2()
    except ConfChangeDecodeError as error:
        return {"problem": one_line(str(error))}
    changes = [{"change": one.type.name, "raft_id": one.node_id} for one in change.changes]
    return {"command": {"changes": changes}}


def bounded(value: object) -> object:
    """Return a value with long texts and lists cut, at any depth."""
    if isinstance(value, str):
        length = len(value)
        return value if length <= TEXT_CHARS_MAX else f"{value[:TEXT_CHARS_MAX]}... ({length} characters)"
    if isinstance(value, dict):
        return {name: bounded(field) for name, field in value.items()}
    if isinstance(value, list | tuple):
        cut = [bounded(one) for one in value[:LIST_VALUES_MAX]]
        return cut if len(value) <= LIST_VALUES_MAX else [*cut, f"... ({len(value)} values)"]
    return value
