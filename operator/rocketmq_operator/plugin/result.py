"""What a command of `kubectl rmqha` gives back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command found: for people and for programs.

    Attributes:
        lines: the table.
        data: for JSON and YAML.
        rows: for CSV; None if `data` is one flat record.
    """

    lines: list[str]
    data: Any
    rows: Sequence[Mapping[str, Any]] | None = None
