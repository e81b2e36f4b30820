"""The slave's side of one HA connection as a machine without I/O: bytes and ticks in, actions out.

Theory of operation. A connection lives through five states, and only the table `TRANSITIONS` changes them:

    IDLE --connected--> HANDSHAKE --reply--> TRANSFER
      HANDSHAKE, TRANSFER --part--> PARTED
      any state --close--> CLOSED

The slave sends one handshake. The reply holds the master's whole epoch list and the end of its log; from
these alone `reconcile.decide` finds the common prefix and the first ack, which is the offset at which
the master starts. From then on the master streams frames, and every byte of a body goes to the log at
`position`. A body may end anywhere in a message, and is passed on as it comes: nothing here ever holds a
whole frame.

Where this differs from Java's slave, and why:

- The epochs of the bytes come from the reply, not from frame headers. A Java master that cuts a batch at an
  epoch's end writes the *next* epoch in the header, and never announces an epoch shorter than the first
  batch. A header is taken only as "this epoch starts there", for epochs that began after the reply.
- The first ack goes out at once. Java's slave waits for its 5 s beat, in which its master sends nothing.
- Acks repeat while the replica is outside the SyncStateSet: a master asks the controller to add a slave only
  when an ack comes in, and does not retry a refused request by itself.
- A master that restarted in its own epoch has rewritten that epoch's start; see `truncation_point`.
- An own log without any epoch is not continued: nothing says which bytes are the master's. Java continues it.

Parting is for a master that is replaced and may live. Since 5.4.0 a master takes a slave out of its own
SyncStateSet the moment the slave's connection ends, before any controller agreed; when the last one goes,
every send that waits is acknowledged by the master alone, and is gone when it follows the next one. It knows
the slave by the id of the newest handshake on that connection. So a slave that parts sends a second
handshake, without an id, and then ends: the id stays in the set, no connection bears it, and nothing can be
acknowledged any more. (A slave that goes for a while only, because its process stops, must not part: its
master could not write without it.)

`stored` tells the machine how far the log is as safe as the operator wants it (written, or on disk); acks
never say more than that. The machine never decides what happens to a diverged log: it names the reason and
stops.

Source: AutoSwitchHAClient.java 5.4.0; docs/en/controller/design.md "Log replication"; for parting
AutoSwitchHAService.removeConnection, AutoSwitchHAConnection.HAServerReader and GroupTransferService 5.4.0 and
5.5.0.
"""

from enum import Enum, auto
from typing import Final

from controller_core.remoting.numbers import LogOffset
from ha_sidecar.epoch import EpochEntry, EpochList
from ha_sidecar.transfer import codec
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
from ha_sidecar.transfer.errors import HaProtocolError, TransferUsageError
from ha_sidecar.transfer.reconcile import OwnLog, SlaveConfig, decide, newest_file_offset

REPLY_TIMEOUT_MS: Final = 5_000
SILENCE_MAX_MS: Final = 20_000
"""haHousekeepingInterval: after this long without a byte either side gives the connection up."""
NO_DATA_MAX_MS: Final = 10_000
"""How long a master that has more may send only heartbeats; two of its beats."""
NO_DATA_BEATS_MIN: Final = 2
"""So many of them must have come.

Time alone also passes for a process that was stopped, with the bytes in its socket.
"""
NOBODY_ID: Final = -1
"""The id under which a slave parts; a Java master's own word for a connection that has not said who it is."""
ACK_REPEAT_MS: Final = 150
ACK_IDLE_MS: Final = 1_000
"""Acks keep an idle slave caught up for a master whose log is empty, and its 20 s housekeeping away.

Java beats every 5 s, and falls out of the set where haMaxTimeSlaveNotCatchup is less.
"""


class SlaveState(Enum):
    """Where a connection is."""

    IDLE = auto()
    HANDSHAKE = auto()
    TRANSFER = auto()
    PARTED = auto()
    CLOSED = auto()


class SlaveEvent(Enum):
    """What moves a connection on."""

    CONNECTED = auto()
    REPLY = auto()
    PART = auto()
    CLOSE = auto()


