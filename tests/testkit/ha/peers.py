"""Our two ends of an HA connection in a test's own process, each with a store of its own.

`OurSlave` is a link that follows one master after another, `OurMaster` an HA port
with a log that the test writes.
"""

import asyncio
import contextlib
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from ha_sidecar.commitlog.disk import OsDiskFile
from ha_sidecar.commitlog.served import ServedStore
from ha_sidecar.commitlog.store import ReplicaStore
from ha_sidecar.common.ha_link import HaLink, LinkEnd
from ha_sidecar.common.ha_socket import HaTls
from ha_sidecar.replica.slave_server import HaServer, ServedSlave
from ha_sidecar.replica.slave_streams import HaPortTls
from ha_sidecar.transfer.actions import HandshakeDone
from ha_sidecar.transfer.reconcile import SlaveConfig
from ha_sidecar.transfer.served_log import MasterConfig
from testkit.ha.stores import append, next_record
from testkit.processes.relay import Relay

WAIT_S: Final = 30.0
OUR_SLAVE_ID: Final = 2
_POLL_S: Final = 0.01


class LinkNotes:
    """Keeps what a link reports."""

    def __init__(self) -> None:
        """Hold nothing yet."""
        self.handshakes: queue.Queue[HandshakeDone] = queue.Queue()
        self.cuts: list[tuple[int, int]] = []
        self.caught_up: queue.Queue[int] = queue.Queue()
        self.ends: queue.Queue[LinkEnd] = queue.Queue()
        self.ended: Final = threading.Event()

    def on_handshake(self, done: HandshakeDone) -> None:
        """Keep it."""
        self.handshakes.put(done)

    def on_truncate(self, from_offset: int, to_offset: int) -> None:
        """Keep it."""
        self.cuts.append((from_offset, to_offset))

    def on_caught_up(self, offset: int) -> None:
        """Keep it."""
        self.caught_up.put(offset)

    def on_end(self, end: LinkEnd) -> None:
        """Keep it."""
        self.ends.put(end)
        self.ended.set()

    def end(self) -> LinkEnd:
        """Wait for the end."""
        return self.ends.get(timeout=WAIT_S)


class OurSlave:
    """Our slave with a store; follows one master after another. Use it in a `with`."""

    def __init__(self, directory: Path, file_bytes: int) -> None:
        """Open the store there."""
        self.store: Final = ReplicaStore(directory, file_bytes)
        self.notes = LinkNotes()
        self._file_bytes: Final = file_bytes
        self._link: HaLink | None = None

    def follow(
        self, port: int, broker_id: int = OUR_SLAVE_ID, tls: HaTls | None = None, **config: Any
    ) -> LinkNotes:
        """Connect to the HA port there; `config` are fields of `SlaveConfig`. Acks follow each write."""
        self.notes = LinkNotes()
        slave_config = SlaveConfig(broker_id, self._file_bytes, **config)
        self._link = HaLink(("127.0.0.1", port), self.store, slave_config, self.notes, None, tls=tls)
        self._link.start()
        return self.notes

    def wait(self, offset: int) -> None:
        """Wait until its log ends there."""
        wait_until(lambda: self.store.log.max_offset == offset, f"a log up to {offset}")

    def leave(self) -> LinkEnd:
        """Stop the link and return how it ended."""
        if self._link is None:
            raise AssertionError("it follows nobody")
        self._link.stop()
        self._link = None
        return self.notes.end()

    def __enter__(self) -> Self:
        """Go on with it open."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the link and close the store."""
        if self._link is not None:
            self._link.stop()
            self.notes.ended.wait(WAIT_S)
        self.store.close()


