"""The HA port over real sockets serves a log byte for byte.

It serves real links, several at once, through cuts and stalls.
"""

import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ha_sidecar import limits
from ha_sidecar.commitlog.cuts import LogCutError
from ha_sidecar.commitlog.record_ends import RecordEnds
from ha_sidecar.commitlog.served import ServedStore
from ha_sidecar.commitlog.store import ReplicaStore
from ha_sidecar.common.ha_link import HaLink, LinkEnd
from ha_sidecar.epoch import EpochEntry, EpochList
from ha_sidecar.replica.slave_server import HaServer
from ha_sidecar.transfer import codec
from ha_sidecar.transfer.actions import HandshakeDone
from ha_sidecar.transfer.reconcile import SlaveConfig
from ha_sidecar.transfer.served_log import MasterConfig
from testkit.ha.by_hand import HandSlave
from testkit.ha.messages import boundaries, log_bytes
from testkit.ha.stores import append

FILE_BYTES = 4096
WAIT_S = 30.0


class SourceStore:
    """A store that is served."""

    def __init__(self, directory: Path, file_bytes: int = FILE_BYTES) -> None:
        self.file_bytes = file_bytes
        self.store = ReplicaStore(directory, file_bytes)
        self.confirm_offset = 1 << 40
        self.served = ServedStore(self.store, lambda: self.confirm_offset)
        self.server = HaServer(self.store, self.served, MasterConfig(file_bytes, 700))
        self.server.start("127.0.0.1", 0)

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        return "127.0.0.1", self.server.port

    def write(self, data: bytes) -> None:
        """Append log bytes, never across a file's end in one go, and make them durable."""
        append(self.store, data)
        self.store.log.sync()
        self.server.log_grew()

    def open_epoch(self, epoch: int) -> None:
        """Begin an epoch at the end."""
        self.store.adopt(self.store.epochs.appended(EpochEntry(epoch, self.store.log.max_offset)))

    def close(self) -> None:
        """Stop serving and close the store."""
        self.server.stop()
        self.store.close()


class StoreLink:
    """A real link into a store of its own."""

    def __init__(
        self, directory: Path, source: SourceStore, broker_id: int = 2, *, from_last_file: bool = False
    ) -> None:
        self.store = ReplicaStore(directory, source.file_bytes)
        self.done = threading.Event()
        self.end = LinkEnd("")
        config = SlaveConfig(
            broker_id,
            source.file_bytes,
            async_learner=from_last_file,
            sync_from_last_file=from_last_file,
        )
        self.link = HaLink(source.address, self.store, config, self, None)
        self.link.start()

    def on_handshake(self, done: HandshakeDone) -> None:
        """Nothing to note."""

    def on_truncate(self, from_offset: int, to_offset: int) -> None:
        """Nothing to note."""

    def on_caught_up(self, offset: int) -> None:
        """Nothing to note."""

    def on_end(self, end: LinkEnd) -> None:
        """Keep it."""
        self.end = end
        self.done.set()

    def reach(self, offset: int) -> None:
        """Wait until the log reaches there."""
        wait_until(lambda: self.store.log.max_offset >= offset)

    def close(self) -> None:
        """End the link and close the store."""
        self.link.stop()
        assert self.done.wait(WAIT_S)
        self.store.close()


def wait_until(condition: object) -> None:
    assert callable(condition)
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.002)


def stored(store: ReplicaStore) -> bytes:
    paths = sorted(store.log.layout.directory.iterdir())
    return b"".join(path.read_bytes() for path in paths)[: store.log.max_offset]


@pytest.fixture
def source(tmp_path: Path) -> Iterator[SourceStore]:
    made = SourceStore(tmp_path / "source")
    made.open_epoch(1)
    yield made
    made.close()


def test_slaves_get_the_log_and_what_comes_later(source: SourceStore, tmp_path: Path) -> None:
    log = log_bytes(150, FILE_BYTES)
    cuts = boundaries(log, FILE_BYTES)
    source.write(log[: cuts[60]])
    slaves = [StoreLink(tmp_path / f"slave{number}", source, number) for number in (2, 3)]
    for slave in slaves:
        slave.reach(cuts[60])
    source.write(log[cuts[60] : cuts[100]])
    source.open_epoch(4)
    source.write(log[cuts[100] :])
    for slave in slaves:
        slave.reach(len(log))
        assert stored(slave.store) == log
        wait_until(lambda slave=slave: slave.store.epochs == EpochList.of((1, 0), (4, cuts[100])))
    wait_until(lambda: [found.ack_offset for found in source.server.slaves()] == [len(log)] * 2)
    assert [found.broker_id for found in source.server.slaves()] == [2, 3]
    assert source.server.sent_bytes == 2 * len(log)
    for slave in slaves:
        slave.close()
    wait_until(lambda: source.server.slaves() == [])
    assert source.server.sent_bytes == 2 * len(log)


