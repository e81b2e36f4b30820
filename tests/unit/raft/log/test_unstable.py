"""The part of the log that is being written, against a list that remembers everything."""

from hypothesis import given
from hypothesis import strategies as st

from controller_core.raft.log.unstable import Unstable
from controller_core.raft.types import Entry, LogIndex, Snapshot, Term


def entries(first: int, *terms: int) -> list[Entry]:
    return [Entry(Term(term), LogIndex(first + offset)) for offset, term in enumerate(terms)]


def test_what_is_being_written_is_not_handed_out_again() -> None:
    log = Unstable(5)
    log.truncate_and_append(entries(5, 1, 1))
    assert [entry.index for entry in log.next_entries()] == [5, 6]
    log.accept_in_progress()
    assert not log.has_next_entries()
    log.truncate_and_append(entries(7, 1))
    assert [entry.index for entry in log.next_entries()] == [7]


def test_a_confirmation_of_replaced_entries_is_ignored() -> None:
    log = Unstable(5)
    log.truncate_and_append(entries(5, 1, 1))
    log.accept_in_progress()
    log.truncate_and_append(entries(5, 2, 2))
    log.stable_to(6, 1)
    assert log.offset == 5
    assert [entry.term for entry in log.next_entries()] == [2, 2]
    log.accept_in_progress()
    log.stable_to(6, 2)
    assert log.offset == 7
    assert log.entries == []


def test_replacing_a_tail_that_is_being_written_hands_out_the_new_tail() -> None:
    log = Unstable(5)
    log.truncate_and_append(entries(5, 1, 1, 1))
    log.accept_in_progress()
    log.truncate_and_append(entries(6, 2))
    assert [(entry.index, entry.term) for entry in log.next_entries()] == [(6, 2)]
    assert log.offset_in_progress == 6


def test_a_snapshot_is_handed_out_once_and_forgotten_when_it_is_written() -> None:
    log = Unstable(5)
    snapshot = Snapshot(LogIndex(9), Term(3))
    log.restore(snapshot)
    assert (log.first_index(), log.last_index(), log.term(9)) == (10, 9, 3)
    assert log.next_snapshot() == snapshot
    log.accept_in_progress()
    assert log.next_snapshot() is None
    log.stable_snapshot_to(8)
    assert log.snapshot is snapshot
    log.stable_snapshot_to(9)
    assert log.snapshot is None


@given(
    st.lists(st.tuples(st.sampled_from(["append", "accept", "stable"]), st.integers(0, 6), st.integers(1, 4)))
)
def test_it_always_holds_the_end_of_the_log_that_was_appended(steps: list[tuple[str, int, int]]) -> None:
    """The model is the whole log from index 1; only its stable part may be missing from the unstable one."""
    log = Unstable(1)
    model: list[Entry] = []
    in_flight: Entry | None = None
    term = 0
    for action, back, count in steps:
        if action == "append":
            term += 1
            stable = log.offset - 1
            start = max(stable, len(model) - back)
            model[start:] = entries(start + 1, *[term] * count)
            log.truncate_and_append(model[start:])
        elif action == "accept":
            log.accept_in_progress()
            in_flight = model[-1] if model else None
        elif in_flight is not None:
            log.stable_to(in_flight.index, in_flight.term)
            in_flight = None
        assert log.entries == model[log.offset - 1 :]
        assert log.offset <= log.offset_in_progress <= log.offset + len(log.entries)
