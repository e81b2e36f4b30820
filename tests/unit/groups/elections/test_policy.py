"""The choice of a winner, rule by rule and against a second implementation."""

from collections.abc import Iterable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from controller_core.groups.commands import LiveBroker
from controller_core.groups.elections.policy import elect
from controller_core.groups.group import Group, Replica
from testkit.raft.groups import KEY
from testkit.raft.groups_naive import NaiveBroker, naive_winner

TWO_GIB = 1 << 31


def group(
    members: Iterable[int],
    *,
    master: int | None = None,
    log_replicas: Iterable[int] = (),
    outside: Iterable[int] = (),
) -> Group:
    ids = sorted({*members, *log_replicas, *outside})
    replicas = {broker_id: Replica(f"a:{broker_id}", "", broker_id not in log_replicas) for broker_id in ids}
    return Group(KEY, replicas=replicas, master_id=master, sync_state_set=tuple(sorted(members)))


def winner(of: Group, *alive: LiveBroker, preferred: int | None = None, unclean: bool = False) -> int | None:
    return elect(of, {broker.id: broker for broker in alive}, preferred, unclean_allowed=unclean)


@pytest.mark.parametrize(
    ("alive", "expected"),
    [
        pytest.param((LiveBroker(1, 1, 9), LiveBroker(2, 2, 1)), 2, id="higher-epoch-before-offset"),
        pytest.param((LiveBroker(1, 1, 1, 1), LiveBroker(2, 1, 2, 9)), 2, id="higher-offset-before-priority"),
        pytest.param((LiveBroker(1, 1, 1, 2), LiveBroker(2, 1, 1, 1)), 2, id="lower-priority-value"),
        pytest.param((LiveBroker(2, 1, 1, 1), LiveBroker(1, 1, 1, 1)), 1, id="lower-id-at-last"),
        pytest.param((LiveBroker(1, 1, 0), LiveBroker(2, 1, TWO_GIB)), 2, id="2-GiB-ahead"),
        pytest.param((LiveBroker(1, 1, 0), LiveBroker(2, 1, 2 * TWO_GIB)), 2, id="4-GiB-ahead"),
        pytest.param(
            (LiveBroker(1, 1, 1, TWO_GIB - 1), LiveBroker(2, 1, 1, -2)), 2, id="priorities-far-apart"
        ),
        pytest.param((LiveBroker(1), LiveBroker(2, 0, 0)), 2, id="nothing-said-is-behind-zero"),
    ],
)
def test_the_best_log_wins(alive: tuple[LiveBroker, ...], expected: int) -> None:
    assert winner(group((1, 2)), *alive) == expected


def test_the_old_master_stays_whatever_the_logs() -> None:
    assert winner(group((1, 2), master=1), LiveBroker(1), LiveBroker(2, 9, 9)) == 1


def test_a_preferred_id_that_is_no_candidate_makes_nobody_win() -> None:
    assert winner(group((1, 2), master=1), LiveBroker(1), preferred=2) is None


ids = st.integers(1, 5)
brokers = st.builds(
    LiveBroker,
    id=ids,
    epoch=st.integers(-1, 2),
    max_offset=st.sampled_from([-1, 0, 1, TWO_GIB, 3 * TWO_GIB]),
    priority=st.sampled_from([-TWO_GIB, 0, 1, TWO_GIB - 1]),
)


@given(
    members=st.sets(ids),
    outside=st.sets(ids),
    log_replicas=st.sets(ids),
    alive=st.lists(brokers, unique_by=lambda broker: broker.id),
    master=st.none() | ids,
    preferred=st.none() | ids,
    unclean=st.booleans(),
)
@example({1, 2}, {3}, set(), [LiveBroker(3), LiveBroker(2)], None, 3, True)
def test_both_implementations_choose_the_same(
    members: set[int],
    outside: set[int],
    log_replicas: set[int],
    alive: list[LiveBroker],
    master: int | None,
    preferred: int | None,
    unclean: bool,
) -> None:
    registered = members | outside
    log_replicas &= registered
    of = group(members, master=master, log_replicas=log_replicas, outside=outside)
    naive = [NaiveBroker(broker.id, broker.epoch, broker.max_offset, broker.priority) for broker in alive]
    expected = naive_winner(members, registered, log_replicas, naive, master, preferred, unclean)
    chosen = winner(of, *alive, preferred=preferred, unclean=unclean)
    assert chosen == expected
    assert chosen not in log_replicas
    if not unclean:
        assert chosen is None or chosen in members
