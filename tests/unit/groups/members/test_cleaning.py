"""1011: allowed removals, refused removals, remaining members."""

import pytest

from controller_core.groups.history import EventKind
from controller_core.groups.keys import GroupKey
from controller_core.groups.snapshots import decode_image
from testkit.raft.groups import KEY, GroupsDriver


def test_an_unknown_group_is_refused() -> None:
    reply = GroupsDriver(GroupKey("c1", "zz")).clean("1").reply
    assert (reply.code, reply.ext) == (2009, None)
    assert reply.remark == "Broker zz is not existed,clean broker data failure."


def test_without_ids_a_group_with_a_master_is_refused() -> None:
    reply = GroupsDriver().group_of_three().clean().reply
    assert (reply.code, reply.remark) == (2009, "Broker b1 is still alive, clean up failure")


def test_without_ids_a_group_with_a_living_member_is_refused() -> None:
    driver = GroupsDriver().group_of_three()
    driver.suspect()
    reply = driver.clean(alive=(2,)).reply
    assert (reply.code, reply.remark) == (2009, "Broker [b1,  2] is still alive, clean up failure")


def test_a_living_id_is_refused() -> None:
    reply = GroupsDriver().group_of_three().clean("3;2", alive=(1, 2)).reply
    assert (reply.code, reply.remark) == (2009, "Broker [b1,  2] is still alive, clean up failure")


@pytest.mark.parametrize("text", ["1,2", "x", "1;;2", " 1", "1.0", "٣"])
def test_ids_that_are_no_numbers_are_refused_with_the_culprit(text: str) -> None:
    culprit = "" if ";;" in text else text
    reply = GroupsDriver().group_of_three().clean(text).reply
    assert reply.code == 2009
    assert reply.remark == (
        "Please set the option <brokerControllerIdsToClean> according to the format, exception: "
        f'java.lang.NumberFormatException: For input string: "{culprit}"'
    )


def test_cleaning_the_living_cannot_be_limited_to_ids() -> None:
    driver = GroupsDriver().group_of_three()
    before = driver.group
    reply = driver.clean("1", clean_living=True).reply
    assert reply.code == 2009
    assert "forgets the whole broker-set" in (reply.remark or "")
    assert driver.group == before


def test_cleaning_the_living_forgets_the_whole_group() -> None:
    driver = GroupsDriver().group_of_three()
    outcome = driver.clean(clean_living=True, alive=(1, 2, 3))
    assert (outcome.reply.code, outcome.reply.ext) == (0, None)
    assert driver.state.get(KEY) is None
    (event,) = outcome.events
    assert event.kind == EventKind.BROKER_CLEANED
    assert event.attrs == {"cleaned": "1,2,3", "whole_group": "true"}


def test_a_group_whose_ids_are_all_named_is_forgotten() -> None:
    driver = GroupsDriver().group_of_three()
    assert driver.clean("1;2;3").reply.code == 0
    assert len(driver.state) == 0


def test_a_dead_id_leaves_the_group_and_the_set_in_a_new_set_epoch() -> None:
    driver = GroupsDriver().group_of_three()
    outcome = driver.clean("3;", alive=(1, 2))
    assert outcome.reply.code == 0
    assert sorted(driver.group.replicas) == [1, 2]
    assert (driver.group.sync_state_set, driver.group.set_epoch) == ((1, 2), 3)
    assert (driver.group.master_id, driver.group.master_epoch) == (1, 1)
    assert [event.attrs["cleaned"] for event in outcome.events] == ["3"]


def test_a_dead_id_outside_the_set_raises_no_epoch() -> None:
    driver = GroupsDriver().group_of_three()
    driver.alter((1, 2))
    driver.clean("3", alive=(1, 2))
    assert (driver.group.set_epoch, driver.group.master_epoch) == (3, 1)


def test_forgetting_the_master_leaves_none_in_a_new_epoch() -> None:
    driver = GroupsDriver().group_of_three()
    driver.clean("1", alive=(2, 3))
    assert (driver.group.master_id, driver.group.master_epoch) == (None, 2)
    assert driver.elect(2, 3).reply.code == 0
    assert driver.state.history.failovers[-1].old_master_id == 1


def test_the_last_member_of_the_set_is_not_forgotten_while_others_stay() -> None:
    driver = GroupsDriver().group_of_three()
    driver.alter((1,))
    before = driver.group
    reply = driver.clean("1", alive=(2, 3)).reply
    assert reply.code == 2009
    assert reply.remark == (
        "Broker b1 would keep replicas of which none could become master: among the ids 1 is the last "
        "electable member of the syncStateSet 1"
    )
    assert driver.group == before


def test_a_set_of_log_replicas_alone_does_not_come_about_by_cleaning() -> None:
    driver = GroupsDriver().group_of_three(log_replicas=(2, 3))
    assert driver.clean("1").reply.code == 2009
    assert driver.clean("2").reply.code == 0


def test_an_unknown_id_changes_nothing_and_succeeds() -> None:
    driver = GroupsDriver().group_of_three()
    before = driver.group
    outcome = driver.clean("9")
    assert (outcome.reply.code, outcome.events) == (0, ())
    assert driver.group == before


def test_a_group_claimed_anew_goes_on_from_the_epochs_of_the_forgotten_one() -> None:
    driver = GroupsDriver().group_of_three()
    driver.suspect(2, 3)
    driver.clean(clean_living=True)
    driver.claim(1)
    assert (driver.group.master_epoch, driver.group.set_epoch, driver.group.next_broker_id) == (2, 3, 2)
    assert driver.elect(1, by=1).reply.code == 0
    assert (driver.group.master_epoch, driver.group.set_epoch) == (3, 4)


def test_only_forgotten_groups_have_their_epochs_remembered_apart() -> None:
    driver = GroupsDriver().group_of_three()
    driver.clean(clean_living=True)
    assert [key for key, _ in decode_image(driver.state.snapshot()).floors] == [KEY]
    driver.claim(1)
    assert decode_image(driver.state.snapshot()).floors == ()
