"""The HA link over a real socket against a master by hand.

Bytes reach the disk, acks follow syncs, ends and restarts work.
"""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ha_sidecar.commitlog.store import ReplicaStore
from ha_sidecar.commitlog.syncer import Syncer
from ha_sidecar.common import ha_link as ha_link
from ha_sidecar.common.ha_link import HaLink
from ha_sidecar.epoch import EpochList
from ha_sidecar.transfer import codec
from ha_sidecar.transfer.actions import DivergenceReason
from ha_sidecar.transfer.codec import FrameHeader
from ha_sidecar.transfer.reconcile import SlaveConfig
from ha_sidecar.transfer.slave import NOBODY_ID
from testkit.ha.by_hand import HandMaster, PeerClosedError
from testkit.ha.messages import boundaries, log_bytes
from testkit.ha.peers import LinkNotes
from testkit.ha_sim.disk import SimulatedDisk

FILE_BYTES = 4096
WAIT_S = 30.0


@pytest.fixture
def master() -> Iterator[HandMaster]:
    made = HandMaster(FILE_BYTES)
    yield made
    made.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ReplicaStore]:
    made = ReplicaStore(tmp_path, FILE_BYTES)
    yield made
    made.close()


def start(master: HandMaster, store: ReplicaStore, notes: LinkNotes, **config: int) -> HaLink:
    link = HaLink(master.address, store, SlaveConfig(2, FILE_BYTES, **config), notes, None)
    link.start()
    return link


def stored_bytes(store: ReplicaStore) -> bytes:
    paths = sorted(store.log.layout.directory.iterdir())
    return b"".join(path.read_bytes() for path in paths)[: store.log.max_offset]


def test_a_log_crosses_files_and_arrives_byte_for_byte(master: HandMaster, store: ReplicaStore) -> None:
    log, notes = log_bytes(100, FILE_BYTES), LinkNotes()
    link = start(master, store, notes)
    assert master.accept() == codec.Handshake(2)
    master.reply(len(log), (1, 0))
    master.ack_of(0)
    master.send_log(log, 0, 1)
    master.ack_of(len(log))
    assert notes.caught_up.get(timeout=WAIT_S) == len(log)
    link.stop()
    assert notes.end().reason == "Stopped"
    assert stored_bytes(store) == log
    assert store.epochs == EpochList.of((1, 0))


def test_an_ack_waits_for_the_disk(master: HandMaster, store: ReplicaStore) -> None:
    log, notes = log_bytes(5, FILE_BYTES), LinkNotes()
    wanted, allowed = threading.Event(), threading.Event()

    def sync() -> int:
        wanted.set()
        assert allowed.wait(WAIT_S)
        return store.log.sync()

    link: HaLink | None = None

    def synced(_offset: int, _duration_s: float) -> None:
        assert link is not None
        link.synced()

    syncer = Syncer(sync, synced, lambda error: pytest.fail(str(error)))
    syncer.start()
    # Its clock stands still: an ack that is repeated because time passed is not under test.
    link = HaLink(master.address, store, SlaveConfig(2, FILE_BYTES), notes, syncer.wake, lambda: 0)
    link.set_in_sync(True)
    link.start()
    master.accept()
    master.reply(len(log), (1, 0))
    assert master.ack() == 0
    master.send_log(log, 0, 1)
    assert wanted.wait(WAIT_S)
    assert notes.caught_up.get(timeout=WAIT_S) == len(log)
    master.peer.settimeout(0.1)
    with pytest.raises(TimeoutError):
        master.ack()
    master.peer.settimeout(WAIT_S)
    allowed.set()
    master.ack_of(len(log))
    link.stop()
    notes.end()
    syncer.stop()


def test_a_diverged_tail_is_gone_from_disk_before_the_first_ack(
    master: HandMaster, store: ReplicaStore
) -> None:
    common, notes = log_bytes(10, FILE_BYTES), LinkNotes()
    cut = boundaries(common, FILE_BYTES)[6]
    new = log_bytes(8, FILE_BYTES, cut, mark=b"new")
    store.log.append(0, [memoryview(common)])
    store.adopt(EpochList.of((1, 0)))
    link = start(master, store, notes)
    master.accept()
    master.reply(cut + len(new), (1, 0), (2, cut))
    assert master.ack() == cut
    assert store.epochs == EpochList.of((1, 0), (2, cut))
    assert store.log.layout.path(0).read_bytes()[cut:] == bytes(FILE_BYTES - cut)
    assert notes.cuts == [(len(common), cut)]
    master.peer.sendall(codec.encode_frame_header(FrameHeader(len(new), cut, 2, cut, 0)) + new)
    master.ack_of(cut + len(new))
    link.stop()
    notes.end()
    assert stored_bytes(store) == common[:cut] + new


def test_a_cut_inside_a_record_is_refused_and_nothing_is_cut(master: HandMaster, store: ReplicaStore) -> None:
    common, notes = log_bytes(10, FILE_BYTES), LinkNotes()
    store.log.append(0, [memoryview(common)])
    store.adopt(EpochList.of((1, 0)))
    start(master, store, notes)
    master.accept()
    master.reply(500, (1, 0))
    assert notes.end().diverged is DivergenceReason.CUT_INSIDE_RECORD
    assert stored_bytes(store) == common


