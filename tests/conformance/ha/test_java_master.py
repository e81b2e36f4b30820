"""The cases of the HA protocol in which RocketMQ's own store is the master.

Our slave reads from it, or a slave by hand does.

The number in a test's name is the case's in docs/reference/ha_conformance.md, which
states and explains the rule.
"""

import itertools
import random
import time
from pathlib import Path

import pytest

from ha_sidecar.epoch import EpochList, truncation_point
from ha_sidecar.transfer.actions import DivergenceReason
from ha_sidecar.transfer.codec import Handshake, HandshakeReply, encode_reply
from testkit.ha.by_hand import HandSlave
from testkit.ha.java_stores import QUICK_TIMES, JavaStore, JavaStores, assert_same
from testkit.ha.messages import message
from testkit.ha.peers import OurSlave, wait_until
from testkit.ha.stores import append

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]

FILE_BYTES = 1 << 16
"""Small files, so that logs cross the end of some."""
MASTER_ID, SLAVE_ID = 1, 2
POINTS = 300


def test_case_01_a_java_master_answers_our_sixteen_bytes_with_its_epochs(master: JavaStore) -> None:
    end_offset = master.fill(10)
    with HandSlave(master.port) as slave:
        slave.send(bytes.fromhex("00000001 0000 0000 0000000000000002"))
        assert slave.read(32) == (
            bytes.fromhex("00000001 0000000c")
            + end_offset.to_bytes(8, "big")
            + bytes.fromhex("00000001 00000001 0000000000000000")
        )
        slave.ack(0)
        assert master.wait(lambda status: len(status.slaves) == 1).slaves[0].broker_id == SLAVE_ID


def test_case_02_frames_and_acks_are_golden(master: JavaStore) -> None:
    end_offset = master.fill(3)
    with HandSlave(master.port) as slave:
        slave.shake_hands(Handshake(SLAVE_ID))
        slave.send(bytes.fromhex("00000002 0000000000000000"))
        assert slave.read(36) == (
            bytes.fromhex("00000002")
            + end_offset.to_bytes(4, "big")
            + bytes.fromhex("0000000000000000 00000001 0000000000000000")
            + end_offset.to_bytes(8, "big")
        )
        assert slave.read(end_offset) == next(master.log_directory.iterdir()).read_bytes()[:end_offset]
        slave.ack(end_offset)
        master.wait(lambda status: [slave.ack_offset for slave in status.slaves] == [end_offset])


def test_case_03_epochs_shorter_than_a_batch_reach_an_empty_slave(master: JavaStore, ours: OurSlave) -> None:
    for epoch in (2, 3):
        master.fill(2)
        master.become_master(epoch)
    end_offset = master.fill(2)
    ours.follow(master.port)
    assert_same(ours, master, end_offset)
    assert [entry.epoch for entry in ours.store.epochs] == [1, 2, 3]


def test_case_03_a_body_that_ends_at_an_epoch_s_end_comes_under_the_next_epoch(
    stores: JavaStores, tmp_path: Path
) -> None:
    settings = {**QUICK_TIMES, "haTransferBatchSize": "1000"}
    master = stores.open(tmp_path / "master", MASTER_ID, FILE_BYTES, settings)
    starts = {}
    for epoch in (1, 2, 3):
        master.become_master(epoch)
        starts[epoch] = master.status().max_offset
        end_offset = master.fill(10)
    with HandSlave(master.port) as slave:
        slave.shake_hands(Handshake(SLAVE_ID))
        slave.ack(0)
        headers = [header for header in slave.frames_to(end_offset) if header.body_bytes]
    for epoch in (2, 3):
        last = next(h for h in headers if h.offset + h.body_bytes == starts[epoch])
        assert (last.epoch, last.epoch_start_offset) == (epoch, starts[epoch])
    for header in headers:
        assert header.body_bytes <= 1000
        assert not any(header.offset < start < header.offset + header.body_bytes for start in starts.values())


@pytest.mark.parametrize("stores", ["5.4.0", "5.5.0"], indirect=True)
def test_case_04_an_epoch_that_changes_while_connected_begins_with_an_empty_frame(
    master: JavaStore, ours: OurSlave
) -> None:
    middle_offset = master.fill(5)
    ours.follow(master.port)
    with HandSlave(master.port) as slave:
        slave.shake_hands(Handshake(3))
        slave.ack(0)
        slave.frames_to(middle_offset)
        ours.wait(middle_offset)
        assert master.stay_master(2)
        end_offset = master.fill(5)
        headers = slave.frames_to(end_offset)
    empty = next(header for header in headers if header.epoch == 2)
    assert (empty.body_bytes, empty.offset, empty.epoch_start_offset) == (0, middle_offset, middle_offset)
    assert_same(ours, master, end_offset)


