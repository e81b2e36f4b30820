"""Whose connections the node agent takes for dead."""

from dataclasses import replace

import pytest

from controller_core.remoting.bodies import ReplicaIdentity, ReplicasInfo
from ha_sidecar.decisions.broker_facts import GroupName
from ha_sidecar.node_agent.elections import Election
from ha_sidecar.node_agent.replaced import (
    ConfirmedGroup,
    ConfirmedMember,
    ProcessBook,
    Refusal,
    Replaced,
    group_view,
    judge,
)

OLD, NEW = ("10.96.0.11", 10911), ("10.96.0.12", 10911)
OLD_POD, NEW_POD = ("10.244.1.5", 10911), ("10.244.2.5", 10911)
ORDERS = GroupName("c1", "orders")
ELECTION = Election("id", ORDERS, 7, "HeartbeatTimeout", 1, OLD, 2)
BEFORE = ConfirmedGroup(
    ORDERS,
    1,
    6,
    (ConfirmedMember(1, OLD, OLD_POD, alive=True), ConfirmedMember(2, NEW, NEW_POD, alive=True)),
)
AFTER = ConfirmedGroup(
    ORDERS, 2, 7, (ConfirmedMember(1, OLD, OLD, alive=False), ConfirmedMember(2, NEW, NEW_POD, alive=True))
)


def book(*views: ConfirmedGroup) -> ProcessBook:
    known = ProcessBook()
    for view in views:
        known.learn(view)
    return known


def test_a_master_replaced_for_silence_is_found_by_its_last_process() -> None:
    found = judge(ELECTION, AFTER, book(BEFORE, AFTER))
    assert found == Replaced(ORDERS, 7, 1, OLD, OLD_POD)
    assert isinstance(found, Replaced)
    assert found.movable == {OLD[0], NEW[0]}, "its own address, and one that may have been lent to it"


def test_the_hosts_of_log_replicas_are_those_of_their_processes() -> None:
    alive = ConfirmedMember(3, ("10.96.0.13", 10911), ("10.244.3.4", 10911), alive=True, is_log_replica=True)
    unheard = replace(alive, process=alive.announced, alive=False)
    before = replace(BEFORE, members=(*BEFORE.members, alive))
    for now in (alive, unheard):
        after = replace(AFTER, members=(*AFTER.members, now))
        found = judge(ELECTION, after, book(before, after))
        assert isinstance(found, Replaced)
        assert found.log_replicas == {"10.244.3.4"}


@pytest.mark.parametrize("cause", ["ConnectionClosed", "BrokerRequest", "Designated"])
def test_a_master_that_ended_or_handed_over_is_left_alone(cause: str) -> None:
    assert judge(replace(ELECTION, cause=cause), AFTER, book(BEFORE, AFTER)) is Refusal.NOT_FOR_SILENCE


def test_a_master_elected_again_is_left_alone() -> None:
    again = replace(ELECTION, new_id=1)
    view = replace(AFTER, master_id=1)
    assert judge(again, view, book(BEFORE, view)) is Refusal.SAME_MASTER


def test_a_living_old_master_is_left_alone() -> None:
    back = replace(AFTER, members=(ConfirmedMember(1, OLD, OLD_POD, alive=True), AFTER.members[1]))
    assert judge(ELECTION, back, book(BEFORE, back)) is Refusal.LIVES


@pytest.mark.parametrize(
    "view",
    [
        pytest.param(BEFORE, id="the election did not happen"),
        pytest.param(replace(AFTER, master_epoch=8, master_id=1), id="the old master is master again"),
        pytest.param(replace(AFTER, master_id=3), id="another master"),
        pytest.param(replace(AFTER, key=GroupName("c1", "bills")), id="another group"),
        pytest.param(replace(AFTER, key=GroupName("c2", "orders")), id="another cluster"),
    ],
)
def test_what_a_majority_does_not_confirm_is_stale(view: ConfirmedGroup) -> None:
    assert judge(ELECTION, view, book(BEFORE)) is Refusal.STALE


@pytest.mark.parametrize(
    "view",
    [
        pytest.param(replace(AFTER, master_epoch=8, master_id=3), id="the successor was replaced too"),
        pytest.param(replace(AFTER, master_id=None), id="the successor is lost"),
        pytest.param(replace(AFTER, master_epoch=8, master_id=None), id="a newer epoch without a master"),
    ],
)
def test_a_later_change_of_master_does_not_bring_connections_back(view: ConfirmedGroup) -> None:
    assert judge(ELECTION, view, book(BEFORE, view)) == Replaced(ORDERS, 7, 1, OLD, OLD_POD)


def test_a_process_that_was_never_confirmed_is_left_alone() -> None:
    assert judge(ELECTION, AFTER, book(AFTER)) is Refusal.UNKNOWN_PROCESS


def test_addresses_that_are_names_are_left_alone() -> None:
    named = replace(ELECTION, old_address=("broker-0.example", 10911))
    assert judge(named, AFTER, book(BEFORE, AFTER)) is Refusal.HOST_NAME


@pytest.mark.parametrize("group", [ORDERS, GroupName("c1", "bills"), GroupName("c2", "orders")])
def test_a_host_that_a_living_member_shares_is_left_alone(group: GroupName) -> None:
    neighbour = ConfirmedGroup(group, 3, 1, (ConfirmedMember(3, NEW, (OLD_POD[0], 20911), alive=True),))
    known = book(BEFORE, AFTER, neighbour)
    view = AFTER if group != ORDERS else replace(AFTER, members=(*AFTER.members, *neighbour.members))
    if group == ORDERS:
        known = book(BEFORE, view)
    assert judge(ELECTION, view, known) is Refusal.SHARED_HOST


def test_a_controller_that_has_not_heard_a_member_does_not_change_its_process() -> None:
    unheard = replace(BEFORE, members=(ConfirmedMember(1, OLD, OLD, alive=True), BEFORE.members[1]))
    assert book(BEFORE, unheard).process(ORDERS, 1) == OLD_POD


def test_a_restarted_member_has_its_new_process() -> None:
    moved = replace(BEFORE, members=(ConfirmedMember(1, OLD, ("10.244.3.9", 10911), alive=True),))
    known = book(BEFORE, moved)
    assert known.process(ORDERS, 1) == ("10.244.3.9", 10911)
    assert known.process(ORDERS, 2) is None, "it left the group"


def test_the_answer_of_the_controllers_is_read() -> None:
    info = ReplicasInfo(
        in_sync_replicas=(
            ReplicaIdentity(
                alive=True,
                broker_address="10.96.0.12:10911",
                broker_id=2,
                direct_address="10.244.2.5:10911",
            ),
            ReplicaIdentity(
                alive=True, broker_address="10.244.3.4:10911", broker_id=3, broker_name="orders (log replica)"
            ),
        ),
        not_in_sync_replicas=(ReplicaIdentity(alive=False, broker_address="10.96.0.11:10911", broker_id=1),),
        master_broker_id=2,
        master_epoch=7,
    )
    replica = ("10.244.3.4", 10911)
    assert group_view(ORDERS, info).members == (
        AFTER.members[1],
        ConfirmedMember(3, replica, replica, alive=True, is_log_replica=True),
        AFTER.members[0],
    )
    unreadable = ReplicasInfo(in_sync_replicas=(ReplicaIdentity(alive=True, broker_id=5),))
    assert group_view(ORDERS, unreadable).members == (ConfirmedMember(5, None, None, alive=True),)
