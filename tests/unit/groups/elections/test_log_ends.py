"""Elections by the ends that members tell, where an acknowledgement needs fewer copies than the set has."""

import pytest

from controller_core.groups.commands import Cause, ElectMaster, LiveBroker, MemberLog, Stamp
from controller_core.groups.elections.log_ends import copies_of, fewest_copies, must_ask, with_log_ends
from controller_core.groups.elections.member_logs import log_of_list
from controller_core.groups.group import Group, Replica
from controller_core.groups.keys import BrokerId, LogOffset
from controller_core.groups.replies import Outcome
from controller_core.remoting.codes import ResponseCode
from testkit.raft.groups import KEY, GroupsDriver

LOG_REPLICA = 9


def group(*members: int, master_id: int | None = 1) -> Group:
    replicas = {member: Replica(f"a:{member}", "", electable=member != LOG_REPLICA) for member in members}
    return Group(
        KEY, replicas=replicas, master_id=master_id, master_epoch=4, set_epoch=7, sync_state_set=members
    )


def election(*alive: int, **changes: object) -> ElectMaster:
    """Return an election in which all living members told the same by heartbeat."""
    told = tuple(LiveBroker(member, 4, 40) for member in alive)
    stamp = Stamp(1, 1, "n0")
    fields = {"cause": Cause.CONNECTION_CLOSED, "alive": told, "stamp": stamp} | changes
    return ElectMaster(cluster="c1", broker_name="b1", **fields)


def logs(ends: dict[int, int], epoch: int = 4) -> dict[BrokerId, MemberLog]:
    """Return logs with all messages in one epoch."""
    return {
        BrokerId(member): log_of_list(BrokerId(member), [(epoch, 0)], LogOffset(end))
        for member, end in ends.items()
    }


def elected(
    members: tuple[int, ...], ends: dict[int, int], copies: int | None, **changes: object
) -> tuple[Group, Outcome]:
    """Hold the election after the death of member 1, with what members told."""
    driver = GroupsDriver()
    for member in members:
        driver.register(member, f"a:{member}", take_up=True, log_replica=member == LOG_REPLICA)
    driver.elect(1, by=1)
    driver.alter(members)
    alive = [member for member in members if member != 1]
    command = with_log_ends(driver.group, election(*alive, **changes), logs(ends), copies)
    outcome = driver.apply(command)
    return driver.group, outcome


def test_the_furthest_log_wins_whatever_heartbeats_told() -> None:
    assert elected((1, 2, 3), {2: 70, 3: 100}, 2)[0].master_id == 3


def test_the_longer_of_two_logs_wins_whatever_epochs_their_heartbeats_told() -> None:
    alive = (LiveBroker(2, 4, 40), LiveBroker(3, 3, 40))
    assert elected((1, 2, 3), {2: 70, 3: 100}, 2, alive=alive)[0].master_id == 3


def test_a_member_that_told_nothing_is_ranked_last() -> None:
    alive = (LiveBroker(2, 4, 1_000), LiveBroker(3, 4, 40))
    assert elected((1, 2, 3), {3: 100}, None, alive=alive)[0].master_id == 3


@pytest.mark.parametrize(
    ("members", "ends", "copies", "reason"),
    [
        pytest.param((1, 2, 3), {2: 70, 3: 100}, 2, "", id="2 of 3, one unheard"),
        pytest.param((1, 2, 3), {3: 100}, 2, "LogsUnknown", id="2 of 3, two unheard"),
        pytest.param((1, 2, 3, 4, 5), {2: 70, 3: 1, 4: 5}, 3, "", id="3 of 5, two unheard"),
        pytest.param((1, 2, 3, 4, 5), {2: 70, 3: 1}, 3, "LogsUnknown", id="3 of 5, three unheard"),
        pytest.param((1, 2, 3), {3: 100}, None, "", id="every member acknowledges"),
        pytest.param((1, 2, 3), {3: 100}, 1, "", id="the master alone acknowledges"),
        pytest.param((1, 2, 9), {2: 70, 9: 71}, 2, "LogReplicaAhead", id="a log replica is ahead"),
        pytest.param((1, 2, 9), {2: 70, 9: 70}, 2, "", id="a log replica is as far"),
        pytest.param((1, 2, 9), {2: 70, 9: 71}, None, "", id="ahead of acknowledged messages only"),
        pytest.param((1, 2, 9), {2: 70}, 2, "LogsUnknown", id="a log replica is unheard"),
        pytest.param((1, 2, 9), {9: 70}, 2, "LogsUnknown", id="only a log replica is heard"),
        pytest.param((1, 2, 3), {}, None, "", id="nothing is known"),
        pytest.param((1, 2, 3), {2: 70, 5: 60}, 2, "LogsUnknown", id="others than the set do not count"),
    ],
)
def test_somebody_is_elected_if_one_that_was_heard_must_have_every_acknowledged_message(
    members: tuple[int, ...], ends: dict[int, int], copies: int | None, reason: str
) -> None:
    command = with_log_ends(group(*members), election(*members[1:]), logs(ends), copies)
    assert command.withheld == reason


