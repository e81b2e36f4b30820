"""Which connection holds a member: each row of the tables in `liveness.holders`."""

from controller_core.groups.commands import Cause
from controller_core.groups.keys import ReplicaKey
from controller_core.groups.liveness.holders import MOVE_AFTER_MS
from controller_core.groups.liveness.table import LivenessTable
from testkit.raft.groups import KEY

ONE = ReplicaKey(*KEY, 1)
MASTER, STRANGER, AGAIN = 7, 8, 9


def _held_by(table: LivenessTable) -> int:
    entry = table.get(ONE)
    assert entry is not None
    return entry.channel_id


def _table() -> LivenessTable:
    """Return a table in which a member lives on the master's connection."""
    table = LivenessTable(source_of=lambda channel: "there" if channel == STRANGER else "here")
    table.beat(ONE, MASTER, 0, epoch=3, max_offset=100)
    return table


def test_a_heartbeat_over_another_connection_changes_nothing_while_the_member_lives_on_its_own() -> None:
    table = _table()
    table.beat(ONE, STRANGER, MOVE_AFTER_MS - 1, epoch=9, max_offset=2**62, address="evil:1")
    entry = table.get(ONE)
    assert entry is not None
    assert (entry.channel_id, entry.epoch, entry.max_offset, entry.address) == (MASTER, 3, 100, "")
    assert entry.last_beat_ms == 0
    assert table.channel_closed(STRANGER, MOVE_AFTER_MS - 1) == []
    assert _held_by(table) == MASTER


def test_a_request_over_another_connection_does_not_take_a_living_member_either() -> None:
    table = _table()
    table.touch(ONE, STRANGER, 5, address="evil:1")
    assert _held_by(table) == MASTER
    assert table.at("evil:1") is None


def test_a_broker_that_dials_again_is_taken_up_when_its_old_connection_is_silent() -> None:
    table = _table()
    for now_ms in range(1_000, MOVE_AFTER_MS, 1_000):
        table.beat(ONE, AGAIN, now_ms)
        assert _held_by(table) == MASTER
    table.beat(ONE, AGAIN, MOVE_AFTER_MS)
    assert _held_by(table) == AGAIN
    assert table.channel_closed(MASTER, MOVE_AFTER_MS + 1) == []
    assert [death.cause for death in table.channel_closed(AGAIN, MOVE_AFTER_MS + 2)] == [
        Cause.CONNECTION_CLOSED
    ]


def test_half_of_a_short_timeout_is_silence_enough() -> None:
    table = LivenessTable()
    table.beat(ONE, MASTER, 0, timeout_ms=200)
    table.beat(ONE, AGAIN, 99, timeout_ms=200)
    assert _held_by(table) == MASTER
    table.beat(ONE, AGAIN, 100, timeout_ms=200)
    assert _held_by(table) == AGAIN
    assert table.expire(200) == []


def test_a_member_that_a_stranger_took_in_a_pause_goes_home_with_its_next_heartbeat() -> None:
    table = _table()
    table.beat(ONE, STRANGER, 4_000)
    assert _held_by(table) == STRANGER
    table.beat(ONE, STRANGER, 4_100)
    table.beat(ONE, MASTER, 4_200, epoch=3)
    assert _held_by(table) == MASTER
    assert table.channel_closed(STRANGER, 4_300) == []


def test_the_end_of_a_strangers_connection_sends_the_member_home_where_its_silence_counts() -> None:
    table = _table()
    table.beat(ONE, STRANGER, 4_000)
    assert table.channel_closed(STRANGER, 4_001) == []
    assert _held_by(table) == MASTER
    assert table.next_deadline_ms() == 10_000  # the default timeout after the last heartbeat at home
    assert table.channel_closed(MASTER, 4_002)


def test_a_late_close_of_a_broken_connection_leaves_the_member_to_the_new_one_of_its_host() -> None:
    table = _table()
    table.beat(ONE, AGAIN, 1_000)
    assert table.channel_closed(MASTER, 1_001) == []
    assert _held_by(table) == AGAIN


def test_a_stranger_elsewhere_does_not_keep_a_dead_master_alive() -> None:
    table = _table()
    table.beat(ONE, STRANGER, 1_000)
    assert [death.key for death in table.channel_closed(MASTER, 1_001)] == [ONE]


def test_a_rival_that_is_closed_or_long_silent_inherits_nothing() -> None:
    table = _table()
    table.beat(ONE, AGAIN, 500)
    table.channel_closed(AGAIN, 600)
    assert table.channel_closed(MASTER, 700)
    table = _table()
    table.beat(ONE, AGAIN, 500)
    table.beat(ONE, MASTER, 600)
    assert table.channel_closed(MASTER, 501 + MOVE_AFTER_MS)


def test_a_forwarded_sign_of_life_yields_to_any_connection() -> None:
    table = LivenessTable()
    table.touch(ONE, 0, 0)
    table.beat(ONE, AGAIN, 1)
    assert _held_by(table) == AGAIN
    assert table.channel_closed(0, 2) == []


def test_the_owner_learns_which_connections_hold_members() -> None:
    table = _table()
    seen: list[tuple[int, bool]] = []
    table.holders.on_channel = lambda channel, holds: seen.append((channel, holds))
    table.beat(ONE, AGAIN, 5_000)
    table.beat(ReplicaKey(*KEY, 2), AGAIN, 5_000)
    table.channel_closed(AGAIN, 5_001)
    assert seen == [(MASTER, False), (AGAIN, True), (MASTER, True), (AGAIN, False)]


def test_many_members_of_one_connection_die_in_slices() -> None:
    table = LivenessTable()
    for broker_id in range(1, 1_001):
        table.beat(ReplicaKey(*KEY, broker_id), MASTER, 0)
    sizes = [len(table.channel_closed(MASTER, 1, 256)) for _ in range(5)]
    assert sizes == [256, 256, 256, 232, 0]
    assert len(table) == 0


def _that_only_asked() -> LivenessTable:
    """Return a table in which a member has registered and sent no heartbeat yet."""
    table = LivenessTable(source_of=lambda channel: "there" if channel == STRANGER else "here")
    table.touch(ONE, MASTER, 0)
    return table


def test_a_first_heartbeat_counts_over_another_connection_than_the_requests_of_a_broker() -> None:
    table = _that_only_asked()
    table.beat(ONE, AGAIN, 1, epoch=3, max_offset=100)
    entry = table.get(ONE)
    assert entry is not None
    assert (entry.channel_id, entry.has_beaten, entry.max_offset) == (AGAIN, True, 100)


def test_a_request_does_not_take_a_member_home_from_the_connection_of_its_heartbeats() -> None:
    table = _that_only_asked()
    for now_ms in (1, 1_001, 2_001):
        table.beat(ONE, AGAIN, now_ms, max_offset=now_ms)
        table.touch(ONE, MASTER, now_ms + 1)
        entry = table.get(ONE)
        assert entry is not None
        assert (entry.channel_id, entry.max_offset) == (AGAIN, now_ms)


def test_a_broker_with_two_connections_is_dead_when_both_are_closed() -> None:
    table = _that_only_asked()
    table.beat(ONE, AGAIN, 1)
    assert table.channel_closed(AGAIN, 2) == []
    assert [death.key for death in table.channel_closed(MASTER, 3)] == [ONE]


def test_a_stranger_does_not_send_the_first_heartbeat_of_a_member() -> None:
    table = _that_only_asked()
    table.beat(ONE, STRANGER, 1, max_offset=2**62)
    entry = table.get(ONE)
    assert entry is not None
    assert (entry.channel_id, entry.has_beaten) == (MASTER, False)
