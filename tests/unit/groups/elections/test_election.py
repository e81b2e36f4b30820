"""1002: the winner, the group's new state, the answer, the notices."""

import pytest

from controller_core.groups.commands import Cause, LiveBroker, Suspicion
from controller_core.groups.history import EventKind
from controller_core.groups.replies import Outcome
from testkit.raft.groups import KEY, GroupsDriver, stamp


def kinds(outcome: Outcome) -> list[str]:
    return [str(event.kind) for event in outcome.events]


def test_an_unknown_group_needs_a_registration() -> None:
    reply = GroupsDriver().elect(1, by=1).reply
    assert (reply.code, reply.ext, reply.remark) == (2010, {}, "Broker hasn't been registered")


# The first election of a group.


def test_the_first_election_takes_the_registered_living_requester() -> None:
    driver = GroupsDriver()
    driver.claim(1)
    driver.claim(2)
    outcome = driver.elect(LiveBroker(1, epoch=9), LiveBroker(2), by=2)
    assert outcome.reply.code == 0
    assert outcome.reply.ext == {
        "masterBrokerId": 2,
        "masterAddress": "127.0.0.1:9002",
        "masterEpoch": 1,
        "syncStateSetEpoch": 1,
    }
    assert outcome.reply.body.key == KEY
    assert outcome.reply.body.addresses == {1: "127.0.0.1:9001", 2: "127.0.0.1:9002"}
    assert outcome.reply.body.sync_state_set == (2,)


def test_the_first_election_of_an_unclaimed_id_needs_a_registration() -> None:
    driver = GroupsDriver()
    driver.claim(1)
    reply = driver.elect(1, 99, by=99).reply
    assert (reply.code, reply.remark) == (2010, "BrokerId: 99 hasn't been registered in broker-set: b1")
    assert driver.group.master_id is None


def test_the_first_election_of_a_dead_id_fails() -> None:
    driver = GroupsDriver()
    driver.claim(1)
    reply = driver.elect(by=1).reply
    assert (reply.code, reply.ext, reply.remark) == (2012, {}, "Failed to elect a new master")
    assert (driver.group.master_epoch, driver.group.failure_reason) == (0, "RequesterNotAlive")


def test_the_first_election_never_takes_a_log_replica() -> None:
    driver = GroupsDriver()
    driver.claim(1, log_replica=True)
    reply = driver.elect(1, by=1).reply
    assert (reply.code, reply.remark) == (2012, "Failed to elect a new master: NoElectableReplica")


def test_the_controllers_own_first_election_elects_nobody_and_raises_no_epoch() -> None:
    driver = GroupsDriver()
    driver.claim(1)
    assert driver.elect(1).reply.code == 2004
    assert driver.group.master_epoch == 0


# A master that lives.


def test_a_living_master_stays_and_is_answered() -> None:
    driver = GroupsDriver().group_of_three()
    before = driver.group
    outcome = driver.elect(1, LiveBroker(2, epoch=9, max_offset=9), by=2)
    assert outcome.reply.code == 2011
    assert outcome.reply.remark == (
        "The old master 1 is still alive, not need to elect new master for broker b1"
    )
    assert outcome.reply.ext == before.master_ext()
    assert outcome.reply.body.sync_state_set == (1, 2, 3)
    assert outcome.reply.body.addresses is None
    assert (outcome.events, outcome.notices) == ((), ())
    assert driver.group == before


def test_designating_the_current_master_keeps_it() -> None:
    assert GroupsDriver().group_of_three().elect(1, 2, by=1, designate=True).reply.code == 2011


# A new master.


def test_a_new_master_begins_a_new_epoch_with_a_set_of_itself() -> None:
    driver = GroupsDriver().group_of_three()
    outcome = driver.suspect(2, 3)
    assert (driver.group.master_id, driver.group.master_epoch) == (2, 2)
    assert (driver.group.sync_state_set, driver.group.set_epoch) == ((2,), 3)
    assert outcome.reply.ext == driver.group.master_ext()


def test_the_requester_is_no_preference_unless_it_designates() -> None:
    driver = GroupsDriver().group_of_three()
    outcome = driver.elect(LiveBroker(2, epoch=1), LiveBroker(3, epoch=1, max_offset=5), by=2)
    assert outcome.reply.code == 0
    assert driver.group.master_id == 3


def test_a_designated_living_member_replaces_a_living_master() -> None:
    driver = GroupsDriver().group_of_three()
    assert driver.elect(1, 2, 3, by=3, designate=True).reply.code == 0
    assert driver.group.master_id == 3
    assert driver.state.history.failovers[-1].cause == Cause.DESIGNATED


