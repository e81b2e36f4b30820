"""A replica's knowledge of its group: which answer changes the role."""

from controller_core.remoting.bodies import SyncStateSet
from ha_sidecar.replica.answers import readiness
from ha_sidecar.replica.group_view import FollowedGroup, MasterRole


async def test_what_the_controllers_say_again_is_no_new_role() -> None:
    view = FollowedGroup()
    view.broker_id = 2
    assert view.learn(3, 1, "a:1", SyncStateSet.of([1], 5))
    assert not view.learn(3, 1, "a:1", SyncStateSet.of([1, 2], 6))
    assert (view.role, view.in_sync) == (MasterRole(3, 1, "a:1"), True)
    assert view.learn(5, 1, "a:1", SyncStateSet.of([1], 7))
    assert not view.in_sync


async def test_an_answer_to_a_later_question_wins_whatever_its_epochs_are() -> None:
    view = FollowedGroup()
    view.learn(2**31 - 1, 9, "evil:9", SyncStateSet.of([1, 9], 2**31 - 1))
    assert view.learn(1, 1, "a:1", SyncStateSet.of([1, 2], 6), asked_at=view.version)
    assert (view.role, view.members, view.members_epoch) == (MasterRole(1, 1, "a:1"), {1, 2}, 6)
    assert view.learn(1, 1, "b:1", None, asked_at=view.version), "the master has moved"
    assert view.learn(1, None, None, None, asked_at=view.version), "it is taken for dead in its epoch"
    assert view.role == MasterRole(1)


async def test_an_older_answer_that_comes_late_changes_nothing() -> None:
    view = FollowedGroup()
    asked_at = view.version
    view.learn(3, 1, "a:1", SyncStateSet.of([1, 2], 6))
    assert not view.learn(2, 9, "z:9", SyncStateSet.of([1], 5), asked_at=asked_at)
    assert not view.learn(3, 1, "z:9", None, asked_at=asked_at)
    assert (view.role, view.members) == (MasterRole(3, 1, "a:1"), {1, 2})
    assert view.learn(4, 9, "z:9", SyncStateSet.of([1], 7), asked_at=asked_at), "newer is newer"
    assert (view.role, view.members) == (MasterRole(4, 9, "z:9"), {1})


async def test_an_epoch_without_a_master_is_a_role_that_may_still_get_one() -> None:
    view = FollowedGroup()
    assert view.learn(4, None, None, None)
    assert view.role == MasterRole(4)
    assert not view.learn(4, None, None, None)
    assert view.learn(4, 2, "b:1", None)


async def test_controllers_that_begin_anew_do_not_part_a_replica_from_the_master_that_it_follows() -> None:
    view = FollowedGroup()
    view.broker_id = 1
    view.learn(8, 3, "a:3", SyncStateSet.of([1, 2, 3], 19))
    assert not view.learn(0, None, None, SyncStateSet.of([], 0), asked_at=view.version)
    assert (view.role, view.in_sync) == (MasterRole(8, 3, "a:3"), True)
    assert view.learn(1009, 3, "a:3", SyncStateSet.of([3], 1), asked_at=view.version)
    assert not view.in_sync


async def test_a_learner_is_ready_while_it_follows_and_a_member_in_the_set() -> None:
    view = FollowedGroup()
    assert _ready(view, is_learner=True) == (False, "not registered")
    view.broker_id = 3
    view.learn(1, 1, "a:1", SyncStateSet.of([1, 2], 6))
    assert _ready(view, is_learner=True) == (True, "a learner that follows its master, id 3")
    assert _ready(view, is_learner=True, is_following=False)[0] is False
    assert _ready(view, is_learner=True, has_room=False)[0] is False
    assert _ready(view, is_learner=False) == (False, "not in the SyncStateSet [1,2], id 3")
    view.learn(1, 1, "a:1", SyncStateSet.of([1, 2, 3], 7))
    assert _ready(view, is_learner=False, is_following=False)[0]


def _ready(
    view: FollowedGroup, *, is_learner: bool, is_following: bool = True, has_room: bool = True
) -> tuple[bool, str]:
    return readiness(view, is_learner=is_learner, is_following=is_following, has_room=has_room, refusal="")
