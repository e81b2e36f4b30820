"""The log served to slaves: an HA port, and a thread for each slave around the master's machine.

A session writes what the machine says and reads acks in between; its socket never blocks, so that a slave
that does not read costs its own session and nothing else: no lock is held while a socket is full, and its
silence ends it after the housekeeping interval. Bodies go from the page cache to the socket (sendfile)
without passing through this program.

With certificates the port serves TLS beside plain TCP, or TLS only (`slave_streams`). The machine's time for
its handshake includes the handshake of TLS.

A session has a place (`channel.places`). One that does not copy the log gives its place to a younger
connection when there are too many, so silent strangers do not keep a member out.

The socket is reset and not closed in order when the log is cut under a session: bytes that are still on their
way may be of the tail that is gone, and the slave is better off asking again.

Source: AutoSwitchHAService.java, AutoSwitchHAConnection.java 5.4.0 for what a master does when.
"""

import contextlib
import logging
import os
import select
import socket
import struct
import threading
import time
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from controller_core.channel.listener import TLS_HANDSHAKE_BYTE
from controller_core.channel.log_rate import LogRate
from controller_core.channel.places import Places, PortPlace
from controller_core.channel.sockets import listening_at
from controller_core.remoting.host_port import join_host_port, plain_host
from controller_core.remoting.numbers import BrokerId, LogOffset
from ha_sidecar import limits
from ha_sidecar.commitlog.cuts import LogCutError
from ha_sidecar.commitlog.record_ends import RecordEnds
from ha_sidecar.commitlog.served import FileSender, ServedStore
from ha_sidecar.commitlog.store import ReplicaStore
from ha_sidecar.replica.slave_streams import HaPortTls, PlainSlaveStream, SlaveStream, TlsSlaveStream
from ha_sidecar.transfer.actions import Close, CloseReason, MasterAction, SendBytes, SendFrame, SlaveStarted
from ha_sidecar.transfer.errors import HaProtocolError
from ha_sidecar.transfer.master import MasterMachine
from ha_sidecar.transfer.served_log import MasterConfig

WAIT_MS: Final = 50
"""How long a session waits for something to do before it looks at the time."""
BACKLOG: Final = 16
_RESET: Final = struct.pack("ii", 1, 0)
_JOIN_TIMEOUT_S: Final = 5.0

_log = logging.getLogger(__name__)
_log_not_accepted: Final = LogRate(_log, logging.WARNING)
_log_started: Final = LogRate(_log, logging.INFO)
_log_ended: Final = LogRate(_log, logging.INFO)


@dataclass(frozen=True, slots=True)
class ServedSlave:
    """One slave as its session sees it; offsets in bytes, -1 while unknown."""

    broker_id: BrokerId
    address: str
    ack_offset: LogOffset
    position: int
    sent_bytes: int


class _Progress(Enum):
    """The result of a try to write."""

    WROTE = auto()
    FULL = auto()
    IDLE = auto()