@pytest.mark.parametrize(
    ("alive", "asked", "reason"),
    [
        pytest.param((1, 2), 3, "DesignatedNotAlive", id="dead"),
        pytest.param((1, 2, 9), 9, "DesignatedNotInSyncStateSet", id="unknown"),
        pytest.param((1, 2, 4), 4, "DesignatedNotInSyncStateSet", id="outside-the-set"),
        pytest.param((1, 2, 5), 5, "DesignatedNotElectable", id="log-replica"),
    ],
)
def test_a_designation_that_cannot_be_fails_and_leaves_the_group_alone(
    alive: tuple[int, ...], asked: int, reason: str
) -> None:
    driver = GroupsDriver().group_of_three()
    driver.claim(4)
    driver.claim(5, log_replica=True)
    driver.alter((1, 2, 3, 5))
    before = driver.group
    outcome = driver.elect(*alive, by=asked, designate=True)
    assert outcome.reply.code == 2012
    assert outcome.reply.remark.startswith("Failed to elect a new master")
    assert [event.attrs["reason"] for event in outcome.events] == [reason]
    assert driver.group == before


def test_every_living_member_is_told_the_new_master_first() -> None:
    driver = GroupsDriver().group_of_three()
    driver.claim(4, log_replica=True)
    outcome = driver.suspect(2, LiveBroker(3, epoch=1), 4, 99)
    assert [notice.broker_id for notice in outcome.notices] == [3, 2, 4]
    (notice, *_) = outcome.notices
    assert (notice.address, notice.master_id, notice.master_address) == (
        "127.0.0.1:9003",
        3,
        "127.0.0.1:9003",
    )
    assert (notice.master_epoch, notice.set_epoch, notice.sync_state_set) == (2, 3, (3,))


def test_a_failed_election_tells_no_broker() -> None:
    assert GroupsDriver().group_of_three().suspect().notices == ()


# No candidate.


def test_the_controllers_failed_election_clears_the_master_in_a_new_epoch_and_keeps_the_set() -> None:
    driver = GroupsDriver().group_of_three()
    reply = driver.suspect().reply
    assert (reply.code, reply.ext) == (2004, {})
    assert reply.remark == "Old master has down and failed to elect a new broker master"
    assert (driver.group.master_id, driver.group.master_epoch) == (None, 2)
    assert (driver.group.sync_state_set, driver.group.set_epoch) == ((1, 2, 3), 2)


def test_three_retries_of_one_suspicion_raise_the_epoch_once() -> None:
    driver = GroupsDriver().group_of_three()
    suspicion = driver.suspicion()
    outcomes = [driver.elect(suspicion=suspicion, cause=Cause.CONNECTION_CLOSED) for _ in range(3)]
    assert [int(outcome.reply.code) for outcome in outcomes] == [2004] * 3
    assert driver.group.master_epoch == 2
    assert [kinds(outcome) for outcome in outcomes] == [["BrokerSuspected", "ElectionFailed"], [], []]


def test_a_failed_election_without_a_master_raises_no_epoch_however_often() -> None:
    driver = GroupsDriver().group_of_three()
    driver.suspect()
    for _ in range(3):
        assert driver.elect().events == ()
    assert driver.group.master_epoch == 2


def test_a_suspicion_that_has_been_dealt_with_keeps_the_new_master() -> None:
    driver = GroupsDriver().group_of_three()
    suspicion = driver.suspicion()
    driver.elect(2, 3, suspicion=suspicion)
    before = driver.group
    outcome = driver.elect(3, suspicion=suspicion)
    assert outcome.reply.code == 2011
    assert outcome.events == ()
    assert driver.group == before


def test_a_suspicion_of_a_broker_that_is_not_master_changes_nothing() -> None:
    driver = GroupsDriver().group_of_three()
    outcome = driver.elect(2, suspicion=Suspicion(3, 1, stamp(1)))
    assert (outcome.reply.code, driver.group.master_id) == (2011, 1)


def test_a_brokers_failed_request_takes_no_recorded_master_away() -> None:
    driver = GroupsDriver().group_of_three()
    driver.claim(4)
    before = driver.group
    outcome = driver.elect(4, by=4)
    assert (outcome.reply.code, outcome.reply.remark) == (2012, "Failed to elect a new master")
    assert outcome.events == ()
    assert driver.group == before


def test_a_failed_election_is_told_once_for_each_reason() -> None:
    driver = GroupsDriver().group_of_three(log_replicas=(3,))
    driver.suspect()
    told = [kinds(driver.elect(*alive, by=2)) for alive in ((), (), (3,), (3,))]
    assert told == [[], [], ["ElectionFailed"], []]
    assert driver.group.failure_reason == "NoElectableReplica"


