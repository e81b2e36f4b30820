"""The invariants of every schedule, watched from outside while the nodes run.

Election safety: one leader a term, one vote a voter and term, restarts included. State machine safety:
whoever applies an index gets the same state there. Leader completeness: whoever leads has all that was ever
applied. Log matching: two logs that agree in (index, term) agree before it. Freshness: a read is good at
everything committed before it began.
"""

from collections.abc import Iterable

from controller_core.log.memory import MemoryStore
from controller_core.raft.log.unstable import Unstable
from controller_core.raft.types import Entry, HardState, LogIndex, Message, MessageType, Term
from testkit.check.errors import SafetyViolation


class SafetyChecks:
    """Collects what nodes show, and raises when two things cannot both be."""

    def __init__(self) -> None:
        self.digest_at: dict[int, bytes] = {}
        self.term_at: dict[int, int] = {}
        self.committed_max = 0
        self.elections = 0
        self.reads = 0
        self._leader_of: dict[int, int] = {}
        self._vote_of: dict[tuple[int, int], int] = {}
        self._term_of: dict[int, int] = {}

    def leads(self, node: int, term: int, store: MemoryStore, unstable: Unstable) -> None:
        """`node` leads at `term` with the log of `store` and `unstable`."""
        known = self._leader_of.get(term)
        if known is None:
            self._leader_of[term] = node
            self.elections += 1
            self._has_all_applied(node, term, store, unstable)
        else:
            _check(known == node, f"two leaders at term {term}: {known} and {node}")

    def persists(self, node: int, hard_state: HardState) -> None:
        """`node` has `hard_state` on its disk."""
        known = self._term_of.get(node, 0)
        _check(hard_state.term >= known, f"node {node} went back from term {known} to {hard_state.term}")
        self._term_of[node] = hard_state.term

    def sends(self, message: Message) -> None:
        """A message leaves its node."""
        if message.type == MessageType.VOTE_RESP and not message.reject:
            key = (int(message.from_), int(message.term))
            known = self._vote_of.setdefault(key, message.to)
            _check(known == message.to, f"node {key[0]} voted for {known} and {message.to} at term {key[1]}")

    def applies(self, node: int, entry: Entry, digest: bytes) -> None:
        """`node` applied `entry`, which made its state `digest`."""
        known = self.digest_at.setdefault(entry.index, digest)
        _check(known == digest, f"node {node} has another state at index {entry.index}")
        self.term_at.setdefault(entry.index, entry.term)
        self.committed_max = max(self.committed_max, entry.index)

    def restores(self, node: int, index: int, digest: bytes) -> None:
        """`node` took a snapshot of `index`."""
        _check(
            self.digest_at.get(index, digest) == digest,
            f"node {node} restored another state at index {index}",
        )

    def reads_at(self, node: int, index: int, committed_before: int, how: str) -> None:
        """`node` may answer at `index` a read that began when `committed_before` was committed."""
        self.reads += 1
        _check(index >= committed_before, f"stale {how} read on {node}: {index} < {committed_before}")

    def logs_match(self, stores: Iterable[MemoryStore]) -> None:
        """Where two logs agree in (index, term) they agree in everything before that both still have."""
        logs = [_terms(store) for store in stores]
        for position, first in enumerate(logs):
            for second in logs[position + 1 :]:
                both = first.keys() & second.keys()
                shared = max((index for index in both if first[index] == second[index]), default=0)
                differ = [index for index in both if index < shared and first[index] != second[index]]
                _check(not differ, f"logs that agree at {shared} differ at {differ}")

    def _has_all_applied(self, node: int, new_term: int, store: MemoryStore, unstable: Unstable) -> None:
        """Look for what former terms committed; a late winner need not have what a later term did."""
        for index, term in self.term_at.items():
            if index < store.first_index() or term >= new_term:
                continue
            own: int | None = unstable.term(index)
            if own is None and index <= store.last_index():
                own = store.term(LogIndex(index))
            _check(own == term, f"leader {node} lacks index {index} of term {term}, has {own}")


def _terms(store: MemoryStore) -> dict[int, Term]:
    first, last = store.first_index(), store.last_index()
    return {index: store.term(LogIndex(index)) for index in range(first, last + 1)}


def _check(condition: bool, text: str) -> None:
    if not condition:
        raise SafetyViolation(text)
