"""One HA connection on a thread of its own: the shell around the slave's machine.

The thread receives into one buffer, hands the bytes to the machine and carries out what it asks for, in
order: neighbouring bodies become one write. The syncing thread makes the log durable at the same time and
comes in through `synced`, which sends the ack right from there. One lock keeps the machine and the socket's
writes together, so that acks leave in the order in which they were decided; writing to the log happens
outside of it.

A link lives once. It ends by itself, by `stop` or by `part`; either way `on_end` is called once, on the
link's thread, after the socket is closed or no longer bears the broker id, so that a caller who starts the
next link never has two sockets with one broker id. A link in TLS that fails its handshake has not told the id
yet. A link that parted keeps its socket until the master ends
it too: closed with unread bytes it would be reset, and the reset could overtake the last bytes sent.

Source: AutoSwitchHAClient.java 5.4.0 for what a slave does when.
"""

import contextlib
import logging
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from controller_core.remoting.numbers import LogOffset
from controller_core.tls.certificates import UnusableCertificatesError
from controller_core.tls.streams import HandshakeTimeoutError
from ha_sidecar.commitlog.room import NoRoomError
from ha_sidecar.commitlog.store import ReplicaStore
from ha_sidecar.common.ha_socket import TICK_S, HaSocket, HaTls, dial_ha
from ha_sidecar.transfer.actions import (
    Action,
    AdoptEpochs,
    AppendBody,
    CaughtUp,
    Close,
    CloseReason,
    Diverged,
    DivergenceReason,
    HandshakeDone,
    SendBytes,
    Truncate,
)
from ha_sidecar.transfer.errors import HaProtocolError
from ha_sidecar.transfer.reconcile import SlaveConfig
from ha_sidecar.transfer.slave import SlaveMachine, SlaveState

RECEIVE_BUFFER_BYTES: Final = 2 << 20
PART_WAIT_S: Final = 0.2
"""How long a link that parts waits for its master to end the connection before it counts as ended itself."""
LINGER_S: Final = 60.0
"""How long its socket stays open after that."""
PARTED: Final = "Parted"
NO_ROOM: Final = "NoRoom"
TLS_FAILED: Final = "TlsFailed"
"""The other end had promised TLS, and does not answer it with a certificate that is trusted."""
_NO_TLS: Final = (
    ssl.SSLError,
    ConnectionResetError,
    BrokenPipeError,
    HandshakeTimeoutError,
    UnusableCertificatesError,
)

_log = logging.getLogger(__name__)


class DivergedError(Exception):
    """The log cannot be continued, and the settings say to stop rather than to start over."""


@dataclass(frozen=True, slots=True)
class LinkEnd:
    """Why a link ended.

    Attributes:
        reason: one word for events and metrics.
        detail: words for a person.
        diverged: the log cannot be continued from this master; None otherwise.
        connected: whether the TCP connection came about at all.
        disk_error: what the disk answered to a write or a cut. How far that came is unknown to this process;
            only a fresh one, which recovers the log, can go on.
        lingers: the link parted, and its master is not known to have noticed.
    """

    reason: str
    detail: str = ""
    diverged: DivergenceReason | None = None
    connected: bool = True
    disk_error: OSError | None = None
    lingers: bool = False