def test_a_second_link_resumes_where_the_first_ended(master: HandMaster, store: ReplicaStore) -> None:
    log, notes = log_bytes(30, FILE_BYTES), LinkNotes()
    start(master, store, notes)
    master.accept()
    master.reply(len(log), (1, 0))
    master.send_log(log[:1234], 0, 1)
    master.ack_of(1234)
    master.peer.close()
    assert notes.end().reason in {"ClosedByMaster", "ConnectionLost"}
    link = start(master, store, notes)
    master.accept()
    master.reply(len(log), (1, 0))
    assert master.ack() == 1234
    master.send_log(log[1234:], 1234, 1)
    master.ack_of(len(log))
    link.stop()
    notes.end()
    assert stored_bytes(store) == log


def part_at_the_first_ack(master: HandMaster, store: ReplicaStore, notes: LinkNotes, log: bytes) -> None:
    """Have a link take up a master's log and part before it has any of it."""
    link = start(master, store, notes)
    master.accept()
    master.reply(len(log), (1, 0))
    master.ack_of(0)
    link.part()


def parted(master: HandMaster) -> None:
    """Read the rest of the acks, then the second handshake, then the end."""
    with master.peer.makefile("rb") as stream:
        left = stream.read()
    assert len(left) >= codec.HANDSHAKE_BYTES
    found = codec.decode_handshake(left[-codec.HANDSHAKE_BYTES :])
    assert found is not None
    assert found[0] == codec.Handshake(NOBODY_ID, async_learner=True)


def test_a_link_that_parts_bears_nobodys_id_when_its_master_sees_the_end(
    master: HandMaster, store: ReplicaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ha_link, "PART_WAIT_S", WAIT_S)
    log, notes = log_bytes(30, FILE_BYTES), LinkNotes()
    part_at_the_first_ack(master, store, notes, log)
    parted(master)
    master.peer.close()
    end = notes.end()
    assert (end.reason, end.lingers) == ("Parted", False)


def test_a_link_parts_from_a_frozen_master_and_leaves_the_words_in_its_socket(
    master: HandMaster, store: ReplicaStore
) -> None:
    log, notes = log_bytes(30, FILE_BYTES), LinkNotes()
    part_at_the_first_ack(master, store, notes, log)
    end = notes.end()
    assert (end.reason, end.lingers) == ("Parted", True)
    # It thaws: what it still sends is taken and forgotten, and resets nothing.
    master.send_log(log, 0, 1)
    parted(master)
    assert store.log.is_empty


def test_a_link_that_parts_waits_for_no_longer_than_it_is_told(
    master: HandMaster, store: ReplicaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ha_link, "PART_WAIT_S", 10 * WAIT_S)
    notes = LinkNotes()
    link = start(master, store, notes)
    master.accept()
    master.reply(30, (1, 0))
    master.ack_of(0)
    link.part(0.02)
    link.part()  # as a new role does
    end = notes.end()
    assert (end.reason, end.lingers) == ("Parted", True)


def test_rubbish_ends_the_link_and_leaves_the_log(master: HandMaster, store: ReplicaStore) -> None:
    notes = LinkNotes()
    start(master, store, notes)
    master.accept()
    master.reply(100, (1, 0))
    master.ack_of(0)
    master.peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n".ljust(64))
    assert notes.end().reason == "ProtocolError"
    assert store.log.is_empty


def test_a_master_that_is_not_there_is_said_so(store: ReplicaStore) -> None:
    notes = LinkNotes()
    # Bound, so that no other process gets the port, and not listened on.
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        HaLink(bound.getsockname(), store, SlaveConfig(2, FILE_BYTES), notes, None).start()
        end = notes.end()
    assert (end.reason, end.connected) == ("ConnectFailed", False)


def test_a_link_stopped_before_it_connects_never_shakes_hands(
    master: HandMaster, store: ReplicaStore
) -> None:
    notes = LinkNotes()
    link = HaLink(master.address, store, SlaveConfig(2, FILE_BYTES), notes, None)
    link.stop()
    link.start()
    assert notes.end().reason == "Stopped"
    with pytest.raises(PeerClosedError):
        master.accept()


def test_an_error_of_the_disk_is_told_apart_from_one_of_the_connection(master: HandMaster) -> None:
    disk = SimulatedDisk()
    store = ReplicaStore(Path("/store"), FILE_BYTES, disk)
    notes = LinkNotes()
    link = HaLink(master.address, store, SlaveConfig(2, FILE_BYTES), notes, None)
    link.start()
    master.accept()
    master.reply(100, (1, 0))
    master.ack_of(0)
    disk.fuse, disk.fuse_error = 0, OSError
    master.send_log(log_bytes(1, FILE_BYTES), 0, 1)
    end = notes.end()
    assert end.reason == "DiskFailed"
    assert isinstance(end.disk_error, OSError)
