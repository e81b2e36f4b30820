"""Which log wins a first election: the last epoch with messages, then the end.

An empty epoch does not outrank a longer log.
"""

from dataclasses import dataclass

import pytest

from controller_core.groups.commands import LiveBroker, MemberLog, decode, encode
from controller_core.groups.elections.member_logs import log_of_list
from controller_core.remoting.codes import ResponseCode
from testkit.raft.groups import GroupsDriver

Starts = tuple[tuple[int, int], ...]
"""Epochs with their start offsets."""


@pytest.mark.parametrize(
    ("starts", "end", "last", "written"),
    [
        pytest.param(((1, 0), (2, 100)), 150, 2, 2, id="messages in the last epoch"),
        pytest.param(((1, 0), (3, 100)), 100, 3, 1, id="none in the last epoch"),
        pytest.param(((1, 0), (2, 100), (3, 100)), 100, 3, 1, id="none in the last two"),
        pytest.param(((1, 0), (2, 100), (3, 100)), 101, 3, 3, id="an empty epoch in between"),
        pytest.param(((3, 100), (1, 0)), 101, 3, 3, id="not in order"),
        pytest.param(((1, 0),), 0, 1, -1, id="no message at all"),
        pytest.param(((4, 500),), 400, 4, -1, id="an epoch that starts behind the end"),
        pytest.param((), 100, -1, -1, id="no epoch"),
    ],
)
def test_an_epoch_has_messages_if_it_ends_behind_its_start(
    starts: Starts, end: int, last: int, written: int
) -> None:
    assert log_of_list(7, starts, end) == MemberLog(7, last, written, end)


@dataclass(frozen=True)
class LivingMember:
    """A living member with its log; `listed` is whether it told its list."""

    starts: Starts
    end: int
    listed: bool = True
    is_log_replica: bool = False

    def told(self, broker_id: int) -> LiveBroker:
        """Return what its heartbeat tells: a broker its last epoch, a log replica none."""
        last = -1 if self.is_log_replica else log_of_list(broker_id, self.starts, self.end).last_epoch
        return LiveBroker(broker_id, last, self.end)


def _election(*members: LivingMember, acting_id: int | None = None) -> GroupsDriver:
    """Hold the first election of members 1, 2, ..."""
    driver = GroupsDriver()
    by_id = dict(enumerate(members, 1))
    for broker_id, member in by_id.items():
        driver.register(broker_id, f"a:{broker_id}", take_up=True, log_replica=member.is_log_replica)
    told = [member.told(broker_id) for broker_id, member in by_id.items()]
    logs = tuple(
        log_of_list(one, member.starts, member.end) for one, member in by_id.items() if member.listed
    )
    driver.elect(*told, told_epoch=max(one.epoch for one in told), acting_id=acting_id, logs=logs)
    return driver


A_TO_150 = LivingMember(((1, 0), (2, 100)), 150)
"""Master of epochs 2, without a message, and 4, with messages from 100 to 150.

The example in `groups.elections.member_logs`.
"""
B_EMPTY_3 = LivingMember(((1, 0), (3, 100)), 100)
"""Master of epoch 3 between them, without a message."""


