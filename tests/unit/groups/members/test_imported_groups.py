"""Groups of another controller are taken over whole, in higher epochs, or not at all."""

import pytest
from msgspec.structs import replace

from controller_core.groups.commands import ImportedGroup, ImportedMember, ImportGroups, decode, encode
from controller_core.groups.keys import GroupKey
from controller_core.groups.members.imported_groups import EPOCH_MARGIN
from controller_core.groups.replies import Outcome
from controller_core.groups.state import GroupsState
from controller_core.remoting.codes import ResponseCode
from testkit.raft.groups import GroupsDriver, stamp

TOLD = ImportedGroup(
    cluster="c",
    broker_name="b",
    next_broker_id=5,
    members=(ImportedMember(2, "h2:1"), ImportedMember(1, "h1:1"), ImportedMember(4, "h4:1")),
    master_id=2,
    master_epoch=7,
    set_epoch=12,
    sync_state_set=(2, 1),
    alive=(1, 2),
)


def _apply(state: GroupsState, *groups: ImportedGroup) -> Outcome:
    command = ImportGroups(cluster="", broker_name="", stamp=stamp(1), groups=groups)
    assert decode(encode(command)) == command
    return state.apply(command, state.applied_index + 1, 1)


def test_master_set_and_ids_stay_and_both_epochs_rise_by_the_margin() -> None:
    state = GroupsState()
    assert state.is_new
    outcome = _apply(state, TOLD, replace(TOLD, broker_name="a", master_id=None, alive=()))
    assert outcome.reply.code == ResponseCode.SUCCESS
    group = state.get(GroupKey("c", "b"))
    assert group is not None
    assert (group.master_id, group.sync_state_set, group.next_broker_id) == (2, (1, 2), 5)
    assert (group.master_epoch, group.set_epoch) == (7 + EPOCH_MARGIN, 12 + EPOCH_MARGIN)
    assert [(key, one.address) for key, one in group.replicas.items()] == [
        (1, "h1:1"),
        (2, "h2:1"),
        (4, "h4:1"),
    ]
    assert [(notice.broker_id, notice.master_epoch) for notice in outcome.notices] == [(2, 1007), (1, 1007)]
    assert len({event.event_id for event in outcome.events}) == len(outcome.events) == 8
    without = state.get(GroupKey("c", "a"))
    assert without is not None
    assert (without.master_id, without.sync_state_set) == (None, (1, 2))
    assert not state.is_new


def test_a_state_that_has_had_a_group_refuses_the_import_for_good() -> None:
    driver = GroupsDriver()
    driver.claim(1)
    before = driver.group
    assert _apply(driver.state, TOLD).reply.code == ResponseCode.CONTROLLER_INVALID_REQUEST
    assert driver.group == before
    driver.index = driver.state.applied_index
    driver.clean("")
    assert len(driver.state) == 0
    refused = _apply(driver.state, TOLD)
    assert refused.reply.code == ResponseCode.CONTROLLER_INVALID_REQUEST
    assert "have had groups" in (refused.reply.remark or "")
    assert len(driver.state) == 0


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (replace(TOLD, members=()), "no member"),
        (replace(TOLD, members=(*TOLD.members, ImportedMember(1, "x:1"))), "named twice"),
        (replace(TOLD, members=(*TOLD.members, ImportedMember(0, "x:1"))), "below 1"),
        (replace(TOLD, next_broker_id=4), "next id"),
        (replace(TOLD, sync_state_set=(1, 2, 3)), "unknown id"),
        (replace(TOLD, sync_state_set=(1,)), "master is not in"),
        (replace(TOLD, master_epoch=2**31 - 1), "out of range"),
        (replace(TOLD, cluster=""), "is empty"),
        (replace(TOLD, broker_name="b\n"), "control character"),
    ],
)
def test_one_group_that_cannot_be_refuses_them_all(wrong: ImportedGroup, words: str) -> None:
    state = GroupsState()
    outcome = _apply(state, replace(TOLD, broker_name="first"), wrong)
    assert outcome.reply.code == ResponseCode.CONTROLLER_INVALID_REQUEST
    assert words in (outcome.reply.remark or "")
    assert state.is_new
    assert not outcome.events
    assert not outcome.notices


def test_a_group_that_is_named_twice_and_no_group_at_all_are_refused() -> None:
    for groups in ((TOLD, TOLD), ()):
        assert _apply(GroupsState(), *groups).reply.code == ResponseCode.CONTROLLER_INVALID_REQUEST
