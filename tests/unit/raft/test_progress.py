"""A follower's progress: the allowed sends, and the effects of answers."""

import pytest

from controller_core.raft.errors import InvariantError
from controller_core.raft.tracker.inflights import Inflights
from controller_core.raft.tracker.progress import Progress, ProgressState


def progress(match: int = 0, next_: int = 1, count_max: int = 3, bytes_max: int = 0) -> Progress:
    return Progress(match, next_, Inflights(count_max, bytes_max))


def test_a_probe_with_entries_pauses_until_it_is_answered() -> None:
    one = progress()
    one.sent_entries(0, 0)
    assert not one.paused()
    one.sent_entries(2, 10)
    assert one.paused()
    assert one.next == 1
    assert one.maybe_update(2)
    assert not one.paused()
    assert (one.match, one.next) == (2, 3)


def test_replication_advances_next_optimistically_until_the_window_is_full() -> None:
    one = progress(match=5)
    one.become_replicate()
    for _ in range(3):
        one.sent_entries(2, 10)
    assert (one.match, one.next) == (5, 12)
    assert one.paused()
    one.inflights.free_up_to(9)
    assert one.inflights.count() == 1
    assert one.maybe_update(9)
    assert not one.paused()


def test_a_full_window_is_full_by_bytes_too() -> None:
    window = Inflights(count_max=100, bytes_max=20)
    window.add(1, 19)
    assert not window.full()
    window.add(2, 500)
    assert window.full()
    window.free_up_to(1)
    assert window.full()
    window.free_up_to(2)
    assert not window.full()
    assert window.count() == 0


def test_adding_to_a_full_window_is_a_bug() -> None:
    window = Inflights(count_max=1)
    window.add(1, 1)
    with pytest.raises(InvariantError):
        window.add(2, 1)


def test_a_stale_acknowledgement_changes_nothing() -> None:
    one = progress(match=5, next_=9)
    assert not one.maybe_update(5)
    assert (one.match, one.next) == (5, 9)


def test_a_rejection_in_replication_goes_back_to_match_and_a_stale_one_does_not() -> None:
    one = progress(match=5)
    one.become_replicate()
    one.sent_entries(3, 0)
    assert not one.maybe_decrease_to(5, 5)
    assert one.next == 9
    assert one.maybe_decrease_to(8, 6)
    assert one.next == 6


@pytest.mark.parametrize(
    ("rejected", "hint", "taken", "next_"),
    [
        pytest.param(9, 3, True, 4, id="the hint places the next probe"),
        pytest.param(9, 20, True, 9, id="never above the rejected one"),
        pytest.param(9, 0, True, 3, id="never at or below match"),
        pytest.param(8, 3, False, 10, id="a rejection of another probe is stale"),
    ],
)
def test_a_rejected_probe_is_placed_anew(rejected: int, hint: int, taken: bool, next_: int) -> None:
    one = progress(match=2, next_=10)
    assert one.maybe_decrease_to(rejected, hint) is taken
    assert one.next == next_


def test_after_a_snapshot_the_probe_starts_behind_it() -> None:
    one = progress(match=2, next_=3)
    one.become_snapshot(10)
    assert one.paused()
    assert one.next == 11
    one.become_probe()
    assert (one.state, one.next, one.pending_snapshot) == (ProgressState.PROBE, 11, 0)


def test_no_append_is_sent_while_a_snapshot_is_awaited() -> None:
    one = progress()
    one.become_snapshot(10)
    with pytest.raises(InvariantError):
        one.sent_entries(1, 1)


def test_a_commit_index_is_sent_only_if_it_can_raise_the_followers() -> None:
    one = progress(match=5)
    one.become_replicate()
    assert one.can_bump_commit(3)
    one.sent_commit = 5
    assert not one.can_bump_commit(9)  # It has entries up to 5 and knows that they are committed.
    one.sent_entries(2, 0)
    assert one.can_bump_commit(9)
    assert not one.can_bump_commit(5)
