"""Changes of membership as words: v1 (voter), l2 (learner), r3 (remove), u4 (update)."""

from collections.abc import Iterable

from controller_core.raft.confchange.changes import ConfChangeSingle, ConfChangeType
from controller_core.raft.types import NodeId

_LETTERS = {
    "v": ConfChangeType.ADD_NODE,
    "l": ConfChangeType.ADD_LEARNER_NODE,
    "r": ConfChangeType.REMOVE_NODE,
    "u": ConfChangeType.UPDATE_NODE,
}
_NAMES = {kind: letter for letter, kind in _LETTERS.items()}


def parse_changes(words: Iterable[str]) -> tuple[ConfChangeSingle, ...]:
    """Return the changes that `words` name.

    Raises:
        ValueError: a word is not a letter and a number.
    """
    changes: list[ConfChangeSingle] = []
    for word in words:
        if word[:1] not in _LETTERS or not word[1:].isdecimal():
            raise ValueError(f"unknown input: {word}")
        changes.append(ConfChangeSingle(_LETTERS[word[0]], NodeId(int(word[1:]))))
    return tuple(changes)


def format_changes(changes: Iterable[ConfChangeSingle]) -> str:
    """Return the words for `changes`."""
    return " ".join(f"{_NAMES[change.type]}{change.node_id}" for change in changes)
