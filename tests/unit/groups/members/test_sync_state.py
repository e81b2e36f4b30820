"""1001: the checks in their order, each with RocketMQ's code and words."""

from typing import Any

import pytest

from controller_core.groups.history import EventKind
from testkit.raft.groups import GroupsDriver

REJECTING = "Rejecting alter syncStateSet request because"


def elected_alone() -> GroupsDriver:
    """Ids 1, 2, 7; master 1 in epoch 1, set {1} in epoch 1: as in the recorded transcripts."""
    driver = GroupsDriver()
    for broker_id in (1, 2, 7):
        driver.claim(broker_id)
    driver.elect(1, 2, by=1)
    return driver


def test_an_unknown_group_is_refused() -> None:
    reply = GroupsDriver().alter((1,), master_id=1, master_epoch=1, set_epoch=1).reply
    assert (reply.code, reply.remark) == (2013, "Broker metadata is not existed")
    assert reply.ext == {"newSyncStateSetEpoch": 0}


def test_no_master_is_written_as_null() -> None:
    driver = GroupsDriver()
    driver.claim(1)
    reply = driver.alter((1,), master_id=1).reply
    assert (reply.code, reply.remark) == (2002, f"{REJECTING} the current leader is:{{null}}, not {{1}}")


def test_an_equal_set_is_refused_before_everything_else_is_looked_at() -> None:
    driver = elected_alone()
    reply = driver.alter((1,), master_id=9, master_epoch=9, set_epoch=9, alive=()).reply
    assert (reply.code, reply.remark) == (
        2013,
        "The newSyncStateSet is equal with oldSyncStateSet, no needed to update syncStateSet",
    )


def test_an_equal_set_is_equal_before_the_first_election_too() -> None:
    driver = GroupsDriver()
    driver.claim(1)
    assert driver.alter((), master_id=1).reply.code == 2013


@pytest.mark.parametrize(
    ("wrong", "members", "code", "remark"),
    [
        pytest.param({"master_id": 2}, (1, 2), 2002, "the current leader is:{1}, not {2}", id="master"),
        pytest.param(
            {"master_epoch": 2}, (1, 2), 2000, "the current master epoch is:{1}, not {2}", id="epoch"
        ),
        pytest.param(
            {"set_epoch": 9}, (1, 2), 2001, "the current syncStateSet epoch is:{1}, not {9}", id="set-epoch"
        ),
        pytest.param({}, (1, 9), 2003, "the replicas {9} don't exist", id="unknown-member"),
        pytest.param({"alive": (1, 2)}, (1, 7), 2006, "the replicas {7} don't alive", id="dead-member"),
        pytest.param(
            {}, (2,), 2013, "the newSyncStateSet don't contains origin leader {1}", id="without-master"
        ),
    ],
)
def test_each_unfit_request_has_its_code_and_words(
    wrong: dict[str, Any], members: tuple[int, ...], code: int, remark: str
) -> None:
    driver = elected_alone()
    before = driver.group
    reply = driver.alter(members, **wrong).reply
    assert (reply.code, reply.remark) == (code, f"{REJECTING} {remark}")
    assert reply.ext == {"newSyncStateSetEpoch": 0}
    assert reply.body is None
    assert driver.group == before


def test_checks_come_in_the_order_of_the_table() -> None:
    driver = elected_alone()
    wrong: dict[str, Any] = {"master_id": 2, "master_epoch": 9, "set_epoch": 9, "alive": ()}
    members = (2, 9)
    codes = []
    for fixed in (None, "master_id", "master_epoch", "set_epoch"):
        wrong.pop(fixed, None)
        codes.append(int(driver.alter(members, **wrong).reply.code))
    codes.append(int(driver.alter(members, alive=(2,)).reply.code))
    codes.append(int(driver.alter((2,), alive=(2,)).reply.code))
    assert codes == [2002, 2000, 2001, 2006, 2003, 2013]


def test_of_several_unfit_members_the_lowest_is_named() -> None:
    reply = elected_alone().alter((1, 2, 7, 9), alive=(1, 7)).reply
    assert (reply.code, reply.remark) == (2006, f"{REJECTING} the replicas {{2}} don't alive")


def test_a_fit_request_replaces_the_set_in_a_new_epoch() -> None:
    driver = elected_alone()
    outcome = driver.alter((2, 1, 2))
    assert (outcome.reply.code, outcome.reply.ext) == (0, {"newSyncStateSetEpoch": 2})
    assert (outcome.reply.body.members, outcome.reply.body.epoch) == ((1, 2), 2)
    assert driver.group.sync_state_set == (1, 2)
    assert driver.group.master_epoch == 1


def test_a_change_of_the_set_is_told_with_the_set_before_and_after() -> None:
    (event,) = elected_alone().alter((1, 2)).events
    assert event.kind == EventKind.SYNC_STATE_SET_CHANGED
    assert event.attrs == {"sync_state_set_before": "1", "sync_state_set_after": "1,2", "set_epoch": "2"}


def test_a_log_replica_may_be_a_member_of_the_set() -> None:
    driver = elected_alone()
    driver.claim(8, log_replica=True)
    assert driver.alter((1, 8)).reply.code == 0