@pytest.mark.parametrize(
    ("end", "epoch", "copies", "reason"),
    [
        pytest.param(101, 4, 2, "MemberAhead", id="it joined the lost master and is ahead"),
        pytest.param(100, 4, 2, "", id="it is as far"),
        pytest.param(101, 3, 2, "", id="its tail is of an earlier master"),
        pytest.param(101, 5, 2, "", id="its epoch cannot be"),
        pytest.param(101, 4, 3, "MemberAhead", id="three copies"),
        pytest.param(101, 4, None, "", id="every member of the set acknowledges"),
        pytest.param(101, 4, 1, "", id="the master alone acknowledges"),
    ],
)
def test_a_member_that_had_not_joined_yet_may_have_what_the_set_lacks(
    end: int, epoch: int, copies: int | None, reason: str
) -> None:
    told = logs({2: 70, 3: 100}) | logs({7: end}, epoch)
    command = with_log_ends(group(1, 2, 3), election(2, 3, 7), told, copies)
    assert command.withheld == reason


def test_unclean_elections_are_not_withheld() -> None:
    asked = election(2, 3, unclean_allowed=True)
    assert with_log_ends(group(1, 2, 3), asked, logs({3: 100}), 2).withheld == ""


def test_a_withheld_election_takes_the_dead_master_away_and_says_why() -> None:
    after, outcome = elected((1, 2, 3), {3: 100}, 2)
    assert outcome.reply.code == ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE
    assert "LogsUnknown, members that are away" in outcome.reply.remark
    assert outcome.events[-1].attrs["reason"] == "LogsUnknown"
    assert (after.master_id, after.master_epoch, after.failure_reason) == (None, 2, "LogsUnknown")


@pytest.mark.parametrize(
    ("members", "alive", "changes", "asks"),
    [
        pytest.param((1, 2, 3), (2, 3), {}, True, id="two candidates"),
        pytest.param((1, 2, 3), (3,), {}, True, id="one candidate of three members"),
        pytest.param((1, 2, 9), (2, 9), {}, True, id="a log replica may be ahead"),
        pytest.param((1, 2), (2,), {}, False, id="the other of two members"),
        pytest.param((1, 2), (2, 7), {}, True, id="the other of two members, and one outside the set"),
        pytest.param((1, 2, 3), (1, 2, 3), {}, False, id="the master lives"),
        pytest.param((1, 2, 3), (2, 3), {"designate": True, "requester_id": 2}, False, id="designated"),
        pytest.param((1, 9), (9,), {}, False, id="no candidate"),
        pytest.param((), (2, 3), {}, False, id="never had a master"),
    ],
)
def test_members_are_asked_if_their_answers_can_matter(
    members: tuple[int, ...], alive: tuple[int, ...], changes: dict[str, object], asks: bool
) -> None:
    assert must_ask(group(*members), election(*alive, **changes)) is asks


@pytest.mark.parametrize(
    ("settings", "copies"),
    [
        ({"allAckInSyncStateSet": "true", "inSyncReplicas": "2"}, None),
        ({"allAckInSyncStateSet": "false", "inSyncReplicas": "2"}, 2),
        ({"inSyncReplicas": " 3 "}, 3),
        ({}, 1),
        ({"inSyncReplicas": "many"}, 1),
        ({"inSyncReplicas": "9" * 5_000}, 1),
    ],
)
def test_settings_tell_how_many_copies_an_acknowledgement_needs(
    settings: dict[str, str], copies: int | None
) -> None:
    assert copies_of(settings) == copies


@pytest.mark.parametrize(
    ("told", "copies"),
    [((None, 2), 2), ((3, 2), 2), ((1, 2), 2), ((None, 1), 1), ((None, None), None), ((), None)],
)
def test_of_different_settings_those_count_that_leave_most_in_doubt(
    told: tuple[int | None, ...], copies: int | None
) -> None:
    assert fewest_copies(told) == copies
