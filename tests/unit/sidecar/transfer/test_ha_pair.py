"""Both machines against each other over a bad wire: the slave's log is always a prefix.

The wire cuts, delays and breaks.

The master's log grows, opens epochs and loses its connections; the slave starts with any prefix of it
and any diverged tail, and acks only what it stored. Nothing here knows how frames are cut: only logs
and epoch lists are compared.
"""

import itertools
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ha_sidecar.epoch import EpochEntry, EpochList
from ha_sidecar.transfer import master, slave
from ha_sidecar.transfer.actions import (
    Action,
    AdoptEpochs,
    AppendBody,
    Close,
    Diverged,
    MasterAction,
    SendBytes,
    SendFrame,
    Truncate,
)
from ha_sidecar.transfer.master import MasterMachine, MasterState
from ha_sidecar.transfer.reconcile import OwnLog, SlaveConfig
from ha_sidecar.transfer.served_log import MasterConfig
from ha_sidecar.transfer.slave import SlaveMachine, SlaveState
from testkit.ha.messages import log_bytes
from testkit.ha.served_log import ServedLog

FILE_BYTES = 2048
STEPS_MAX = 10_000
QUIET_MAX_MS = 4_000
"""Less than any timeout of the two machines once they have shaken hands: a wire that carries nothing
for longer is broken first."""
HANDSHAKE_MS_MAX = 1_900
"""The same before: what the first bytes of a handshake look like alone is given up after 2 s."""


@dataclass
class SlaveDisk:
    """The slave's disk."""

    base: int = 0
    log: bytearray = field(default_factory=bytearray)
    epochs: EpochList = field(default_factory=EpochList)

    @property
    def max_offset(self) -> int:
        """Where its log ends."""
        return self.base + len(self.log)

    def carry_out(self, actions: list[Action]) -> bytes:
        """Do them in order; return the bytes to send."""
        sent = b""
        for action in actions:
            match action:
                case AppendBody(offset, data):
                    self.base = self.base if self.log else offset
                    assert offset == self.max_offset
                    self.log += data
                case Truncate(to_offset):
                    del self.log[to_offset - self.base :]
                case AdoptEpochs(epochs):
                    self.epochs = epochs
                case SendBytes(data):
                    sent += data
                case Close() | Diverged():
                    raise AssertionError(action)
        return sent


class HaPair:
    """A master's and a slave's machine and the bytes between them."""

    def __init__(self, log: ServedLog, replica: SlaveDisk, batch_bytes: int) -> None:
        self.log = log
        self.replica = replica
        self.now_ms = 0
        self.lost_epochs = {entry.epoch for entry in set(replica.epochs) - set(log.epochs)}
        """Masters of these epochs are gone: no new master gets one of them."""
        self._batch_bytes = batch_bytes
        self.connect()

    def connect(self) -> None:
        """Make a fresh connection; bytes in flight on the old one are lost."""
        self.connected_ms = self.now_ms
        own = OwnLog(self.replica.base, self.replica.max_offset, self.replica.epochs)
        self.slave = SlaveMachine(SlaveConfig(2, FILE_BYTES), own)
        self.master = MasterMachine(MasterConfig(FILE_BYTES, self._batch_bytes), self.log.record_end)
        self.master.connected(self.now_ms)
        self.to_slave = b""
        self.to_master = self.replica.carry_out(self.slave.connected(self.now_ms))

    def deliver_to_master(self, length: int) -> None:
        """Let some bytes arrive there."""
        data, self.to_master = self.to_master[:length], self.to_master[length:]
        self._send(self.master.received(data, self.log.view(), self.now_ms))

    def deliver_to_slave(self, length: int) -> None:
        """Let some bytes arrive there, and store what they bring."""
        data, self.to_slave = self.to_slave[:length], self.to_slave[length:]
        self.to_master += self.replica.carry_out(self.slave.received(data, self.now_ms))
        if self.slave.state is SlaveState.TRANSFER:
            self.check_prefix()
            stored = self.slave.stored(self.replica.max_offset, self.now_ms)
            self.to_master += self.replica.carry_out(stored)

    def write(self) -> bool:
        """Let the master write its next frame, if one is due."""
        frame = self.master.next_frame(self.log.view(), self.now_ms)
        assert not isinstance(frame, Close), frame
        if isinstance(frame, SendFrame):
            self.to_slave += frame.header + self.log.read(frame.offset, frame.body_bytes)
        return frame is not None

    def pass_time(self, ms: int) -> None:
        """Let time pass on both sides."""
        self.now_ms += ms
        self.to_master += self.replica.carry_out(self.slave.tick(self.now_ms))
        self._send(self.master.tick(self.now_ms))

    def check_prefix(self) -> None:
        """Every byte and epoch that the slave holds is the master's."""
        replica, log = self.replica, self.log
        if replica.log:
            assert bytes(replica.log) == log.read(replica.base, len(replica.log))
            assert replica.max_offset <= log.end_offset
        assert set(replica.epochs) <= set(log.epochs)

    def settle(self) -> None:
        """Deliver everything until nothing moves."""
        for _ in range(STEPS_MAX):
            moved = self.write()
            if self.to_master or self.to_slave:
                self.deliver_to_master(1 << 20)
                self.deliver_to_slave(1 << 20)
                moved = True
            if not moved:
                return
        raise AssertionError("the two never settle")

    def _send(self, actions: list[MasterAction]) -> None:
        for action in actions:
            assert not isinstance(action, Close), action
            if isinstance(action, SendBytes):
                self.to_slave += action.data