class Syscalls:
    """Counts what sessions give to the kernel: pieces from this program's memory, and bytes of files."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.written: list[bytes] = []
        self.sendfile_bytes = 0
        write, sendfile = socket.socket.send, os.sendfile

        def send(sock: socket.socket, data: bytes, flags: int = 0) -> int:
            sent = write(sock, data, flags)
            self.written.append(bytes(data[:sent]))
            return sent

        def counted(out_fd: int, in_fd: int, offset: int, count: int) -> int:
            sent = sendfile(out_fd, in_fd, offset, count)
            self.sendfile_bytes += sent
            return sent

        monkeypatch.setattr(socket.socket, "send", send)
        monkeypatch.setattr(os, "sendfile", counted)


def test_bodies_leave_by_sendfile_and_nothing_but_reply_and_headers_is_written(
    source: SourceStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = log_bytes(150, FILE_BYTES)
    source.write(log)
    kernel = Syscalls(monkeypatch)
    with HandSlave(source.server.port) as slave:
        reply = slave.shake_hands(codec.Handshake(2))
        slave.ack(0)
        headers = slave.frames_to(len(log))
        # The bytes may be here before the session's thread has counted them.
        wait_until(lambda: kernel.sendfile_bytes >= len(log))
    assert sum(header.body_bytes for header in headers) == kernel.sendfile_bytes == len(log)
    assert kernel.written[0] == codec.encode_reply(reply)
    assert kernel.written[1 : 1 + len(headers)] == [codec.encode_frame_header(header) for header in headers]


def test_a_reply_of_many_epochs_leaves_in_one_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = SourceStore(tmp_path / "source")
    epochs = EpochList.of(*((epoch, epoch) for epoch in range(1000)))
    source.store.adopt(epochs)
    source.write(log_bytes(20, FILE_BYTES))
    kernel = Syscalls(monkeypatch)
    with HandSlave(source.server.port) as slave:
        slave.send(codec.encode_handshake(codec.Handshake(2)))
        # One read, as Java's slave reads: a second part would make it shake hands again.
        came = slave.peer.recv(1 << 20)
        assert codec.decode_reply(came).epochs == epochs
        wait_until(lambda: kernel.written)
        assert kernel.written == [came]
    source.close()


def test_half_a_message_is_not_served(source: SourceStore, tmp_path: Path) -> None:
    log = log_bytes(10, FILE_BYTES)
    cuts = boundaries(log, FILE_BYTES)
    source.write(log[: cuts[5] + 30])
    slave = StoreLink(tmp_path / "slave", source)
    slave.reach(cuts[5])
    assert source.served.view().end_offset == cuts[5]
    source.write(log[cuts[5] + 30 :])
    slave.reach(len(log))
    assert stored(slave.store) == log
    slave.close()


def test_what_is_not_durable_is_not_served(source: SourceStore) -> None:
    log = log_bytes(10, FILE_BYTES)
    cut = boundaries(log, FILE_BYTES)[4]
    source.write(log[:cut])
    source.store.log.append(cut, [memoryview(log[cut:])])
    assert source.served.view().end_offset == cut
    source.store.log.sync()
    assert source.served.view().end_offset == len(log)


def test_the_confirm_offset_is_cut_to_a_record(source: SourceStore) -> None:
    log = log_bytes(120, FILE_BYTES)
    cuts = boundaries(log, FILE_BYTES)
    source.write(log)
    source.confirm_offset = -1
    assert source.served.view().confirm_offset == 0
    for at in (3, 50, 90):
        source.confirm_offset = cuts[at] + 5
        assert source.served.view().confirm_offset == cuts[at]
    source.confirm_offset = len(log) + 9
    assert source.served.view().confirm_offset == len(log)


def test_a_slave_that_does_not_read_costs_no_other_one_and_holds_no_cut_off(tmp_path: Path) -> None:
    # More than the kernel takes for a socket without a reader.
    file_bytes = 4 << 20
    log = log_bytes(200, file_bytes, body_bytes=60_000)
    source = SourceStore(tmp_path / "source", file_bytes)
    source.open_epoch(1)
    with socket.socket() as stalled:
        stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stalled.connect(source.address)
        stalled.sendall(codec.encode_handshake(codec.Handshake(7)) + codec.encode_ack(0))
        source.write(log)
        slave = StoreLink(tmp_path / "slave", source)
        slave.reach(len(log))

        def others() -> list[int]:
            return [found.position for found in source.server.slaves() if found.broker_id == 7]

        wait_until(lambda: others() and others()[0] >= 0)
        assert others()[0] < len(log)
        slave.close()
        cutter = threading.Thread(target=source.store.log.truncate, args=(0,), daemon=True)
        cutter.start()
        cutter.join(WAIT_S)
        assert not cutter.is_alive()
    source.close()


def test_a_cut_ends_the_sessions_and_the_slave_finds_the_new_end(source: SourceStore, tmp_path: Path) -> None:
    log = log_bytes(40, FILE_BYTES)
    cut = boundaries(log, FILE_BYTES)[10]
    source.write(log)
    slave = StoreLink(tmp_path / "slave", source)
    slave.reach(len(log))
    source.store.log.truncate(cut)
    source.store.adopt(source.store.epochs.starting_up_to(cut))
    source.open_epoch(2)
    new = log_bytes(12, FILE_BYTES, cut, mark=b"new")
    source.write(new)
    assert slave.done.wait(WAIT_S)
    slave.store.close()
    again = StoreLink(tmp_path / "slave", source)
    again.reach(len(log[:cut] + new))
    wait_until(lambda: again.store.log.max_offset == cut + len(new))
    assert stored(again.store) == log[:cut] + new
    again.close()


def test_a_log_moved_aside_is_not_served_on(source: SourceStore) -> None:
    source.write(log_bytes(10, FILE_BYTES))
    generation = source.served.view().generation
    source.store.archive()
    with pytest.raises(LogCutError), source.store.log.cuts.reading(generation):
        pass
    assert source.served.view().is_empty


def test_a_reader_holds_a_cut_off_until_it_is_done(source: SourceStore) -> None:
    source.write(log_bytes(10, FILE_BYTES))
    log = source.store.log
    cutter = threading.Thread(target=log.truncate, args=(0,))
    with log.cuts.reading(0):
        cutter.start()
        wait_until(lambda: log.cuts.generation == 1)
        with pytest.raises(LogCutError), log.cuts.reading(0):
            pass
        with pytest.raises(LogCutError):
            source.served.view()
        cutter.join(0.05)
        assert cutter.is_alive()
        assert log.max_offset > 0
    cutter.join(WAIT_S)
    assert (log.max_offset, log.cuts.generation) == (0, 2)


def test_record_ends_are_found_from_anywhere(source: SourceStore) -> None:
    log = log_bytes(100, FILE_BYTES)
    ends = boundaries(log, FILE_BYTES)
    source.write(log)
    walk = RecordEnds(source.store.log.layout)
    for at, limit in [(0, 1000), (150, 151), (0, FILE_BYTES), (5000, 8000), (200, 4000), (8192, 8192 + 500)]:
        below = [end for end in ends if at < end <= limit]
        assert walk.record_end(at, limit) == (below[-1] if below else at)
    walk.close()


def test_rubbish_and_an_old_handshake_end_their_own_session_only(source: SourceStore) -> None:
    for first in (b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\1\0\0\0\0\0\0\0\x0e127.0.0.1:1234"):
        with socket.create_connection(source.address, WAIT_S) as peer:
            peer.sendall(first)
            assert peer.recv(1) == b""
    with socket.create_connection(source.address, WAIT_S) as peer:
        peer.sendall(codec.encode_handshake(codec.Handshake(2)))
        assert len(peer.recv(100)) == codec.REPLY_HEADER_BYTES + codec.EPOCH_ENTRY_BYTES


def test_silent_connections_give_way_and_a_slave_that_copies_keeps_its_place(tmp_path: Path) -> None:
    source = SourceStore(tmp_path / "source")
    source.open_epoch(1)
    source.write(log_bytes(4, FILE_BYTES))
    copying = StoreLink(tmp_path / "copy", source)
    try:
        copying.reach(source.store.log.max_offset)
        silent = [socket.create_connection(source.address) for _ in range(3 * limits.SLAVES_SOURCE_MAX)]
        silent[0].settimeout(WAIT_S)
        assert silent[0].recv(1) == b"", "the oldest gave way"
        wait_until(lambda: len(source.server._sessions) <= limits.SLAVES_SOURCE_MAX + 1)
        source.write(log_bytes(1, FILE_BYTES, source.store.log.max_offset))
        copying.reach(source.store.log.max_offset)
        assert not copying.done.is_set()
        for stranger in silent:
            stranger.close()
    finally:
        copying.close()
        source.close()


def test_a_learner_gets_the_newest_file_beside_a_member_with_all(source: SourceStore, tmp_path: Path) -> None:
    data = log_bytes(150, FILE_BYTES)
    source.write(data)
    learner = StoreLink(tmp_path / "learner", source, 3, from_last_file=True)
    member = StoreLink(tmp_path / "member", source, 2)
    for link in (learner, member):
        link.reach(len(data))
    assert member.store.log.min_offset == 0
    assert learner.store.log.min_offset == len(data) - len(data) % FILE_BYTES > 0
    for link in (learner, member):
        link.close()