class OurMaster:
    """Our HA port with a log that the test writes; a context manager."""

    def __init__(
        self,
        directory: Path,
        file_bytes: int,
        epoch: int | None = 1,
        config: MasterConfig | None = None,
        tls: HaPortTls | None = None,
    ) -> None:
        """Open the store there, as a master of this epoch if one is given, and serve it on a free port."""
        self._tls: Final = tls
        self.store: Final = ReplicaStore(directory, file_bytes)
        self._file_bytes: Final = file_bytes
        self._config: Final = config or MasterConfig(file_bytes)
        self._number = 0
        if epoch is not None:
            self.store.open_epoch(epoch)
        self.server = self._serve(0)

    @property
    def port(self) -> int:
        """Its HA port."""
        return self.server.port

    @property
    def max_offset(self) -> int:
        """Where its log ends."""
        return self.store.log.max_offset

    def fill(self, count: int, body_bytes: int = 100) -> int:
        """Write messages of one queue, durably, and return where the log ends."""
        for _ in range(count):
            record = next_record(self.max_offset, self._file_bytes, bytes(body_bytes), self._number)
            if not _is_message(record):
                append(self.store, record)
                record = next_record(self.max_offset, self._file_bytes, bytes(body_bytes), self._number)
            append(self.store, record)
            self._number += 1
        self.store.log.sync()
        self.server.log_grew()
        return self.max_offset

    def open_epoch(self, epoch: int) -> None:
        """Go on as master of a later epoch, with all connections."""
        self.store.open_epoch(epoch)
        self.server.log_grew()

    def restart(self) -> None:
        """End the port and serve on it again."""
        port = self.port
        self.server.stop()
        self.server = self._serve(port)

    def slave(self) -> ServedSlave | None:
        """Return its slave, if there is one that has shaken hands."""
        return next(iter(self.server.slaves()), None)

    def wait_acked(self, offset: int, timeout_s: float = WAIT_S) -> ServedSlave:
        """Wait until a slave has acknowledged all up to there, and return it."""
        found: list[ServedSlave] = []

        def is_there() -> bool:
            found[:] = [slave for slave in self.server.slaves() if slave.ack_offset >= offset]
            return bool(found)

        wait_until(is_there, f"an ack of {offset}", timeout_s)
        return found[0]

    def _serve(self, port: int) -> HaServer:
        served = ServedStore(self.store, lambda: self.store.log.max_offset)
        server = HaServer(self.store, served, self._config, self._tls)
        server.start("127.0.0.1", port)
        return server

    def __enter__(self) -> Self:
        """Go on serving."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the port and close the store."""
        self.server.stop()
        self.store.close()


def _is_message(record: bytes) -> bool:
    return record[4] == 0xDA


def wait_until(is_so: Callable[[], bool], what: str, timeout_s: float = WAIT_S) -> None:
    """Wait for something that another thread or process brings about.

    Raises:
        TimeoutError: it does not come; the text says what.
    """
    deadline_s = time.monotonic() + timeout_s
    while not is_so():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"no {what} within {timeout_s} s")
        time.sleep(_POLL_S)


@dataclass(frozen=True, slots=True)
class _LoopThread:
    loop: asyncio.AbstractEventLoop
    thread: threading.Thread

    def run(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self.loop).result(WAIT_S)


@contextlib.contextmanager
def tearing_relay(port: int, pieces: tuple[int, ...] = (1, 11, 35, 2, 37, 1_000, 4_097)) -> Iterator[int]:
    """Forward to an HA port of loopback, both ways, in pieces of these lengths; gives the port to dial."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="relay", daemon=True)
    thread.start()
    runner = _LoopThread(loop, thread)
    relay = Relay(f"127.0.0.1:{port}", pieces)
    try:
        runner.run(relay.start())
        yield int(relay.address.rpartition(":")[2])
    finally:
        runner.run(relay.stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(WAIT_S)
        loop.close()


def follow_and_die_in_the_cut(directory: Path, file_bytes: int, port: int) -> None:
    """Be our slave until the first half of its first cut is done: the file is short and not yet long again.

    To be run in a process of its own, which ends by SIGKILL there.
    """
    slave = OurSlave(directory, file_bytes)
    resize = OsDiskFile.resize

    def resize_and_die(file: OsDiskFile, size_bytes: int) -> None:
        resize(file, size_bytes)
        os.kill(os.getpid(), signal.SIGKILL)

    OsDiskFile.resize = resize_and_die  # type: ignore[method-assign, assignment]  # the process does only this
    slave.follow(port)
    slave.notes.end()
