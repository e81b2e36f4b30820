"""Java's backup of the epoch file: why we do not read it, and that it never outlives its list."""

from pathlib import Path

import pytest

from ha_sidecar.commitlog.store import EPOCH_FILE, EPOCH_FILE_BACKUP, ReplicaStore, read_epochs, write_epochs
from ha_sidecar.epoch import EpochFileError, EpochList, truncation_point
from ha_sidecar.epoch.file_format import encode
from ha_sidecar.transfer.actions import DivergenceReason
from ha_sidecar.transfer.codec import HandshakeReply
from ha_sidecar.transfer.reconcile import SlaveConfig, decide
from testkit.ha.messages import log_bytes
from testkit.ha.stores import append

FILE_BYTES = 4096
NEWEST = EpochList.of((3, 0), (5, 1000))
BEFORE = EpochList.of((3, 0))
"""What the backup holds once epoch 5 has been written."""


def filled(directory: Path) -> int:
    """Write a log there, and Java's backup beside it; return where the log ends."""
    store = ReplicaStore(directory, FILE_BYTES)
    append(store, log_bytes(12, FILE_BYTES))
    store.log.sync()
    end_offset = store.log.max_offset
    store.close()
    (directory / EPOCH_FILE_BACKUP).write_bytes(encode(BEFORE))
    return end_offset


def test_a_list_without_its_newest_epoch_leaves_a_diverged_tail_in_place() -> None:
    # The master was elected past epoch 5 and was itself of epoch 3 up to 1400.
    master, master_max_offset = EpochList.of((3, 0), (6, 1400)), 2000
    assert truncation_point(NEWEST, 1500, master, master_max_offset).offset == 1000
    assert truncation_point(BEFORE, 1500, master, master_max_offset).offset == 1400


def test_without_an_epoch_file_its_backup_is_not_taken_for_it(tmp_path: Path) -> None:
    end_offset = filled(tmp_path)
    assert read_epochs(tmp_path) == EpochList()
    store = ReplicaStore(tmp_path, FILE_BYTES)
    reply = HandshakeReply(end_offset, BEFORE)
    assert decide(store.own_log(), reply, SlaveConfig(2, FILE_BYTES)) is DivergenceReason.UNLABELLED_LOG
    store.close()


@pytest.mark.parametrize(
    "damaged",
    [
        pytest.param(encode(NEWEST)[:-3], id="torn"),
        pytest.param(b"3" + encode(NEWEST)[1:], id="another-count"),
        pytest.param(b"", id="emptied"),
    ],
)
def test_a_damaged_epoch_file_is_refused_beside_a_whole_backup(tmp_path: Path, damaged: bytes) -> None:
    filled(tmp_path)
    (tmp_path / EPOCH_FILE).write_bytes(damaged)
    with pytest.raises(EpochFileError):
        ReplicaStore(tmp_path, FILE_BYTES)
    assert (tmp_path / EPOCH_FILE).read_bytes() == damaged


def test_the_backup_goes_with_the_log_that_is_moved_aside(tmp_path: Path) -> None:
    filled(tmp_path)
    write_epochs(tmp_path, NEWEST)
    store = ReplicaStore(tmp_path, FILE_BYTES)
    target = store.archive()
    store.close()
    assert not (tmp_path / EPOCH_FILE_BACKUP).exists()
    assert (target / EPOCH_FILE_BACKUP).read_bytes() == encode(BEFORE)
    assert read_epochs(target) == NEWEST


def test_an_emptied_list_leaves_no_backup_to_come_back(tmp_path: Path) -> None:
    filled(tmp_path)
    write_epochs(tmp_path, EpochList())
    assert not (tmp_path / EPOCH_FILE_BACKUP).exists()
