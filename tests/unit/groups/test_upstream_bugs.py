"""Bugs of RocketMQ's releases that concern a controller, each as a scenario; each names the broker's part.

Source: apache/rocketmq issues, by number.
"""

import pytest

from controller_core.groups.commands import Cause, LiveBroker
from controller_core.groups.keys import ReplicaKey
from controller_core.groups.liveness.scan import groups_needing_election, may_elect
from controller_core.groups.liveness.table import LivenessTable
from controller_core.groups.reads import get_replica_info
from controller_core.groups.replies import SyncStateSetView
from testkit.raft.groups import KEY, NAME, GroupsDriver, replay

ONE, TWO = (ReplicaKey(*KEY, broker_id) for broker_id in (1, 2))


def test_5663_a_lost_answer_to_an_expansion_cannot_hide_the_set() -> None:
    """The controller commits {1, 2}, the answer is lost, the master goes on as if alone.

    The broker's part (wait for the union of both sets) came in 5.1.1. The controller's: it never falls back
    to {1} on the old epoch, a repetition changes nothing, and the next poll shows the set in a higher epoch.
    """
    driver = GroupsDriver()
    driver.claim(1)
    driver.claim(2)
    driver.elect(1, 2, by=1)
    driver.alter((1, 2), set_epoch=1)
    assert driver.alter((1, 2), set_epoch=1).reply.code == 2013
    assert driver.alter((1, 2, 3), set_epoch=1).reply.code == 2001
    assert driver.alter((1,), set_epoch=1).reply.code == 2001
    assert get_replica_info(driver.state, NAME).body == SyncStateSetView((1, 2), 2)
    driver.suspect(2)
    assert driver.group.master_id == 2


def test_6662_a_master_cut_off_with_its_slave_is_fenced_when_it_comes_back() -> None:
    """Its confirm offset is the broker's part; the controller's: its view of the set does not count."""
    driver = GroupsDriver().group_of_three()
    driver.suspect(3)
    assert driver.alter((1, 2), master_id=1, master_epoch=1, set_epoch=2).reply.code == 2002
    driver.alter((1, 3))
    driver.elect(1, 3, by=1, designate=True)
    assert driver.alter((1, 2), master_id=1, master_epoch=1, set_epoch=2).reply.code == 2000


def test_no_election_names_a_master_without_an_address() -> None:
    """A broker is lost with an answer that names a master and no address: every winner is registered."""
    driver = GroupsDriver()
    driver.claim(1)
    assert driver.elect(1, 99, by=99).reply.code == 2010
    reply = driver.elect(1, 99, by=1).reply
    assert reply.ext is not None
    assert reply.ext["masterAddress"] == "127.0.0.1:9001"


def test_7689_a_controller_leader_and_a_master_killed_together_cost_no_epoch_and_no_wait() -> None:
    """The follower that takes over saw the master's connection close itself, and has the same state."""
    driver = GroupsDriver().group_of_three()
    table = LivenessTable()
    table.beat(ONE, 1, 0)
    table.beat(TWO, 2, 0)
    table.channel_closed(1, 500)
    driver.state = replay(driver.log)
    driver.term = 2
    (need,) = groups_needing_election(driver.state, table)
    assert may_elect(need, now_ms=501, listening_since_ms=0)
    driver.suspect(*table.alive(KEY))
    assert (driver.group.master_id, driver.group.master_epoch) == (2, 2)
    # The old master is back within the second: its old epoch is over, and so is its set.
    assert driver.elect(1, 2, by=1).reply.code == 2011
    assert driver.alter((1,), master_id=1, master_epoch=1, set_epoch=2).reply.code == 2002


@pytest.mark.parametrize("alive", [(1, 2, 3), (1,), (2, 3), ()])
def test_8380_and_10875_the_scan_finds_dead_masters_and_leaves_living_ones_alone(
    alive: tuple[int, ...],
) -> None:
    """The JRaft controller's predicate was negated twice: living masters were replaced, dead ones kept."""
    table = LivenessTable()
    for broker_id in alive:
        table.beat(ReplicaKey(*KEY, broker_id), broker_id, 0)
    needs = groups_needing_election(GroupsDriver().group_of_three().state, table)
    assert bool(needs) == (1 not in alive and bool(alive))


def test_9689_an_epoch_is_never_raised_for_a_master_that_stays() -> None:
    """A master whose epoch goes up under it misses an entry in its epoch file, and transfer stalls."""
    driver = GroupsDriver().group_of_three()
    suspicion = driver.suspicion()
    attempts = (
        lambda: driver.elect(1, 2, 3),
        lambda: driver.elect(1, 2, by=2),
        lambda: driver.elect(1, by=1, designate=True),
        lambda: driver.elect(1, 2, suspicion=suspicion, cause=Cause.HEARTBEAT_TIMEOUT),
    )
    for attempt in attempts:
        assert attempt().reply.code == 2011
        assert (driver.group.master_epoch, driver.group.set_epoch) == (1, 2)


def test_9717_silence_is_found_without_any_other_traffic() -> None:
    """The JRaft scan of 5.2.0 to 5.3.3 effectively never ran; here the next deadline is always known."""
    table = LivenessTable()
    table.beat(ONE, 1, 0, timeout_ms=3_000)
    deadline_ms = table.next_deadline_ms()
    assert deadline_ms is not None
    assert [death.key for death in table.expire(deadline_ms + 1)] == [ONE]


def test_9897_a_dead_slave_cannot_be_kept_in_a_changed_set() -> None:
    """Two slaves cut at once; the race was the broker's, the refusal of a dead member the controller's."""
    driver = GroupsDriver().group_of_three()
    assert driver.alter((1, 2), alive=(1,)).reply.code == 2006
    assert driver.alter((1,), alive=(1,)).reply.code == 0


def test_a_log_two_gib_longer_wins() -> None:
    """RocketMQ subtracts offsets in 32 bits, so that the shorter log may win."""
    driver = GroupsDriver().group_of_three()
    driver.suspect(LiveBroker(2, 1, 0), LiveBroker(3, 1, 1 << 31))
    assert driver.group.master_id == 3


def test_a_reconnected_master_survives_the_late_close_of_its_old_connection() -> None:
    """RocketMQ keeps the first beat's connection, so its late close started an election."""
    table = LivenessTable()
    table.beat(ONE, 1, 0)
    table.beat(TWO, 2, 0)
    table.beat(ONE, 3, 1_000)
    assert table.channel_closed(1, 1_001) == []
    assert groups_needing_election(GroupsDriver().group_of_three().state, table) == []