class HaServer:
    """The HA port and its sessions; `start`, `log_grew` and `stop` are for any thread.

    Attributes:
        served: views of the store.
        port: the port that is listened on, 0 before `start`.
    """

    def __init__(
        self, store: ReplicaStore, served: ServedStore, config: MasterConfig, tls: HaPortTls | None = None
    ) -> None:
        """Prepare; nothing is listened on before `start`. Without `tls` the port serves plain TCP alone."""
        self.served: Final = served
        self.tls: Final = tls
        self.port = 0
        self.store: Final = store
        self.config: Final = config
        self._lock: Final = threading.Lock()
        self._sessions: set[_Session] = set()
        self._places: Final = Places(limits.SLAVES_MAX, limits.SLAVES_SOURCE_MAX)
        self._ended_bytes = 0
        self._listener: socket.socket | None = None
        self._thread: threading.Thread | None = None

    def start(self, host: str, port: int) -> None:
        """Listen; raise `OSError` if the port cannot be had."""
        self._listener = listening_at(host, port, BACKLOG)
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(
            target=self._accept, args=(self._listener,), name="ha-accept", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop listening and end all sessions."""
        listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
        if self._thread is not None:
            self._thread.join(_JOIN_TIMEOUT_S)
        if listener is not None:
            listener.close()
        with self._lock:
            sessions = list(self._sessions)
        for session in sessions:
            session.stop()
        for session in sessions:
            session.join(_JOIN_TIMEOUT_S)

    def log_grew(self) -> None:
        """Tell the sessions that there is more to serve."""
        with self._lock:
            for session in self._sessions:
                session.wake()

    def slaves(self) -> list[ServedSlave]:
        """Return the slaves that have shaken hands, by broker id."""
        with self._lock:
            found = [slave for session in self._sessions if (slave := session.slave()) is not None]
        return sorted(found, key=lambda slave: slave.broker_id)

    @property
    def sent_bytes(self) -> int:
        """Count the bodies' bytes that were ever served."""
        with self._lock:
            return self._ended_bytes + sum(session.machine.sent_bytes for session in self._sessions)

    def ended(self, session: "_Session") -> None:
        """Forget a session; called by itself."""
        with self._lock:
            self._sessions.discard(session)
            self._places.give_back(session.place)
            self._ended_bytes += session.machine.sent_bytes

    def keep(self, session: "_Session") -> None:
        """Learn that a session copies the log: from now on others give way first."""
        with self._lock:
            self._places.keep(session.place, kept=True)

    def _accept(self, listener: socket.socket) -> None:
        while self._listener is not None:
            try:
                sock, peer = listener.accept()
            except OSError as error:
                if self._listener is not None:
                    _log_not_accepted("accepting slaves: %s", error)
                    time.sleep(WAIT_MS / 1000)
                continue
            host = plain_host(peer[0])
            with self._lock:
                place = self._places.take(host) if self._listener is not None else None
            if place is None:
                sock.close()
                continue
            session = _Session(self, sock, join_host_port(host, peer[1]), place)
            with self._lock:
                self._sessions.add(session)
            session.start()


class _Session:
    """One slave's connection."""

    def __init__(self, server: HaServer, sock: socket.socket, address: str, place: PortPlace) -> None:
        self.place: Final = place
        self._server: Final = server
        self._socket: Final = sock
        self._address: Final = address
        self._ends: Final = RecordEnds(server.store.log.layout)
        self._files: Final = FileSender(server.store)
        self.machine: Final = MasterMachine(server.config, self._ends.record_end)
        self._wake_fd: Final = os.eventfd(0, os.EFD_NONBLOCK)
        self._fd_lock: Final = threading.Lock()
        self._closed = False
        self._stopping = threading.Event()
        self._stream: SlaveStream | None = None
        if server.tls is None:
            self._stream = PlainSlaveStream(sock, self._files)
        self._unsent = bytearray()
        self._body_offset = self._body_end = 0
        self._generation = 0
        self._thread: Final = threading.Thread(target=self._run, name=f"ha-slave-{address}", daemon=True)
        place.close = self.stop

    def start(self) -> None:
        """Start the thread that serves this slave."""
        self._thread.start()

    def stop(self) -> None:
        """Let the thread close the connection and end; it does so soon after."""
        self._stopping.set()
        self.wake()

    def join(self, timeout_s: float) -> None:
        """Wait until the thread has ended, but no longer than this."""
        self._thread.join(timeout_s)

    def wake(self) -> None:
        """Let the thread look again at the log and at `stop`."""
        with self._fd_lock:
            if not self._closed:
                os.eventfd_write(self._wake_fd, 1)

    def slave(self) -> ServedSlave | None:
        """Return how far this slave is; None before its handshake."""
        machine = self.machine
        if machine.handshake is None:
            return None
        return ServedSlave(
            BrokerId(machine.handshake.broker_id),
            self._address,
            machine.ack_offset,
            machine.position,
            machine.sent_bytes,
        )

    def _run(self) -> None:
        reason = "Failed"
        try:
            reason = self._live()
        except LogCutError:
            reason = CloseReason.LOG_CHANGED.value
            with contextlib.suppress(OSError):
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        except HaProtocolError as error:
            reason = f"ProtocolError: {error}"
        except OSError as error:
            reason = f"ConnectionLost: {error}"
        except Exception:
            _log.exception("serving %s", self._address)
        finally:
            self.machine.close()
            self._server.ended(self)
            self._release()
            handshake = self.machine.handshake
            _log_ended("slave %s at %s: %s", handshake and handshake.broker_id, self._address, reason)

    def _release(self) -> None:
        with self._fd_lock:
            self._closed = True
            os.close(self._wake_fd)
        self._socket.close()
        self._ends.close()
        self._files.close()

    def _live(self) -> str:
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        poll = select.poll()
        poll.register(self._wake_fd, select.POLLIN)
        self.machine.connected(_now_ms())
        while not self._stopping.is_set():
            progress = self._write()
            if isinstance(progress, str):
                return progress
            poll.register(self._socket, select.POLLIN | (select.POLLOUT if progress is _Progress.FULL else 0))
            for fd, _ in poll.poll(0 if progress is _Progress.WROTE else WAIT_MS):
                if fd == self._wake_fd:
                    os.eventfd_read(fd)
                elif (end := self._read()) is not None:
                    return end
            if (end := self._carry_out(self.machine.tick(_now_ms()))) is not None:
                return end
        return "Stopped"

    def _begin(self) -> SlaveStream | str:
        """Decide by the first byte how this slave is served; return why it is not."""
        first = self._socket.recv(1, socket.MSG_PEEK)
        tls = self._server.tls
        if not first:
            return "ClosedBySlave"
        if tls is None or (first[0] != TLS_HANDSHAKE_BYTE and tls.plain_allowed):
            return PlainSlaveStream(self._socket, self._files)
        if first[0] != TLS_HANDSHAKE_BYTE:
            return "PlainRefused"
        return TlsSlaveStream(tls.begin(self._socket), self._files)

    def _read(self) -> str | None:
        try:
            if self._stream is None:
                begun = self._begin()
                if isinstance(begun, str):
                    return begun
                self._stream = begun
            data = self._stream.receive()
        except BlockingIOError:
            return None
        if not data:
            return "ClosedBySlave"
        return self._carry_out(self.machine.received(data, self._server.served.view(), _now_ms()))

    def _carry_out(self, actions: list[MasterAction]) -> str | None:
        for action in actions:
            match action:
                case SendBytes(data):
                    self._unsent += data
                case SlaveStarted(handshake, start_offset):
                    self._server.keep(self)
                    _log_started(
                        "slave %d at %s goes on at %d%s",
                        handshake.broker_id,
                        self._address,
                        start_offset,
                        " in TLS" if isinstance(self._stream, TlsSlaveStream) else "",
                    )
                case Close(reason):
                    return reason.value
        return None

    def _has_output(self) -> bool:
        return bool(self._unsent) or self._body_offset < self._body_end

    def _write(self) -> _Progress | str:
        """Write the rest of the last frame, or the next one; return the progress, or why this is the end."""
        if (stream := self._stream) is None:
            return _Progress.IDLE
        if not self._has_output():
            try:
                stream.flush()
            except BlockingIOError:
                return _Progress.FULL
            view = self._server.served.view()
            frame = self.machine.next_frame(view, _now_ms())
            match frame:
                case None:
                    return _Progress.IDLE
                case Close(CloseReason.LOG_CHANGED):
                    raise LogCutError("found by the machine")
                case Close(reason):
                    return reason.value
                case SendFrame(header, offset, body_bytes):
                    self._unsent += header
                    self._body_offset, self._body_end = offset, offset + body_bytes
                    self._generation = view.generation
        try:
            self._write_some(stream)
        except BlockingIOError:
            return _Progress.FULL
        return _Progress.WROTE

    def _write_some(self, stream: SlaveStream) -> None:
        if self._unsent:
            # Header and body leave in one segment where they fit.
            sent = stream.send(self._unsent, more=self._body_offset < self._body_end)
            del self._unsent[:sent]
        while not self._unsent and self._body_offset < self._body_end:
            length = self._body_end - self._body_offset
            sent = stream.send_file(self._body_offset, length, self._generation)
            if not sent:
                raise LogCutError(f"nothing to read at {self._body_offset}")
            self._body_offset += sent


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