lengths = st.integers(1, 700)
step = st.one_of(
    st.tuples(st.just("to_slave"), lengths),
    st.tuples(st.just("to_master"), st.integers(1, 20)),
    st.tuples(st.just("write"), st.just(0)),
    st.tuples(st.just("write"), st.just(0)),
    st.tuples(st.just("append"), st.integers(1, 12)),
    st.tuples(st.just("epoch"), st.integers(1, 3)),
    st.tuples(st.just("break"), st.just(0)),
    st.tuples(st.just("time"), st.integers(1, 1500)),
)
histories = st.lists(st.tuples(st.integers(1, 2), st.integers(1, 25)), min_size=1, max_size=4)


def master_log(history: list[tuple[int, int]], min_files: int) -> ServedLog:
    """Return a log of epochs that are so much newer each and hold so many messages."""
    log, epoch = ServedLog(FILE_BYTES, min_files * FILE_BYTES), 0
    for gap, count in history:
        epoch += gap
        log.open_epoch(epoch)
        log.append(count, mark=b"e%d-" % epoch)
    return log


def replica_of(log: ServedLog, kept: float, tail: int) -> SlaveDisk:
    """Return a replica with part of the log's records, then records of an epoch that the log lacks."""
    ends = log.ends()
    end = ends[int(kept * (len(ends) - 1))]
    if end == log.min_offset:
        return SlaveDisk()
    epochs = log.epochs.truncate_suffix_by_offset(end)
    data = bytearray(log.read(log.min_offset, end - log.min_offset))
    if tail:
        # Odd epochs above the common one that the master jumped over, or a tail in the common epoch itself.
        free = next((e for e in range(epochs.last_epoch + 1, 99) if log.epochs.get(e) is None), 99)
        epochs = epochs.appended(EpochEntry(free, end))
        data += log_bytes(tail, FILE_BYTES, end, mark=b"lost")
    return SlaveDisk(log.min_offset, data, epochs)


def play(pair: HaPair, steps: list[tuple[str, int]]) -> None:
    for what, number in steps:
        match what:
            case "to_slave":
                pair.deliver_to_slave(number)
            case "to_master":
                pair.deliver_to_master(number)
            case "write":
                pair.write()
            case "append":
                pair.log.append(number)
            case "epoch":
                if pair.log.epochs.accepts(EpochEntry(1 << 20, pair.log.end_offset)):
                    free = itertools.count(pair.log.epochs.last_epoch + number)
                    pair.log.open_epoch(next(epoch for epoch in free if epoch not in pair.lost_epochs))
            case "break":
                pair.connect()
            case "time":
                shaken = pair.master.state is not MasterState.HANDSHAKE
                longest_ms = QUIET_MAX_MS if shaken else HANDSHAKE_MS_MAX
                if pair.now_ms + number - pair.connected_ms > longest_ms:
                    pair.connect()
                pair.pass_time(number)


@settings(max_examples=150, deadline=None)
@given(
    histories,
    st.integers(0, 2),
    st.floats(0, 1),
    st.integers(0, 8),
    st.integers(1, 1200),
    st.lists(step, max_size=60),
)
def test_the_slave_s_log_is_a_prefix_at_every_step_and_equal_in_the_end(
    history: list[tuple[int, int]],
    min_files: int,
    kept: float,
    tail: int,
    batch_bytes: int,
    steps: list[tuple[str, int]],
) -> None:
    log = master_log(history, min_files)
    pair = HaPair(log, replica_of(log, kept, tail), batch_bytes)
    play(pair, steps)
    pair.settle()
    assert pair.replica.max_offset == log.end_offset
    assert bytes(pair.replica.log) == log.data
    assert pair.replica.epochs == log.epochs
    assert pair.master.ack_offset == log.end_offset


def test_an_idle_pair_lives_for_ever() -> None:
    log = master_log([(1, 5)], 0)
    pair = HaPair(log, SlaveDisk(), 500)
    pair.settle()
    pair.slave.set_in_sync(True)
    for _ in range(60):
        pair.pass_time(slave.ACK_IDLE_MS)
        pair.settle()
    assert pair.now_ms > 2 * master.SILENCE_MAX_MS
    assert pair.master.ack_offset == log.end_offset


def test_a_confirm_offset_reaches_an_idle_slave_with_a_heartbeat() -> None:
    log = master_log([(1, 5)], 0)
    pair = HaPair(log, SlaveDisk(), 500)
    pair.settle()
    assert pair.slave.confirm_offset == log.end_offset


@pytest.mark.parametrize("chunk", [1, 7, 35, 37])
def test_a_wire_of_any_grain_brings_the_same_bytes(chunk: int) -> None:
    log = master_log([(1, 20), (2, 1), (1, 20)], 0)
    pair = HaPair(log, SlaveDisk(), 300)
    for _ in range(STEPS_MAX):
        pair.write()
        pair.deliver_to_master(chunk)
        pair.deliver_to_slave(chunk)
        if pair.replica.max_offset == log.end_offset:
            break
    assert bytes(pair.replica.log) == log.data
