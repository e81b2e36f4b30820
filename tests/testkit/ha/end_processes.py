"""The two ends of an HA connection as processes, and the cost of a log's way between them.

Each end has a process, as it would have a machine, so that the CPU time of each can be measured alone. An end
is driven over a pipe: it says what it listens on, waits for the word, and answers with figures. All of them
move the same log: `serve` is our HA port, `replicate` our slave, `drop` a slave that stores nothing, and
`send_raw` with `take_raw` the same files without any protocol, which is as fast as this machine can do it.

A transfer is measured from a slave's first acknowledgement, which says where it
begins, to that of the log's end.
"""

import multiprocessing
import os
import queue
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, Self

from controller_core.remoting.numbers import LogOffset
from ha_sidecar.commitlog.served import ServedStore
from ha_sidecar.commitlog.store import ReplicaStore
from ha_sidecar.commitlog.syncer import Syncer
from ha_sidecar.common.ha_link import HaLink, LinkEnd
from ha_sidecar.common.ha_socket import HaTls
from ha_sidecar.replica.slave_server import HaServer
from ha_sidecar.replica.slave_streams import HaPortTls
from ha_sidecar.transfer import codec
from ha_sidecar.transfer.actions import HandshakeDone
from ha_sidecar.transfer.reconcile import NO_BROKER_ID, SlaveConfig
from ha_sidecar.transfer.served_log import MasterConfig
from testkit.ha.stores import next_record

RECEIVE_BYTES: Final = 2 << 20
OUR_SLAVE_ID: Final = 2
_POLL_S: Final = 0.002
_WAIT_S: Final = 120.0
_TICKS_A_SECOND: Final = os.sysconf("SC_CLK_TCK")
_LATENCY_BODY: Final = bytes(128)


@dataclass(frozen=True, slots=True)
class Transfer:
    """What one way of a log cost: bytes, seconds, and each end's seconds of a processor."""

    moved_bytes: int
    took_s: float
    master_cpu_s: float
    slave_cpu_s: float


class TransferWatch:
    """Takes the time and the processors between a slave's first acknowledgement and its last."""

    def __init__(self, end_offset: int, master_pid: int, slave_pid: int) -> None:
        """Name the log's end and the two processes."""
        self._end_offset: Final = end_offset
        self._pids: Final = (master_pid, slave_pid)
        self._start: tuple[int, float, list[float]] | None = None
        self.transfer: Transfer | None = None

    def saw(self, ack_offset: int) -> bool:
        """Learn how far the slave is, -1 while it has not begun; say whether it is at the end."""
        if ack_offset < 0 or self.transfer is not None:
            return self.transfer is not None
        now_s, cpu_s = time.perf_counter(), [processor_s(pid) for pid in self._pids]
        if self._start is None:
            self._start = ack_offset, now_s, cpu_s
        if ack_offset < self._end_offset:
            return False
        begun_offset, begun_s, begun_cpu_s = self._start
        master_s, slave_s = (now - then for now, then in zip(cpu_s, begun_cpu_s, strict=True))
        self.transfer = Transfer(ack_offset - begun_offset, now_s - begun_s, master_s, slave_s)
        return True


def processor_s(pid: int) -> float:
    """Return the seconds of a processor that a process has used."""
    # After the name, which may hold anything: state is the first, utime and stime
    # are the twelfth and thirteenth.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_A_SECOND


