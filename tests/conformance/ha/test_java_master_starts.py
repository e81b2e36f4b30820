"""Where a slave of ours without a log begins at RocketMQ's own store: with the newest file, or above what is not there any more.

What must hold and why is in docs/reference/ha_conformance.md, below the cases.
"""

import pytest

from testkit.ha_peers import OurSlave
from testkit.ha_stores import JavaStore, assert_same

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]

FILE_BYTES = 1 << 16
"""Small files, so that logs cross the end of some."""


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
    # It is a slave like any other from here on: what comes next crosses into files that it has whole.
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
    notes = ours.follow(master.port, sync_from_last_file=True)
    notes.handshakes.get(timeout=30.0)
    end_offset = master.fill(60, body_bytes=3000)
    assert_same(ours, master, end_offset)
    assert ours.store.log.min_offset == 0
