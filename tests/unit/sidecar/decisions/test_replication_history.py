"""Lag in seconds, cut tails and ended connections, from looks a second apart."""

from dataclasses import replace

import pytest

from ha_sidecar.decisions.broker_facts import BrokerFacts, SlaveFacts
from ha_sidecar.decisions.replication_history import ENDS_MAX, ReplicationHistory

SLAVE = SlaveFacts("/10.0.0.7:123", 0, 0, True)


def master(max_offset: int, *acks: int, port: int = 123) -> BrokerFacts:
    slaves = tuple(
        replace(SLAVE, address=f"/10.0.0.{number}:{port}", ack_offset=ack) for number, ack in enumerate(acks)
    )
    return BrokerFacts(1, "a:1", True, 1, max_offset, 0, slaves, ((1, 0),))


def slave(max_offset: int, *epoch_starts: tuple[int, int]) -> BrokerFacts:
    return BrokerFacts(2, "", False, max(epoch_starts)[0], max_offset, None, (), epoch_starts)


def test_a_slave_is_behind_since_the_log_first_reached_beyond_its_ack() -> None:
    history = ReplicationHistory()
    for now_s, max_offset in ((10.0, 100), (11.0, 200), (12.0, 200), (13.0, 300)):
        history.learn(now_s, master(max_offset, 100, 250, 300))
    lags_s = history.slave_lags_s(14.5)
    assert list(lags_s.values()) == [14.5 - 11.0, 14.5 - 13.0, 0.0]


def test_a_slave_that_never_acknowledged_is_behind_for_as_long_as_looks_reach_back() -> None:
    history = ReplicationHistory()
    for second in range(ENDS_MAX + 100):
        history.learn(float(second), master(second + 1, 0))
    assert list(history.slave_lags_s(ENDS_MAX + 99.0).values()) == [ENDS_MAX - 1]


def test_a_log_that_is_shorter_than_before_starts_its_ends_anew() -> None:
    history = ReplicationHistory()
    history.learn(1.0, master(500, 500))
    history.learn(2.0, master(300, 200))
    assert list(history.slave_lags_s(4.0).values()) == [2.0]
    assert history.truncations == 1


def test_nothing_is_known_of_slaves_before_the_first_look() -> None:
    assert ReplicationHistory().slave_lags_s(1.0) == {}


@pytest.mark.parametrize(
    ("after", "cuts"),
    [
        (slave(900, (1, 0), (2, 500)), 0),
        (slave(700, (1, 0), (2, 500)), 1),
        (slave(2000, (1, 0), (2, 500), (3, 1000)), 0),
        (slave(2000, (1, 0), (2, 500), (3, 700)), 1),
        (slave(2000, (1, 0), (3, 400)), 1),
        (slave(2000, (1, 0), (2, 500), (3, 900), (4, 1200)), 0),
        (slave(900, (2, 500)), 0),
    ],
    ids=[
        "nothing new",
        "shorter",
        "a new epoch begins where the log grew to",
        "a new epoch begins within the old log, and the log has grown again",
        "a whole epoch is gone",
        "two new epochs",
        "old epochs are pruned",
    ],
)
def test_a_cut_shows_in_the_starts_of_the_epochs(after: BrokerFacts, cuts: int) -> None:
    history = ReplicationHistory()
    history.learn(1.0, slave(900, (1, 0), (2, 500)))
    history.learn(2.0, after)
    assert history.truncations == cuts


def test_connections_count_that_were_there_and_are_not() -> None:
    history = ReplicationHistory()
    history.learn(1.0, master(10, 10, 10))
    history.learn(2.0, master(10, 10, 10))
    assert history.ended_connections == 0
    history.learn(3.0, master(10, 10, 10, port=124))
    assert history.ended_connections == 2
    history.learn(4.0, slave(10, (1, 0)))
    history.learn(5.0, slave(10, (1, 0)))
    assert history.ended_connections == 4
