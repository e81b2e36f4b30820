"""The revive debt, from readings of a master's offsets and counters."""

from ha_sidecar.decisions.revive_debt import OwedCheckpoints, ReviveDebt

CONSUMER, OTHER = ("T", "G"), ("U", "H")
ONE, BOTH = frozenset({CONSUMER}), frozenset({CONSUMER, OTHER})


def begun(offset: int = 10, **counts: int) -> ReviveDebt:
    debt = ReviveDebt()
    debt.look({0: offset}, {CONSUMER: counts.get("refused", 0)})
    return debt


def test_nothing_is_owed_while_nothing_is_refused_however_far_the_offset_moves() -> None:
    debt = begun(refused=7)
    assert debt.look({0: 50}, {CONSUMER: 7})
    assert (debt.is_open, debt.owed(), debt.refused) == (False, [], 0)


def test_what_lies_beyond_the_last_safe_offset_is_owed_until_the_refusals_end() -> None:
    debt = begun(10)
    assert debt.look({0: 20}, {CONSUMER: 0})
    assert not debt.look({0: 20}, {CONSUMER: 3})
    assert not debt.look({0: 30}, {CONSUMER: 9})
    assert debt.look({0: 35}, {CONSUMER: 9})
    assert debt.owed() == [OwedCheckpoints(0, 20, 35, ONE)]
    assert debt.refused == 9


def test_a_queue_that_had_no_offset_is_owed_from_its_beginning() -> None:
    debt = begun(10)
    debt.look({0: 10}, {CONSUMER: 1})
    debt.look({0: 10, 1: 4}, {CONSUMER: 1})
    assert debt.owed() == [OwedCheckpoints(1, -1, 4, ONE)]


def test_consumers_add_up_and_those_without_refusals_are_left_out() -> None:
    debt = begun(10)
    debt.look({0: 11}, {CONSUMER: 1, OTHER: 0})
    assert debt.owed() == [OwedCheckpoints(0, 10, 11, ONE)]
    debt.look({0: 12}, {CONSUMER: 1, OTHER: 1})
    assert debt.owed() == [OwedCheckpoints(0, 10, 12, BOTH)]


def test_what_was_put_back_in_part_is_owed_for_the_rest() -> None:
    debt = begun(10)
    debt.look({0: 20}, {CONSUMER: 5})
    debt.mark_put_back(0, 15)
    assert debt.owed() == [OwedCheckpoints(0, 15, 20, ONE)]
    debt.mark_put_back(0, 20)
    assert debt.owed() == []


def test_what_was_settled_is_safe_and_only_what_is_refused_later_is_owed() -> None:
    debt = begun(10)
    debt.look({0: 20}, {CONSUMER: 5})
    debt.look({0: 22}, {CONSUMER: 5})
    debt.settle()
    assert not debt.is_open
    debt.look({0: 30}, {CONSUMER: 6})
    assert debt.owed() == [OwedCheckpoints(0, 22, 30, ONE)]


def test_a_broker_that_was_started_anew_counts_from_zero_and_its_debt_stays() -> None:
    debt = begun(10)
    debt.look({0: 20}, {CONSUMER: 5})
    assert debt.look({0: 15}, {})
    assert debt.owed() == [OwedCheckpoints(0, 10, 20, ONE)]
    assert not debt.look({0: 25}, {CONSUMER: 2})
    assert debt.refused == 7


def test_a_restart_whose_refusals_exceed_the_old_counter_shows_in_another_counter_that_fell() -> None:
    debt = ReviveDebt()
    debt.look({0: 1}, {CONSUMER: 1, OTHER: 5})
    assert not debt.look({0: 2}, {CONSUMER: 1})
    assert debt.owed() == [OwedCheckpoints(0, 1, 2, ONE)]


def test_a_broker_that_becomes_master_again_begins_anew_and_keeps_its_debt() -> None:
    debt = begun(10)
    debt.look({0: 20}, {CONSUMER: 5})
    debt.begin()
    assert debt.look({0: 90}, {CONSUMER: 50})
    assert debt.owed() == [OwedCheckpoints(0, 10, 20, ONE)]
    assert debt.refused == 5
    debt.settle()
    debt.look({0: 95}, {CONSUMER: 51})
    assert debt.owed() == [OwedCheckpoints(0, 90, 95, ONE)]
