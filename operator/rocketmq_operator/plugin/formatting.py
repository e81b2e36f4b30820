"""Lengths of time and numbers as kubectl writes them, and columns of a text table.

The commands choose the content.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

NOTHING: Final = "-"
_STEPS: Final = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def age(since: datetime, now: datetime) -> str:
    """Return the time between as its largest unit: 41d, 3h, 2m, 5s; never less than 0s."""
    seconds = max(0, int((now - since).total_seconds()))
    for length_s, unit in _STEPS:
        if seconds >= length_s:
            return f"{seconds // length_s}{unit}"
    return "0s"


def ago(since: datetime | None, now: datetime) -> str:
    """Return how long ago that was, `-` if it is not known."""
    return NOTHING if since is None else f"{age(since, now)} ago"


def with_count(number: int, one: str) -> str:
    """Return a number with its word: 1 step, 2 steps."""
    return f"{number:,} {one}" if number == 1 else f"{number:,} {one}s"


def align_columns(rows: Sequence[Sequence[str]], gap: int = 3) -> list[str]:
    """Return rows as lines whose cells stand below each other.

    The last cell of a row may be of any length.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)] if rows else []
    return [
        (" " * gap).join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
