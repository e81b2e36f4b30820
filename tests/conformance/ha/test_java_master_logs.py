"""The cases of the HA protocol in which the log of RocketMQ's own store, the master, changes.

The log is cut, restarted, pruned or rebuilt.

The number in a test's name is the case's in docs/reference/ha_conformance.md, which
states and explains the rule.
"""

import shutil
import time
from multiprocessing import get_context
from pathlib import Path

import pytest

from ha_sidecar.epoch import EpochList
from ha_sidecar.transfer.actions import DivergenceReason
from testkit.ha.by_hand import HandSlave
from testkit.ha.java_stores import QUICK_TIMES, JavaStore, JavaStores, assert_same
from testkit.ha.messages import message
from testkit.ha.peers import OurSlave, follow_and_die_in_the_cut, tearing_relay, wait_until
from testkit.ha.stores import append

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]

FILE_BYTES = 1 << 16
"""Small files, so that logs cross the end of some."""
MASTER_ID, SLAVE_ID = 1, 2
CLOSED_WITHIN_S = 20.0


def test_case_13_a_master_restarted_in_its_epoch_is_followed_without_a_cut(
    stores: JavaStores, master: JavaStore, ours: OurSlave
) -> None:
    middle_offset = master.fill(10)
    ours.follow(master.port)
    ours.wait(middle_offset)
    ours.leave()
    master.close()
    again = stores.open(master.directory, MASTER_ID, FILE_BYTES)
    assert again.become_master(1)
    assert again.status().epochs == EpochList.of((1, middle_offset))
    end_offset = again.fill(10)
    assert ours.follow(again.port).end().diverged is DivergenceReason.NO_COMMON_EPOCH
    notes = ours.follow(again.port, restarted_epoch=1)
    assert_same(ours, again, end_offset)
    assert notes.cuts == []


def test_case_14_a_slave_killed_in_its_cut_cuts_again_and_no_stale_record_returns(
    master: JavaStore, tmp_path: Path
) -> None:
    common_offset = master.fill(5)
    with OurSlave(tmp_path / "ours", FILE_BYTES) as before:
        before.follow(master.port)
        before.wait(common_offset)
        before.leave()
        for _ in range(20):
            append(before.store, message(before.store.log.max_offset, bytes(200)))
    master.become_master(2)
    end_offset = master.fill(1)
    work = get_context("spawn").Process(
        target=follow_and_die_in_the_cut, args=(tmp_path / "ours", FILE_BYTES, master.port)
    )
    work.start()
    work.join(CLOSED_WITHIN_S * 3)
    assert work.exitcode == -9
    with OurSlave(tmp_path / "ours", FILE_BYTES) as after:
        assert after.store.log.max_offset == common_offset
        after.follow(master.port)
        assert_same(after, master, end_offset)
    with OurSlave(tmp_path / "ours", FILE_BYTES) as restarted:
        assert restarted.store.log.max_offset == end_offset


def test_case_15_finished_files_are_identical_to_their_last_byte(master: JavaStore, ours: OurSlave) -> None:
    end_offset = master.fill(100, body_bytes=3000)
    ours.follow(master.port)
    assert_same(ours, master, end_offset)
    files = sorted(ours.store.log.layout.directory.iterdir())
    assert len(files) >= 5
    for path in files[:-1]:
        assert path.read_bytes() == (master.log_directory / path.name).read_bytes()


def test_case_16_a_java_store_opened_on_our_copy_takes_office_with_every_message(
    stores: JavaStores, master: JavaStore, ours: OurSlave, tmp_path: Path
) -> None:
    end_offset = master.fill(100, body_bytes=1000)
    ours.follow(master.port)
    ours.wait(end_offset)
    ours.leave()
    ours.store.log.sync()
    shutil.copytree(ours.store.directory, tmp_path / "rebuilt", ignore=shutil.ignore_patterns("lock"))
    rebuilt = stores.open(tmp_path / "rebuilt", SLAVE_ID, FILE_BYTES)
    assert rebuilt.become_master(2)
    assert rebuilt.status().epochs == EpochList.of((1, 0), (2, end_offset))
    assert rebuilt.wait(lambda status: status.messages == 100).max_offset == end_offset
    rebuilt.fill(10)
    rebuilt.wait(lambda status: status.messages == 110)


def test_case_17_a_slave_sent_to_a_new_master_in_the_midst_of_a_transfer_ends_like_it(
    stores: JavaStores, ours: OurSlave, tmp_path: Path
) -> None:
    slow = {**QUICK_TIMES, "haFlowControlEnable": "true", "maxHaTransferByteInSecond": "100000"}
    old = stores.open(tmp_path / "old", MASTER_ID, FILE_BYTES, slow)
    old.become_master(1)
    common_offset = old.fill(10)
    new = stores.open(tmp_path / "new", 3, FILE_BYTES)
    new.become_slave(1, 3, old.port)
    new.wait(lambda status: status.max_offset == status.confirm_offset == common_offset)
    assert new.become_master(2)
    new_end_offset = new.fill(10)
    old_end_offset = old.fill(400, body_bytes=1500)
    ours.follow(old.port)
    wait_until(lambda: ours.store.log.max_offset > common_offset, "beginning of a transfer")
    ours.leave()
    assert ours.store.log.max_offset < old_end_offset
    notes = ours.follow(new.port)
    assert_same(ours, new, new_end_offset)
    assert [to_offset for _, to_offset in notes.cuts] == [common_offset]
    assert [entry.epoch for entry in ours.store.epochs] == [1, 2]


def test_case_18_a_java_master_takes_a_wrong_id_from_a_handshake_in_two_parts(master: JavaStore) -> None:
    master.fill(1)
    with HandSlave(master.port) as slave:
        slave.send(bytes.fromhex("00000001 0000 0000 00000000"))
        time.sleep(1.0)  # until the first part has been read alone
        slave.send(bytes.fromhex("00000002"))
        slave.read(32)
        slave.ack(0)
        (known,) = master.wait(lambda status: len(status.slaves) == 1).slaves
        assert known.broker_id != SLAVE_ID


def test_torn_frames_make_the_same_log(master: JavaStore, ours: OurSlave) -> None:
    end_offset = master.fill(60, body_bytes=1500)
    with tearing_relay(master.port) as port:
        ours.follow(port)
        assert_same(ours, master, end_offset)
        ours.leave()


def test_a_slave_joins_a_master_whose_oldest_files_are_gone(
    stores: JavaStores, master: JavaStore, ours: OurSlave
) -> None:
    master.fill(60, body_bytes=3000)
    master.become_master(2)
    master.fill(10)
    master.close()
    oldest = min(master.log_directory.iterdir())
    oldest.unlink()
    again = stores.open(master.directory, MASTER_ID, FILE_BYTES)
    assert again.become_master(3)
    end_offset = again.fill(10)
    assert again.status().min_offset == FILE_BYTES
    ours.follow(again.port)
    ours.wait(end_offset)
    assert ours.store.log.min_offset == FILE_BYTES
    names = sorted(path.name for path in ours.store.log.layout.directory.iterdir())
    assert names == sorted(path.name for path in again.log_directory.iterdir())[: len(names)]
    for name in names[:-1]:
        ours_bytes = (ours.store.log.layout.directory / name).read_bytes()
        assert ours_bytes == (again.log_directory / name).read_bytes()
    assert ours.store.epochs == again.status().epochs
