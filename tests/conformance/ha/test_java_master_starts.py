"""The offset at which a slave of ours without a log begins at RocketMQ's own store.

It is the newest file, or the first one above the deleted files.

The rules and their reasons are in docs/reference/ha_conformance.md, below the cases.
"""

import pytest

from ha_sidecar.commitlog.store import read_epochs, write_epochs
from ha_sidecar.common.ha_link import starts_below_first_epoch
from ha_sidecar.epoch import EpochEntry, EpochList
from ha_sidecar.transfer.actions import CloseReason, DivergenceReason
from ha_sidecar.transfer.codec import Handshake
from testkit.ha.by_hand import HandSlave
from testkit.ha.java_stores import JavaStore, JavaStores, assert_same
from testkit.ha.peers import OurSlave

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]

FILE_BYTES = 1 << 16
"""Small files, so that logs cross the end of some."""
MASTER_ID = 1


def assert_newest_files(ours: OurSlave, master: JavaStore, from_offset: int, end_offset: int) -> None:
    """Wait for a log up to there, and hold it against the master's files from `from_offset` on."""
    ours.wait(end_offset)
    assert ours.store.log.min_offset == from_offset
    names = sorted(path.name for path in ours.store.log.layout.directory.iterdir())
    assert names[0] == f"{from_offset:020d}"
    for name in names:
        length = min(FILE_BYTES, end_offset - int(name))
        mine = (ours.store.log.layout.directory / name).read_bytes()[:length]
        assert mine == (master.log_directory / name).read_bytes()[:length], name
    assert ours.store.epochs == master.status().epochs


def test_sync_from_last_file_begins_with_the_newest_file(master: JavaStore, ours: OurSlave) -> None:
    master.fill(30, body_bytes=3000)
    master.become_master(2)
    end_offset = master.fill(30, body_bytes=3000)
    newest_offset = end_offset - end_offset % FILE_BYTES
    assert newest_offset > FILE_BYTES
    notes = ours.follow(master.port, sync_from_last_file=True)
    assert_newest_files(ours, master, newest_offset, end_offset)
    assert notes.handshakes.get().start_offset == 0
    # It is a slave like any other from here on: the next bytes cross into files that it has whole.
    assert_newest_files(ours, master, newest_offset, master.fill(30, body_bytes=3000))
    assert [entry.epoch for entry in ours.store.epochs] == [1, 2]


def test_sync_from_last_file_goes_on_in_a_log_that_is_there(master: JavaStore, ours: OurSlave) -> None:
    first_end_offset = master.fill(10)
    ours.follow(master.port, sync_from_last_file=True)
    ours.wait(first_end_offset)
    ours.leave()
    end_offset = master.fill(60, body_bytes=3000)
    assert end_offset > 2 * FILE_BYTES
    notes = ours.follow(master.port, sync_from_last_file=True)
    assert_same(ours, master, end_offset)
    assert notes.handshakes.get().start_offset == first_end_offset
    assert ours.store.log.min_offset == 0


def test_sync_from_last_file_of_an_empty_master_begins_with_its_first_byte(
    master: JavaStore, ours: OurSlave
) -> None:
    ours.follow(master.port, sync_from_last_file=True)
    # The master decides where it begins some time after the handshake: it must
    # not have a second file by then.
    ours.wait(master.fill(1))
    end_offset = master.fill(60, body_bytes=3000)
    assert_same(ours, master, end_offset)
    assert ours.store.log.min_offset == 0


def restarted_and_pruned(stores: JavaStores, master: JavaStore) -> tuple[JavaStore, int]:
    """Fill two files and a half, restart the master in its epoch, and remove its oldest file before it opens.

    Returns:
        it, and where its first epoch begins now: inside its newest file, above its first byte.
    """
    first_offset = master.fill(53, body_bytes=3000)
    master.close()
    min(master.log_directory.iterdir()).unlink()
    again = stores.open(master.directory, MASTER_ID, FILE_BYTES)
    assert again.become_master(1)
    status = again.status()
    assert (status.min_offset, status.epochs) == (FILE_BYTES, EpochList.of((1, first_offset)))
    assert 2 * FILE_BYTES < first_offset < 3 * FILE_BYTES
    return again, first_offset