@pytest.mark.parametrize("stores", ["5.2.0"], indirect=True)
def test_case_04_an_epoch_that_5_2_0_does_not_announce_is_learnt_at_the_next_handshake(
    master: JavaStore, ours: OurSlave
) -> None:
    middle_offset = master.fill(5)
    ours.follow(master.port)
    ours.wait(middle_offset)
    assert master.stay_master(2)
    end_offset = master.fill(5)
    ours.wait(end_offset)
    # The bytes come at once, under the epoch before: a list of 5.2.0's own slaves lacks it just so.
    assert ours.store.epochs == EpochList.of((1, 0))
    assert master.status().epochs == EpochList.of((1, 0), (2, middle_offset))
    ours.leave()
    notes = ours.follow(master.port)
    # Nothing had said of which epoch the bytes are: they are cut, and copied again.
    wait_until(lambda: notes.cuts == [(end_offset, middle_offset)], "cut")
    assert_same(ours, master, end_offset)
    assert ours.store.epochs == EpochList.of((1, 0), (2, middle_offset))


def test_case_05_an_idle_master_beats_and_gives_a_silent_slave_up(stores: JavaStores, tmp_path: Path) -> None:
    settings = {"haSendHeartbeatInterval": "500", "haHousekeepingInterval": "2500"}
    master = stores.open(tmp_path / "master", MASTER_ID, FILE_BYTES, settings)
    master.become_master(1)
    end_offset = master.fill(1)
    with HandSlave(master.port) as slave:
        slave.shake_hands(Handshake(SLAVE_ID))
        slave.ack(0)
        slave.frames_to(end_offset)
        began_s = time.monotonic()
        beats = []
        for _ in range(3):
            header, _ = slave.frame()
            assert (header.body_bytes, header.offset) == (0, end_offset)
            beats.append(time.monotonic() - began_s)
        assert beats[0] > 0.4
        assert all(later - earlier > 0.4 for earlier, later in itertools.pairwise(beats))
        slave.wait_closed()
        assert time.monotonic() - began_s > 2.4


def test_case_07_our_truncation_point_is_that_of_the_epoch_cache_in_the_jar(stores: JavaStores) -> None:
    draw = random.Random(stores.version)  # a fixed seed: a failure repeats
    found = set()
    for _ in range(POINTS):
        own, own_max = _some_epochs(draw)
        master, master_max = _some_epochs(draw)
        point = truncation_point(own, own_max, master, master_max).offset
        assert point == stores.point(own, own_max, master, master_max), (own, own_max, master, master_max)
        found.add(point is None)
    assert found == {True, False}


def _some_epochs(draw: random.Random) -> tuple[EpochList, int]:
    """Draw from few epochs and starts, so that lists often have some in common."""
    epochs = sorted(draw.sample(range(1, 6), draw.randint(1, 4)))
    starts = sorted(draw.sample(range(0, 1000, 100), len(epochs)))
    return EpochList.of(*zip(epochs, starts, strict=True)), starts[-1] + draw.randrange(0, 400, 50)


def test_case_08_a_tail_that_parts_at_a_record_is_cut(master: JavaStore, ours: OurSlave) -> None:
    common_offset = master.fill(5)
    ours.follow(master.port)
    ours.wait(common_offset)
    ours.leave()
    append(ours.store, message(common_offset, b"nobody else has this one"))
    master.become_master(2)
    end_offset = master.fill(3, body_bytes=300)
    notes = ours.follow(master.port)
    assert_same(ours, master, end_offset)
    assert [to_offset for _, to_offset in notes.cuts] == [common_offset]


def test_case_08_a_point_inside_a_record_is_not_cut_at(master: JavaStore, ours: OurSlave) -> None:
    common_offset = master.fill(5)
    ours.follow(master.port)
    ours.wait(common_offset)
    ours.leave()
    append(ours.store, message(common_offset, bytes(500)))
    own_end_offset = ours.store.log.max_offset
    assert common_offset < master.fill(1, body_bytes=10) < own_end_offset
    master.become_master(2)
    master.fill(5)
    end = ours.follow(master.port).end()
    assert end.diverged is DivergenceReason.CUT_INSIDE_RECORD
    assert ours.store.log.max_offset == own_end_offset


def test_case_09_no_body_crosses_the_end_of_a_file(master: JavaStore) -> None:
    end_offset = master.fill(60, body_bytes=3000)
    assert end_offset > 2 * FILE_BYTES
    with HandSlave(master.port) as slave:
        slave.shake_hands(Handshake(SLAVE_ID))
        slave.ack(0)
        for header in slave.frames_to(end_offset):
            assert header.offset % FILE_BYTES + header.body_bytes <= FILE_BYTES


