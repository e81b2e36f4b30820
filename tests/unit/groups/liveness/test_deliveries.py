"""Connections that deliver late: their requests may have been under way for seconds."""

from controller_core.groups.liveness.deliveries import BURST_MS, LATE_AFTER_MS, Deliveries

CHANNEL, OTHER = 7, 8


def beating(interval_ms: int, until_ms: int) -> Deliveries:
    """Return the state after heartbeats at 0, `interval_ms` and so on, up to `until_ms`."""
    deliveries = Deliveries()
    for now_ms in range(0, until_ms + 1, interval_ms):
        deliveries.beat(CHANNEL, now_ms)
    return deliveries


def test_a_connection_with_regular_heartbeats_is_never_late() -> None:
    deliveries = Deliveries()
    for now_ms in range(0, 20_000, 1_000):
        deliveries.beat(CHANNEL, now_ms)
        assert not any(deliveries.is_late(CHANNEL, now_ms + after_ms) for after_ms in (0, 500, 999))


def test_a_request_before_the_first_heartbeat_after_a_silence_is_late() -> None:
    deliveries = beating(1_000, 10_000)
    assert not deliveries.is_late(CHANNEL, 10_000 + LATE_AFTER_MS)
    assert deliveries.is_late(CHANNEL, 10_000 + LATE_AFTER_MS + 1)


def test_a_request_in_one_burst_with_the_heartbeats_of_a_silence_is_late() -> None:
    deliveries = beating(1_000, 10_000)
    for _held_back in range(12):
        deliveries.beat(CHANNEL, 22_000)
        assert deliveries.is_late(CHANNEL, 22_000)
    deliveries.beat(CHANNEL, 22_800)
    assert deliveries.is_late(CHANNEL, 22_000 + BURST_MS - 1)
    assert not deliveries.is_late(CHANNEL, 22_000 + BURST_MS)


def test_a_second_silence_is_late_too() -> None:
    deliveries = beating(1_000, 10_000)
    deliveries.beat(CHANNEL, 22_000)
    deliveries.beat(CHANNEL, 23_000)
    assert deliveries.is_late(CHANNEL, 23_000 + LATE_AFTER_MS + 1)


def test_a_broker_with_rare_heartbeats_has_twice_its_interval() -> None:
    deliveries = beating(5_000, 20_000)
    assert not deliveries.is_late(CHANNEL, 24_999)
    assert not deliveries.is_late(CHANNEL, 30_000)
    assert deliveries.is_late(CHANNEL, 30_001)


def test_a_connection_without_heartbeats_is_never_late() -> None:
    assert not beating(1_000, 10_000).is_late(OTHER, 1_000_000)


def test_a_connection_that_closed_is_forgotten() -> None:
    deliveries = beating(1_000, 10_000)
    deliveries.channel_closed(CHANNEL)
    deliveries.channel_closed(OTHER)
    assert (len(deliveries), deliveries.is_late(CHANNEL, 1_000_000)) == (0, False)