class DiskFailedError(Exception):
    """The disk refused a write or a cut; carries its error past those of the socket."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(str(cause))
        self.cause: Final = cause


@contextlib.contextmanager
def _on_disk() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DiskFailedError(error) from error


class LinkObserver(Protocol):
    """Receives the link's reports; all calls come on the link's thread."""

    def on_handshake(self, done: HandshakeDone) -> None:
        """The reply was understood; may write to the disk."""

    def on_truncate(self, from_offset: LogOffset, to_offset: LogOffset) -> None:
        """The log was cut."""

    def on_caught_up(self, offset: LogOffset) -> None:
        """The log reached what the master had when it answered."""

    def on_end(self, end: LinkEnd) -> None:
        """The link is over and its socket closed."""


class HaLink:
    """A connection to one master's HA port.

    Attributes:
        machine: the slave's machine; its numbers may be read from any thread.
    """

    def __init__(
        self,
        address: tuple[str, int],
        store: ReplicaStore,
        config: SlaveConfig,
        observer: LinkObserver,
        wake_syncer: Callable[[], None] | None,
        clock_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
        *,
        tls: HaTls | None = None,
    ) -> None:
        """Prepare; nothing runs before `start`.

        Args:
            address: host and HA port of the master.
            store: where the log goes; the link is its only writer while it lives.
            config: see `SlaveConfig`.
            observer: told what happens.
            wake_syncer: called after each write; acks then wait for `synced`. None: acks follow the write.
            clock_ms: monotonic milliseconds.
            tls: the TLS that the master has promised; None for plain TCP.
        """
        self.machine: Final = SlaveMachine(config, store.own_log())
        self._address: Final = address
        self._tls: Final = tls
        self._store: Final = store
        self._observer: Final = observer
        self._wake_syncer: Final = wake_syncer
        self._clock_ms: Final = clock_ms
        self._lock: Final = threading.Lock()
        self._stopping = threading.Event()
        self._part_until_s = 0.0
        self._socket: HaSocket | None = None
        self._thread: Final = threading.Thread(target=self._run, name="ha-link", daemon=True)

    def start(self) -> None:
        """Start the thread; it connects first."""
        self._thread.start()

    def stop(self) -> None:
        """Ask the link to end soon; `on_end` tells when it has."""
        self._stopping.set()
        with self._lock:
            if self._socket is not None:
                self._socket.shut_down()

    def part(self, wait_s: float | None = None) -> None:
        """Leave this master for good (see `SlaveMachine.part`); `on_end` tells when that is done.

        No ack leaves once this has returned. The link ends after `wait_s`, by default `PART_WAIT_S`, even if
        the master has not noticed; a repeated call does not make that longer.
        """
        with self._lock:
            if self._socket is None:
                self._stopping.set()
                return
            if self.machine.state is SlaveState.PARTED:
                return
            self._part_until_s = time.monotonic() + (PART_WAIT_S if wait_s is None else wait_s)
            with contextlib.suppress(OSError):  # a broken socket ends the link on its own thread
                self._send(self.machine.part())
                self._socket.end_sending()

    @property
    def is_connected(self) -> bool:
        """Say whether a socket is open; a link without one can end alone."""
        return self._socket is not None

    def synced(self) -> None:
        """Learn from the syncing thread that more of the log is durable."""
        with self._lock, contextlib.suppress(OSError):  # a broken socket ends the link on its own thread
            # Asked of the log and not taken from the sync that just ended: a truncation may have come in
            # between, and bytes written since then are not durable yet.
            offset = min(self._store.log.synced_offset, self.machine.position)
            self._send(self.machine.stored(offset, self._clock_ms()))

    def set_in_sync(self, in_sync: bool) -> None:
        """Learn whether the replica is in the SyncStateSet."""
        with self._lock:
            self.machine.set_in_sync(in_sync)

    def _run(self) -> None:
        end = LinkEnd("Failed")
        try:
            end = self._live()
        except DiskFailedError as error:
            end = LinkEnd("DiskFailed", str(error.cause), disk_error=error.cause)
        except Exception as error:
            # The log's state is certain: the slave asks again for bytes that it has not acked.
            _log.exception("HA link to %s:%d", *self._address)
            end = LinkEnd("Failed", f"{type(error).__name__}: {error}")
        finally:
            with self._lock:
                sock, self._socket = self._socket, None
                self.machine.close()
            if sock is not None and not end.lingers:
                sock.close()
            self._observer.on_end(end)
            if sock is not None and end.lingers:
                _drain(sock)

    def _live(self) -> LinkEnd:
        try:
            sock = dial_ha(self._address, self._tls)
        except (OSError, UnusableCertificatesError) as error:
            if self._tls is not None and isinstance(error, _NO_TLS):
                return LinkEnd(TLS_FAILED, f"{self._tls.name}: {error}")
            return LinkEnd("ConnectFailed", str(error), connected=False)
        with self._lock:
            self._socket = sock
            if not self._stopping.is_set():
                self._send(self.machine.connected(self._clock_ms()))
        try:
            return self._receive(sock)
        except HaProtocolError as error:
            return LinkEnd("ProtocolError", str(error))
        except NoRoomError as error:
            return LinkEnd(NO_ROOM, str(error))
        except OSError as error:
            if self.machine.state is SlaveState.PARTED:
                return LinkEnd(PARTED, str(error))
            return LinkEnd("Stopped" if self._stopping.is_set() else "ConnectionLost", str(error))

    def _receive(self, sock: HaSocket) -> LinkEnd:
        buffer = memoryview(bytearray(RECEIVE_BUFFER_BYTES))
        next_tick_ms = 0
        while not self._stopping.is_set():
            try:
                length = sock.receive_into(buffer)
            except TimeoutError:
                length = -1
            if self.machine.state is SlaveState.PARTED:
                if length == 0:
                    return LinkEnd(PARTED)
                if time.monotonic() > self._part_until_s:
                    return LinkEnd(PARTED, "the master has not closed its end yet", lingers=True)
                continue
            if length == 0:
                return LinkEnd("Stopped" if self._stopping.is_set() else "ClosedByMaster")
            now_ms = self._clock_ms()
            end: LinkEnd | None = None
            if length > 0:
                with self._lock:
                    actions = self.machine.received(buffer[:length], now_ms)
                end = self._carry_out(actions)
            if end is None and now_ms >= next_tick_ms:
                next_tick_ms = now_ms + int(TICK_S * 1000)
                with self._lock:
                    end = self._send(self.machine.tick(now_ms))
            if end is not None:
                return end
        return LinkEnd("Stopped")

    def _carry_out(self, actions: list[Action]) -> LinkEnd | None:
        run: list[memoryview] = []
        run_offset, next_offset = LogOffset(0), 0
        file_bytes = self._store.log.layout.file_bytes
        for action in actions:
            if isinstance(action, AppendBody):
                if run and (action.offset != next_offset or action.offset % file_bytes == 0):
                    self._write(run_offset, run)
                    run = []
                run_offset = run_offset if run else action.offset
                run.append(action.data)
                next_offset = action.offset + len(action.data)
                continue
            self._write(run_offset, run)
            run = []
            end = self._carry_out_one(action)
            if end is not None:
                return end
        self._write(run_offset, run)
        return None

    def _write(self, offset: LogOffset, run: list[memoryview]) -> None:
        if not run:
            return
        with _on_disk():
            self._store.log.append(offset, run)
        if self._wake_syncer is not None:
            self._wake_syncer()
            return
        with self._lock:
            self._send(self.machine.stored(self._store.log.max_offset, self._clock_ms()))

    def _carry_out_one(self, action: Action) -> LinkEnd | None:
        match action:
            case HandshakeDone():
                with _on_disk():
                    self._observer.on_handshake(action)
            case Truncate(to_offset):
                return self._truncate(to_offset)
            case AdoptEpochs(epochs):
                with _on_disk():
                    self._store.adopt(epochs)
            case CaughtUp(offset):
                self._observer.on_caught_up(offset)
            case SendBytes():
                with self._lock:
                    return self._send([action])
            case Close() | Diverged():
                return _end_of(action)
            case AppendBody():
                raise AssertionError("bodies are written in runs")
        return None

    def _truncate(self, to_offset: LogOffset) -> LinkEnd | None:
        with _on_disk():
            return self._truncate_on_disk(to_offset)

    def _truncate_on_disk(self, to_offset: LogOffset) -> LinkEnd | None:
        log = self._store.log
        if not log.can_cut_at(to_offset):
            detail = f"no record starts at {to_offset} of [{log.min_offset}, {log.max_offset})"
            return LinkEnd("Diverged", detail, DivergenceReason.CUT_INSIDE_RECORD)
        from_offset = log.max_offset
        log.truncate(to_offset)
        self._observer.on_truncate(from_offset, to_offset)
        return None

    def _send(self, actions: list[Action]) -> LinkEnd | None:
        """Send all pending bytes; the caller holds the lock."""
        for action in actions:
            if not isinstance(action, SendBytes):
                return _end_of(action)
            if self._socket is not None:
                # Twelve bytes wait for room only behind a peer that has not read for minutes.
                self._socket.send_all(action.data)
        return None


def _drain(sock: HaSocket) -> None:
    """Read and forget what the master still sends, until it ends the connection."""
    deadline_s = time.monotonic() + LINGER_S
    buffer = memoryview(bytearray(RECEIVE_BUFFER_BYTES))
    with contextlib.closing(sock), contextlib.suppress(OSError):
        while time.monotonic() < deadline_s:
            with contextlib.suppress(TimeoutError):
                if not sock.receive_into(buffer):
                    return


def _end_of(action: Action) -> LinkEnd | None:
    match action:
        case Close(reason):
            return LinkEnd(reason.value)
        case Diverged(reason, detail):
            return LinkEnd("Diverged", detail, reason)
        case _:
            return None


def starts_below_first_epoch(end: LinkEnd) -> bool:
    """Say whether the next attempt has to ask for a whole file at or above the master's first epoch."""
    return end.reason in {CloseReason.START_BELOW_FIRST_EPOCH.value, CloseReason.NO_WHOLE_FILE_YET.value}
