"""What a planted bug is."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """One planted bug.

    Attributes:
        name: the bug, in words.
        file: below the package `controller_core`.
        old: the text that is there.
        new: the replacement text.
        schedules: how many schedules of whole controllers may be needed to find it.
        raft: the same of Raft's core.
        test: a test that must fail instead.
    """

    name: str
    file: str
    old: str
    new: str
    schedules: int = 0
    raft: int = 0
    test: str = ""
