"""Which elections of the controllers' event streams count."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ha_sidecar.decisions.broker_facts import GroupName
from ha_sidecar.node_agent.elections import (
    VOTES_MAX,
    Election,
    ElectionEventError,
    ElectionVotes,
    parse_election,
)

EVENT: dict[str, Any] = {
    "kind": "MasterElected",
    "event_id": "main/orders/3.40.0/1",
    "cluster": "main",
    "group": "orders",
    "epoch": 7,
    "sequence": 9,
    "attrs": {
        "cause": "HeartbeatTimeout",
        "old_master_id": "1",
        "old_master_address": "10.96.0.11:10911",
        "new_master_id": "2",
    },
}


ORDERS = GroupName("main", "orders")


def election(epoch: int = 7, cause: str = "HeartbeatTimeout") -> Election:
    return Election(f"main/orders/{epoch}", ORDERS, epoch, cause, 1, ("10.96.0.11", 10911), 2)


def with_attribute(key: str, value: object) -> dict[str, Any]:
    return EVENT | {"attrs": EVENT["attrs"] | {key: value}}


def test_an_event_tells_who_replaced_whom_and_why() -> None:
    found = parse_election(EVENT)
    assert found is not None
    assert (found.group, found.epoch, found.old_id, found.new_id) == (ORDERS, 7, 1, 2)
    assert found.old_address == ("10.96.0.11", 10911)
    assert found.is_for_silence


@pytest.mark.parametrize("cause", ["ConnectionClosed", "BrokerRequest", "Designated", "MasterMissing"])
def test_other_causes_are_not_silence(cause: str) -> None:
    found = parse_election(with_attribute("cause", cause))
    assert found is not None
    assert not found.is_for_silence


def test_other_events_and_first_elections_are_skipped() -> None:
    assert parse_election(EVENT | {"kind": "RoleTaken"}) is None
    first = EVENT | {"attrs": {"cause": "MasterMissing", "new_master_id": "2"}}
    assert parse_election(first) is None


@pytest.mark.parametrize(
    "event",
    [
        pytest.param([], id="list"),
        pytest.param(EVENT | {"attrs": "none"}, id="attrs"),
        pytest.param(EVENT | {"epoch": -1}, id="negative epoch"),
        pytest.param(EVENT | {"epoch": True}, id="truth as epoch"),
        pytest.param(EVENT | {"group": ""}, id="empty group"),
        pytest.param(EVENT | {"cluster": ""}, id="empty cluster"),
        pytest.param(EVENT | {"group": "x" * 2_000}, id="long group"),
        pytest.param(EVENT | {"event_id": 5}, id="number as id"),
        pytest.param(with_attribute("old_master_address", "10.96.0.11"), id="address without port"),
        pytest.param(with_attribute("new_master_id", "two"), id="word as id"),
    ],
)
def test_a_malformed_election_is_refused(event: object) -> None:
    with pytest.raises(ElectionEventError):
        parse_election(event)


@settings(max_examples=30)
@given(
    st.none() | st.integers() | st.text() | st.lists(st.integers()) | st.dictionaries(st.text(), st.text())
)
def test_any_json_is_read_or_refused(value: object) -> None:
    event = {"kind": "MasterElected", "attrs": {"old_master_id": value}, "group": value}
    with pytest.raises(ElectionEventError):
        parse_election(event)


def test_an_election_counts_once_when_a_majority_tells_it() -> None:
    votes = ElectionVotes(3)
    assert not votes.vote(0, election())
    assert not votes.vote(0, election()), "one controller has one vote"
    assert votes.vote(1, election())
    assert not votes.vote(2, election()), "it counted already"


def test_one_lying_controller_makes_nothing_count() -> None:
    votes = ElectionVotes(3)
    assert not any(votes.vote(0, election(epoch)) for epoch in range(1, 500))
    assert not votes.vote(1, election(1_000))


def test_stories_that_differ_in_the_cause_do_not_add_up() -> None:
    votes = ElectionVotes(3)
    assert not votes.vote(0, election())
    assert not votes.vote(1, election(cause="ConnectionClosed"))
    assert votes.vote(2, election(cause="ConnectionClosed"))


def test_a_flood_of_one_controller_removes_only_its_own_votes() -> None:
    votes = ElectionVotes(3)
    votes.vote(0, election(7))
    for epoch in range(1_000, 1_000 + 3 * VOTES_MAX):
        votes.vote(2, election(epoch))
    assert votes.vote(1, election(7))


def test_a_single_controller_is_its_own_majority() -> None:
    assert ElectionVotes(1).vote(0, election())
