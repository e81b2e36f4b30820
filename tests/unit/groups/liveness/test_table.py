"""Liveness: connections, silence, and the content of heartbeats."""

from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from controller_core.groups.commands import DEFAULT_ELECTION_PRIORITY, Cause, LiveBroker
from controller_core.groups.keys import ReplicaKey
from controller_core.groups.liveness.entries import Death, TableBounds
from controller_core.groups.liveness.holders import MOVE_AFTER_MS
from controller_core.groups.liveness.table import (
    EXPIRY_LATENESS_MS_MAX,
    SLEEP_GRACE_MS,
    STARTING_MS,
    STARTING_SILENCE_MS_MIN,
    LivenessTable,
)
from testkit.raft.groups import KEY

ONE, TWO, THREE = (ReplicaKey(*KEY, broker_id) for broker_id in (1, 2, 3))


def test_a_beat_makes_a_broker_alive_whether_registered_or_not() -> None:
    table = LivenessTable()
    assert table.beat(ONE, 7, 0)
    assert table.is_alive(ONE)
    assert not table.is_alive(TWO)
    assert not table.beat(ONE, 7, 1)


def test_absent_fields_have_rocketmqs_defaults() -> None:
    table = LivenessTable()
    table.beat(ONE, 7, 0)
    assert table.alive(KEY) == (LiveBroker(1, -1, -1, DEFAULT_ELECTION_PRIORITY),)
    assert DEFAULT_ELECTION_PRIORITY == 2**31 - 1
    assert table.next_deadline_ms() == 10_000
    entry = table.get(ONE)
    assert entry is not None
    assert entry.confirm_offset == -1


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_a_timeout_that_cannot_be_is_the_default(timeout_ms: int) -> None:
    table = LivenessTable()
    table.beat(ONE, 7, 0, timeout_ms=timeout_ms)
    assert table.next_deadline_ms() == 10_000


def test_a_closed_connection_is_a_death_at_once() -> None:
    table = LivenessTable()
    table.beat(ONE, 7, 5)
    table.beat(TWO, 8, 6)
    assert table.channel_closed(7, 9) == [Death(ONE, Cause.CONNECTION_CLOSED, last_beat_ms=5, at_ms=9)]
    assert [broker.id for broker in table.alive(KEY)] == [2]
    assert table.channel_closed(7, 10) == []


def test_the_late_close_of_an_older_connection_removes_nobody() -> None:
    table = LivenessTable()
    table.beat(ONE, 7, 0)
    table.beat(ONE, 8, 1)
    assert table.channel_closed(7, 2) == []
    assert table.is_alive(ONE)
    assert [death.key for death in table.channel_closed(8, 3)] == [ONE]


def test_a_connection_that_carries_several_brokers_takes_all_along() -> None:
    table = LivenessTable()
    for key in (TWO, ONE):
        table.beat(key, 7, 0)
    assert table.keys_of_channel(7) == (ONE, TWO)
    assert [death.key for death in table.channel_closed(7, 1)] == [ONE, TWO]
    assert table.keys_of_channel(7) == ()


def test_silence_is_a_death_after_the_brokers_own_timeout() -> None:
    table = LivenessTable()
    table.beat(ONE, 7, 0, timeout_ms=3_000)
    table.beat(TWO, 8, 0, timeout_ms=3_001)
    assert table.expire(3_000) == []
    assert table.expire(3_001) == [Death(ONE, Cause.HEARTBEAT_TIMEOUT, last_beat_ms=0, at_ms=3_001)]
    assert [death.key for death in table.expire(3_002)] == [TWO]
    assert (len(table), table.next_deadline_ms()) == (0, None)


def _starting() -> LivenessTable:
    """Return the table of a controller, in which a master has just come alive that beats often."""
    table = LivenessTable(starting_ms=STARTING_MS)
    table.beat(ONE, 7, 0, timeout_ms=1_500)
    return table


