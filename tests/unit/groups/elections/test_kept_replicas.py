"""An election keeps the log replicas that the leader names in the set; its master may not drop them soon."""

import pytest
from msgspec.structs import replace

from controller_core.groups.commands import AlterSyncStateSet
from controller_core.groups.elections.kept_replicas import JOINS_WITHIN_NS, drops_too_early
from controller_core.groups.keys import BrokerId
from controller_core.groups.replies import Outcome
from testkit.raft.groups import KEY, GroupsDriver, ids_of, stamp


def two_brokers_and_a_log_replica() -> GroupsDriver:
    return GroupsDriver().group_of_three(log_replicas=(3,))


def elected(
    driver: GroupsDriver, *alive: int, kept: tuple[int, ...], unclean_allowed: bool = False
) -> Outcome:
    """Hold the election after the master's death."""
    command = driver.election(*alive, suspicion=driver.suspicion(), unclean_allowed=unclean_allowed)
    return driver.apply(replace(command, kept=ids_of(kept)))


def test_a_log_replica_that_is_kept_stays_in_the_set_with_the_winner() -> None:
    driver = two_brokers_and_a_log_replica()
    outcome = elected(driver, 2, 3, kept=(3,))
    assert (driver.group.master_id, driver.group.sync_state_set) == (2, (2, 3))
    assert driver.group.preceding_set == ()
    assert {notice.sync_state_set for notice in outcome.notices} == {(2, 3)}
    assert outcome.events[-1].attrs["sync_state_set_after"] == "2,3"


def test_without_one_the_winner_is_alone_in_the_set_as_in_rocketmq() -> None:
    driver = two_brokers_and_a_log_replica()
    elected(driver, 2, 3, kept=())
    assert (driver.group.sync_state_set, driver.group.preceding_set) == ((2,), (1, 2, 3))


def test_a_broker_is_never_kept() -> None:
    driver = GroupsDriver().group_of_three()
    elected(driver, 2, 3, kept=(3,))
    assert driver.group.sync_state_set == (2,)


def test_a_log_replica_outside_the_set_is_not_kept() -> None:
    driver = two_brokers_and_a_log_replica()
    driver.alter((1, 2))
    elected(driver, 2, 3, kept=(3,))
    assert driver.group.sync_state_set == (2,)


def test_an_unknown_member_is_not_kept() -> None:
    driver = two_brokers_and_a_log_replica()
    elected(driver, 2, 3, kept=(9,))
    assert driver.group.sync_state_set == (2,)


def test_a_winner_from_outside_the_set_has_nobody_with_it() -> None:
    driver = two_brokers_and_a_log_replica()
    driver.alter((1, 3))
    elected(driver, 2, 3, kept=(3,), unclean_allowed=True)
    assert (driver.group.master_id, driver.group.sync_state_set) == (2, (2,))


def test_the_field_is_left_out_where_nobody_is_kept() -> None:
    driver = two_brokers_and_a_log_replica()
    elected(driver, 2, 3, kept=())
    assert b"kept" not in driver.log[-1]


def drop(
    driver: GroupsDriver, members: tuple[int, ...], *, after_ns: int, alive: tuple[int, ...]
) -> AlterSyncStateSet:
    """Return the master's request so long after its election."""
    record = driver.state.history.failover(KEY, driver.group.master_epoch)
    assert record is not None
    assert driver.group.master_id is not None
    return AlterSyncStateSet(
        cluster=KEY.cluster,
        broker_name=KEY.broker_name,
        stamp=replace(stamp(0), utc_ns=record.proposed_ns + after_ns),
        master_id=driver.group.master_id,
        master_epoch=driver.group.master_epoch,
        members=ids_of(members),
        set_epoch=driver.group.set_epoch,
        alive=ids_of(alive),
    )


def early(driver: GroupsDriver, command: AlterSyncStateSet) -> tuple[BrokerId, ...]:
    record = driver.state.history.failover(KEY, driver.group.master_epoch)
    return drops_too_early(driver.group, record, command)


@pytest.mark.parametrize(
    ("members", "after_ns", "alive", "expected"),
    [
        ((2,), 0, (2, 3), (3,)),
        ((2,), JOINS_WITHIN_NS - 1, (2, 3), (3,)),
        ((2,), JOINS_WITHIN_NS, (2, 3), ()),
        ((2,), -1, (2, 3), ()),
        ((2,), 0, (2,), ()),
        ((2, 3), 0, (2, 3), ()),
    ],
    ids=["at once", "just before", "later", "the clocks disagree", "the replica is dead", "it stays"],
)
def test_a_master_may_not_drop_a_living_replica_that_its_election_kept(
    members: tuple[int, ...], after_ns: int, alive: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    driver = two_brokers_and_a_log_replica()
    elected(driver, 2, 3, kept=(3,))
    assert early(driver, drop(driver, members, after_ns=after_ns, alive=alive)) == expected


def test_a_replica_that_joined_later_may_be_dropped_at_once() -> None:
    driver = two_brokers_and_a_log_replica()
    elected(driver, 2, 3, kept=())
    driver.alter((2, 3))
    assert early(driver, drop(driver, (2,), after_ns=0, alive=(2, 3))) == ()


def test_a_request_of_an_earlier_epoch_is_left_to_the_state_machine() -> None:
    driver = two_brokers_and_a_log_replica()
    elected(driver, 2, 3, kept=(3,))
    command = replace(drop(driver, (2,), after_ns=0, alive=(2, 3)), master_epoch=1)
    assert early(driver, command) == ()
