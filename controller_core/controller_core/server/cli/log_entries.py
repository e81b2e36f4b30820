"""The commands that show what a running node's log holds: `log` and `get`."""

import json
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from controller_core.command_line.output import show
from controller_core.server.cli.client import Access, first, time_text

COLUMNS: Final = ("index", "term", "kind", "committed", "size_bytes", "proposed_ns", "problem", "command")


async def log(arguments: Namespace) -> None:
    """Print entries of the log, the newest ones by default."""
    begin = "" if arguments.first is None else f"first={arguments.first}&"
    value = await first("GET", f"/v1/log?{begin}limit={arguments.limit}", Access.of(arguments))
    _show(arguments.output, value, value["entries"])


async def get(arguments: Namespace) -> None:
    """Print one entry of the log."""
    value = await first("GET", f"/v1/log/{arguments.index}", Access.of(arguments))
    _show(arguments.output, value, [value])


def _show(form: str, value: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]) -> None:
    show(form, value, rows=entries, lines=[_line(entry) for entry in entries], columns=COLUMNS)


def _line(entry: Mapping[str, Any]) -> str:
    proposed = "-" if entry["proposed_ns"] is None else time_text(entry["proposed_ns"])
    what = entry["problem"] or " ".join(_fields(entry["command"] or {}))
    open_mark = "" if entry["committed"] else "  NOT COMMITTED"
    place = f"{entry['index']:>8}  term {entry['term']:>4}"
    return f"{place}  {proposed:<29}  {entry['kind'] or '-':<18}  {what}{open_mark}".rstrip()


def _fields(command: Mapping[str, Any]) -> Iterator[str]:
    for name, value in command.items():
        if value not in (None, ""):
            yield f"{name}={value if isinstance(value, str) else json.dumps(value)}"