def test_a_broker_that_has_just_started_may_lag_for_longer_than_it_announced() -> None:
    table = _starting()
    assert table.expire(STARTING_SILENCE_MS_MIN) == []
    table.beat(ONE, 7, STARTING_SILENCE_MS_MIN, timeout_ms=1_500)
    assert table.expire(2 * STARTING_SILENCE_MS_MIN) == []
    assert [death.key for death in table.expire(2 * STARTING_SILENCE_MS_MIN + 1)] == [ONE]


def test_a_controller_that_has_just_started_takes_none_for_dead_by_silence() -> None:
    table = LivenessTable(judges_from_ms=10_000)
    table.beat(ONE, 7, 100, timeout_ms=1_500)
    assert table.expire(10_000) == []
    table.beat(ONE, 7, 10_000, timeout_ms=1_500)
    assert table.expire(11_500) == []
    assert [death.key for death in table.expire(11_501)] == [ONE]


def test_a_broker_that_has_run_for_a_while_is_dead_after_the_silence_that_it_announced() -> None:
    table = _starting()
    for now_ms in range(1_000, STARTING_MS + 1, 1_000):
        table.beat(ONE, 7, now_ms, timeout_ms=1_500)
    assert table.next_deadline_ms() == STARTING_MS + 1_500
    assert [death.key for death in table.expire(STARTING_MS + 1_501)] == [ONE]


def test_a_starting_broker_whose_connection_closes_is_dead_at_once() -> None:
    table = _starting()
    assert [death.cause for death in table.channel_closed(7, 10)] == [Cause.CONNECTION_CLOSED]


def test_a_broker_that_comes_back_is_starting_again_and_a_longer_timeout_stays() -> None:
    table = _starting()
    table.channel_closed(7, STARTING_MS)
    table.beat(ONE, 8, STARTING_MS, timeout_ms=1_500)
    assert table.next_deadline_ms() == STARTING_MS + STARTING_SILENCE_MS_MIN
    table.beat(ONE, 8, STARTING_MS, timeout_ms=10_000)
    assert table.next_deadline_ms() == STARTING_MS + 10_000


def test_each_beat_moves_the_deadline() -> None:
    table = LivenessTable()
    table.beat(ONE, 7, 0, timeout_ms=100)
    table.beat(ONE, 7, 60, timeout_ms=100)
    assert table.next_deadline_ms() == 160
    assert table.expire(101) == []


def test_a_shorter_timeout_counts_from_the_beat_that_announces_it() -> None:
    table = LivenessTable()
    table.beat(ONE, 7, 0, timeout_ms=10_000)
    table.beat(ONE, 7, 10, timeout_ms=100)
    assert table.next_deadline_ms() == 110
    assert [death.key for death in table.expire(111)] == [ONE]


def test_offsets_are_the_newest_even_when_they_went_down() -> None:
    table = LivenessTable()
    table.beat(ONE, 7, 0, epoch=3, max_offset=900, confirm_offset=800, priority=1)
    table.beat(ONE, 7, 1, epoch=3, max_offset=700, confirm_offset=600, priority=2)
    assert table.alive(KEY) == (LiveBroker(1, 3, 700, 2),)


def test_a_request_over_a_live_connection_proves_life_without_touching_the_offsets() -> None:
    table = LivenessTable()
    table.beat(ONE, 7, 0, timeout_ms=100, epoch=3, max_offset=900, address="a:1")
    assert not table.touch(ONE, 8, 90)
    assert table.alive(KEY) == (LiveBroker(1, 3, 900),)
    assert table.next_deadline_ms() == 190
    assert table.channel_closed(7, 91) == []
    entry = table.get(ONE)
    assert entry is not None
    assert entry.address == "a:1"


def test_a_request_of_an_unheard_broker_makes_it_alive() -> None:
    table = LivenessTable()
    assert table.touch(ONE, 7, 0, address="a:1")
    assert table.is_alive(ONE)