def test_case_10_the_old_handshake_gets_no_byte_of_the_log_from_a_java_master(master: JavaStore) -> None:
    master.fill(3)
    with HandSlave(master.port) as slave:
        address = b"127.0.0.1:10911"
        head = bytes.fromhex("00000001 0000 0000") + len(address).to_bytes(4, "big")
        slave.send((head + address).ljust(62, b"\0"))
        # It takes the first 16 bytes for a handshake of today, and fails over the
        # rest before, within or after its reply.
        assert _reply_of(master).startswith(slave.wait_closed())


def _reply_of(master: JavaStore) -> bytes:
    status = master.status()
    return encode_reply(HandshakeReply(status.max_offset, status.epochs))


def test_case_11_a_slave_that_caught_up_is_reported_and_one_that_left_is_not(
    master: JavaStore, ours: OurSlave
) -> None:
    ours.follow(master.port)
    ours.wait(master.fill(5))
    assert master.wait(lambda status: bool(status.reported)).reported[-1] == (MASTER_ID, SLAVE_ID)
    master.set_members(MASTER_ID, SLAVE_ID)
    assert master.status().sync_state_set == (MASTER_ID, SLAVE_ID)
    ours.leave()
    master.wait(lambda status: status.reported[-1] == (MASTER_ID,))


def test_case_11_a_slave_that_falls_behind_leaves_the_set_and_comes_back_when_it_caught_up(
    stores: JavaStores, tmp_path: Path
) -> None:
    settings = {**QUICK_TIMES, "haMaxTimeSlaveNotCatchup": "500"}
    master = stores.open(tmp_path / "master", MASTER_ID, FILE_BYTES, settings)
    master.become_master(1)
    middle_offset = master.fill(1)
    with HandSlave(master.port) as slave:
        slave.shake_hands(Handshake(SLAVE_ID))
        slave.ack(0)
        slave.frames_to(middle_offset)
        master.wait(lambda status: bool(status.reported))
        master.set_members(MASTER_ID, SLAVE_ID)
        assert master.shrink() == (MASTER_ID, SLAVE_ID)
        end_offset = middle_offset
        # While the master can send, it counts as caught up whoever says nothing:
        # fill what lies between the two.
        while master.shrink() != (MASTER_ID,):
            end_offset = master.fill(1)
        master.set_members(MASTER_ID)
        known = len(master.status().reported)
        slave.frames_to(end_offset)
        assert master.wait(lambda status: len(status.reported) > known).reported[-1] == (
            MASTER_ID,
            SLAVE_ID,
        )


def test_case_12_puts_are_answered_by_the_set_and_by_acks(stores: JavaStores, tmp_path: Path) -> None:
    settings = {**QUICK_TIMES, "allAckInSyncStateSet": "true", "minInSyncReplicas": "2"}
    master = stores.open(tmp_path / "master", MASTER_ID, FILE_BYTES, settings)
    master.become_master(1)
    assert master.put(1) == {"IN_SYNC_REPLICAS_NOT_ENOUGH": 1}
    assert master.status().max_offset == 0
    with OurSlave(tmp_path / "ours", FILE_BYTES) as ours:
        ours.follow(master.port)
        master.wait(lambda status: bool(status.reported))
        master.set_members(MASTER_ID, SLAVE_ID)
        assert master.put(20) == {"PUT_OK": 20}
        end_offset = master.status().max_offset
        assert_same(ours, master, end_offset)
        with HandSlave(master.port) as mute:
            mute.shake_hands(Handshake(3))
            mute.ack(end_offset)
            master.set_members(MASTER_ID, SLAVE_ID, 3)
            assert master.put(1) == {"FLUSH_SLAVE_TIMEOUT": 1}
            # Only the waiting producer gets that error; the message is in the log and goes to all slaves.
            ours.wait(master.status().max_offset)
            assert master.status().confirm_offset == end_offset


def test_case_12_a_learner_s_ack_counts_as_a_copy_and_never_as_a_member(
    stores: JavaStores, tmp_path: Path
) -> None:
    settings = {**QUICK_TIMES, "inSyncReplicas": "2"}
    master = stores.open(tmp_path / "master", MASTER_ID, FILE_BYTES, settings)
    master.become_master(1)
    assert master.put(1) == {"FLUSH_SLAVE_TIMEOUT": 1}
    with OurSlave(tmp_path / "ours", FILE_BYTES) as ours:
        ours.follow(master.port, async_learner=True)
        ours.wait(master.status().max_offset)
        assert master.put(20) == {"PUT_OK": 20}
        status = master.status()
        assert [slave.is_learner for slave in status.slaves] == [True]
        assert (status.sync_state_set, status.reported) == ((MASTER_ID,), ())
