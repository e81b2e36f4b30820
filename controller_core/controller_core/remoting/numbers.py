"""Numbers that controllers and members of a group exchange, each of its own type.

Headers and bodies hold plain ints, as they come from the wire. The code that reads a request or an answer
makes these types. `whole_number` and `signed_number` read a number that somebody else wrote as text.
"""

from typing import Final, NewType

NUMBER_DIGITS_MAX: Final = 19
"""Of a number of 64 bits with a sign."""

MasterEpoch = NewType("MasterEpoch", int)
"""Grows with every change of master of a group; 0 before the first. Neither a Raft term nor a `SetEpoch`."""
SetEpoch = NewType("SetEpoch", int)
"""Version of the SyncStateSet of a group."""
BrokerId = NewType("BrokerId", int)
"""The number that a controller gave a member of a group."""
LogOffset = NewType("LogOffset", int)
"""Position in a commit log, in bytes; -1 if unknown. An offset in a queue counts messages and is not one."""


def whole_number(text: str, digits_max: int = NUMBER_DIGITS_MAX) -> int | None:
    """Return the number that a text of ASCII digits names; None for any other text.

    `int` alone takes signs, underscores and digits of other scripts, and raises for texts of thousands of
    digits.
    """
    is_number = text.isascii() and text.isdigit() and len(text) <= digits_max
    return int(text) if is_number else None


def signed_number(text: str) -> int | None:
    """Return the number that a text of ASCII digits with at most one minus sign names; None for any other."""
    size = whole_number(text.removeprefix("-"))
    return -size if size is not None and text.startswith("-") else size