def test_an_address_leads_to_the_living_member_that_announced_it_last() -> None:
    table = LivenessTable()
    table.beat(ONE, 7, 0, address="a:1")
    table.beat(TWO, 8, 0, address="b:1")
    assert [entry and entry.key for entry in map(table.at, ("a:1", "b:1", "c:1"))] == [ONE, TWO, None]
    table.touch(ONE, 7, 1, address="c:1")
    assert [entry and entry.key for entry in map(table.at, ("a:1", "c:1"))] == [None, ONE]
    table.beat(THREE, 9, 1, address="b:1")
    table.channel_closed(8, 2)
    third = table.at("b:1")
    assert third is not None
    assert third.key == THREE, "the end of its previous connection does not affect it"
    table.channel_closed(9, 3)
    assert table.at("b:1") is None


def test_a_table_that_slept_itself_gives_the_overdue_a_grace() -> None:
    table = LivenessTable()
    table.beat(ONE, 7, 0, timeout_ms=100)
    table.beat(TWO, 8, 0, timeout_ms=100)
    woken_ms = 100 + EXPIRY_LATENESS_MS_MAX + 1
    assert table.expire(woken_ms) == []
    table.beat(ONE, 7, woken_ms + 1, timeout_ms=100)
    table.beat(ONE, 7, woken_ms + SLEEP_GRACE_MS, timeout_ms=100)
    assert [death.key for death in table.expire(woken_ms + SLEEP_GRACE_MS + 1)] == [TWO]


def test_a_table_that_was_merely_late_gives_no_grace() -> None:
    table = LivenessTable()
    table.beat(ONE, 7, 0, timeout_ms=100)
    assert [death.key for death in table.expire(100 + EXPIRY_LATENESS_MS_MAX)] == [ONE]


def test_a_death_is_remembered_until_the_broker_is_heard_again() -> None:
    table = LivenessTable()
    assert table.last_death(ONE) is None
    table.beat(ONE, 7, 0)
    (death,) = table.channel_closed(7, 1)
    assert table.last_death(ONE) == death
    table.beat(ONE, 8, 2)
    assert table.last_death(ONE) is None


@pytest.mark.parametrize("bounds", [(2, 9, 9, 9), (9, 2, 9, 9), (9, 9, 2, 9), (9, 9, 9, 2)])
def test_a_full_table_takes_up_nobody_new_and_keeps_who_is_in(bounds: tuple[int, int, int, int]) -> None:
    table = LivenessTable(bounds=TableBounds(*bounds))
    table.beat(ONE, 7, 0)
    table.beat(TWO, 7, 0)
    assert not table.beat(THREE, 7, 0)
    assert not table.is_alive(THREE)
    table.beat(ONE, 7, 5)
    assert len(table) == 2
    assert [death.key for death in table.channel_closed(7, 9)] == [ONE, TWO]


def test_beats_leave_the_heap_as_small_as_the_table() -> None:
    table = LivenessTable()
    for now_ms in range(1_000):
        table.beat(ONE, 7, now_ms, timeout_ms=100)
    assert len(table._heap) == 1


