"""The master's side of one HA connection as a machine without I/O: bytes and ticks in, actions out.

Theory of operation. A connection lives through five states, and only the table `TRANSITIONS` changes them:

    IDLE --connected--> HANDSHAKE --handshake--> REPLIED --first ack--> TRANSFER
      any state --close--> CLOSED

The slave speaks first. It is answered once, with the whole epoch list and the end of the log, and then
decides alone where its log parts from ours; its first ack says where it goes on. From then on `next_frame`
yields one frame after another, each when the previous one has been written. Acks only come in; nothing waits
for them.

Frames are made so that the weakest slave understands them:

- A frame ends where a record ends. A Java slave that is promoted with half a message at its end waits for
  ever for it to be dispatched. Only a message larger than the largest frame is cut inside.
- A frame stays inside one log file, since a Java slave drops a body that crosses a file's end and says
  nothing.
- A frame holds bytes of one epoch and its header names that epoch. An empty frame goes ahead of an epoch's
  first byte, so that even an epoch without bytes reaches the slave's list. (Java's master names the *next*
  epoch in the frame that ends one, and never announces a short epoch at all.)
- The confirm offset in a header lies at the end of a record that the slave has after this frame.
- Header and body together stay below 4 MiB: a Java slave never completes a larger one.

What a slave may do that looks wrong: it repeats its handshake while the reply arrives in pieces (answering
twice makes it close), and it says nothing for 5 s before its first ack. Java's master allows two things that
this one refuses: a start below the log's first byte, which Java serves with silence for ever, and acks beyond
the sent bytes.

The log is a parameter: `LogExtent` is its state at the moment of a call, `record_end` finds ends of records
in it. The extent must only ever end where a record ends, and should end at durable bytes: a slave must not
have more of an epoch than a master that comes back.

Source: AutoSwitchHAConnection.java 5.4.0; docs/en/controller/design.md "Log replication".
"""

from enum import Enum, auto
from typing import Final

from controller_core.remoting.numbers import LogOffset
from ha_sidecar.epoch import NO_EPOCH, EpochEntry, EpochList
from ha_sidecar.transfer import codec
from ha_sidecar.transfer.actions import (
    Close,
    CloseReason,
    MasterAction,
    SendBytes,
    SendFrame,
    SlaveStarted,
)
from ha_sidecar.transfer.errors import HaProtocolError, TransferUsageError
from ha_sidecar.transfer.served_log import LogExtent, MasterConfig, RecordEnd

HANDSHAKE_TIMEOUT_MS: Final = 5_000
LEGACY_WAIT_MS: Final = 2_000
"""After this long 12 bytes are an old handshake without an address, and not the beginning of a new one."""
SILENCE_MAX_MS: Final = 20_000
"""haHousekeepingInterval: after this long without a byte either side gives the connection up."""
HEARTBEAT_MS: Final = 1_000
"""Java beats every 5 s; a slave learns of a new confirm offset, and of our end, only by frames."""
FLOW_WINDOW_MS: Final = 1_000
FRAME_BYTES_MAX: Final = 4 << 20
"""The read buffer of a Java slave: header and body of a frame must fit into it."""
BODY_BYTES_MAX: Final = FRAME_BYTES_MAX - codec.FRAME_HEADER_BYTES
OFFSET_UNKNOWN: Final = LogOffset(-1)
"""A heartbeat's content while the log is empty, as Java's."""


class MasterState(Enum):
    """Where a connection is."""

    IDLE = auto()
    HANDSHAKE = auto()
    REPLIED = auto()
    TRANSFER = auto()
    CLOSED = auto()


class MasterEvent(Enum):
    """What moves a connection on."""

    CONNECTED = auto()
    HANDSHAKE = auto()
    FIRST_ACK = auto()
    CLOSE = auto()


