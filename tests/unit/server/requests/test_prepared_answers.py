"""Kept answers: the same group value returns the same bytes, a new value is encoded again."""

import pytest

from controller_core.groups.group import Group
from controller_core.groups.keys import GroupKey
from controller_core.groups.reads import get_replica_info
from controller_core.remoting.command import RemotingCommand
from controller_core.server.requests import answers, prepared_answers
from controller_core.server.requests.prepared_answers import PreparedAnswers
from testkit.raft.groups import CLUSTER, NAME, GroupsDriver

KEY = GroupKey(CLUSTER, NAME)
REQUEST = RemotingCommand.request(1004).with_opaque(77)


def group_of(driver: GroupsDriver) -> Group:
    group = driver.state.get(KEY)
    assert group is not None
    return group


def test_the_poll_of_an_unchanged_group_is_answered_by_what_is_kept() -> None:
    driver, kept = GroupsDriver().group_of_three(), PreparedAnswers()
    first = kept.replica_info(group_of(driver))
    assert kept.replica_info(group_of(driver)) is first
    assert first.command.with_opaque(77) == answers.answer(REQUEST, get_replica_info(driver.state, NAME))


def test_each_change_of_a_group_is_in_the_next_answer() -> None:
    driver, kept = GroupsDriver().group_of_three(), PreparedAnswers()
    bodies = []
    for members in ((1, 2), (1, 2, 3), (1,)):
        driver.alter(members)
        told = kept.replica_info(group_of(driver)).command
        assert told.with_opaque(77) == answers.answer(REQUEST, get_replica_info(driver.state, NAME))
        bodies.append(told.body)
    assert len(set(bodies)) == len(bodies)


def test_a_registration_names_the_master_while_it_lives_and_not_after() -> None:
    driver, kept = GroupsDriver().group_of_three(), PreparedAnswers()
    group = group_of(driver)
    for alive in (True, False, True):
        told = kept.registration(group, CLUSTER, NAME, master_alive=alive).command
        assert ("masterAddress" in (told.ext or {})) == alive


def test_a_registration_is_answered_with_the_names_that_it_gave() -> None:
    group, kept = group_of(GroupsDriver().group_of_three()), PreparedAnswers()
    for cluster in (CLUSTER, ""):
        told = kept.registration(group, cluster, NAME, master_alive=True).command
        assert (told.ext or {})["clusterName"] == cluster


def test_the_oldest_answer_makes_room_when_too_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared_answers, "ANSWERS_MAX", 2)
    kept = PreparedAnswers()
    groups = [Group(GroupKey(CLUSTER, name)) for name in ("a", "b", "c")]
    a, b, _ = (kept.replica_info(group) for group in groups)
    assert kept.replica_info(groups[1]) is b
    assert kept.replica_info(groups[0]) is not a