def test_a_slave_begins_at_the_first_whole_file_where_the_first_epoch_lies_above_the_oldest_byte(
    stores: JavaStores, master: JavaStore, ours: OurSlave
) -> None:
    again, _ = restarted_and_pruned(stores, master)
    end_offset = again.fill(60, body_bytes=3000)
    # Asked for everything, such a master begins with a body of less than no bytes, and
    # streams without bound behind it.
    end = ours.follow(again.port).end()
    assert end.reason == CloseReason.START_BELOW_FIRST_EPOCH.value
    assert ours.store.log.is_empty
    notes = ours.follow(again.port, start_at_file=starts_below_first_epoch(end))
    assert_newest_files(ours, again, 3 * FILE_BYTES, end_offset)
    assert notes.handshakes.get().start_offset == 3 * FILE_BYTES


def test_no_file_that_such_a_master_has_not_begun_is_acknowledged(
    stores: JavaStores, master: JavaStore, ours: OurSlave
) -> None:
    again, _ = restarted_and_pruned(stores, master)
    end = ours.follow(again.port, start_at_file=True).end()
    assert end.reason == CloseReason.NO_WHOLE_FILE_YET.value
    assert again.status().reported == ()
    # What the acknowledgement would have done: a slave without a byte becomes a
    # member, and a write counts on it.
    with HandSlave(again.port) as hand:
        hand.shake_hands(Handshake(3))
        hand.ack(3 * FILE_BYTES)
        assert again.wait(lambda status: bool(status.reported)).reported[-1] == (MASTER_ID, 3)
    end_offset = again.fill(60, body_bytes=3000)
    ours.follow(again.port, start_at_file=starts_below_first_epoch(end))
    assert_newest_files(ours, again, 3 * FILE_BYTES, end_offset)


def test_the_newest_file_is_not_asked_for_where_the_first_epoch_begins_in_it(
    stores: JavaStores, master: JavaStore, ours: OurSlave
) -> None:
    again, _ = restarted_and_pruned(stores, master)
    end = ours.follow(again.port, sync_from_last_file=True).end()
    assert end.reason == CloseReason.START_BELOW_FIRST_EPOCH.value
    config = {"sync_from_last_file": True, "start_at_file": starts_below_first_epoch(end)}
    end = ours.follow(again.port, **config).end()
    assert end.reason == CloseReason.NO_WHOLE_FILE_YET.value
    end_offset = again.fill(100, body_bytes=3000)
    newest_offset = end_offset - end_offset % FILE_BYTES
    assert newest_offset > 3 * FILE_BYTES
    ours.follow(again.port, **config)
    assert_newest_files(ours, again, newest_offset, end_offset)


def test_a_slave_that_lags_behind_the_first_epoch_of_a_restarted_master_finds_out_and_harms_nothing(
    stores: JavaStores, master: JavaStore, ours: OurSlave
) -> None:
    own_end_offset = master.fill(5)
    ours.follow(master.port)
    ours.wait(own_end_offset)
    ours.leave()
    again, _ = restarted_and_pruned(stores, master)
    end = ours.follow(again.port, restarted_epoch=1).end()
    assert end.diverged is DivergenceReason.BEHIND_FIRST_EPOCH
    assert ours.store.log.max_offset == own_end_offset
    assert again.status().reported == ()


def test_a_slave_joins_a_pruned_master_whose_epochs_begin_above_0(
    stores: JavaStores, master: JavaStore, ours: OurSlave
) -> None:
    second_offset = master.fill(5)
    master.become_master(2)
    master.fill(60, body_bytes=3000)
    master.become_master(3)
    master.fill(5)
    master.close()
    min(master.log_directory.iterdir()).unlink()
    # As Java's own deletion of files leaves it: the epoch that ended in the file is gone,
    # the one that goes on is not.
    write_epochs(master.directory, EpochList(list(read_epochs(master.directory))[1:]))
    again = stores.open(master.directory, MASTER_ID, FILE_BYTES)
    assert again.become_master(4)
    end_offset = again.fill(10)
    status = again.status()
    assert (status.min_offset, [entry.epoch for entry in status.epochs]) == (FILE_BYTES, [2, 3, 4])
    assert status.epochs.first == EpochEntry(2, second_offset)
    ours.follow(again.port)
    assert_newest_files(ours, again, FILE_BYTES, end_offset)