TRANSITIONS: Final = {
    (SlaveState.IDLE, SlaveEvent.CONNECTED): SlaveState.HANDSHAKE,
    (SlaveState.HANDSHAKE, SlaveEvent.REPLY): SlaveState.TRANSFER,
    (SlaveState.HANDSHAKE, SlaveEvent.PART): SlaveState.PARTED,
    (SlaveState.TRANSFER, SlaveEvent.PART): SlaveState.PARTED,
    (SlaveState.IDLE, SlaveEvent.CLOSE): SlaveState.CLOSED,
    (SlaveState.HANDSHAKE, SlaveEvent.CLOSE): SlaveState.CLOSED,
    (SlaveState.TRANSFER, SlaveEvent.CLOSE): SlaveState.CLOSED,
    (SlaveState.PARTED, SlaveEvent.CLOSE): SlaveState.CLOSED,
    (SlaveState.CLOSED, SlaveEvent.CLOSE): SlaveState.CLOSED,
}


class SlaveMachine:
    """One connection to a master, from its handshake to its end.

    Call `connected` once, then `received`, `stored` and `tick` in any order, and carry out the returned
    actions in order. `HaProtocolError` ends the connection. All times are milliseconds of one monotonic
    clock.

    Attributes:
        state: where the connection is.
        position: offset of the next byte expected, the log's end once all actions are carried out.
        epochs: the replica's epoch list once all actions are carried out.
        master_max_offset: the least that the master's log is known to reach.
        confirm_offset: the master's confirm offset, at most `position`; -1 before the first frame.
    """

    def __init__(self, config: SlaveConfig, own: OwnLog) -> None:
        """Prepare a connection; `own` is what the log holds now."""
        self.state = SlaveState.IDLE
        self.position = LogOffset(0) if own.is_empty else own.max_offset
        self.epochs = own.epochs
        self.master_max_offset = LogOffset(0)
        self.confirm_offset = LogOffset(-1)
        self._config: Final = config
        self._own: Final = own
        self._empty = own.is_empty
        self._truth = EpochList()
        self._pending = bytearray()
        self._stream_offset = 0
        self._body_left_bytes = 0
        self._first_offset = LogOffset(0)
        self._acked_offset = LogOffset(0)
        self._caught_up = False
        self._in_sync = False
        self._connected_ms = 0
        self._heard_ms = 0
        self._progress_ms = 0
        self._beats = 0
        self._acked_ms = 0

    def connected(self, now_ms: int) -> list[Action]:
        """Start the handshake on a fresh connection."""
        self._move(SlaveEvent.CONNECTED)
        self._connected_ms = self._heard_ms = now_ms
        config = self._config
        handshake = codec.Handshake(config.broker_id, config.sync_from_last_file, config.async_learner)
        return [SendBytes(codec.encode_handshake(handshake))]

    def received(self, data: codec.Buffer, now_ms: int) -> list[Action]:
        """Take bytes from the master, all of them; return what they ask for.

        Raises:
            HaProtocolError: the stream is broken; the actions of earlier frames of the same call are lost
                with it, and nothing of them is on record, so the next handshake asks for them again.
        """
        if self.state is SlaveState.IDLE:
            raise TransferUsageError("received before connected")
        self._heard_ms = now_ms
        actions: list[Action] = []
        view = memoryview(data)
        try:
            while len(view) and self.state in (SlaveState.HANDSHAKE, SlaveState.TRANSFER):
                taken = self._take(view, actions, now_ms)
                self._stream_offset += taken
                view = view[taken:]
        except HaProtocolError:
            self._move(SlaveEvent.CLOSE)
            raise
        return actions

    def stored(self, offset: LogOffset, now_ms: int) -> list[Action]:
        """Learn that the log is safe below `offset`; ack it if that is news."""
        if self.state is not SlaveState.TRANSFER or offset <= self._acked_offset:
            return []
        if offset > self.position:
            raise TransferUsageError(f"stored {offset}, yet only {self.position} was received")
        return [self._ack(offset, now_ms)]

    def set_in_sync(self, in_sync: bool) -> None:
        """Learn whether the replica is in the SyncStateSet, as far as the controller tells."""
        self._in_sync = in_sync

    def tick(self, now_ms: int) -> list[Action]:
        """Let time pass: repeat acks, give up a silent master. Call it every 50 ms or so."""
        match self.state:
            case SlaveState.HANDSHAKE if now_ms - self._connected_ms >= REPLY_TIMEOUT_MS:
                return self._close(CloseReason.REPLY_TIMEOUT)
            case SlaveState.TRANSFER if now_ms - self._heard_ms > SILENCE_MAX_MS:
                return self._close(CloseReason.MASTER_SILENT)
            case SlaveState.TRANSFER if self._is_starved(now_ms):
                detail = f"nothing but heartbeats at {self.position}, master has {self.master_max_offset}"
                return self._diverge(DivergenceReason.BEHIND_MASTER_MIN, detail)
            case SlaveState.TRANSFER:
                wait_ms = ACK_IDLE_MS if self._in_sync else ACK_REPEAT_MS
                return [self._ack(self._acked_offset, now_ms)] if now_ms - self._acked_ms >= wait_ms else []
            case _:
                return []

    def part(self) -> list[Action]:
        """Leave this master for good, in a way that it cannot take for consent.

        Nothing is acked from here on.
        """
        if self.state not in (SlaveState.HANDSHAKE, SlaveState.TRANSFER):
            return []
        self._move(SlaveEvent.PART)
        return [SendBytes(codec.encode_handshake(codec.Handshake(NOBODY_ID, async_learner=True)))]

    def close(self) -> None:
        """Learn that the connection is gone."""
        self._move(SlaveEvent.CLOSE)

    def _move(self, event: SlaveEvent) -> None:
        following = TRANSITIONS.get((self.state, event))
        if following is None:
            raise TransferUsageError(f"{event.name} in state {self.state.name}")
        self.state = following

    def _close(self, reason: CloseReason) -> list[Action]:
        self._move(SlaveEvent.CLOSE)
        return [Close(reason)]

    def _diverge(self, reason: DivergenceReason, detail: str) -> list[Action]:
        self._move(SlaveEvent.CLOSE)
        return [Diverged(reason, detail)]

    def _ack(self, offset: LogOffset, now_ms: int) -> SendBytes:
        self._acked_offset = offset
        self._acked_ms = now_ms
        return SendBytes(codec.encode_ack(offset))

    def _is_starved(self, now_ms: int) -> bool:
        has_more = self.master_max_offset > max(self.position, self._first_offset)
        return has_more and self._beats >= NO_DATA_BEATS_MIN and now_ms - self._progress_ms >= NO_DATA_MAX_MS

    # What follows cuts the stream into messages.

    def _take(self, view: memoryview, actions: list[Action], now_ms: int) -> int:
        """Use a prefix of `view` and return its length."""
        if self._body_left_bytes:
            return self._take_body(view, actions, now_ms)
        if self.state is SlaveState.HANDSHAKE:
            return self._take_reply(view, actions, now_ms)
        if not self._pending and len(view) >= codec.FRAME_HEADER_BYTES:
            self._begin_frame(codec.decode_frame_header(view, 0, self._stream_offset), actions)
            return codec.FRAME_HEADER_BYTES
        taken = self._fill(view, codec.FRAME_HEADER_BYTES)
        if len(self._pending) == codec.FRAME_HEADER_BYTES:
            header = codec.decode_frame_header(self._pending, 0, self._message_offset(taken))
            self._pending.clear()
            self._begin_frame(header, actions)
        return taken

    def _fill(self, view: memoryview, wanted_bytes: int) -> int:
        taken = min(max(wanted_bytes - len(self._pending), 0), len(view))
        self._pending += view[:taken]
        return taken

    def _message_offset(self, taken: int) -> int:
        return self._stream_offset + taken - len(self._pending)

    def _take_reply(self, view: memoryview, actions: list[Action], now_ms: int) -> int:
        taken = self._fill(view, codec.REPLY_HEADER_BYTES)
        if len(self._pending) < codec.REPLY_HEADER_BYTES:
            return taken
        length = codec.reply_bytes(self._pending, self._message_offset(taken))
        taken += self._fill(view[taken:], length)
        if len(self._pending) == length:
            reply = codec.decode_reply(bytes(self._pending), self._message_offset(taken))
            self._pending.clear()
            self._reconcile(reply, actions, now_ms)
        return taken

    def _take_body(self, view: memoryview, actions: list[Action], now_ms: int) -> int:
        taken = min(self._body_left_bytes, len(view))
        actions.append(AppendBody(self.position, view[:taken]))
        self.position = LogOffset(self.position + taken)
        self._body_left_bytes -= taken
        self._progress_ms = now_ms
        self.master_max_offset = max(self.master_max_offset, self.position)
        self._note_caught_up(actions)
        return taken

    # What follows is the handshake's decision.

    def _reconcile(self, reply: codec.HandshakeReply, actions: list[Action], now_ms: int) -> None:
        """Cut to the common prefix, take the master's epochs, send the first ack."""
        self._move(SlaveEvent.REPLY)
        self._truth = reply.epochs
        self.master_max_offset = reply.max_offset
        self._progress_ms = now_ms
        plan = decide(self._own, reply, self._config)
        if isinstance(plan, DivergenceReason):
            detail = f"own {self._own.epochs} to {self._own.max_offset}, {reply.epochs} to {reply.max_offset}"
            actions.extend(self._diverge(plan, detail))
            return
        if isinstance(plan, CloseReason):
            actions.extend(self._close(plan))
            return
        actions.append(HandshakeDone(reply.epochs, reply.max_offset, plan.start_offset, plan.rule))
        if not self._empty:
            if plan.start_offset < self._own.max_offset:
                actions.append(Truncate(plan.start_offset))
            self.position = plan.start_offset
        # The expected first byte: before it, a master that sends none has not withheld any.
        self._first_offset = plan.start_offset
        if self._empty and self._config.sync_from_last_file and not plan.start_offset:
            self._first_offset = newest_file_offset(reply, self._config)
        self._adopt_up_to(self.position, actions)
        actions.append(self._ack(plan.start_offset, now_ms))
        self._note_caught_up(actions)

    # What follows judges frames.

    def _begin_frame(self, header: codec.FrameHeader, actions: list[Action]) -> None:
        if header.body_bytes < 0 and self._empty:
            actions.extend(self._close(CloseReason.START_BELOW_FIRST_EPOCH))
            return
        self._check_frame(header)
        if header.body_bytes and self._empty:
            self._empty = False
            self.position = header.offset
        end_offset = LogOffset(self.position + header.body_bytes)
        self._note_epoch(header, end_offset)
        self._adopt_up_to(end_offset, actions)
        self._body_left_bytes = header.body_bytes
        self._beats = 0 if header.body_bytes else self._beats + 1
        self.confirm_offset = min(header.confirm_offset, end_offset)

    def _check_frame(self, header: codec.FrameHeader) -> None:
        file_bytes = self._config.mapped_file_bytes
        if header.body_bytes < 0:
            raise self._broken(f"frame body of {header.body_bytes} bytes")
        if self._empty:
            # The master may start at its first file whatever the slave asked, but only at a file's start.
            if header.body_bytes and (header.offset % file_bytes or header.offset < self._acked_offset):
                raise self._broken(
                    f"an empty log cannot start at {header.offset}, files have {file_bytes} bytes"
                )
        elif header.offset != self.position:
            raise self._broken(f"frame at {header.offset}, the log ends at {self.position}")
        if header.offset % file_bytes + header.body_bytes > file_bytes:
            raise self._broken(f"{header.body_bytes} bytes at {header.offset} cross the end of a file")

    def _note_epoch(self, header: codec.FrameHeader, end_offset: LogOffset) -> None:
        """Learn an epoch that began after the reply, or compare the header with the known epochs."""
        entry = EpochEntry(header.epoch, header.epoch_start_offset)
        known = self._truth.get(header.epoch)
        if known is not None:
            if known != entry:
                raise self._broken(
                    f"epoch {header.epoch} moved from {known.start_offset} to {entry.start_offset}"
                )
            return
        # A master that serves a start below its first epoch names an old epoch or -1.
        if header.epoch <= self._truth.last_epoch or header.epoch < 0:
            return
        if entry.start_offset > end_offset or not self._truth.accepts(entry):
            raise self._broken(f"epoch {entry} does not follow {self._truth} in a log up to {end_offset}")
        if len(self._truth) >= codec.EPOCH_ENTRIES_MAX:
            raise self._broken(f"{len(self._truth)} epochs (expected at most {codec.EPOCH_ENTRIES_MAX})")
        self._truth = self._truth.appended(entry)

    def _adopt_up_to(self, end_offset: LogOffset, actions: list[Action]) -> None:
        epochs = self._truth.starting_up_to(end_offset)
        if epochs != self.epochs:
            self.epochs = epochs
            actions.append(AdoptEpochs(epochs))

    def _note_caught_up(self, actions: list[Action]) -> None:
        if not self._caught_up and self.position >= self.master_max_offset and not self._body_left_bytes:
            self._caught_up = True
            actions.append(CaughtUp(self.position))

    def _broken(self, problem: str) -> HaProtocolError:
        return HaProtocolError(problem, self._stream_offset, codec.FRAME_HEADER_BYTES)
