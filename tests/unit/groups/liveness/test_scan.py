"""Which groups need an election, and when a node knows enough to hold one."""

import pytest

from controller_core.groups.commands import Cause
from controller_core.groups.keys import GroupKey, ReplicaKey
from controller_core.groups.liveness.scan import (
    ElectionNeed,
    election_need,
    groups_needing_election,
    may_elect,
    must_hold_request,
)
from controller_core.groups.liveness.table import LivenessTable
from testkit.raft.groups import KEY, NAME, GroupsDriver


def beating(*ids: int, key: GroupKey = KEY) -> LivenessTable:
    table = LivenessTable()
    for broker_id in ids:
        table.beat(ReplicaKey(*key, broker_id), broker_id, 0)
    return table


def test_a_group_whose_master_lives_needs_none() -> None:
    assert groups_needing_election(GroupsDriver().group_of_three().state, beating(1, 2)) == []


def test_a_group_whose_master_is_not_alive_needs_one_if_a_member_is() -> None:
    state = GroupsDriver().group_of_three().state
    assert groups_needing_election(state, beating(2)) == [ElectionNeed(KEY, 1, 1, Cause.MASTER_MISSING, None)]
    assert groups_needing_election(state, beating()) == []


def test_a_death_that_this_node_saw_is_the_cause() -> None:
    table = beating(1, 2)
    (death,) = table.channel_closed(1, 5)
    (need,) = groups_needing_election(GroupsDriver().group_of_three().state, table)
    assert (need.cause, need.death) == (Cause.CONNECTION_CLOSED, death)


def test_a_group_without_master_needs_one_as_soon_as_a_member_of_the_set_lives() -> None:
    driver = GroupsDriver().group_of_three()
    driver.alter((1, 2))
    driver.suspect()
    assert groups_needing_election(driver.state, beating(3)) == []
    assert groups_needing_election(driver.state, beating(2, 3)) == [
        ElectionNeed(KEY, None, 2, Cause.MASTER_MISSING, None)
    ]


def test_a_group_that_never_had_a_master_waits_for_a_broker_to_ask() -> None:
    driver = GroupsDriver()
    driver.claim(1)
    assert groups_needing_election(driver.state, beating(1), unclean_allowed=True) == []


def test_a_living_log_replica_is_no_reason_for_an_election() -> None:
    state = GroupsDriver().group_of_three(log_replicas=(3,)).state
    assert groups_needing_election(state, beating(3)) == []
    assert groups_needing_election(state, beating(3), unclean_allowed=True) == []


def test_only_with_the_switch_a_broker_outside_the_set_is_a_reason() -> None:
    driver = GroupsDriver().group_of_three()
    driver.alter((1, 2))
    assert groups_needing_election(driver.state, beating(3)) == []
    assert len(groups_needing_election(driver.state, beating(3), unclean_allowed=True)) == 1


def test_members_of_another_cluster_do_not_count() -> None:
    table = beating(1, 2, 3, key=GroupKey("c2", NAME))
    assert groups_needing_election(GroupsDriver().group_of_three().state, table) == []


@pytest.mark.parametrize("alive", [(), (1,), (2,), (3,), (1, 2), (2, 3), (1, 2, 3)])
def test_an_election_that_the_scan_asks_for_succeeds_and_ends_the_need(alive: tuple[int, ...]) -> None:
    driver = GroupsDriver().group_of_three(log_replicas=(3,))
    table = beating(*alive)
    needed = election_need(driver.group, table) is not None
    outcome = driver.elect(*table.alive(KEY))
    assert (outcome.reply.code == 0) == needed
    assert election_need(driver.group, table) is None


def need_of(table: LivenessTable) -> ElectionNeed:
    need = election_need(GroupsDriver().group_of_three().group, table)
    assert need is not None
    return need


def test_after_a_start_silence_counts_only_when_one_timeout_has_passed() -> None:
    need = need_of(beating(2))
    assert not may_elect(need, now_ms=10_999, listening_since_ms=1_000)
    assert may_elect(need, now_ms=11_000, listening_since_ms=1_000)


def test_a_connection_seen_to_close_counts_at_once() -> None:
    table = beating(1, 2)
    table.channel_closed(1, 1_001)
    assert may_elect(need_of(table), now_ms=1_001, listening_since_ms=1_000)


def test_a_group_without_master_need_not_wait() -> None:
    driver = GroupsDriver().group_of_three()
    driver.suspect()
    (need,) = groups_needing_election(driver.state, beating(2))
    assert may_elect(need, now_ms=0, listening_since_ms=0)


def test_a_brokers_request_is_held_while_its_master_may_merely_not_have_beaten_yet() -> None:
    driver = GroupsDriver().group_of_three()
    times = {"now_ms": 5_000, "listening_since_ms": 0}
    assert must_hold_request(driver.group, beating(2), **times)
    assert not must_hold_request(driver.group, beating(1, 2), **times)
    assert not must_hold_request(driver.group, beating(2), now_ms=10_000, listening_since_ms=0)
    dead = beating(1, 2)
    dead.channel_closed(1, 5)
    assert not must_hold_request(driver.group, dead, **times)
    driver.suspect()
    assert not must_hold_request(driver.group, beating(2), **times)
