"""Groups whose members have logs of an earlier life: their ids, their epochs, and the first master."""

import pytest
from msgspec.structs import replace

from controller_core.groups.commands import ElectMaster, LiveBroker, Stamp, decode, encode
from controller_core.groups.elections.first_elections import (
    EPOCH_JUMP_MAX,
    IDLE_EPOCHS_MAX,
    SET_EPOCH_TIME_MAX,
    UNHEARD_IDS_MAX,
    told_epoch,
    unheard_ids,
)
from controller_core.groups.history import EventKind
from controller_core.groups.members.broker_ids import BROKER_ID_MAX
from controller_core.remoting.codes import ResponseCode
from testkit.raft.groups import SECOND_NS, GroupsDriver

INT32_MAX = 2**31 - 1
NOW_S = 1_795_000_000


def taken_up(*ids: int, log_replicas: tuple[int, ...] = ()) -> GroupsDriver:
    driver = GroupsDriver()
    for broker_id in ids:
        driver.register(broker_id, f"a:{broker_id}", take_up=True, log_replica=broker_id in log_replicas)
    return driver


# Taking up an id.


def test_an_id_of_another_life_is_recorded_in_an_unknown_group_and_the_next_id_is_above_it() -> None:
    outcome = GroupsDriver().register(3, "a:3", take_up=True)
    assert (outcome.reply.code, outcome.reply.body.members) == (ResponseCode.SUCCESS, ())
    driver = taken_up(3, 1)
    assert {one: replica.address for one, replica in driver.group.replicas.items()} == {1: "a:1", 3: "a:3"}
    assert driver.group.next_broker_id == 4


def test_an_id_that_is_taken_up_is_an_event_that_says_so() -> None:
    (event,) = GroupsDriver().register(3, "a:3", take_up=True).events
    assert (event.kind, event.broker_id, event.attrs["taken_up"]) == (EventKind.BROKER_REGISTERED, 3, "true")


def test_a_log_replica_is_taken_up_as_a_log_replica() -> None:
    assert not taken_up(2, log_replicas=(2,)).group.replicas[2].electable


def test_an_id_that_is_taken_up_joins_a_group_with_a_master_and_is_answered_with_it() -> None:
    driver = GroupsDriver().group_of_three()
    reply = driver.register(7, "a:7", take_up=True, alive=(1, 7)).reply
    assert (reply.code, reply.ext["masterBrokerId"]) == (ResponseCode.SUCCESS, 1)
    assert driver.group.sync_state_set == (1, 2, 3)


def test_nobody_can_claim_an_id_that_was_taken_up() -> None:
    driver = taken_up(1)
    for code in ("a:1;17", "a:1"):
        assert driver.claim(1, code).reply.code == ResponseCode.CONTROLLER_BROKER_ID_INVALID


def test_a_known_id_keeps_its_check_code_when_its_registration_asks_to_be_taken_up() -> None:
    driver = GroupsDriver()
    driver.claim(1)
    before = driver.group.replicas[1].check_code
    driver.register(1, "b:1", take_up=True)
    assert driver.group.replicas[1].check_code == before


@pytest.mark.parametrize("broker_id", [-1, 0, BROKER_ID_MAX + 1, 2**63 - 1])
def test_an_id_that_no_controller_gives_is_not_taken_up(broker_id: int) -> None:
    driver = GroupsDriver()
    reply = driver.register(broker_id, "a:1", take_up=True).reply
    assert reply.code == ResponseCode.CONTROLLER_BROKER_ID_INVALID
    assert str(broker_id) in (reply.remark or "")
    assert len(driver.state) == 0


def test_a_forgotten_group_that_is_taken_up_goes_on_from_its_epochs() -> None:
    driver = GroupsDriver().group_of_three()
    driver.clean(clean_living=True)
    driver.register(1, "a:1", take_up=True)
    assert (driver.group.master_epoch, driver.group.set_epoch) == (1, 2)


# Epochs that members tell.


