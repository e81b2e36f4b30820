"""The modelled broker's two rules that loss depends on: counted acknowledgements, and where logs part."""

import pytest

from ha_sidecar.epoch.entries import EpochList
from testkit.sim.brokers.broker_log import BrokerLog, LoggedMessage
from testkit.sim.brokers.broker_set import (
    FORGETS_PROPOSALS,
    REQUEST_LIFE_S,
    SHRINKS_ALONE,
    MasterView,
    Proposal,
)


def view(*members: int, **changes: object) -> MasterView:
    made = MasterView(1, frozenset(members), 5)
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def test_a_set_that_was_asked_for_must_acknowledge_too() -> None:
    master = view(1, 2, proposals=[Proposal(frozenset((1, 2, 3)), 0.0)], acked={2: 9, 3: 4})
    assert master.required() == {1, 2, 3}
    assert master.confirmed_end(10) == 4


def test_a_member_without_a_link_is_still_required() -> None:
    master = view(1, 2, 3, linked={2}, acked={2: 9, 3: 4})
    assert master.confirmed_end(10) == 4
    assert master.wanted(10) == {1, 2}


@pytest.mark.parametrize(("flaw", "end"), [(FORGETS_PROPOSALS, 9), (SHRINKS_ALONE, 9)])
def test_the_planted_flaws_acknowledge_too_early(flaw: str, end: int) -> None:
    master = view(1, 2, acked={2: 9, 3: 4}, linked={2}, flaws=frozenset((flaw,)))
    if flaw == FORGETS_PROPOSALS:
        master.proposals.append(Proposal(frozenset((1, 2, 3)), 0.0))
    else:
        master.members = frozenset((1, 2, 3))
    assert master.confirmed_end(10) == end


def test_only_a_higher_epoch_ends_what_was_asked_for() -> None:
    master = view(1, 2, proposals=[Proposal(frozenset((1, 2, 3)), 0.0)])
    assert not master.adopt(frozenset((1, 2)), 5)
    assert master.required() == {1, 2, 3}
    assert master.adopt(frozenset((1, 2)), 6)
    assert master.required() == {1, 2}


@pytest.mark.parametrize(("told", "known"), [(4, (1, 2, 3)), (5, (1, 2, 3)), (6, (1,))])
def test_a_process_that_becomes_master_again_takes_only_a_set_of_a_higher_epoch(
    told: int, known: tuple[int, ...]
) -> None:
    again = view(1, 2, 3, acked={2: 9}, linked={2}).next_mastership(frozenset((1,)), told)
    assert (again.members, again.set_epoch) == (frozenset(known), max(told, 5))
    assert (again.acked, again.linked) == ({}, set())


def test_an_old_request_is_given_up_once_it_cannot_live_any_more() -> None:
    master = view(1, 2, proposals=[Proposal(frozenset((1, 2, 3)), 0.0)])
    master.still_old(5, REQUEST_LIFE_S - 0.1)
    assert master.required() == {1, 2, 3}
    master.still_old(5, REQUEST_LIFE_S + 0.1)
    assert master.required() == {1, 2}


def test_a_slave_is_wanted_only_when_it_has_all_that_is_confirmed() -> None:
    master = view(1, 2, linked={2, 3}, acked={2: 9, 3: 8})
    assert master.wanted(10) == {1, 2}
    master.acked[3] = 9
    assert master.wanted(10) == {1, 2, 3}


def log(*records: tuple[int, str]) -> BrokerLog:
    made = BrokerLog()
    made.receive([LoggedMessage(*record) for record in records])
    return made


def test_a_tail_of_a_deposed_master_is_cut() -> None:
    old = log((1, "a"), (1, "b"), (1, "c"))
    new = log((1, "a"), (1, "b"), (2, "d"))
    assert old.common_end(new.epochs, new.end) == 2
    old.truncate(2)
    old.receive(new.records[2:])
    assert old.records == new.records
    assert old.epochs == new.epochs


def test_an_epoch_that_wrote_nothing_hides_the_next_one_as_in_rocketmq() -> None:
    made = log((1, "a"))
    made.open_epoch(2)
    made.open_epoch(3)
    made.append("b")
    assert made.epochs == EpochList.of((1, 0), (2, 1))
    assert made.records[-1] == LoggedMessage(2, "b")
    made.open_epoch(3)
    assert made.epochs == EpochList.of((1, 0), (2, 1), (3, 2))


@pytest.mark.parametrize("epoch", [2, 1])
def test_an_epoch_that_is_not_above_the_last_one_is_not_noted(epoch: int) -> None:
    made = log((1, "a"), (2, "b"))
    made.open_epoch(epoch)
    made.receive([LoggedMessage(epoch, "c")])
    assert made.epochs == EpochList.of((1, 0), (2, 1))
    assert made.records[-1] == LoggedMessage(2, "c")


def test_a_slave_forgets_an_epoch_that_begins_where_its_log_ends() -> None:
    made = log((1, "a"))
    made.open_epoch(2)
    made.truncate(1)
    assert made.epochs == EpochList.of((1, 0))
