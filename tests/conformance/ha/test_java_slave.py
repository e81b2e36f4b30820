"""The cases of the HA protocol in which RocketMQ's own store is the slave.

Our HA port serves it, or a master by hand does.

The number in a test's name is the case's in docs/reference/ha_conformance.md, which
states and explains the rule.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ha_sidecar.epoch import EpochList
from ha_sidecar.transfer import codec
from ha_sidecar.transfer.codec import Handshake
from testkit.ha.by_hand import HandMaster, HandSlave
from testkit.ha.java_stores import QUICK_TIMES, JavaStore, JavaStores
from testkit.ha.messages import log_bytes, message
from testkit.ha.peers import OurMaster, tearing_relay, wait_until
from testkit.products.replica import log_prefix_equal

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]

FILE_BYTES = 1 << 16
"""Small files, so that logs cross the end of some."""
SLAVE_ID = 2
QUICK = {**QUICK_TIMES, "haHousekeepingInterval": "2500"}


@pytest.fixture(scope="module", params=["5.4.0", "5.5.0"])
def stores(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaStores]:
    with JavaStores(request.param, tmp_path_factory.mktemp("stores")) as made:
        yield made


@pytest.fixture
def java(stores: JavaStores, tmp_path: Path) -> JavaStore:
    """An empty Java store that does not follow a master yet."""
    return stores.open(tmp_path / "java", SLAVE_ID, FILE_BYTES)


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[OurMaster]:
    """Our HA port, master of epoch 1 without a byte."""
    with OurMaster(tmp_path / "ours", FILE_BYTES) as made:
        yield made


@pytest.fixture
def hand() -> Iterator[HandMaster]:
    with HandMaster(FILE_BYTES) as made:
        yield made


def assert_same_log(java: JavaStore, ours: OurMaster, end_offset: int) -> None:
    """Hold the logs of both against each other."""
    ours.wait_acked(end_offset)
    java.wait(lambda status: status.max_offset == end_offset)
    assert log_prefix_equal(ours.store.log.layout.directory, java.log_directory, end_offset)


def assert_same(java: JavaStore, ours: OurMaster, end_offset: int) -> None:
    """Hold log and epoch file of both against each other."""
    assert_same_log(java, ours, end_offset)
    assert java.epoch_file() == (ours.store.directory / "epochFileCheckpoint").read_bytes()


@pytest.mark.parametrize(
    ("key", "golden"),
    [
        ("slaveTimeout", "00000001 0000 0000 0000000000000002"),
        ("syncFromLastFile", "00000001 0001 0000 0000000000000002"),
        ("asyncLearner", "00000001 0000 0001 0000000000000002"),
    ],
)
def test_case_01_a_java_slave_says_who_it_is_in_sixteen_bytes(
    stores: JavaStores, tmp_path: Path, hand: HandMaster, key: str, golden: str
) -> None:
    settings = {**QUICK, key: "700" if key == "slaveTimeout" else "true"}
    java = stores.open(tmp_path / "java", SLAVE_ID, FILE_BYTES, settings)
    java.become_slave(1, SLAVE_ID, hand.port)
    assert hand.accept_bytes() == bytes.fromhex(golden)


def test_case_02_a_java_slave_acknowledges_in_twelve_bytes(java: JavaStore, hand: HandMaster) -> None:
    log = log_bytes(3, FILE_BYTES)
    java.become_slave(1, SLAVE_ID, hand.port)
    hand.accept()
    hand.reply(len(log), (1, 0))
    assert hand.read(codec.ACK_BYTES) == bytes.fromhex("00000002 0000000000000000")
    hand.send_log(log, 0, 1)
    hand.ack_of(len(log))


def test_case_03_epochs_shorter_than_a_batch_reach_an_empty_java_slave(
    java: JavaStore, ours: OurMaster
) -> None:
    for epoch in (2, 3):
        ours.fill(2)
        ours.open_epoch(epoch)
    end_offset = ours.fill(2)
    java.become_slave(3, SLAVE_ID, ours.port)
    assert_same(java, ours, end_offset)
    assert [entry.epoch for entry in java.status().epochs] == [1, 2, 3]


def test_case_04_an_epoch_that_changes_while_connected_reaches_a_java_slave(
    java: JavaStore, ours: OurMaster
) -> None:
    java.become_slave(1, SLAVE_ID, ours.port)
    ours.wait_acked(ours.fill(5))
    ours.open_epoch(2)
    java.wait(lambda status: status.epochs.last_epoch == 2)
    assert_same(java, ours, ours.fill(5))


def test_case_05_a_java_slave_gives_a_silent_master_up_and_comes_back(
    stores: JavaStores, tmp_path: Path, hand: HandMaster
) -> None:
    java = stores.open(tmp_path / "java", SLAVE_ID, FILE_BYTES, QUICK)
    java.become_slave(1, SLAVE_ID, hand.port)
    hand.accept()
    hand.reply(0, (1, 0))
    hand.wait_closed()
    assert hand.accept() == Handshake(SLAVE_ID)


def test_case_05_a_java_slave_stays_with_our_idle_port(
    stores: JavaStores, tmp_path: Path, ours: OurMaster
) -> None:
    java = stores.open(tmp_path / "java", SLAVE_ID, FILE_BYTES, QUICK)
    java.become_slave(1, SLAVE_ID, ours.port)
    first = ours.wait_acked(ours.fill(1)).address
    with pytest.raises(TimeoutError):  # longer than its housekeeping interval
        java.wait(lambda status: status.max_offset > ours.max_offset, 3.5)
    assert ours.wait_acked(ours.fill(1)).address == first


def test_case_06_a_reply_in_two_parts_makes_a_java_slave_say_its_handshake_again(
    java: JavaStore, hand: HandMaster
) -> None:
    log = log_bytes(3, FILE_BYTES)
    java.become_slave(1, SLAVE_ID, hand.port)
    assert hand.accept() == Handshake(SLAVE_ID)
    reply = codec.encode_reply(codec.HandshakeReply(len(log), EpochList.of((1, 0))))
    hand.peer.sendall(reply[: codec.REPLY_HEADER_BYTES])
    assert hand.read(codec.HANDSHAKE_BYTES) == codec.encode_handshake(Handshake(SLAVE_ID))
    hand.peer.sendall(reply[codec.REPLY_HEADER_BYTES :])
    while (first := hand.read(codec.ACK_BYTES))[3] == codec.ConnectionState.HANDSHAKE:
        hand.read(codec.HANDSHAKE_BYTES - codec.ACK_BYTES)
    assert codec.decode_ack(first) == 0
    hand.send_log(log, 0, 1)
    hand.ack_of(len(log))


def test_case_08_a_tail_that_parts_at_a_record_is_cut_from_a_java_slave(
    java: JavaStore, ours: OurMaster
) -> None:
    common_offset = ours.fill(5)
    java.become_slave(1, SLAVE_ID, ours.port)
    ours.wait_acked(common_offset)
    java.become_master(2)
    assert java.fill(3) > common_offset
    ours.open_epoch(3)
    end_offset = ours.fill(1, body_bytes=700)
    java.become_slave(3, SLAVE_ID, ours.port)
    assert_same_log(java, ours, end_offset)
    # A Java slave forgets to drop the entry of the tail that it cut, and then refuses
    # the one that begins there too.
    assert java.status().epochs == EpochList.of((1, 0), (2, common_offset))
    assert ours.store.epochs == EpochList.of((1, 0), (3, common_offset))


def test_case_08_a_java_slave_does_not_cut_inside_a_record(java: JavaStore, hand: HandMaster) -> None:
    log = log_bytes(4, FILE_BYTES)
    java.become_slave(1, SLAVE_ID, hand.port)
    hand.accept()
    hand.reply(len(log), (1, 0))
    hand.send_log(log, 0, 1)
    hand.ack_of(len(log))
    java.become_slave(2, SLAVE_ID, hand.port)
    hand.accept()
    hand.reply(len(log) + 500, (1, 0), (2, len(log) - 10))
    hand.wait_closed()
    assert java.status().max_offset == len(log)


def test_case_09_a_java_slave_loses_a_body_that_crosses_the_end_of_a_file(
    java: JavaStore, hand: HandMaster
) -> None:
    log = log_bytes(10, FILE_BYTES, body_bytes=6_000)
    file_end = log_bytes(11, FILE_BYTES, body_bytes=6_000)[len(log) : FILE_BYTES]
    crossing = file_end + message(FILE_BYTES, b"in the next file")
    java.become_slave(1, SLAVE_ID, hand.port)
    hand.accept()
    hand.reply(FILE_BYTES * 2, (1, 0))
    hand.send_log(log, 0, 1, batch_bytes=30_000)
    hand.ack_of(len(log))
    hand.send_frame(crossing, len(log), 1)
    hand.send_frame(message(len(log) + len(crossing)), len(log) + len(crossing), 1)
    hand.wait_closed()
    assert java.status().max_offset == len(log)


def test_case_09_our_port_ends_bodies_at_the_file_s_end_and_a_java_slave_gets_all(
    java: JavaStore, ours: OurMaster
) -> None:
    end_offset = ours.fill(60, body_bytes=3000)
    assert end_offset > 2 * FILE_BYTES
    java.become_slave(1, SLAVE_ID, ours.port)
    assert_same(java, ours, end_offset)
    assert java.wait(lambda status: status.messages == 60).confirm_offset == end_offset


def test_case_13_our_port_restarted_in_its_epoch_is_followed_on(java: JavaStore, ours: OurMaster) -> None:
    java.become_slave(1, SLAVE_ID, ours.port)
    ours.wait_acked(ours.fill(5))
    ours.restart()
    # Its master's epoch is the same; told the address again, it need not wait for 5 s.
    java.become_slave(1, SLAVE_ID, ours.port)
    end_offset = ours.fill(5)
    ours.wait_acked(end_offset)
    assert_same(java, ours, end_offset)


def test_case_14_a_stale_tail_that_returns_with_a_java_slave_s_restart_is_cut_again(
    stores: JavaStores, tmp_path: Path, ours: OurMaster
) -> None:
    common_offset = ours.fill(5)
    with JavaStores(stores.version, tmp_path / "killed") as killed:
        java = killed.open(tmp_path / "java", SLAVE_ID, FILE_BYTES)
        java.become_slave(1, SLAVE_ID, ours.port)
        ours.wait_acked(common_offset)
        java.become_master(2)
        stale_end = java.fill(30)
        ours.open_epoch(3)
        end_offset = ours.fill(1)
        java.become_slave(3, SLAVE_ID, ours.port)
        assert_same_log(java, ours, end_offset)
        killed.kill()
    again = stores.open(tmp_path / "java", SLAVE_ID, FILE_BYTES)
    # Java only forgets what it cuts: the records are still in the file, and its recovery finds them.
    assert end_offset < again.status().max_offset <= stale_end
    again.become_slave(3, SLAVE_ID, ours.port)
    assert_same_log(again, ours, end_offset)
    assert_same_log(again, ours, ours.fill(5))


def test_case_15_finished_files_of_a_java_slave_are_ours_to_their_last_byte(
    java: JavaStore, ours: OurMaster
) -> None:
    end_offset = ours.fill(100, body_bytes=3000)
    java.become_slave(1, SLAVE_ID, ours.port)
    assert_same(java, ours, end_offset)
    files = sorted(ours.store.log.layout.directory.iterdir())
    assert len(files) >= 5
    for path in files[:-1]:
        assert path.read_bytes() == (java.log_directory / path.name).read_bytes()


def test_case_16_a_java_slave_rebuilt_from_our_port_takes_office_with_every_message(
    java: JavaStore, ours: OurMaster
) -> None:
    ours.fill(50)
    ours.open_epoch(2)
    end_offset = ours.fill(50, body_bytes=1000)
    java.become_slave(2, SLAVE_ID, ours.port)
    assert_same(java, ours, end_offset)
    epochs = java.status().epochs
    assert java.become_master(3)
    assert [entry.epoch for entry in java.status().epochs] == [*(entry.epoch for entry in epochs), 3]
    assert java.wait(lambda status: status.messages == 100).max_offset == end_offset
    java.fill(10)
    java.wait(lambda status: status.messages == 110)


def test_torn_frames_make_the_same_log_at_a_java_slave(java: JavaStore, ours: OurMaster) -> None:
    end_offset = ours.fill(60, body_bytes=1500)
    with tearing_relay(ours.port) as port:
        java.become_slave(1, SLAVE_ID, port)
        assert_same(java, ours, end_offset)


def test_sync_from_last_file_gives_a_java_slave_the_newest_file_alone(
    stores: JavaStores, tmp_path: Path, ours: OurMaster
) -> None:
    end_offset = ours.fill(60, body_bytes=3000)
    settings = {**QUICK, "syncFromLastFile": "true"}
    java = stores.open(tmp_path / "java", SLAVE_ID, FILE_BYTES, settings)
    java.become_slave(1, SLAVE_ID, ours.port)
    java.wait(lambda status: status.max_offset == end_offset)
    assert java.status().min_offset == end_offset - end_offset % FILE_BYTES


def test_an_asynchronous_java_learner_is_served_like_any_other(
    stores: JavaStores, tmp_path: Path, ours: OurMaster
) -> None:
    settings = {**QUICK, "asyncLearner": "true"}
    java = stores.open(tmp_path / "java", SLAVE_ID, FILE_BYTES, settings)
    java.become_slave(1, SLAVE_ID, ours.port)
    assert_same(java, ours, ours.fill(5))


def test_a_java_slave_joins_our_port_where_the_oldest_files_are_gone(
    java: JavaStore, ours: OurMaster
) -> None:
    end_offset = ours.fill(60, body_bytes=3000)
    ours.store.log.drop_before(FILE_BYTES)
    java.become_slave(1, SLAVE_ID, ours.port)
    java.wait(lambda status: status.max_offset == end_offset)
    assert java.status().min_offset == FILE_BYTES == ours.store.log.min_offset


def test_two_java_slaves_catch_up_beside_one_that_does_not_read(stores: JavaStores, tmp_path: Path) -> None:
    # More than the kernel takes for a socket without a reader.
    file_bytes, stalled_id, ids = 4 << 20, 7, (2, 3)
    with OurMaster(tmp_path / "ours", file_bytes) as ours, HandSlave(ours.port, 4096) as stalled:
        stalled.shake_hands(Handshake(stalled_id))
        stalled.ack(0)
        slaves = [stores.open(tmp_path / f"java{one}", one, file_bytes) for one in ids]
        for one, java in zip(ids, slaves, strict=True):
            java.become_slave(1, one, ours.port)
        for count in (200, 50):
            end_offset = ours.fill(count, body_bytes=60_000)
            stalled.ack(0)  # it lives, and reads nothing
            for java in slaves:
                assert_same(java, ours, end_offset)

        def done() -> set[int]:
            return {slave.broker_id for slave in ours.server.slaves() if slave.ack_offset == end_offset}

        wait_until(lambda: done() == {*ids}, "acks of both")
        # In time: the connection of the one that stalls is still there, and full.
        (behind,) = [slave for slave in ours.server.slaves() if slave.broker_id == stalled_id]
        assert (behind.ack_offset, 0 < behind.position < end_offset) == (0, True)
