"""The stream of events, the record of failovers, and times that come later."""

from controller_core.groups.commands import Cause
from controller_core.groups.history import EVENTS_MAX, FAILOVERS_MAX, EventKind, Fact, FailoverRecord, History
from testkit.raft.groups import KEY, GroupsDriver, stamp

FACT = Fact(EventKind.BROKER_REGISTERED, stamp(1), 1, 0, {})


def record(new_epoch: int) -> FailoverRecord:
    return FailoverRecord(
        cluster=KEY.cluster,
        group=KEY.broker_name,
        cause=Cause.CONNECTION_CLOSED,
        trigger=Cause.CONNECTION_CLOSED,
        term=1,
        index=1,
        old_master_id=1,
        old_master_address="a:1",
        old_epoch=new_epoch - 1,
        new_master_id=2,
        new_master_address="a:2",
        new_epoch=new_epoch,
        sync_state_set_before=(1, 2),
        sync_state_set_after=(2,),
        unclean=False,
        last_heartbeat_ns=None,
        suspected_ns=None,
        proposed_ns=1,
    )


def full_history() -> History:
    history = History()
    for index in range(EVENTS_MAX + 5):
        history.add_event(KEY, FACT, index, 1, 0)
    return history


def test_sequences_have_no_gap_over_all_groups() -> None:
    driver = GroupsDriver().group_of_three()
    driver.suspect(2)
    assert [event.sequence for event in driver.state.history.events] == list(range(1, 8))


def test_an_event_carries_both_clocks_their_owner_and_its_place_in_the_log() -> None:
    driver = GroupsDriver()
    driver.term = 4
    (event,) = driver.claim(1).events
    assert (event.ts_ns, event.monotonic_ns, event.clock_id) == (int(2000e9), int(1000e9), "n0")
    assert (event.term, event.index, event.source) == (4, 1, "controller")
    assert event.correlation_id is None


def test_event_ids_are_the_same_on_every_node_and_differ_from_each_other() -> None:
    driver = GroupsDriver().group_of_three()
    driver.suspect(2)
    ids = [event.event_id for event in driver.state.history.events]
    assert len(set(ids)) == len(ids)
    again = GroupsDriver().group_of_three()
    again.suspect(2)
    assert ids == [event.event_id for event in again.state.history.events]


def test_a_reader_gets_what_follows_its_sequence() -> None:
    history = History()
    for index in range(5):
        history.add_event(KEY, FACT, index, 1, 0)
    page = history.events_after(3)
    assert ([event.sequence for event in page.events], page.missed) == ([4, 5], 0)
    assert [event.sequence for event in history.events_after(0, count_max=2).events] == [1, 2]
    assert history.events_after(5) == history.events_after(99) == ((), 0)


def test_a_reader_that_asks_for_what_was_dropped_is_told_how_much() -> None:
    history = full_history()
    page = history.events_after(2, count_max=1)
    assert ([event.sequence for event in page.events], page.missed) == ([6], 3)
    assert history.events_after(5, count_max=1).missed == 0


def test_only_the_last_events_are_kept() -> None:
    assert len(full_history().events) == EVENTS_MAX


def test_only_the_last_failovers_are_kept() -> None:
    history = History()
    for epoch in range(1, FAILOVERS_MAX + 3):
        history.add_failover(record(epoch))
    assert len(history.failovers) == FAILOVERS_MAX
    assert history.failover(KEY, 2) is None
    assert history.failover(KEY, 3) == record(3)


def test_a_switchover_asked_for_by_a_person_is_recorded_as_designated() -> None:
    driver = GroupsDriver().group_of_three()
    driver.elect(1, 2, 3, by=2, designate=True)
    last = driver.state.history.failovers[-1]
    assert (last.cause, last.old_master_id, last.new_master_id) == (Cause.DESIGNATED, 1, 2)
    assert (last.index, last.term, last.old_epoch, last.new_epoch) == (6, 1, 1, 2)
    assert (last.sync_state_set_before, last.sync_state_set_after) == ((1, 2, 3), (2,))


def test_later_times_are_added_and_told_once() -> None:
    driver = GroupsDriver().group_of_three()
    driver.suspect(2)
    first = driver.record_times(2, committed=stamp(10), noticed=stamp(11))
    second = driver.record_times(2, noticed=stamp(99), role_taken=stamp(12), first_beat=stamp(13))
    assert [(event.kind, event.ts_ns, event.correlation_id) for event in first.events] == [
        (EventKind.ROLE_NOTIFIED, int(11e9), "c1/b1/2")
    ]
    assert [(event.kind, event.broker_id) for event in second.events] == [(EventKind.ROLE_TAKEN, 2)]
    last = driver.state.history.failover(KEY, 2)
    assert last is not None
    times = (last.committed_ns, last.noticed_ns, last.role_taken_ns, last.first_beat_ns)
    assert times == (int(10e9), int(11e9), int(12e9), int(13e9))


def test_times_of_an_unknown_failover_change_nothing() -> None:
    driver = GroupsDriver().group_of_three()
    before = driver.state.history.failovers
    outcome = driver.record_times(7, noticed=stamp(1))
    assert (outcome.reply.code, outcome.events) == (2008, ())
    assert driver.state.history.failovers == before
