"""A log never holds a term or index without room to go on, and its refusal says what to do."""

import pytest

from controller_core.log import view
from controller_core.log.errors import LogBoundsError, LogCorruptError, LogMisuseError
from controller_core.log.memory import MemoryStore
from controller_core.log.store import DiskStore
from controller_core.raft.bounds import STORED_INDEX_MAX, STORED_TERM_MAX
from controller_core.raft.types import LogIndex, Ready, Snapshot, Term
from testkit.raft.disk import SimulatedFiles
from testkit.raft.log_scripts import DIRECTORY, INITIAL, VOTERS, entry, hard_state, ready


@pytest.mark.parametrize(
    "what",
    [
        ready(state=hard_state(STORED_TERM_MAX + 1, 0, 1)),
        ready(state=hard_state(2**64 - 1, 0, 1)),
        ready(state=hard_state(2**64, 0, 1)),
        ready(state=hard_state(2, 0, STORED_INDEX_MAX + 1)),
        ready([entry(2, STORED_TERM_MAX + 1)]),
        ready(snapshot=Snapshot(LogIndex(STORED_INDEX_MAX + 1), Term(2), VOTERS)),
        ready(snapshot=Snapshot(LogIndex(9), Term(STORED_TERM_MAX + 1), VOTERS)),
    ],
)
def test_what_could_not_be_loaded_again_is_not_stored(what: Ready) -> None:
    files = SimulatedFiles()
    for store in (MemoryStore(INITIAL), DiskStore.open(DIRECTORY, INITIAL, files=files)):
        with pytest.raises(LogMisuseError, match="the log takes at most"):
            store.prepare(what)
    files.locks.clear()
    assert DiskStore.open(DIRECTORY, INITIAL, files=files).last_index() == INITIAL.index


def test_the_largest_term_that_is_stored_is_loaded_again() -> None:
    files = SimulatedFiles()
    _store_unchecked(files, ready(state=hard_state(STORED_TERM_MAX, 2, 1)))
    assert DiskStore.open(DIRECTORY, INITIAL, files=files).initial_state()[0].term == STORED_TERM_MAX


@pytest.mark.parametrize(
    ("what", "named"),
    [
        (ready(state=hard_state(2**64 - 1, 0, 1)), "term 18446744073709551615"),
        (ready(state=hard_state(STORED_TERM_MAX + 1, 0, 1)), f"term {STORED_TERM_MAX + 1}"),
        (ready(state=hard_state(3, 0, 2**63)), f"commit index {2**63}"),
        (ready([entry(2, 2**63)]), f"term {2**63}"),
        (
            ready(snapshot=Snapshot(LogIndex(2**63), Term(2), VOTERS), state=hard_state(2, 0, 2**63)),
            f"index {2**63}",
        ),
    ],
)
def test_a_store_that_an_attack_damaged_is_refused_with_file_value_and_what_to_do(
    what: Ready, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = SimulatedFiles()
    monkeypatch.setattr(view, "STORED_TERM_MAX", 2**64)
    monkeypatch.setattr(view, "STORED_INDEX_MAX", 2**64)
    _store_unchecked(files, what)
    with pytest.raises(LogBoundsError) as caught:
        DiskStore.open(DIRECTORY, INITIAL, files=files)
    text = str(caught.value)
    assert str(DIRECTORY) in text
    assert named in text
    assert "members remove" in text
    assert isinstance(caught.value, LogCorruptError)


def _store_unchecked(files: SimulatedFiles, what: Ready) -> None:
    store = DiskStore.open(DIRECTORY, INITIAL, files=files)
    batch = store.prepare(what)
    store.write(batch)
    store.commit(batch)
    files.locks.clear()