def test_a_won_election_clears_the_reason_of_the_failed_one() -> None:
    driver = GroupsDriver().group_of_three()
    driver.suspect()
    assert driver.group.failure_reason == "NoLiveReplica"
    driver.elect(2)
    assert (driver.group.failure_reason, driver.group.lost_master) == ("", None)


# Log replicas.


def test_with_only_a_log_replica_of_the_set_alive_nobody_is_elected_and_the_set_stays() -> None:
    driver = GroupsDriver().group_of_three(log_replicas=(3,))
    outcome = driver.suspect(3)
    assert (outcome.reply.code, driver.group.master_id) == (2004, None)
    assert driver.group.sync_state_set == (1, 2, 3)
    assert driver.group.failure_reason == "NoElectableReplica"
    assert [event.attrs.get("reason") for event in outcome.events] == [None, "NoElectableReplica"]


def test_a_broker_of_the_set_that_comes_back_is_elected_before_a_log_replica_with_a_longer_log() -> None:
    driver = GroupsDriver().group_of_three(log_replicas=(3,))
    driver.suspect(3)
    driver.elect(LiveBroker(2, max_offset=1), LiveBroker(3, epoch=9, max_offset=9))
    assert driver.group.master_id == 2


def test_a_log_replica_is_not_elected_uncleanly_either() -> None:
    driver = GroupsDriver().group_of_three(log_replicas=(2, 3))
    outcome = driver.elect(2, 3, unclean_allowed=True)
    assert (outcome.reply.code, driver.group.failure_reason) == (2004, "NoElectableReplica")


# Clean and unclean.


def test_a_living_broker_outside_the_set_is_not_elected() -> None:
    driver = GroupsDriver().group_of_three()
    driver.alter((1, 2))
    assert driver.suspect(3).reply.code == 2004
    assert driver.elect(3, by=3).reply.code == 2012


def test_with_the_switch_a_broker_outside_the_set_wins_only_when_nobody_inside_can() -> None:
    driver = GroupsDriver().group_of_three()
    driver.alter((1, 2))
    driver.suspect(2, LiveBroker(3, epoch=9))
    assert driver.group.master_id == 2
    driver.elect(3, unclean_allowed=True)
    assert (driver.group.master_id, driver.group.sync_state_set) == (3, (3,))
    assert [record.unclean for record in driver.state.history.failovers] == [False, False, True]


# Notices.


def test_an_election_tells_the_suspicion_and_its_end_under_one_correlation() -> None:
    outcome = GroupsDriver().group_of_three().suspect(2)
    suspected, elected = outcome.events
    assert (suspected.kind, elected.kind) == (EventKind.BROKER_SUSPECTED, EventKind.MASTER_ELECTED)
    assert suspected.correlation_id == elected.correlation_id == "c1/b1/2"
    assert (suspected.broker_id, elected.broker_id, elected.epoch) == (1, 2, 2)
    assert elected.attrs == {
        "cause": "ConnectionClosed",
        "trigger": "ConnectionClosed",
        "old_master_id": "1",
        "old_master_address": "127.0.0.1:9001",
        "old_epoch": "1",
        "new_master_id": "2",
        "new_master_address": "127.0.0.1:9002",
        "new_epoch": "2",
        "sync_state_set_before": "1,2,3",
        "sync_state_set_after": "2",
        "unclean": "false",
        "last_heartbeat_ns": str(int(2004.5e9)),
        "suspected_ns": str(int(2005e9)),
        "proposed_ns": str(int(2005e9)),
    }


def test_what_is_not_known_is_left_out_of_an_event() -> None:
    driver = GroupsDriver()
    driver.claim(1)
    (event,) = driver.elect(1, by=1).events
    assert {"old_master_id", "old_master_address", "suspected_ns", "last_heartbeat_ns"}.isdisjoint(
        event.attrs
    )


def test_a_failover_that_took_two_elections_keeps_the_cause_and_times_of_the_loss() -> None:
    driver = GroupsDriver().group_of_three()
    suspicion = driver.suspicion()
    driver.elect(suspicion=suspicion, cause=Cause.HEARTBEAT_TIMEOUT)
    driver.elect(2, by=2)
    record = driver.state.history.failovers[-1]
    assert (record.cause, record.trigger) == (Cause.HEARTBEAT_TIMEOUT, Cause.BROKER_REQUEST)
    assert (record.old_master_id, record.old_epoch, record.new_epoch) == (1, 1, 3)
    assert record.suspected_ns == suspicion.suspected.utc_ns
    assert record.last_heartbeat_ns == suspicion.last_heartbeat_ns