def test_an_election_goes_above_the_greatest_epoch_that_is_told() -> None:
    driver = GroupsDriver().group_of_three()
    driver.suspect(2, 3)
    driver.elect(2, 3, told_epoch=40, suspicion=driver.suspicion())
    assert driver.group.master_epoch == 2
    driver.elect(3, told_epoch=40, suspicion=driver.suspicion())
    assert driver.group.master_epoch == 41


def test_an_election_that_leaves_nobody_goes_above_it_too() -> None:
    driver = GroupsDriver().group_of_three()
    driver.elect(told_epoch=40, suspicion=driver.suspicion())
    assert (driver.group.master_id, driver.group.master_epoch) == (None, 41)


def test_only_registered_members_tell_epochs_and_only_credible_ones() -> None:
    group = GroupsDriver().group_of_three().group
    told = [LiveBroker(2, epoch=7), LiveBroker(9, epoch=50), LiveBroker(3, epoch=1 + EPOCH_JUMP_MAX + 1)]
    assert told_epoch(group, told) == 7
    assert told_epoch(group, [LiveBroker(2, epoch=1)]) == 0
    assert told_epoch(group, [LiveBroker(2, epoch=1 + EPOCH_JUMP_MAX)]) == 1 + EPOCH_JUMP_MAX


def test_an_epoch_beyond_the_bound_is_ignored_also_when_a_log_entry_carries_it() -> None:
    driver = GroupsDriver().group_of_three()
    driver.elect(2, told_epoch=INT32_MAX, suspicion=driver.suspicion())
    assert driver.group.master_epoch == 2


def test_a_command_without_told_epochs_is_written_as_older_nodes_read_it() -> None:
    driver = GroupsDriver().group_of_three()
    command = driver.election(1, 2)
    assert b"told_epoch" not in encode(command)
    assert b"acting_id" not in encode(command)
    assert decode(encode(command)) == command
    assert isinstance(command, ElectMaster)


# The first master of a group with a past.


def test_no_broker_is_elected_by_asking_while_members_tell_of_a_past() -> None:
    driver = taken_up(1, 2)
    reply = driver.elect(LiveBroker(1, 4, 100), by=1, told_epoch=4).reply
    assert reply.code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
    assert (reply.remark or "").startswith("Failed to elect a new master: WaitingForMembers, ")
    assert (driver.group.master_id, driver.group.failure_reason) == (None, "WaitingForMembers")


def test_the_controllers_own_election_takes_the_longest_log_above_its_epoch() -> None:
    driver = taken_up(1, 2, 3)
    driver.elect(LiveBroker(1, 3, 900), LiveBroker(2, 4, 500), LiveBroker(3, 4, 400), told_epoch=4)
    assert (driver.group.master_id, driver.group.master_epoch, driver.group.sync_state_set) == (
        2,
        5 + IDLE_EPOCHS_MAX,
        (2,),
    )


def test_a_member_that_acts_as_master_stays_master_though_a_slaves_heartbeat_is_newer() -> None:
    driver = taken_up(1, 2)
    driver.elect(LiveBroker(1, 4, 500), LiveBroker(2, 4, 510), told_epoch=4, acting_id=1)
    assert driver.group.master_id == 1


def test_a_member_that_acts_as_master_of_an_older_epoch_does_not_count() -> None:
    driver = taken_up(1, 2)
    driver.elect(LiveBroker(1, 3, 900), LiveBroker(2, 4, 510), told_epoch=4, acting_id=1)
    assert driver.group.master_id == 2


def test_a_member_with_an_epoch_that_cannot_be_true_is_not_elected() -> None:
    driver = taken_up(1, 2)
    driver.elect(LiveBroker(1, INT32_MAX, 900), LiveBroker(2, 4, 510), told_epoch=4)
    assert (driver.group.master_id, driver.group.master_epoch) == (2, 5 + IDLE_EPOCHS_MAX)