@pytest.mark.parametrize(
    ("members", "acting_id", "master_id"),
    [
        pytest.param((A_TO_150, B_EMPTY_3), None, 1, id="an empty later epoch"),
        pytest.param((A_TO_150, B_EMPTY_3), 1, 1, id="an acting master whose list hides its epoch"),
        pytest.param((A_TO_150, B_EMPTY_3), 2, 2, id="an acting master that may write in its empty epoch"),
        pytest.param(
            (A_TO_150, LivingMember(((1, 0), (3, 100)), 110)), None, 2, id="a later epoch with messages"
        ),
        pytest.param(
            (A_TO_150, LivingMember(((1, 0), (3, 100)), 110)), 1, 2, id="an old master that still acts"
        ),
        pytest.param((LivingMember(((1, 0),), 120), B_EMPTY_3), None, 1, id="equal epochs, a longer log"),
        pytest.param(
            (LivingMember(((1, 0), (2, 100)), 100), B_EMPTY_3), None, 2, id="equal logs: the last master"
        ),
        pytest.param(
            (LivingMember(((1, 0),), 100), LivingMember(((1, 0),), 100)),
            None,
            1,
            id="equal in all: the lower id",
        ),
        pytest.param(
            (LivingMember((), 900), LivingMember(((1, 0),), 10)), None, 2, id="a log without epochs"
        ),
    ],
)
def test_the_log_with_the_last_messages_wins(
    members: tuple[LivingMember, ...], acting_id: int | None, master_id: int
) -> None:
    assert _election(*members, acting_id=acting_id).group.master_id == master_id


def test_heartbeats_alone_would_elect_the_broker_with_the_empty_epoch() -> None:
    a, b = (LivingMember(one.starts, one.end, listed=False) for one in (A_TO_150, B_EMPTY_3))
    assert _election(a, b).group.master_id == 2


def test_a_member_without_a_list_is_compared_by_its_heartbeat() -> None:
    silent = LivingMember(((1, 0), (3, 100)), 110, listed=False)
    assert _election(A_TO_150, silent).group.master_id == 2, "its epoch counts as one with messages"
    silent = LivingMember(((1, 0),), 900, listed=False)
    assert _election(A_TO_150, silent).group.master_id == 1


@pytest.mark.parametrize(
    ("replica", "is_ahead"),
    [
        pytest.param(LivingMember(((1, 0), (2, 100)), 150, is_log_replica=True), False, id="equal"),
        pytest.param(
            LivingMember(((1, 0), (3, 100)), 100, is_log_replica=True), False, id="an empty later epoch"
        ),
        pytest.param(LivingMember(((1, 0), (3, 100)), 110, is_log_replica=True), True, id="a later epoch"),
        pytest.param(LivingMember(((1, 0), (2, 100)), 151, is_log_replica=True), True, id="a longer log"),
        pytest.param(
            LivingMember(((1, 0), (3, 100)), 110, listed=False, is_log_replica=True),
            False,
            id="no list, a shorter log",
        ),
    ],
)
def test_a_log_replica_with_later_messages_holds_the_election(replica: LivingMember, is_ahead: bool) -> None:
    group = _election(A_TO_150, replica).group
    assert (group.master_id, group.failure_reason) == ((None, "LogReplicaAhead") if is_ahead else (1, ""))


def test_a_log_replica_with_later_messages_shows_that_the_acting_master_is_an_old_one() -> None:
    replica = LivingMember(((1, 0), (3, 100)), 110, is_log_replica=True)
    group = _election(A_TO_150, LivingMember(((1, 0),), 100), replica, acting_id=1).group
    assert (group.master_id, group.failure_reason) == (None, "LogReplicaAhead")


def test_the_new_epoch_is_above_empty_epochs_too() -> None:
    assert _election(A_TO_150, B_EMPTY_3).group.master_epoch > 4


def test_only_registered_living_members_count() -> None:
    driver = GroupsDriver()
    driver.register(1, "a:1", take_up=True)
    stranger = MemberLog(9, 50, 50, 900)
    reply = driver.elect(LiveBroker(1, 2, 150), told_epoch=2, acting_id=1, logs=(stranger,)).reply
    assert (reply.code, driver.group.master_id) == (ResponseCode.SUCCESS, 1)


def test_the_entry_carries_the_lists_and_one_without_lists_is_written_as_before() -> None:
    driver = GroupsDriver()
    command = driver.election(1, told_epoch=2, logs=(MemberLog(1, 3, 2, 150),))
    assert decode(encode(command)) == command
    assert b"logs" not in encode(driver.election(1, told_epoch=2))
