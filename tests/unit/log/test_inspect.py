"""What a person sees of a stopped node's store, damaged places included."""

from pathlib import Path

from controller_core.log.inspect import inspect_store
from controller_core.log.store import DiskStore
from controller_core.raft.types import LogIndex
from testkit.raft.log_scripts import INITIAL, VOTERS, entries, hard_state, ready


def make_store(directory: Path) -> None:
    store = DiskStore.open(directory, INITIAL, owner="main/1")
    for what in (ready(entries(2, 4, 1), hard_state(1, 2, 3)), ready(entries(5, 6, 2), hard_state(2, 3, 4))):
        batch = store.prepare(what)
        store.write(batch)
        store.commit(batch)
    store.create_snapshot(LogIndex(4), VOTERS, b"four")
    store.close()


def test_every_record_is_shown_in_order(tmp_path: Path) -> None:
    make_store(tmp_path)
    rows = list(inspect_store(tmp_path))
    kinds = [row.kind for row in rows]
    assert kinds == (
        ["SNAPSHOT", "SEGMENT", "HARD_STATE", "DURABLE"]
        + ["ENTRY"] * 3
        + ["HARD_STATE", "DURABLE"]
        + ["ENTRY"] * 2
        + ["HARD_STATE", "DURABLE"]
    )
    assert [(row.index, row.term, row.data) for row in rows if row.kind == "ENTRY"] == [
        (new.index, new.term, new.data) for new in entries(2, 4, 1) + entries(5, 6, 2)
    ]
    assert (rows[0].index, rows[0].data, rows[0].text) == (4, b"four", "voters [1, 2, 3] learners []")
    assert "owner 'main/1'" in rows[1].text
    assert rows[-2].text == "vote 3 commit 4"


def test_damage_is_a_row_and_reading_goes_on(tmp_path: Path) -> None:
    make_store(tmp_path)
    rows = list(inspect_store(tmp_path))
    target = next(row for row in rows if row.kind == "ENTRY")
    path = tmp_path / target.file
    data = bytearray(path.read_bytes())
    data[target.offset + target.size_bytes - 1] ^= 4
    path.write_bytes(data)
    again = list(inspect_store(tmp_path))
    damage = next(row for row in again if row.kind == "DAMAGE")
    assert (damage.offset, damage.size_bytes) == (target.offset, target.size_bytes)
    assert "checksum" in damage.text
    assert len(again) == len(rows)


def test_a_damaged_snapshot_is_a_row(tmp_path: Path) -> None:
    make_store(tmp_path)
    (path,) = tmp_path.glob("*.snap")
    path.write_bytes(path.read_bytes()[:-1])
    assert next(inspect_store(tmp_path)).kind == "DAMAGE"


def test_looking_changes_nothing(tmp_path: Path) -> None:
    make_store(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    list(inspect_store(tmp_path))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
