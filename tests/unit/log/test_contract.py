"""What both stores promise to Raft's core: one set of tests for the memory store and the one on disk."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from controller_core.log.errors import LogMisuseError
from controller_core.log.memory import MemoryStore
from controller_core.log.store import DiskStore
from controller_core.raft.log.storage import CompactedError, Storage, UnavailableError
from controller_core.raft.types import ConfState, LogIndex, NodeId, Ready, Snapshot, Term
from testkit.raft.log_scripts import INITIAL, VOTERS, entries, entry, hard_state, ready

Store = MemoryStore | DiskStore


@pytest.fixture(params=["memory", "disk"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    opened = (
        MemoryStore(INITIAL) if request.param == "memory" else DiskStore.open(tmp_path / "store", INITIAL)
    )
    yield opened
    opened.close()


def save(store: Store, what: Ready) -> None:
    batch = store.prepare(what)
    store.write(batch)
    store.commit(batch)


def test_a_new_store_holds_the_initial_snapshot(store: Store) -> None:
    state, conf = store.initial_state()
    assert (state, conf) == (hard_state(1, 0, 1), VOTERS)
    assert (store.first_index(), store.last_index(), store.term(LogIndex(1))) == (2, 1, 1)
    assert store.snapshot() == INITIAL


def test_a_store_is_a_storage_for_the_core(store: Store) -> None:
    storage: Storage = store
    assert storage.last_index() == 1


def test_nothing_is_visible_before_commit(store: Store) -> None:
    batch = store.prepare(ready(entries(2, 3, 1), hard_state(1, 1, 1)))
    store.write(batch)
    assert store.last_index() == 1
    store.commit(batch)
    assert store.last_index() == 3
    assert store.initial_state()[0] == hard_state(1, 1, 1)


def test_entries_are_read_back(store: Store) -> None:
    save(store, ready(entries(2, 9, 1)))
    assert store.entries(LogIndex(4), LogIndex(6)) == entries(4, 5, 1)
    assert store.entries(LogIndex(10), LogIndex(10)) == ()


def test_a_read_bounded_by_bytes_gives_at_least_one_entry(store: Store) -> None:
    save(store, ready(entries(2, 9, 1, 100)))
    assert len(store.entries(LogIndex(2), LogIndex(10), 0)) == 1
    assert len(store.entries(LogIndex(2), LogIndex(10), 300)) == 2
    assert len(store.entries(LogIndex(2), LogIndex(10), 10_000)) == 8


def test_a_conflicting_suffix_is_replaced(store: Store) -> None:
    save(store, ready(entries(2, 9, 1)))
    save(store, ready(entries(5, 6, 2)))
    assert store.last_index() == 6
    assert store.entries(LogIndex(2), LogIndex(7)) == entries(2, 4, 1) + entries(5, 6, 2)
    assert store.term(LogIndex(4)) == 1
    assert store.term(LogIndex(6)) == 2


@pytest.mark.parametrize("new", [[entry(4, 1)], [entry(2, 1), entry(4, 1)], [entry(1, 1)]])
def test_entries_that_do_not_continue_the_log_are_our_mistake(store: Store, new: list) -> None:
    with pytest.raises(LogMisuseError):
        store.prepare(ready(new))


def test_reads_outside_the_log_say_on_which_side(store: Store) -> None:
    save(store, ready(entries(2, 5, 1)))
    with pytest.raises(CompactedError):
        store.entries(LogIndex(1), LogIndex(3))
    with pytest.raises(UnavailableError):
        store.entries(LogIndex(2), LogIndex(7))
    with pytest.raises(CompactedError):
        store.term(LogIndex(0))
    with pytest.raises(UnavailableError):
        store.term(LogIndex(6))


def test_a_snapshot_keeps_the_log_until_compaction(store: Store) -> None:
    save(store, ready(entries(2, 9, 1)))
    one_voter = ConfState(voters=(NodeId(1),))
    made = store.create_snapshot(LogIndex(7), one_voter, b"state")
    assert made == store.snapshot() == Snapshot(LogIndex(7), Term(1), one_voter, b"state")
    assert store.first_index() == 2
    store.compact(LogIndex(5))
    assert (store.first_index(), store.last_index(), store.term(LogIndex(5))) == (6, 9, 1)
    with pytest.raises(CompactedError):
        store.term(LogIndex(4))
    with pytest.raises(CompactedError):
        store.compact(LogIndex(5))
    with pytest.raises(LogMisuseError):
        store.compact(LogIndex(8))


def test_a_snapshot_needs_entries_and_must_be_newer(store: Store) -> None:
    save(store, ready(entries(2, 4, 1)))
    store.create_snapshot(LogIndex(3), VOTERS, b"")
    for index in (2, 3, 5):
        with pytest.raises(LogMisuseError):
            store.build_snapshot(LogIndex(index), VOTERS, b"")


def test_a_snapshot_from_the_leader_replaces_the_log(store: Store) -> None:
    save(store, ready(entries(2, 4, 1)))
    received = Snapshot(LogIndex(100), Term(3), VOTERS, b"theirs")
    save(store, ready(entries(101, 102, 3), hard_state(3, 2, 100), received))
    assert (store.first_index(), store.last_index(), store.term(LogIndex(100))) == (101, 102, 3)
    assert store.snapshot() == received
    with pytest.raises(LogMisuseError):
        store.prepare(ready(snapshot=Snapshot(LogIndex(100), Term(3), VOTERS, b"again")))


def test_a_closed_store_takes_nothing(store: Store) -> None:
    store.close()
    store.close()
    with pytest.raises(LogMisuseError):
        store.write(store.prepare(ready(entries(2, 2, 1))))


@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_an_empty_store_is_founded_once(kind: str, tmp_path: Path) -> None:
    store: Store = MemoryStore() if kind == "memory" else DiskStore.open(tmp_path / "store")
    assert store.is_empty
    store.found(INITIAL)
    assert not store.is_empty
    assert (store.initial_state(), store.snapshot()) == ((hard_state(1, 0, 1), VOTERS), INITIAL)
    with pytest.raises(LogMisuseError):
        store.found(INITIAL)
    store.close()