class End:
    """One end's process and the pipe to it; use it in a `with`."""

    def __init__(self, work: Callable[..., None], *arguments: object) -> None:
        """Start `work(pipe, *arguments)` in a fresh process."""
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=work, args=(theirs, *arguments), daemon=True)
        self._process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid or 0

    def tell(self, *words: object) -> None:
        """Send words to it."""
        self._pipe.send(words)

    def answer(self) -> Any:
        """Return what it says next.

        Raises:
            TimeoutError: it says nothing.
            EOFError: it is gone.
        """
        if not self._pipe.poll(_WAIT_S):
            raise TimeoutError(f"an end of the connection said nothing for {_WAIT_S} s")
        return self._pipe.recv()

    def __enter__(self) -> Self:
        """Go on with it running."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self._process.kill()
        self._process.join()
        self._pipe.close()


def serve(pipe: Connection, directory: Path, file_bytes: int, certificates: Path | None = None) -> None:
    """Serve the log there: says its port and the log's end, then answers `watch PID` and `latency COUNT`.

    With a directory of certificates it serves TLS too.
    """
    tls = None if certificates is None else HaPortTls(certificates, plain_allowed=True)
    store = ReplicaStore(directory, file_bytes)
    served = ServedStore(store, lambda: store.log.max_offset, after_sync=False)
    server = HaServer(store, served, MasterConfig(file_bytes), tls)
    server.start("127.0.0.1", 0)
    pipe.send((server.port, store.log.max_offset))
    while True:
        word, number = pipe.recv()
        if word == "watch":
            watch = TransferWatch(store.log.max_offset, os.getpid(), number)
            while not watch.saw(_acked(server)):
                time.sleep(_POLL_S)
            pipe.send(watch.transfer)
        else:
            pipe.send([_acknowledged_after_s(store, server) for _ in range(number)])


def _acked(server: HaServer) -> int:
    return max((slave.ack_offset for slave in server.slaves()), default=-1)


def _acknowledged_after_s(store: ReplicaStore, server: HaServer) -> float:
    """Append one message and wait, without giving the processor away for long, until the slave has it."""
    log = store.log
    offset = log.max_offset
    record = next_record(offset, log.layout.file_bytes, _LATENCY_BODY)
    started_s = time.perf_counter()
    log.append(offset, [memoryview(record)])
    server.log_grew()
    while _acked(server) < log.max_offset:
        time.sleep(0.00005)
    return time.perf_counter() - started_s


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


def replicate(
    pipe: Connection,
    directory: Path,
    file_bytes: int,
    address: tuple[str, int],
    *,
    after_sync: bool,
    certificates: Path | None = None,
) -> None:
    """Be our own slave with an empty store: says so, begins at the word, goes on until it is ended.

    With a directory of certificates it dials in TLS.
    """
    tls = None if certificates is None else HaTls(certificates, address[0])
    store, notes = ReplicaStore(directory, file_bytes), _Notes()
    links: list[HaLink] = []

    def synced(_offset: int, _duration_s: float) -> None:
        links[0].synced()

    def failed(error: OSError) -> None:
        raise error

    syncer = Syncer(lambda: store.log.sync(), synced, failed)
    wake = syncer.wake if after_sync else None
    links.append(HaLink(address, store, SlaveConfig(OUR_SLAVE_ID, file_bytes), notes, wake, tls=tls))
    syncer.start()
    pipe.send(os.getpid())
    pipe.recv()
    links[0].set_in_sync(True)  # acks need no repeating
    links[0].start()
    notes.ends.get()


def replicate_after_sync(
    pipe: Connection, directory: Path, file_bytes: int, address: tuple[str, int]
) -> None:
    """Be our slave as it is by default."""
    replicate(pipe, directory, file_bytes, address, after_sync=True)


def replicate_after_write(
    pipe: Connection, directory: Path, file_bytes: int, address: tuple[str, int]
) -> None:
    """Be our slave, acknowledging what the operating system has."""
    replicate(pipe, directory, file_bytes, address, after_sync=False)


def replicate_in_tls(
    pipe: Connection, directory: Path, file_bytes: int, address: tuple[str, int], certificates: Path
) -> None:
    """Be our slave in TLS, acknowledging what the operating system has."""
    replicate(pipe, directory, file_bytes, address, after_sync=False, certificates=certificates)


def drop(pipe: Connection, address: tuple[str, int], end_offset: int, master_pid: int) -> None:
    """Be a slave, a learner, that stores nothing; says what the transfer cost."""
    buffer = memoryview(bytearray(RECEIVE_BYTES))
    watch = TransferWatch(end_offset, master_pid, os.getpid())
    with socket.create_connection(address) as peer:
        peer.sendall(codec.encode_handshake(codec.Handshake(NO_BROKER_ID, async_learner=True)))
        head = peer.recv(codec.REPLY_HEADER_BYTES, socket.MSG_WAITALL)
        peer.recv(codec.reply_bytes(head, 0) - codec.REPLY_HEADER_BYTES, socket.MSG_WAITALL)
        peer.sendall(codec.encode_ack(LogOffset(0)))
        position = body_left = 0
        header = bytearray()
        watch.saw(0)
        while position < end_offset:
            length = peer.recv_into(buffer)
            at = 0
            while at < length:
                if body_left:
                    taken = min(body_left, length - at)
                    body_left, position = body_left - taken, position + taken
                else:
                    taken = min(codec.FRAME_HEADER_BYTES - len(header), length - at)
                    header += buffer[at : at + taken]
                    if len(header) == codec.FRAME_HEADER_BYTES:
                        body_left = codec.decode_frame_header(header).body_bytes
                        header.clear()
                at += taken
            peer.sendall(codec.encode_ack(LogOffset(position)))
    watch.saw(position)
    pipe.send(watch.transfer)


def send_raw(pipe: Connection, directory: Path) -> None:
    """Send the log's files to whoever connects, again and again: says its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        pipe.send(listener.getsockname()[1])
        while True:
            peer, _ = listener.accept()
            with peer:
                for path in sorted(directory.iterdir()):
                    fd = os.open(path, os.O_RDONLY)
                    at, size = 0, os.fstat(fd).st_size
                    while at < size:
                        at += os.sendfile(peer.fileno(), fd, at, size - at)
                    os.close(fd)


def take_raw(
    pipe: Connection, port: int, total_bytes: int, sender_pid: int, directory: Path | None, file_bytes: int
) -> None:
    """Read so much, and write it into files of that length if there is a directory; says what that cost."""
    buffer = memoryview(bytearray(RECEIVE_BYTES))
    watch = TransferWatch(total_bytes, sender_pid, os.getpid())
    files: dict[int, int] = {}
    with socket.create_connection(("127.0.0.1", port)) as peer:
        watch.saw(0)
        position = 0
        while position < total_bytes:
            room = min(file_bytes - position % file_bytes, RECEIVE_BYTES)
            length = peer.recv_into(buffer[:room])
            if directory is not None:
                number = position // file_bytes
                if number not in files:
                    files[number] = os.open(directory / f"{number}", os.O_RDWR | os.O_CREAT)
                    os.ftruncate(files[number], file_bytes)
                os.pwrite(files[number], buffer[:length], position % file_bytes)
            position += length
        watch.saw(position)
    pipe.send(watch.transfer)
