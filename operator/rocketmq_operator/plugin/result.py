"""What a command of `kubectl rmqha` gives back."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command found: for people and for programs."""

    lines: list[str]
    data: Any
