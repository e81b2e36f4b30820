"""How fast the HA port serves a log: to a reader that throws it away, to our own replica, and beside raw sendfile.

    python tests/bench/bench_ha_serve.py [MEGABYTES]

The log holds 4 KB messages and lies in the page cache. The reader is a process of its own, so that both sides have a
processor as they would on two machines; it acks every frame burst, as slaves do. Prints megabytes a second and the
server's processor seconds.
"""

import multiprocessing
import os
import queue
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from ha_sidecar.commitlog.served import ServedStore
from ha_sidecar.commitlog.store import ReplicaStore
from ha_sidecar.epoch import EpochList
from ha_sidecar.roles.link import HaLink, LinkEnd
from ha_sidecar.roles.serving import HaServer
from ha_sidecar.transfer import codec
from ha_sidecar.transfer.actions import HandshakeDone
from ha_sidecar.transfer.reconcile import SlaveConfig
from ha_sidecar.transfer.served_log import MasterConfig
from testkit.messages import blank, message

FILE_BYTES = 1 << 28
BODY_BYTES = 4_000
RECEIVE_BYTES = 2 << 20
Reader = Callable[[tuple[str, int], int, str], None]


def fill(store: ReplicaStore, total_bytes: int) -> None:
    """Write a log of about this size."""
    store.adopt(EpochList.of((1, 0)))
    body = bytes(BODY_BYTES)
    parts: list[memoryview] = []
    start = offset = 0
    while offset < total_bytes:
        record = message(offset, body)
        rest_bytes = FILE_BYTES - offset % FILE_BYTES
        if len(record) + 8 > rest_bytes:
            record = blank(rest_bytes)
        parts.append(memoryview(record))
        offset += len(record)
        if len(parts) >= 4096 or offset % FILE_BYTES == 0:
            store.log.append(start, parts)
            start, parts = offset, []
    store.log.append(start, parts)
    store.log.sync()


def read_and_drop(address: tuple[str, int], total_bytes: int, _directory: str) -> None:
    """Be a slave that stores nothing."""
    buffer = memoryview(bytearray(RECEIVE_BYTES))
    with socket.create_connection(address) as peer:
        peer.sendall(codec.encode_handshake(codec.Handshake(2)))
        peer.recv(codec.REPLY_HEADER_BYTES + codec.EPOCH_ENTRY_BYTES, socket.MSG_WAITALL)
        peer.sendall(codec.encode_ack(0))
        position = body_left = 0
        head = b""
        while position < total_bytes:
            length = peer.recv_into(buffer)
            at = 0
            while at < length:
                if body_left:
                    taken = min(body_left, length - at)
                    body_left -= taken
                    position += taken
                    at += taken
                    continue
                taken = min(codec.FRAME_HEADER_BYTES - len(head), length - at)
                head += bytes(buffer[at : at + taken])
                at += taken
                if len(head) == codec.FRAME_HEADER_BYTES:
                    body_left, head = codec.decode_frame_header(head).body_bytes, b""
            peer.sendall(codec.encode_ack(position))


class _Notes:
    def __init__(self) -> None:
        self.caught_up: queue.Queue[int] = queue.Queue()

    def on_handshake(self, done: HandshakeDone) -> None:
        """Not needed."""

    def on_truncate(self, from_offset: int, to_offset: int) -> None:
        """Not needed."""

    def on_caught_up(self, offset: int) -> None:
        """Keep it."""
        self.caught_up.put(offset)

    def on_end(self, end: LinkEnd) -> None:
        """Not needed."""


def replicate(address: tuple[str, int], _total_bytes: int, directory: str) -> None:
    """Be our own replica, acking after the write."""
    notes = _Notes()
    store = ReplicaStore(Path(directory) / "replica", FILE_BYTES)
    link = HaLink(address, store, SlaveConfig(2, FILE_BYTES), notes, None)
    link.start()
    notes.caught_up.get()
    link.stop()


def measure(name: str, reader: Reader, address: tuple[str, int], total_bytes: int, directory: str) -> None:
    """Run one reader to the end and print what came of it; its own start is left out."""
    elapsed: multiprocessing.Queue[float] = multiprocessing.Queue()
    cpu_s = time.process_time()
    process = multiprocessing.Process(target=_timed, args=(reader, elapsed, address, total_bytes, directory))
    process.start()
    rate, cpu_s = total_bytes / 1e6 / elapsed.get(), time.process_time() - cpu_s
    process.join()
    sys.stdout.write(f"{name}: {rate:.0f} MB/s, server {cpu_s:.2f} s of a processor\n")


def _timed(
    reader: Reader,
    elapsed: "multiprocessing.Queue[float]",
    address: tuple[str, int],
    total_bytes: int,
    directory: str,
) -> None:
    started_s = time.perf_counter()
    reader(address, total_bytes, directory)
    elapsed.put(time.perf_counter() - started_s)


def raw_sendfile(store: ReplicaStore, listener: socket.socket, total_bytes: int) -> None:
    """Send the same files without a protocol."""
    peer, _ = listener.accept()
    with peer:
        for start_offset in store.log.layout.starts():
            fd = os.open(store.log.layout.path(start_offset), os.O_RDONLY)
            end = min(FILE_BYTES, total_bytes - start_offset)
            at = 0
            while at < end:
                at += os.sendfile(peer.fileno(), fd, at, end - at)
            os.close(fd)


def drop_all(address: tuple[str, int], _total_bytes: int, _directory: str) -> None:
    """Read whatever comes until the end."""
    buffer = bytearray(RECEIVE_BYTES)
    with socket.create_connection(address) as peer:
        while peer.recv_into(buffer):
            pass


def main(total_bytes: int) -> None:
    """Measure all three."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as directory:
        store = ReplicaStore(Path(directory) / "source", FILE_BYTES)
        fill(store, total_bytes)
        end_offset = store.log.max_offset
        with socket.create_server(("127.0.0.1", 0)) as listener:
            sender = threading.Thread(target=raw_sendfile, args=(store, listener, end_offset))
            sender.start()
            measure("raw sendfile", drop_all, listener.getsockname(), end_offset, directory)
            sender.join()
        server = HaServer(store, ServedStore(store, lambda: end_offset), MasterConfig(FILE_BYTES))
        server.start("127.0.0.1", 0)
        address = ("127.0.0.1", server.port)
        measure("to a reader that drops it", read_and_drop, address, end_offset, directory)
        measure("to our replica, ack after write", replicate, address, end_offset, directory)
        server.stop()
        store.close()


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    main((int(sys.argv[1]) if len(sys.argv) > 1 else 512) << 20)
