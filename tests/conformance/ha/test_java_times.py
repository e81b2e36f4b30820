"""The effect of waits of 5, 10 and 20 seconds at full length, side by side, and of two shortened ones.

The number in a test's name is the case's in docs/reference/ha_conformance.md, which
states and explains the rule.
"""

import asyncio
import contextlib
import itertools
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from ha_sidecar.transfer import slave as slave_machine
from ha_sidecar.transfer.actions import CloseReason, DivergenceReason
from ha_sidecar.transfer.codec import Handshake
from testkit.ha.by_hand import HandMaster, HandSlave, PeerClosedError
from testkit.ha.following import following
from testkit.ha.java_stores import DEFAULT_TIMES, JavaStore, JavaStores, assert_same, assert_same_store
from testkit.ha.peers import OurSlave

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]

FILE_BYTES = 1 << 16
MASTER_ID, SLAVE_ID = 1, 2
BEAT_S, HOUSEKEEPING_S, STARVED_S = 5.0, 20.0, 10.0
LATE_S = 4.0
"""How much later than it should something may come on a busy machine; never earlier than a clock's grain."""
GRAIN_S = 0.1
QUICK_HOUSEKEEPING_MS = 2_500
BEAT_QUICK_S = 0.3
"""haSendHeartbeatInterval of `QUICK_TIMES`: so long ago the last byte may have come when a master stops."""
STILL_S = 2.0


@dataclass(frozen=True)
class ConnectionTimes:
    """Seconds between received messages, and until the connection closed."""

    gaps_s: tuple[float, ...]
    closed_s: float


def seen_by_a_slave(master: JavaStore, end_offset: int) -> ConnectionTimes:
    """Acknowledge all, then say nothing: heartbeats come until the master gives the slave up."""
    with HandSlave(master.port) as slave:
        slave.shake_hands(Handshake(SLAVE_ID))
        slave.ack(0)
        slave.frames_to(end_offset)
        times = [time.monotonic()]
        with contextlib.suppress(PeerClosedError):
            while True:
                header, _ = slave.frame()
                assert (header.body_bytes, header.offset) == (0, end_offset)
                times.append(time.monotonic())
        return ConnectionTimes(_gaps(times), time.monotonic() - times[0])


def seen_by_a_master(hand: HandMaster) -> ConnectionTimes:
    """Answer the handshake, then say nothing: acks come until the slave gives its master up."""
    hand.accept()
    hand.reply(0, (1, 0))
    times = [time.monotonic()]
    with contextlib.suppress(PeerClosedError):
        while True:
            assert hand.ack() == 0
            times.append(time.monotonic())
    return ConnectionTimes(_gaps(times), time.monotonic() - times[0])


def _gaps(times: list[float]) -> tuple[float, ...]:
    return tuple(later - earlier for earlier, later in itertools.pairwise(times))


def behind_a_pruned_master(ours: OurSlave, port: int) -> tuple[DivergenceReason | None, float]:
    """Go on where the master has deleted the files; return why that ends, and after how long."""
    began_s = time.monotonic()
    end = ours.follow(port).end()
    return end.diverged, time.monotonic() - began_s


def pruned(stores: JavaStores, directory: Path, ours: OurSlave) -> JavaStore:
    """Return a master without its oldest file, of which our slave holds the beginning alone."""
    master = stores.open(directory, MASTER_ID, FILE_BYTES, DEFAULT_TIMES)
    master.become_master(1)
    common_offset = master.fill(5)
    ours.follow(master.port)
    ours.wait(common_offset)
    ours.leave()
    master.fill(60, body_bytes=3000)
    master.close()
    min(master.log_directory.iterdir()).unlink()
    again = stores.open(directory, MASTER_ID, FILE_BYTES, DEFAULT_TIMES)
    again.become_master(2)
    return again


def assert_from(seconds: float, from_s: float) -> None:
    assert from_s - GRAIN_S < seconds < from_s + LATE_S


def test_case_05_and_case_06_beats_come_every_five_seconds_and_silence_ends_after_twenty(
    tmp_path: Path,
) -> None:
    with (
        JavaStores("5.5.0", tmp_path / "stores") as stores,
        OurSlave(tmp_path / "ours", FILE_BYTES) as ours,
        HandMaster(FILE_BYTES) as hand,
        ThreadPoolExecutor() as pool,
    ):
        old = pruned(stores, tmp_path / "pruned", ours)
        master = stores.open(tmp_path / "master", MASTER_ID, FILE_BYTES, DEFAULT_TIMES)
        master.become_master(1)
        slave = stores.open(tmp_path / "slave", SLAVE_ID, FILE_BYTES, DEFAULT_TIMES)
        beats = pool.submit(seen_by_a_slave, master, master.fill(1))
        acks = pool.submit(seen_by_a_master, hand)
        starved = pool.submit(behind_a_pruned_master, ours, old.port)
        slave.become_slave(1, SLAVE_ID, hand.port)
        for seen in (beats.result(), acks.result()):
            assert len(seen.gaps_s) >= 2
            for gap_s in seen.gaps_s:
                assert_from(gap_s, BEAT_S)
            assert_from(seen.closed_s, HOUSEKEEPING_S)
        reason, after_s = starved.result()
        assert reason is DivergenceReason.BEHIND_MASTER_MIN
        assert after_s > STARVED_S - GRAIN_S


def test_case_05_our_slave_stays_with_an_idle_java_master(
    stores: JavaStores, ours: OurSlave, tmp_path: Path
) -> None:
    settings = {"haSendHeartbeatInterval": "500", "haHousekeepingInterval": str(QUICK_HOUSEKEEPING_MS)}
    master = stores.open(tmp_path / "master", MASTER_ID, FILE_BYTES, settings)
    master.become_master(1)
    middle_offset = master.fill(1)
    # A link lives once: while it has not ended, it is the same connection.
    notes = ours.follow(master.port)
    ours.wait(middle_offset)
    assert not notes.ended.wait(2 * QUICK_HOUSEKEEPING_MS / 1000)
    assert [slave.broker_id for slave in master.status().slaves] == [SLAVE_ID]
    assert_same(ours, master, master.fill(1))
    assert (notes.ended.is_set(), notes.handshakes.qsize()) == (False, 1)


async def test_case_05_a_java_master_that_stands_still_is_given_up_and_followed_again_when_it_goes_on(
    stores: JavaStores, master: JavaStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slave_machine, "SILENCE_MAX_MS", QUICK_HOUSEKEEPING_MS)
    end_offset = await asyncio.to_thread(master.fill, 5)
    async with following(tmp_path / "ours", FILE_BYTES) as ours:
        await ours.led_by(master.port, epoch=1)
        await ours.reach(end_offset)
        with stores.standing_still():
            began_s = time.monotonic()
            ended = await ours.event("Disconnected")
            silent_s = time.monotonic() - began_s
            await asyncio.sleep(
                STILL_S
            )  # its listening socket still takes connections, without answers on them
            assert ours.events("HandshakeDone")[1:] == []
        assert ended["reason"] == CloseReason.MASTER_SILENT.value
        assert_from(silent_s, QUICK_HOUSEKEEPING_MS / 1000 - BEAT_QUICK_S)
        await ours.event("HandshakeDone", 2)
        end_offset = await asyncio.to_thread(master.fill, 5)
        await ours.reach(end_offset)
        assert_same_store(ours.store, master, end_offset)
        assert ours.events("Truncated") == []
