"""Write guards: noted once, removed once, only ever for the current master."""

from controller_core.groups.commands import LiftWriteGuard, RaiseWriteGuard
from controller_core.groups.elections.election import would_replace
from controller_core.groups.history import EventKind
from controller_core.groups.replies import Outcome
from controller_core.groups.state import GroupsState
from testkit.raft.groups import CLUSTER, NAME, GroupsDriver, replay


def raise_guard(driver: GroupsDriver, master_id: int = 1, epoch: int = 1, setting: int = 2) -> Outcome:
    return driver.apply(
        RaiseWriteGuard(
            cluster=CLUSTER,
            broker_name=NAME,
            stamp=driver.now,
            master_id=master_id,
            master_epoch=epoch,
            min_in_sync_replicas=setting,
        )
    )


def lift_guard(driver: GroupsDriver, broker_id: int = 1) -> Outcome:
    return driver.apply(
        LiftWriteGuard(cluster=CLUSTER, broker_name=NAME, stamp=driver.now, broker_id=broker_id)
    )


def test_a_guard_of_the_master_is_noted_with_what_was_set_before() -> None:
    driver = GroupsDriver().group_of_three()
    outcome = raise_guard(driver, setting=2)
    assert outcome.reply.code == 0
    assert driver.group.write_guards == {1: 2}
    (event,) = outcome.events
    assert (event.kind, event.broker_id, event.epoch) == (EventKind.WRITES_STOPPED, 1, 1)


def test_a_guard_that_is_noted_keeps_the_older_setting_and_is_told_once() -> None:
    driver = GroupsDriver().group_of_three()
    raise_guard(driver, setting=2)
    outcome = raise_guard(driver, setting=1_000)
    assert (outcome.reply.code, outcome.events) == (0, ())
    assert driver.group.write_guards == {1: 2}


def test_nobody_but_the_master_of_this_epoch_is_guarded() -> None:
    driver = GroupsDriver().group_of_three()
    assert raise_guard(driver, master_id=2).reply.code == 2002
    assert raise_guard(driver, epoch=9).reply.code == 2000
    assert raise_guard(GroupsDriver()).reply.code == 2002
    assert driver.group.write_guards == {}


def test_a_guard_outlasts_elections_snapshots_and_replays() -> None:
    driver = GroupsDriver().group_of_three()
    raise_guard(driver)
    driver.elect(1, 2, by=2, designate=True)
    assert driver.group.write_guards == {1: 2}
    copy = GroupsState()
    copy.restore(driver.state.snapshot())
    assert copy.digest() == driver.state.digest() == replay(driver.log).digest()


def test_a_lifted_guard_is_struck_off_once() -> None:
    driver = GroupsDriver().group_of_three()
    raise_guard(driver)
    (event,) = lift_guard(driver).events
    assert (event.kind, event.attrs) == (EventKind.WRITES_ALLOWED, {"min_in_sync_replicas": "2"})
    assert lift_guard(driver).events == ()
    assert lift_guard(GroupsDriver()).reply.code == 0
    assert driver.group.write_guards == {}


def test_the_guards_of_two_members_stand_side_by_side() -> None:
    driver = GroupsDriver().group_of_three()
    raise_guard(driver)
    driver.elect(1, 2, by=2, designate=True)
    raise_guard(driver, master_id=2, epoch=2, setting=3)
    lift_guard(driver, 1)
    assert driver.group.write_guards == {2: 3}


def test_a_forgotten_member_has_no_guard() -> None:
    driver = GroupsDriver().group_of_three()
    raise_guard(driver)
    driver.elect(1, 2, by=2, designate=True)
    driver.clean("1")
    assert driver.group.write_guards == {}


def test_a_guarded_election_counts_in_no_other_epoch() -> None:
    driver = GroupsDriver().group_of_three()
    assert driver.elect(1, 2, by=2, designate=True, replaced_epoch=7).reply.code == 2011
    assert driver.group.master_epoch == 1
    assert driver.elect(1, 2, by=2, designate=True, replaced_epoch=1).reply.code == 0
    assert driver.group.master_id == 2


def test_only_an_election_that_puts_somebody_in_a_living_masters_place_asks_for_a_guard() -> None:
    driver = GroupsDriver().group_of_three()
    asks = [
        would_replace(driver.group, driver.election(1, 2, by=2, designate=True)),
        would_replace(driver.group, driver.election(2, by=2, designate=True)),  # the master is dead
        would_replace(driver.group, driver.election(1, by=2, designate=True)),  # the chosen one is dead
        would_replace(driver.group, driver.election(1, 2, by=1, designate=True)),  # it is master already
        would_replace(driver.group, driver.election(1, 2, by=2)),  # a broker asks, the master stays
        would_replace(None, driver.election(1, 2, by=2, designate=True)),
    ]
    assert asks == [True, False, False, False, False, False]
