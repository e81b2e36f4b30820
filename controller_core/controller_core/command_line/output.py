"""The output of a command as a table, JSON, YAML or CSV: `-o, --output` of every command that prints data.

A command hands over its data once and does not look at the form. JSON is one line for each `show` or row, so
that a reader can take it line by line. A list is a table with one row each; a single record is a table with
one line for each field, and one row of CSV.

Never here: which data a command has.
"""

import argparse
import csv
import dataclasses
import io
import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from controller_core.remoting.text_bounds import one_line

TABLE: Final = "table"
FORMS: Final = (TABLE, "json", "yaml", "csv")
_NOTHING: Final = "-"
_GAP: Final = "  "


def add_output(parser: argparse.ArgumentParser) -> None:
    """Declare `-o, --output`."""
    parser.add_argument(
        "-o", "--output", choices=FORMS, default=TABLE, help=f"form of the output (default: {TABLE})"
    )


def text_of(
    form: str,
    data: object,
    *,
    rows: Sequence[object] | None = None,
    lines: Sequence[str] | None = None,
    columns: Sequence[str] = (),
) -> str:
    """Return data in one of `FORMS`, with a new line at the end.

    Args:
        form: of the result.
        data: a dataclass, a mapping, or a list of them.
        rows: dataclasses or mappings for CSV and the table, if `data` is nested; by default `data`.
        lines: the table, if the command draws its own.
        columns: of CSV and the table, if there may be no row.
    """
    plain = _plain(data)
    if form == "json":
        return json.dumps(plain, default=str) + "\n"
    if form == "yaml":
        return _yaml(plain)
    if form == TABLE and lines is not None:
        return "".join(f"{one_line(line)}\n" for line in lines)
    if form == TABLE and rows is None and isinstance(plain, Mapping):
        return _aligned([[str(name), _cell(value) or _NOTHING] for name, value in plain.items()])
    found = plain if rows is None else _plain(rows)
    table: list[Mapping[str, Any]] = [found] if isinstance(found, Mapping) else list(found or ())
    heads = columns or (tuple(table[0]) if table else ())
    return _table(heads, table) if form == TABLE else _csv(heads, table, header=True)


def show(
    form: str,
    data: object,
    *,
    rows: Sequence[object] | None = None,
    lines: Sequence[str] | None = None,
    columns: Sequence[str] = (),
) -> None:
    """Print data in one of `FORMS`; the arguments are those of `text_of`."""
    sys.stdout.write(text_of(form, data, rows=rows, lines=lines, columns=columns))
    sys.stdout.flush()


class RowPrinter:
    """Prints rows as they come, for commands that do not know the last one.

    CSV has the columns of the first row. YAML is one list over all rows.
    """

    def __init__(self, form: str) -> None:
        self._form = form
        self._columns: tuple[str, ...] | None = None

    def show(self, row: object, line: str, *, flat: Mapping[str, Any] | None = None) -> None:
        """Print one row.

        Args:
            row: a dataclass or a mapping.
            line: the row of the table.
            flat: the row of CSV, if `row` is nested.
        """
        plain = _plain(row)
        if self._form == "csv":
            cells = dict(flat or plain)
            header = self._columns is None
            self._columns = self._columns or tuple(cells)
            text = _csv(self._columns, [cells], header=header)
        elif self._form == TABLE:
            text = one_line(line) + "\n"
        else:
            text = text_of(self._form, [plain] if self._form == "yaml" else plain)
        sys.stdout.write(text)
        sys.stdout.flush()


def _plain(value: object) -> Any:  # noqa: ANN401 - what JSON can hold
    """Return dataclasses as mappings, at any depth."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain(dataclasses.asdict(value))
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON cannot hold it as a number.
    return value


def _yaml(plain: object) -> str:
    # Imported here: only this form needs it, and the processes of a pod never do.
    import yaml

    # By way of JSON, as YAML's own writer refuses an enumeration or a path.
    builtin = json.loads(json.dumps(plain, default=str))
    return str(yaml.safe_dump(builtin, sort_keys=False, allow_unicode=False, width=1_000))


def _csv(columns: Sequence[str], rows: Sequence[Mapping[str, Any]], *, header: bool) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if header and columns:
        writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(row.get(name)) for name in columns])
    return text.getvalue()


def _table(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
    if not columns:
        return ""
    heads = [name.upper().replace("_", " ") for name in columns]
    return _aligned([heads, *([_cell(row.get(name)) or _NOTHING for name in columns] for row in rows)])


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)] if rows else []
    lines = [
        _GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    return "".join(f"{line}\n" for line in lines)


def _cell(value: object) -> str:
    """Return a value as one line; nothing for None, JSON for a list or a mapping, `7` for 7.0."""
    if value is None:
        return ""
    if isinstance(value, float):
        return str(value).removesuffix(".0")
    if isinstance(value, bool | list | dict):
        return one_line(json.dumps(value, default=str))
    return one_line(str(value))