def test_nobody_is_elected_while_a_log_replica_holds_more_than_every_broker() -> None:
    driver = taken_up(1, 2, log_replicas=(2,))
    reply = driver.elect(LiveBroker(1, 4, 500), LiveBroker(2, -1, 501), told_epoch=4).reply
    assert reply.code == ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE
    assert (driver.group.master_id, driver.group.failure_reason) == (None, "LogReplicaAhead")
    driver.elect(LiveBroker(1, 4, 501), LiveBroker(2, -1, 501), told_epoch=4)
    assert driver.group.master_id == 1


def test_a_person_designates_a_member_without_waiting() -> None:
    driver = taken_up(1, 2)
    driver.elect(LiveBroker(1, 3, 900), LiveBroker(2, 4, 510), by=1, designate=True, told_epoch=4)
    assert (driver.group.master_id, driver.group.master_epoch) == (1, 5 + IDLE_EPOCHS_MAX)


def elect_at(driver: GroupsDriver, utc_s: int, *alive: LiveBroker, told_epoch: int) -> int:
    """Hold the controllers' own election at a time; return the set's epoch."""
    command = driver.election(*alive, told_epoch=told_epoch, by=None if told_epoch else alive[0].id)
    driver.apply(replace(command, stamp=Stamp(utc_s * SECOND_NS, 0, "n0")))
    assert driver.group.master_id is not None
    return driver.group.set_epoch


def test_a_set_of_this_life_has_an_epoch_above_those_of_an_earlier_one() -> None:
    earlier = elect_at(taken_up(1, 2), NOW_S, LiveBroker(1, 4, 500), told_epoch=4)
    changes = 3_600
    later = elect_at(taken_up(1, 2), NOW_S + changes, LiveBroker(1, 5, 600), told_epoch=5)
    assert later >= earlier + changes > changes, "a running master accepts only a newer set"


def test_the_first_epoch_of_this_life_is_above_those_in_which_nobody_wrote() -> None:
    driver = taken_up(1)
    told, hidden = 4, 4 + IDLE_EPOCHS_MAX
    driver.elect(LiveBroker(1, told, 500), told_epoch=told, acting_id=1)
    assert driver.group.master_epoch > hidden, "a running broker accepts only a master of a higher epoch"
    driver.suspect()
    assert driver.group.master_epoch == hidden + 2, "the margin is left once"


def test_a_new_group_counts_its_sets_from_one() -> None:
    assert elect_at(taken_up(1), NOW_S, LiveBroker(1, -1, 0), told_epoch=0) == 1


def test_a_set_epoch_never_goes_back_and_no_clock_exhausts_it() -> None:
    driver = taken_up(1)
    assert elect_at(driver, 2**33, LiveBroker(1, 4, 500), told_epoch=4) == SET_EPOCH_TIME_MAX + 1
    before = driver.group.set_epoch
    driver.register(2, "a:2", take_up=True)
    command = driver.election(LiveBroker(2, 9, 900), by=2, designate=True, unclean_allowed=True, told_epoch=9)
    driver.apply(replace(command, stamp=Stamp(0, 0, "n0")))
    assert (driver.group.master_id, driver.group.set_epoch) == (2, before + 1)


def test_a_new_group_elects_who_asks_first() -> None:
    driver = taken_up(1)
    assert driver.elect(LiveBroker(1, -1, 0), by=1).reply.code == ResponseCode.SUCCESS
    assert driver.group.master_epoch == 1


# Whom the first election waits for.


def test_members_that_are_silent_and_lower_ids_that_nobody_registered_are_not_heard() -> None:
    group = taken_up(2, 4).group
    assert unheard_ids(group, {2: 100}) == (1, 3, 4)
    assert unheard_ids(group, {2: 100, 4: 0}) == (1, 3)
    assert unheard_ids(taken_up(1, 2).group, {1: 5, 2: 5}) == ()


def test_the_id_of_one_member_does_not_decide_how_many_unheard_ids_are_counted() -> None:
    driver = taken_up(1, 3)
    driver.claim(2**62)  # an older release let it in
    unheard = unheard_ids(driver.group, {1: 5, 3: 5})
    assert (len(unheard), unheard[:2]) == (UNHEARD_IDS_MAX, (2, 4))
