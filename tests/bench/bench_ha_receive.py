"""How fast the log replica takes a log: a master on loopback sends one as fast as it is read, in Java's 32 KiB batches.

    python tests/bench/bench_ha_receive.py [MEGABYTES]

Prints megabytes a second with acks after the write and after the sync, and how long a sync takes. The master is a
thread of the same process, so what is measured is both sides on this machine's cores, and the disk.
"""

import contextlib
import queue
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path

from ha_sidecar.commitlog.store import ReplicaStore
from ha_sidecar.commitlog.syncer import Syncer
from ha_sidecar.epoch import EpochList
from ha_sidecar.roles.link import HaLink, LinkEnd
from ha_sidecar.transfer import codec
from ha_sidecar.transfer.actions import HandshakeDone
from ha_sidecar.transfer.reconcile import SlaveConfig

FILE_BYTES = 1 << 30
BATCH_BYTES = 32 << 10
SEND_BATCHES = 32


class _Notes:
    def __init__(self) -> None:
        self.ends: queue.Queue[LinkEnd] = queue.Queue()

    def on_handshake(self, done: HandshakeDone) -> None:
        """Not needed."""

    def on_truncate(self, from_offset: int, to_offset: int) -> None:
        """Not needed."""

    def on_caught_up(self, offset: int) -> None:
        """Not needed."""

    def on_end(self, end: LinkEnd) -> None:
        """Keep it."""
        self.ends.put(end)


def _serve(listener: socket.socket, total_bytes: int, done_s: list[float]) -> None:
    peer, _ = listener.accept()
    peer.recv(codec.HANDSHAKE_BYTES)
    peer.sendall(codec.encode_reply(codec.HandshakeReply(total_bytes, EpochList.of((1, 0)))))
    acks = threading.Thread(target=_read_acks, args=(peer, total_bytes, done_s))
    acks.start()
    body = bytes(BATCH_BYTES)
    for start in range(0, total_bytes, BATCH_BYTES * SEND_BATCHES):
        frames = [
            codec.encode_frame_header(codec.FrameHeader(BATCH_BYTES, offset, 1, 0, 0)) + body
            for offset in range(start, min(total_bytes, start + BATCH_BYTES * SEND_BATCHES), BATCH_BYTES)
        ]
        peer.sendall(b"".join(frames))
    acks.join()
    peer.close()


def _read_acks(peer: socket.socket, total_bytes: int, done_s: list[float]) -> None:
    data = b""
    while True:
        data += peer.recv(1 << 16)
        whole = len(data) // codec.ACK_BYTES * codec.ACK_BYTES
        if whole and codec.decode_ack(data[whole - codec.ACK_BYTES : whole]) >= total_bytes:
            done_s.append(time.perf_counter())
            return
        data = data[whole:]


def measure(total_bytes: int, *, after_sync: bool) -> None:
    """Send a log of zeros of this size to a fresh replica and print what came of it."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as directory:
        store, notes, done_s = ReplicaStore(Path(directory), FILE_BYTES), _Notes(), list[float]()
        durations_s: list[float] = []
        links: list[HaLink] = []

        def synced(_: int, duration_s: float) -> None:
            durations_s.append(duration_s)
            for link in links:
                link.synced()

        syncer = Syncer(lambda: store.log.sync(), synced, lambda error: sys.exit(str(error)))
        syncer.start()
        listener = socket.create_server(("127.0.0.1", 0))
        master = threading.Thread(target=_serve, args=(listener, total_bytes, done_s))
        master.start()
        config = SlaveConfig(2, FILE_BYTES)
        link = HaLink(listener.getsockname(), store, config, notes, syncer.wake if after_sync else None)
        links.append(link)
        started_s = time.perf_counter()
        link.start()
        master.join()
        notes.ends.get()
        syncer.stop()
        with contextlib.suppress(OSError):
            listener.close()
        store.close()
        rate = total_bytes / 1e6 / (done_s[0] - started_s)
        median_ms = sorted(durations_s)[len(durations_s) // 2] * 1000 if durations_s else 0.0
        name = "sync" if after_sync else "write"
        sys.stdout.write(
            f"ack after {name}: {rate:.0f} MB/s, {len(durations_s)} syncs, median {median_ms:.1f} ms\n"
        )


if __name__ == "__main__":
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 512
    measure(megabytes << 20, after_sync=False)
    measure(megabytes << 20, after_sync=True)
