"""1004, 1006, 1012 and a 1003 that brings nothing new."""

from typing import Any

import pytest

from controller_core.groups.group import Group
from controller_core.groups.keys import GroupKey, ReplicaKey
from controller_core.groups.members.broker_ids import register_reply
from controller_core.groups.reads import (
    get_next_broker_id,
    get_replica_info,
    get_sync_state_data,
    has_living_master,
    registered_so,
)
from controller_core.groups.replies import GroupReply, SyncStateSetView
from controller_core.groups.state import GroupsState
from testkit.raft.groups import CLUSTER, NAME, GroupsDriver

GROUP_EXT = {"clusterName": CLUSTER, "brokerName": NAME}


def nobody(key: ReplicaKey) -> bool:
    return False


def test_the_next_id_of_an_unknown_group_is_one() -> None:
    reply = get_next_broker_id(GroupsState(), CLUSTER, NAME)
    assert (reply.code, reply.ext, reply.body) == (0, GROUP_EXT | {"nextBrokerId": 1}, None)


def test_the_next_id_is_read_without_being_claimed() -> None:
    driver = GroupsDriver()
    driver.claim(1)
    asked = [get_next_broker_id(driver.state, CLUSTER, NAME).ext for _ in range(2)]
    assert asked == [GROUP_EXT | {"nextBrokerId": 2}] * 2


def test_a_group_whose_ids_an_older_release_let_run_out_gives_the_lowest_free_one() -> None:
    driver = GroupsDriver()
    for broker_id in (1, 2, 2**63 - 1):
        driver.claim(broker_id)
    assert get_next_broker_id(driver.state, CLUSTER, NAME).ext == GROUP_EXT | {"nextBrokerId": 3}
    driver.claim(3)
    assert get_next_broker_id(driver.state, CLUSTER, NAME).ext == GROUP_EXT | {"nextBrokerId": 4}


def test_replica_info_of_an_unknown_group_says_so() -> None:
    reply = get_replica_info(GroupsState(), NAME)
    assert (reply.code, reply.ext, reply.remark) == (2008, {}, "Broker metadata is not existed")


def test_replica_info_has_the_master_epoch_before_the_first_election_too() -> None:
    driver = GroupsDriver()
    driver.claim(1)
    reply = get_replica_info(driver.state, NAME)
    assert (reply.code, reply.ext) == (0, {"masterEpoch": 0})
    assert reply.body is not None


def test_replica_info_names_the_recorded_master_and_the_set() -> None:
    reply = get_replica_info(GroupsDriver().group_of_three().state, NAME)
    assert reply.ext == {"masterBrokerId": 1, "masterAddress": "127.0.0.1:9001", "masterEpoch": 1}
    assert reply.body == SyncStateSetView((1, 2, 3), 2)


def test_replica_info_without_master_keeps_the_set() -> None:
    driver = GroupsDriver().group_of_three()
    driver.suspect()
    reply = get_replica_info(driver.state, NAME)
    assert reply.ext == {"masterEpoch": 2}


def test_sync_state_data_without_names_is_an_error_without_words_of_its_own() -> None:
    reply = get_sync_state_data(GroupsState(), [], nobody)
    assert (reply.code, reply.ext, reply.remark) == (1, None, "not set any response code")


def test_sync_state_data_leaves_unknown_names_out() -> None:
    reply = get_sync_state_data(GroupsDriver().group_of_three().state, ["zz", NAME, NAME], nobody)
    assert isinstance(reply.body, tuple)
    assert [view.key.broker_name for view in reply.body] == [NAME]


def test_sync_state_data_tells_who_is_in_the_set_and_who_lives() -> None:
    driver = GroupsDriver().group_of_three()
    driver.alter((1, 2))
    reply = get_sync_state_data(driver.state, [NAME], lambda key: key == ReplicaKey(CLUSTER, NAME, 2))
    assert isinstance(reply.body, tuple)
    (view,) = reply.body
    assert [(replica.broker_id, replica.alive) for replica in view.in_sync] == [(1, False), (2, True)]
    assert [(replica.broker_id, replica.alive) for replica in view.not_in_sync] == [(3, False)]
    assert (view.master_id, view.master_address) == (1, "127.0.0.1:9001")
    assert (view.master_epoch, view.set_epoch) == (1, 3)


def test_sync_state_data_of_a_group_that_never_had_a_master() -> None:
    driver = GroupsDriver()
    driver.claim(1)
    reply = get_sync_state_data(driver.state, [NAME], nobody)
    assert isinstance(reply.body, tuple)
    assert (reply.body[0].master_id, reply.body[0].master_address, reply.body[0].in_sync) == (None, None, ())


def registered(driver: GroupsDriver, **changes: Any) -> Group | GroupReply | None:
    same = {
        "cluster": CLUSTER,
        "broker_name": NAME,
        "broker_id": 2,
        "address": "127.0.0.1:9002",
        "log_replica": False,
    }
    return registered_so(driver.state, **same | changes)


@pytest.mark.parametrize("alive", [(1, 2, 3), (2, 3)])
def test_a_registration_that_changes_nothing_is_answered_like_one_through_the_log(
    alive: tuple[int, ...],
) -> None:
    driver = GroupsDriver().group_of_three()
    group = registered(driver)
    assert isinstance(group, Group)
    lives = has_living_master(group, lambda key: key.broker_id in alive)
    read = register_reply(group, CLUSTER, NAME, master_alive=lives)
    assert read == driver.register(2, "127.0.0.1:9002", alive=alive).reply
    assert ("masterAddress" in (read.ext or {})) == (1 in alive)


def test_a_group_without_a_master_has_no_living_one() -> None:
    driver = GroupsDriver()
    driver.claim(1)
    group = driver.state.get(GroupKey(CLUSTER, NAME))
    assert group is not None
    assert not has_living_master(group, lambda key: True)


@pytest.mark.parametrize("changes", [{"address": "b:2"}, {"log_replica": True}])
def test_a_registration_that_changes_something_must_go_through_the_log(changes: dict[str, Any]) -> None:
    assert registered(GroupsDriver().group_of_three(), **changes) is None


@pytest.mark.parametrize("changes", [{"broker_id": 9}, {"broker_name": "zz"}])
def test_a_refused_registration_is_answered_without_the_log(changes: dict[str, Any]) -> None:
    reply = registered(GroupsDriver().group_of_three(), **changes)
    assert isinstance(reply, GroupReply)
    assert reply.code == 2010


def two_clusters() -> GroupsState:
    driver = GroupsDriver()
    for cluster in ("c1", "c2"):
        driver.key = GroupKey(cluster, NAME)
        driver.group_of_three()
    return driver.state


def test_a_name_that_two_clusters_have_is_refused_naming_both() -> None:
    state = two_clusters()
    replies = [get_replica_info(state, NAME), get_sync_state_data(state, [NAME], nobody)]
    for reply in replies:
        assert reply.code == 2005
        assert "c1, c2" in (reply.remark or "")


def test_a_cluster_tells_groups_of_one_name_apart() -> None:
    assert get_replica_info(two_clusters(), NAME, "c2").code == 0
