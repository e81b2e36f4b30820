"""The epoch list and truncation point against RocketMQ's outcomes and a second, naive implementation."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ha_sidecar.epoch import EpochEntry, EpochList, EpochOrderError, PointRule, truncation_point

CACHE: Final = EpochList.of((1, 0), (2, 1570), (3, 3270))


# (own, own max, master, master max, point): outcomes computed by the epoch cache of RocketMQ 5.4.0.
# Those named rip44 rebuild the six worked examples of RIP-44 "Truncation example analysis".
VECTORS: Final = [
    pytest.param(
        [(0, 0)], 1000, [(0, 0), (1, 900)], 1500, 900, id="rip44-1-uncommitted-tail-of-the-old-master"
    ),
    pytest.param(
        [(0, 0)], 900, [(0, 0), (1, 1000)], 1500, 900, id="rip44-2-unflushed-bytes-are-copied-again"
    ),
    pytest.param(
        [(0, 0), (1, 900)], 1200, [(0, 0), (1, 900), (2, 1200)], 1600, 1200, id="rip44-3-nothing-to-truncate"
    ),
    pytest.param(
        [(0, 0), (1, 1000)], 1100, [(0, 0), (2, 900)], 1500, 900, id="rip44-4-own-epoch-unknown-to-master"
    ),
    pytest.param([(0, 0), (1, 500)], 900, [(0, 0), (1, 500), (2, 800)], 1400, 800, id="rip44-5-replica-b"),
    pytest.param([(0, 0), (1, 500)], 1000, [(0, 0), (1, 500), (2, 800)], 1400, 800, id="rip44-5-replica-c"),
    pytest.param(
        [(0, 0), (1, 1000)], 1200, [(0, 0), (2, 1000)], 1500, 1000, id="rip44-6-same-start-other-epoch"
    ),
    pytest.param([(0, 0), (1, 1000)], 1000, [(0, 0), (1, 1000)], 1500, 1000, id="empty-newest-epoch"),
    pytest.param([(3, 100)], 2000, [(3, 100)], 1500, 1500, id="master-shorter-in-the-same-epoch"),
    pytest.param([(1, 0), (2, 500)], 2000, [(2, 500), (3, 1800)], 2500, 1800, id="master-pruned-epoch-1"),
    pytest.param([(2, 1570)], 2000, [(1, 0), (3, 1500)], 2500, None, id="no-common-epoch"),
    pytest.param(
        [(1, 100), (2, 300), (3, 500)], 700, [(1, 100), (2, 300), (3, 450)], 600, 450, id="java-unit-1"
    ),
    pytest.param(
        [(1, 100), (2, 300), (3, 500)], 700, [(1, 100), (2, 300), (3, 500)], 600, 600, id="java-unit-2"
    ),
    pytest.param([(1, 100), (2, 300), (3, 500)], 700, [(1, 200), (2, 500)], 600, None, id="java-unit-3"),
    pytest.param(
        [(1, 100), (2, 300), (3, 500), (4, 800)],
        900,
        [(1, 100), (2, 300), (3, 500)],
        700,
        700,
        id="java-unit-4",
    ),
]


@pytest.mark.parametrize(("own", "own_max", "master", "master_max", "point"), VECTORS)
def test_the_truncation_point_is_the_one_java_computes(
    own: list[tuple[int, int]],
    own_max: int,
    master: list[tuple[int, int]],
    master_max: int,
    point: int | None,
) -> None:
    found = truncation_point(EpochList.of(*own), own_max, EpochList.of(*master), master_max)
    assert found.offset == point
    assert found.rule is (PointRule.NO_COMMON_EPOCH if point is None else PointRule.COMMON_EPOCH)


# (own, own max, master, master max, epochs kept): the same examples, and what
# Java's list holds after the cut.
KEPT: Final = [
    pytest.param([(0, 0)], 1000, [(0, 0), (1, 900)], 1500, [0], id="1"),
    pytest.param([(0, 0)], 900, [(0, 0), (1, 1000)], 1500, [0], id="2"),
    pytest.param([(0, 0), (1, 900)], 1200, [(0, 0), (1, 900), (2, 1200)], 1600, [0, 1], id="3"),
    pytest.param([(0, 0), (1, 1000)], 1100, [(0, 0), (2, 900)], 1500, [0], id="4"),
    pytest.param([(0, 0), (1, 500)], 900, [(0, 0), (1, 500), (2, 800)], 1400, [0, 1], id="5b"),
    pytest.param([(0, 0), (1, 500)], 1000, [(0, 0), (1, 500), (2, 800)], 1400, [0, 1], id="5c"),
    pytest.param([(0, 0), (1, 1000)], 1200, [(0, 0), (2, 1000)], 1500, [0], id="6"),
    pytest.param(
        [(0, 0), (1, 1000)], 1000, [(0, 0), (1, 1000)], 1500, [0], id="7-java-drops-the-empty-newest-epoch"
    ),
    pytest.param([(3, 100)], 2000, [(3, 100)], 1500, [3], id="8"),
    pytest.param([(1, 0), (2, 500)], 2000, [(2, 500), (3, 1800)], 2500, [1, 2], id="9"),
]


@pytest.mark.parametrize(("own", "own_max", "master", "master_max", "kept"), KEPT)
def test_java_keeps_the_epochs_that_start_below_the_point(
    own: list[tuple[int, int]],
    own_max: int,
    master: list[tuple[int, int]],
    master_max: int,
    kept: list[int],
) -> None:
    epochs = EpochList.of(*own)
    point = truncation_point(epochs, own_max, EpochList.of(*master), master_max).offset
    assert point is not None
    assert [entry.epoch for entry in epochs.truncate_suffix_by_offset(point)] == kept


def test_every_example_that_has_a_point_has_its_kept_epochs() -> None:
    count = [param.id for param in VECTORS].index("no-common-epoch")
    assert [param.values[:4] for param in KEPT] == [param.values[:4] for param in VECTORS[:count]]


def test_we_keep_an_epoch_that_starts_exactly_at_the_end() -> None:
    assert EpochList.of((0, 0), (1, 1000)).starting_up_to(1000) == EpochList.of((0, 0), (1, 1000))
    assert EpochList.of((0, 0), (1, 1000)).starting_up_to(999) == EpochList.of((0, 0))


@pytest.mark.parametrize(("offset", "epoch"), [(0, 1), (1569, 1), (1570, 2), (9999, 3)])
def test_an_offset_belongs_to_the_newest_epoch_that_starts_at_or_before_it(offset: int, epoch: int) -> None:
    found = CACHE.find_by_offset(offset)
    assert found is not None
    assert found.epoch == epoch


def test_an_offset_before_the_first_start_belongs_to_no_epoch() -> None:
    assert EpochList.of((1, 100), (2, 300)).find_by_offset(99) is None
    found = EpochList.of((1, 100), (2, 300), (3, 500)).find_by_offset(350)
    assert found == EpochEntry(2, 300)


def test_a_prefix_goes_only_when_its_whole_part_is_gone() -> None:
    assert CACHE.truncate_prefix_by_offset(1570) == EpochList.of((2, 1570), (3, 3270))
    assert CACHE.truncate_prefix_by_offset(1569) == CACHE
    assert EpochList.of((2, 1570), (3, 3270)).truncate_prefix_by_offset(1699) == EpochList.of(
        (2, 1570), (3, 3270)
    )
    assert CACHE.truncate_prefix_by_offset(10**9) == EpochList.of((3, 3270))


def test_a_suffix_is_cut_by_offset() -> None:
    assert EpochList.of((1, 100), (2, 300), (3, 500)).truncate_suffix_by_offset(150) == EpochList.of((1, 100))
    assert CACHE.truncate_suffix_by_offset(0) == EpochList()


def test_an_append_must_grow_both_epoch_and_start() -> None:
    held = EpochList.of((2, 1570))
    assert not held.accepts(EpochEntry(3, 1570))
    assert not held.accepts(EpochEntry(2, 9000))
    assert held.accepts(EpochEntry(4, 2000))
    grown = held.appended(EpochEntry(4, 2000))
    assert (grown.end_offset(2), grown.last_epoch) == (2000, 4)
    with pytest.raises(EpochOrderError, match="3:1570 does not follow 2:1570"):
        held.appended(EpochEntry(3, 1570))


def test_an_end_is_open_again_after_a_suffix_cut() -> None:
    # Java's cache keeps the stale closed end in memory here, and then finds no epoch for offset 5000.
    cut = CACHE.truncate_suffix_by_offset(3270)
    assert cut.find_by_offset(5000) == EpochEntry(2, 1570)


def test_an_empty_list_has_no_epoch() -> None:
    empty = EpochList()
    assert (empty.first, empty.last, empty.last_epoch) == (None, None, -1)
    assert truncation_point(empty, 0, CACHE, 5000).offset is None


@pytest.mark.parametrize("pair", [(-1, 0), (1, -1), (2**31, 0), (1, 2**63)])
def test_entries_outside_the_wire_ranges_are_refused(pair: tuple[int, int]) -> None:
    with pytest.raises(EpochOrderError, match="out of range"):
        EpochList.of(pair)


def test_a_master_restarted_in_its_own_epoch_shares_everything_below_its_new_start() -> None:
    own, master = EpochList.of((1, 0)), EpochList.of((1, 1460))
    assert truncation_point(own, 1400, master, 2000).offset is None
    point = truncation_point(own, 1400, master, 2000, restarted_epoch=1)
    assert (point.offset, point.rule) == (1400, PointRule.RESTARTED_EPOCH)


def test_bytes_that_a_restarted_master_lost_are_cut() -> None:
    point = truncation_point(EpochList.of((1, 0)), 1500, EpochList.of((1, 1460)), 2000, restarted_epoch=1)
    assert point.offset == 1460


def test_the_restart_rule_never_applies_to_another_epoch() -> None:
    own = EpochList.of((1, 0), (2, 1000))
    point = truncation_point(own, 1500, EpochList.of((1, 0), (2, 1200)), 2000, restarted_epoch=1)
    assert (point.offset, point.rule) == (1000, PointRule.COMMON_EPOCH)


def test_an_epoch_start_that_moved_back_proves_nothing() -> None:
    own = EpochList.of((1, 0), (2, 1000))
    point = truncation_point(own, 1500, EpochList.of((1, 0), (2, 900)), 2000, restarted_epoch=2)
    assert (point.offset, point.rule) == (None, PointRule.EPOCH_START_MOVED_BACK)


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[tuple[int, int]], int]:
    """An epoch list of small numbers, so that entries of two lists often meet; a max offset at its end."""
    epochs = sorted(draw(st.sets(st.integers(0, 6), max_size=4)))
    starts = sorted(draw(st.sets(st.integers(0, 12), min_size=len(epochs), max_size=len(epochs))))
    tail = draw(st.integers(0, 6))
    return list(zip(epochs, starts, strict=True)), (starts[-1] if starts else 0) + tail


def naive_point(
    own: list[tuple[int, int]], own_max: int, master: list[tuple[int, int]], master_max: int
) -> int | None:
    """Label every byte of both logs with its (epoch, start), and look for the newest label both have."""

    def spans(entries: list[tuple[int, int]], max_offset: int) -> dict[tuple[int, int], int]:
        ends = [start for _, start in entries[1:]] + [max_offset]
        return dict(zip(entries, ends, strict=True)) if entries else {}

    mine, theirs = spans(own, own_max), spans(master, master_max)
    shared = max(set(mine) & set(theirs), default=None)
    return None if shared is None else min(mine[shared], theirs[shared])


@given(logs(), logs())
def test_the_truncation_point_equals_the_naive_one(
    own: tuple[list[tuple[int, int]], int], master: tuple[list[tuple[int, int]], int]
) -> None:
    found = truncation_point(EpochList.of(*own[0]), own[1], EpochList.of(*master[0]), master[1])
    assert found.offset == naive_point(own[0], own[1], master[0], master[1])


@given(logs(), logs())
def test_the_point_never_lies_beyond_either_log(
    own: tuple[list[tuple[int, int]], int], master: tuple[list[tuple[int, int]], int]
) -> None:
    for epoch in range(7):
        found = truncation_point(EpochList.of(*own[0]), own[1], EpochList.of(*master[0]), master[1], epoch)
        assert found.offset is None or found.offset <= min(own[1], master[1])


@given(logs(), st.integers(0, 20))
def test_every_offset_has_the_epoch_of_the_last_start_before_it(
    log: tuple[list[tuple[int, int]], int], offset: int
) -> None:
    expected = [pair for pair in log[0] if pair[1] <= offset]
    found = EpochList.of(*log[0]).find_by_offset(offset)
    assert found == (EpochEntry(*expected[-1]) if expected else None)
