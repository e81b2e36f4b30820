"""The cases of the HA protocol in which one of our two ends meets a peer written by hand, without Java.

The number in a test's name is the case's in docs/reference/ha_conformance.md, which states and explains the
rule, and names the unit tests of codec, epochs and machines that belong to a case too.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ha_sidecar.transfer import codec
from ha_sidecar.transfer.codec import Handshake
from testkit.ha.by_hand import HandMaster, HandSlave
from testkit.ha.messages import log_bytes, message
from testkit.ha.peers import OurMaster, OurSlave

FILE_BYTES = 4096
SLAVE_ID = 2
GOLDEN_HANDSHAKE = bytes.fromhex("00000001 0000 0000 0000000000000002")


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[OurMaster]:
    with OurMaster(tmp_path / "ours", FILE_BYTES) as made:
        yield made


@pytest.fixture
def slave(tmp_path: Path) -> Iterator[OurSlave]:
    with OurSlave(tmp_path / "slave", FILE_BYTES) as made:
        yield made


@pytest.fixture
def hand() -> Iterator[HandMaster]:
    with HandMaster(FILE_BYTES) as made:
        yield made


def test_case_01_and_case_18_our_slave_says_the_golden_handshake_in_one_piece(
    slave: OurSlave, hand: HandMaster
) -> None:
    slave.follow(hand.port)
    assert hand.accept_bytes(pieces=1) == GOLDEN_HANDSHAKE


def test_case_02_our_port_sends_a_golden_reply_and_an_empty_frame_before_an_epoch(ours: OurMaster) -> None:
    end_offset = ours.fill(2)
    with HandSlave(ours.port) as peer:
        peer.send(GOLDEN_HANDSHAKE)
        assert peer.read(32) == (
            bytes.fromhex("00000001 0000000c")
            + end_offset.to_bytes(8, "big")
            + bytes.fromhex("00000001 00000001 0000000000000000")
        )
        peer.send(bytes.fromhex("00000002 0000000000000000"))
        confirm_of_nothing = bytes(8)
        epoch_1_at_0 = bytes.fromhex("00000001 0000000000000000")
        assert (
            peer.read(36) == bytes.fromhex("00000002 00000000") + bytes(8) + epoch_1_at_0 + confirm_of_nothing
        )
        body_bytes = end_offset.to_bytes(4, "big")
        confirm = end_offset.to_bytes(8, "big")
        assert peer.read(36) == bytes.fromhex("00000002") + body_bytes + bytes(8) + epoch_1_at_0 + confirm
        assert (
            peer.read(end_offset) == next(ours.store.log.layout.directory.iterdir()).read_bytes()[:end_offset]
        )


def test_case_06_our_port_answers_a_handshake_that_is_said_twice_once(ours: OurMaster) -> None:
    end_offset = ours.fill(2)
    with HandSlave(ours.port) as peer:
        peer.send(GOLDEN_HANDSHAKE * 2)
        peer.read(32)
        peer.ack(0)
        assert peer.frames_to(end_offset)


def test_case_09_our_slave_refuses_a_body_that_crosses_the_end_of_a_file(
    slave: OurSlave, hand: HandMaster
) -> None:
    log = log_bytes(30, FILE_BYTES)
    slave.follow(hand.port)
    hand.accept()
    hand.reply(2 * FILE_BYTES, (1, 0))
    hand.send_log(log, 0, 1)
    hand.ack_of(len(log))
    hand.send_frame(message(len(log), bytes(2 * FILE_BYTES - len(log))), len(log), 1)
    assert slave.notes.end().reason == "ProtocolError"
    assert slave.store.log.max_offset == len(log)


def test_case_10_our_port_gives_the_old_handshake_nothing(ours: OurMaster) -> None:
    ours.fill(2)
    with HandSlave(ours.port) as peer:
        address = b"127.0.0.1:10911"
        head = bytes.fromhex("00000001 0000 0000") + len(address).to_bytes(4, "big")
        peer.send((head + address).ljust(62, b"\0"))
        assert peer.wait_closed() == b""


def test_case_13_our_port_restarted_in_its_epoch_keeps_that_epoch_s_start(
    ours: OurMaster, slave: OurSlave
) -> None:
    slave.follow(ours.port)
    slave.wait(ours.fill(5))
    slave.leave()
    ours.restart()
    notes = slave.follow(ours.port)
    slave.wait(ours.fill(5))
    assert slave.store.epochs == ours.store.epochs
    assert notes.cuts == []


def test_case_18_our_port_waits_for_all_sixteen_bytes_of_a_handshake(ours: OurMaster) -> None:
    ours.fill(1)
    with HandSlave(ours.port) as peer:
        peer.send(GOLDEN_HANDSHAKE[:12])
        time.sleep(0.2)  # until the first part has been read alone
        peer.send(GOLDEN_HANDSHAKE[12:])
        peer.read(32)
        peer.ack(0)
        assert ours.wait_acked(0).broker_id == SLAVE_ID


def test_handshakes_here_are_those_of_the_codec() -> None:
    assert codec.encode_handshake(Handshake(SLAVE_ID)) == GOLDEN_HANDSHAKE