@dataclass
class NaiveMember:
    """A member by the tables of `liveness.holders`, written a second time; 0 is not a connection."""

    holder: int
    beat_ms: int = 0
    timeout_ms: int = 0
    deadline_ms: int = 0
    home: tuple[int, int] = (0, 0)
    rival: tuple[int, int] = (0, 0)

    def beat(self, channel: int, now_ms: int, timeout_ms: int) -> None:
        """Take a heartbeat."""
        silent = now_ms - self.beat_ms >= min(MOVE_AFTER_MS, self.timeout_ms // 2)
        if channel not in (self.holder, self.home[0]):
            if self.deadline_ms and not silent:
                self.rival = (channel, now_ms)
                return
            if self.deadline_ms:
                self.home, self.rival = (self.home if self.home[0] else (self.holder, self.beat_ms)), (0, 0)
        elif channel != self.holder:
            self.home = self.rival = (0, 0)
        self.holder, self.beat_ms, self.timeout_ms = channel, now_ms, timeout_ms
        self.deadline_ms = now_ms + timeout_ms

    def survives(self, channel: int, now_ms: int) -> bool:
        """Return whether the member lives on after the close of a connection."""
        if self.home[0] == channel:
            self.home = (0, 0)
        if self.rival[0] == channel:
            self.rival = (0, 0)
        if self.holder != channel:
            return True
        heir = self.home if self.home[0] else self.rival
        if not heir[0] or (not self.home[0] and now_ms - heir[1] > MOVE_AFTER_MS):
            return False
        self.holder, self.beat_ms = heir
        self.home = self.rival = (0, 0)
        self.deadline_ms = max(now_ms, self.beat_ms + self.timeout_ms)
        return True


class LivenessAgainstNaive(RuleBasedStateMachine):
    """The table against a dictionary that is walked whole. The clock never jumps over a second here."""

    def __init__(self) -> None:
        super().__init__()
        self.table = LivenessTable()
        self.naive: dict[ReplicaKey, NaiveMember] = {}
        self.now_ms = 0

    @rule(broker_id=st.integers(1, 4), channel=st.integers(1, 3), timeout_ms=st.integers(1, 900))
    def beat(self, broker_id: int, channel: int, timeout_ms: int) -> None:
        """Beat, over any connection."""
        key = ReplicaKey(*KEY, broker_id)
        came_alive = self.table.beat(key, channel, self.now_ms, timeout_ms=timeout_ms)
        assert came_alive == (key not in self.naive)
        self.naive.setdefault(key, NaiveMember(channel)).beat(channel, self.now_ms, timeout_ms)

    @rule(channel=st.integers(1, 3))
    def close(self, channel: int) -> None:
        """Close a connection."""
        dead = sorted(key for key, member in self.naive.items() if not member.survives(channel, self.now_ms))
        assert [death.key for death in self.table.channel_closed(channel, self.now_ms)] == dead
        self.naive = {key: value for key, value in self.naive.items() if key not in dead}

    @rule(step_ms=st.integers(0, 900))
    def wait(self, step_ms: int) -> None:
        """Let time pass."""
        self.now_ms += step_ms
        dead = {key for key, member in self.naive.items() if member.deadline_ms < self.now_ms}
        assert {death.key for death in self.table.expire(self.now_ms)} == dead
        self.naive = {key: value for key, value in self.naive.items() if key not in dead}

    @invariant()
    def agree(self) -> None:
        """Compare who lives, and until when."""
        alive = [broker.id for broker in self.table.alive(KEY)]
        assert alive == sorted(key.broker_id for key in self.naive)
        deadlines = [member.deadline_ms for member in self.naive.values()]
        assert self.table.next_deadline_ms() == min(deadlines, default=None)
        assert len(self.table) == len(self.naive)


TestLivenessAgainstNaive = LivenessAgainstNaive.TestCase
TestLivenessAgainstNaive.settings = settings(max_examples=40, stateful_step_count=30)


def test_a_connection_tells_the_cluster_of_those_who_beat_over_it() -> None:
    table = LivenessTable()
    table.beat(ReplicaKey("c1", "b", 1), 7, 0)
    table.beat(ReplicaKey("c2", "other", 1), 7, 0)
    assert (table.cluster_of(7, "b"), table.cluster_of(7, "other")) == ("c1", "c2")
    assert (table.cluster_of(7, "nobody"), table.cluster_of(8, "b")) == ("", "")
    table.beat(ReplicaKey("c2", "b", 1), 7, 0)
    assert table.cluster_of(7, "b") == ""
    table.beat(ReplicaKey("c2", "b", 1), 8, MOVE_AFTER_MS)
    assert (table.cluster_of(7, "b"), table.cluster_of(8, "b")) == ("c1", "c2")
    table.channel_closed(7, MOVE_AFTER_MS + 1)
    assert table.cluster_of(7, "b") == ""
