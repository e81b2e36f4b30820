"""Which store a store is: its owner, its incarnation, and how an empty one begins."""

from pathlib import Path

import pytest

from controller_core.log.errors import LogMisuseError
from controller_core.log.inspect import inspect_store
from controller_core.log.store import DiskStore
from controller_core.raft.types import Ready
from testkit.raft.log_scripts import INITIAL, VOTERS, entries, hard_state


def test_an_incarnation_is_kept_for_the_life_of_the_store(tmp_path: Path) -> None:
    first = DiskStore.open(tmp_path, INITIAL, owner="main/n0", new_incarnation="one")
    assert first.incarnation == "one"
    first.close()
    again = DiskStore.open(tmp_path, INITIAL, owner="main/n0", new_incarnation="two")
    again.close()
    assert again.incarnation == "one"
    heads = [(row.text, row.incarnation) for row in inspect_store(tmp_path) if row.kind == "SEGMENT"]
    assert heads == [("format 1 sequence 1 owner 'main/n0'", "one")]


def test_a_lost_store_comes_back_as_another_incarnation(tmp_path: Path) -> None:
    DiskStore.open(tmp_path, INITIAL, owner="main/n0", new_incarnation="one").close()
    for path in tmp_path.iterdir():
        path.unlink()
    store = DiskStore.open(tmp_path, INITIAL, owner="main/n0", new_incarnation="two")
    store.close()
    assert store.incarnation == "two"


def test_the_store_of_another_owner_is_refused_whatever_its_incarnation(tmp_path: Path) -> None:
    DiskStore.open(tmp_path, INITIAL, owner="main/n0", new_incarnation="one").close()
    with pytest.raises(LogMisuseError, match="the store of 'main/n0', not of 'main/n1'"):
        DiskStore.open(tmp_path, INITIAL, owner="main/n1", new_incarnation="one")


def test_a_store_made_without_a_snapshot_is_empty_until_it_is_founded(tmp_path: Path) -> None:
    store = DiskStore.open(tmp_path)
    assert store.is_empty
    assert store.last_index() == store.snapshot().index == 0
    store.close()
    store = DiskStore.open(tmp_path)
    assert store.is_empty
    store.found(INITIAL)
    assert not store.is_empty
    with pytest.raises(LogMisuseError, match="is not empty"):
        store.found(INITIAL)
    store.close()
    store = DiskStore.open(tmp_path)
    assert store.snapshot() == INITIAL
    assert store.initial_state() == (hard_state(1, 0, 1), VOTERS)
    store.close()


def test_a_store_that_took_part_is_not_empty_even_without_an_entry(tmp_path: Path) -> None:
    store = DiskStore.open(tmp_path)
    batch = store.prepare(Ready(hard_state=hard_state(5, 0, 0), must_sync=True))
    store.write(batch)
    store.commit(batch)
    store.close()
    store = DiskStore.open(tmp_path)
    assert not store.is_empty
    store.close()


def test_a_founded_store_takes_entries(tmp_path: Path) -> None:
    store = DiskStore.open(tmp_path)
    store.found(INITIAL)
    batch = store.prepare(Ready(entries=entries(2, 4, 1), must_sync=True))
    store.write(batch)
    store.commit(batch)
    store.close()
    store = DiskStore.open(tmp_path)
    assert store.last_index() == 4
    store.close()