TRANSITIONS: Final = {
    (MasterState.IDLE, MasterEvent.CONNECTED): MasterState.HANDSHAKE,
    (MasterState.HANDSHAKE, MasterEvent.HANDSHAKE): MasterState.REPLIED,
    (MasterState.REPLIED, MasterEvent.FIRST_ACK): MasterState.TRANSFER,
    **{(state, MasterEvent.CLOSE): MasterState.CLOSED for state in MasterState},
}


class MasterMachine:
    """One connection of a slave, from its handshake to its end.

    Call `connected` once, then `received` and `tick` in any order, and carry out the returned actions in
    order; call `next_frame` whenever everything before has been written. `HaProtocolError` ends the
    connection. All times are milliseconds of one monotonic clock.

    Attributes:
        state: where the connection is.
        handshake: who the slave is, None before it said so.
        position: offset of the next byte to send; -1 while unknown.
        ack_offset: how far the slave's log reaches by its last ack; -1 before the first.
        sent_bytes: bodies sent on this connection.
    """

    def __init__(self, config: MasterConfig, record_end: RecordEnd) -> None:
        """Prepare a connection; `record_end` looks into the log."""
        self.state = MasterState.IDLE
        self.handshake: codec.Handshake | None = None
        self.position = OFFSET_UNKNOWN
        self.ack_offset = OFFSET_UNKNOWN
        self.sent_bytes = 0
        self._config: Final = config
        self._record_end: Final = record_end
        self._pending = bytearray()
        self._stream_offset = 0
        self._generation = 0
        self._announced: EpochEntry | None = None
        self._whole_offset = OFFSET_UNKNOWN
        self._connected_ms = 0
        self._heard_ms = 0
        self._written_ms = 0
        self._window_ms = 0
        self._window_bytes = 0

    def connected(self, now_ms: int) -> None:
        """Start to wait for the handshake."""
        self._move(MasterEvent.CONNECTED)
        self._connected_ms = self._heard_ms = self._window_ms = now_ms

    def received(self, data: codec.Buffer, log: LogExtent, now_ms: int) -> list[MasterAction]:
        """Take bytes from the slave, all of them; return what they ask for.

        Raises:
            HaProtocolError: the stream is broken; the connection is over.
        """
        if self.state is MasterState.IDLE:
            raise TransferUsageError("received before connected")
        if self.state is MasterState.CLOSED:
            return []
        self._heard_ms = now_ms
        self._pending += data
        actions: list[MasterAction] = []
        try:
            while taken := self._take(actions, log, now_ms):
                self._stream_offset += taken
                del self._pending[:taken]
        except HaProtocolError:
            self._move(MasterEvent.CLOSE)
            raise
        return actions

    def tick(self, now_ms: int) -> list[MasterAction]:
        """Let time pass: give up a slave that says nothing. Call it every 100 ms or so."""
        match self.state:
            case MasterState.HANDSHAKE if (
                now_ms - self._heard_ms >= LEGACY_WAIT_MS and self._is_bare_legacy()
            ):
                return self._close(CloseReason.LEGACY_HANDSHAKE)
            case MasterState.HANDSHAKE if now_ms - self._connected_ms >= HANDSHAKE_TIMEOUT_MS:
                return self._close(CloseReason.HANDSHAKE_TIMEOUT)
            case MasterState.REPLIED | MasterState.TRANSFER if now_ms - self._heard_ms > SILENCE_MAX_MS:
                return self._close(CloseReason.SLAVE_SILENT)
            case _:
                return []

    def next_frame(self, log: LogExtent, now_ms: int) -> SendFrame | Close | None:
        """Return the next bytes to write; None if nothing is due.

        Ask again when the log has grown, and after some tens of milliseconds in any case: heartbeats and the
        end of a flow control window come with time.
        """
        if self.state is not MasterState.TRANSFER:
            return None
        if log.generation != self._generation or not self._announced_holds(log):
            return self._closed(CloseReason.LOG_CHANGED)
        if self.position == OFFSET_UNKNOWN and not log.is_empty:
            self._start_at(log.min_offset, log)
        frame = self._data_frame(log, now_ms) if self.position != OFFSET_UNKNOWN else None
        if frame is None and now_ms - self._written_ms >= HEARTBEAT_MS:
            frame = self._frame(log, 0)
        if isinstance(frame, SendFrame):
            self._written_ms = now_ms
        return frame

    def close(self) -> None:
        """Learn that the connection is gone."""
        self._move(MasterEvent.CLOSE)

    def _move(self, event: MasterEvent) -> None:
        following = TRANSITIONS.get((self.state, event))
        if following is None:
            raise TransferUsageError(f"{event.name} in state {self.state.name}")
        self.state = following

    def _close(self, reason: CloseReason) -> list[MasterAction]:
        return [self._closed(reason)]

    def _closed(self, reason: CloseReason) -> Close:
        self._move(MasterEvent.CLOSE)
        return Close(reason)

    # What follows reads the slave's messages.

    def _take(self, actions: list[MasterAction], log: LogExtent, now_ms: int) -> int:
        """Use one message of the pending bytes and return its length, 0 while it is not whole."""
        if self.state is MasterState.HANDSHAKE:
            return self._take_handshake(actions, log)
        if self.state is MasterState.CLOSED or len(self._pending) < codec.ACK_BYTES:
            return 0
        if self.state is MasterState.REPLIED and self._pending[3] == codec.ConnectionState.HANDSHAKE:
            return self._take_repeated()
        offset = codec.decode_ack(self._pending[: codec.ACK_BYTES], self._stream_offset)
        if self.state is MasterState.REPLIED and self.handshake is not None:
            self._take_first_ack(self.handshake, offset, actions, log, now_ms)
        else:
            self._take_ack(offset)
        return codec.ACK_BYTES

    def _take_handshake(self, actions: list[MasterAction], log: LogExtent) -> int:
        found = codec.decode_handshake(self._pending, stream_offset=self._stream_offset)
        if found is None:
            return 0
        handshake, taken = found
        if isinstance(handshake, codec.LegacyHandshake):
            actions.extend(self._close(CloseReason.LEGACY_HANDSHAKE))
            return taken
        epochs = log.epochs.starting_up_to(log.end_offset)
        if not log.is_empty and not len(epochs):
            actions.extend(self._close(CloseReason.UNLABELLED_LOG))
            return taken
        # More entries fit no reply. The oldest are the ones that no slave of today needs.
        newest = EpochList(list(epochs)[-codec.EPOCH_ENTRIES_MAX :])
        self.handshake = handshake
        self._generation = log.generation
        self._move(MasterEvent.HANDSHAKE)
        actions.append(SendBytes(codec.encode_reply(codec.HandshakeReply(log.end_offset, newest))))
        return taken

    def _take_repeated(self) -> int:
        found = codec.decode_handshake(self._pending, stream_offset=self._stream_offset)
        if found is None:
            return 0
        if found[0] != self.handshake:
            raise HaProtocolError(f"{found[0]} after {self.handshake}", self._stream_offset, found[1])
        return found[1]

    def _take_first_ack(
        self,
        handshake: codec.Handshake,
        offset: LogOffset,
        actions: list[MasterAction],
        log: LogExtent,
        now_ms: int,
    ) -> None:
        if log.generation != self._generation:
            actions.extend(self._close(CloseReason.LOG_CHANGED))
            return
        if not log.is_empty and 0 < offset < log.min_offset:
            actions.extend(self._close(CloseReason.START_BELOW_MIN))
            return
        # A replica without a log may wait for a file that is still to come; one with a log cannot have more
        # than ours.
        if offset > log.end_offset and offset % self._config.mapped_file_bytes:
            actions.extend(self._close(CloseReason.START_BEYOND_END))
            return
        self._move(MasterEvent.FIRST_ACK)
        self.ack_offset = offset
        if offset:
            self._start_at(offset, log)
        elif not log.is_empty:
            last_file = LogOffset(log.end_offset - log.end_offset % self._config.mapped_file_bytes)
            from_last = handshake.sync_from_last_file
            self._start_at(max(log.min_offset, last_file) if from_last else log.min_offset, log)
        self._written_ms = now_ms
        actions.append(SlaveStarted(handshake, self.position))

    def _take_ack(self, offset: LogOffset) -> None:
        if offset > max(self.position, 0):
            raise HaProtocolError(
                f"ack of {offset}, only {self.position} was sent", self._stream_offset, codec.ACK_BYTES
            )
        if offset < self.ack_offset:
            raise HaProtocolError(
                f"ack of {offset} after {self.ack_offset}", self._stream_offset, codec.ACK_BYTES
            )
        self.ack_offset = offset

    def _is_bare_legacy(self) -> bool:
        return codec.decode_handshake(self._pending, ended=True) is not None

    # What follows makes frames.

    def _start_at(self, offset: LogOffset, log: LogExtent) -> None:
        """Go on at `offset`, which may lie inside a record: a Java slave keeps a partly received one."""
        self.position = offset
        known_offset = min(offset, log.end_offset)
        file_start = known_offset - known_offset % self._config.mapped_file_bytes
        self._whole_offset = LogOffset(self._record_end(file_start, known_offset))

    def _announced_holds(self, log: LogExtent) -> bool:
        announced = self._announced
        return announced is None or log.epochs.get(announced.epoch) == announced

    def _data_frame(self, log: LogExtent, now_ms: int) -> SendFrame | Close | None:
        """Return the frame that carries the slave on, an empty one where a new epoch starts."""
        if log.is_empty:
            return None
        if self.position < log.min_offset:
            return self._closed(CloseReason.START_BELOW_MIN)
        # Bytes before the first epoch lack an entry; they go under the first one, whose start tells it all.
        entry = log.epochs.find_by_offset(self.position) or log.epochs.first
        if entry is not None and entry != self._announced:
            self._announced = entry
            return self._frame(log, 0)
        if entry is None or self.position >= log.end_offset or not self._may_send(now_ms):
            return None
        return self._frame(log, self._body_bytes(log, entry))

    def _body_bytes(self, log: LogExtent, entry: EpochEntry) -> int:
        """Return the length of the next body and remember how far the slave then has whole records."""
        file_bytes = self._config.mapped_file_bytes
        file_end = self.position - self.position % file_bytes + file_bytes
        # Where the position lies before the first epoch, that epoch's start ends the frame.
        before_first = entry.start_offset > self.position
        epoch_end = entry.start_offset if before_first else log.epochs.end_offset(entry.epoch)
        hard_end = min(log.end_offset, file_end, epoch_end, self.position + BODY_BYTES_MAX)
        end = self._record_end(self.position, min(hard_end, self.position + self._config.batch_bytes))
        if end == self.position:
            end = self._record_end(self.position, hard_end)
        if end == self.position:
            return hard_end - self.position
        self._whole_offset = LogOffset(end)
        return end - self.position

    def _frame(self, log: LogExtent, body_bytes: int) -> SendFrame:
        offset = self.position
        entry = self._announced or EpochEntry(NO_EPOCH, LogOffset(0))
        confirm_offset = min(log.confirm_offset, self._whole_offset)
        header = codec.FrameHeader(body_bytes, offset, entry.epoch, entry.start_offset, confirm_offset)
        if body_bytes:
            self.position = LogOffset(self.position + body_bytes)
            self.sent_bytes += body_bytes
            self._window_bytes += body_bytes
        return SendFrame(codec.encode_frame_header(header), offset, body_bytes)

    def _may_send(self, now_ms: int) -> bool:
        """Say whether flow control lets a body go; what a frame took too much, the next windows pay back."""
        bytes_max = self._config.flow_bytes_per_s_max
        if not bytes_max:
            return True
        windows = (now_ms - self._window_ms) // FLOW_WINDOW_MS
        if windows > 0:
            self._window_ms += windows * FLOW_WINDOW_MS
            self._window_bytes = max(0, self._window_bytes - windows * bytes_max)
        return self._window_bytes < bytes_max
