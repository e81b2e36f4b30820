"""The whole log: conflicts, hints, commit index, and pages of entries to apply."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_core.log.memory import MemoryStore
from controller_core.raft.errors import InvariantError
from controller_core.raft.log.raft_log import RaftLog
from controller_core.raft.log.sizes import UNLIMITED_BYTES, entries_size_bytes, entry_size_bytes, limit_size
from controller_core.raft.log.storage import CompactedError
from controller_core.raft.types import Entry, LogIndex, Snapshot, Term


def entries(first: int, *terms: int, data: bytes = b"") -> list[Entry]:
    return [Entry(Term(term), LogIndex(first + offset), data=data) for offset, term in enumerate(terms)]


def log_with(*terms: int, stable: int = 0) -> RaftLog:
    """Return a log of entries of `terms` from index 1, the first `stable` of them in storage."""
    store = MemoryStore()
    store.append(entries(1, *terms[:stable]))
    log = RaftLog(store)
    log.append(entries(stable + 1, *terms[stable:]))
    return log


def test_an_append_that_does_not_join_our_log_is_refused() -> None:
    log = log_with(1, 1, 2, stable=2)
    assert log.maybe_append(3, 3, entries(4, 3), 0) is None
    assert log.maybe_append(4, 2, entries(5, 3), 0) is None
    assert log.last_index() == 3


def test_only_what_conflicts_is_replaced() -> None:
    log = log_with(1, 1, 1, 1, stable=3)
    assert log.maybe_append(1, 1, entries(2, 1, 2), 0) == 3
    assert [log.term(index) for index in (1, 2, 3)] == [1, 1, 2]
    assert log.last_index() == 3


def test_an_old_append_does_not_shorten_the_log() -> None:
    log = log_with(1, 1, 1)
    assert log.maybe_append(0, 0, entries(1, 1), 0) == 1
    assert log.last_index() == 3


def test_the_commit_index_follows_the_leaders_as_far_as_the_append_reaches() -> None:
    log = log_with(1, 1, 1)
    log.maybe_append(1, 1, entries(2, 1), 99)
    assert log.committed == 2


def test_a_conflict_with_a_committed_entry_ends_the_node() -> None:
    log = log_with(1, 1, 1)
    log.commit_to(2)
    with pytest.raises(InvariantError):
        log.maybe_append(1, 1, entries(2, 2), 2)


def test_a_commit_index_past_the_log_ends_the_node() -> None:
    with pytest.raises(InvariantError):
        log_with(1, 1).commit_to(3)


def test_only_entries_of_the_own_term_are_committed_by_counting() -> None:
    log = log_with(1, 2, 2)
    assert not log.maybe_commit(1, 2)
    assert log.maybe_commit(3, 2)
    assert not log.maybe_commit(3, 2)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=8), st.integers(0, 8), st.integers(0, 6))
def test_the_hint_is_the_last_entry_whose_term_is_not_above(steps: list[int], index: int, term: int) -> None:
    terms = sorted(steps)
    log = log_with(*terms, stable=len(terms) // 2)
    index = min(index, len(terms))
    naive = max((i for i in range(index + 1) if (terms[i - 1] if i else 0) <= term), default=0)
    assert log.find_conflict_by_term(index, term) == (naive, terms[naive - 1] if naive else 0)


def test_below_the_snapshot_the_hint_has_no_term() -> None:
    store = MemoryStore()
    store.apply_snapshot(Snapshot(LogIndex(5), Term(2)))
    log = RaftLog(store)
    log.append(entries(6, 3))
    assert log.find_conflict_by_term(6, 1) == (4, 0)


def test_entries_below_the_snapshot_are_compacted() -> None:
    store = MemoryStore()
    store.apply_snapshot(Snapshot(LogIndex(5), Term(2)))
    with pytest.raises(CompactedError):
        RaftLog(store).entries(5, UNLIMITED_BYTES)


@given(st.integers(0, 6), st.integers(1, 6), st.integers(0, 300))
def test_a_slice_is_cut_the_same_wherever_stable_ends(stable: int, low: int, bytes_max: int) -> None:
    whole = entries(1, *[1] * 6, data=b"x" * 30)
    store = MemoryStore()
    store.append(whole[:stable])
    log = RaftLog(store)
    log.append(whole[stable:])
    found = log.slice(low, 7, bytes_max)
    assert found == tuple(whole[low - 1 : low - 1 + len(found)])
    assert len(found) == 1 or entries_size_bytes(found) <= bytes_max + 30 * len(found)
    assert found


def test_no_more_is_handed_out_than_the_bound_until_some_is_applied() -> None:
    store = MemoryStore()
    store.append(entries(1, 1, 1, 1, data=b"xx"))
    log = RaftLog(store, applying_bytes_max=1)
    log.commit_to(3)
    for index in (1, 2, 3):
        page = log.next_committed()
        assert [entry.index for entry in page] == [index]
        log.accept_applying(index, entries_size_bytes(page))
        assert not log.has_next_committed()
        log.applied_to(index, entries_size_bytes(page))


def test_sizes_are_those_of_the_encoding() -> None:
    assert entry_size_bytes(Entry(Term(1), LogIndex(1))) == 6
    assert entry_size_bytes(Entry(Term(300), LogIndex(1), data=b"abc")) == 6 + 1 + 2 + 3
    assert limit_size(entries(1, 1, 1, 1), 12) == tuple(entries(1, 1, 1))
    assert limit_size(entries(1, 1, 1, 1), 0) == tuple(entries(1, 1))
