"""The master's machine against a scripted slave: handshake, cut of frames, time, and every end."""

import struct

import pytest

from ha_sidecar.epoch import EpochList
from ha_sidecar.transfer import codec, master
from ha_sidecar.transfer.actions import Close, CloseReason, SendBytes, SendFrame, SlaveStarted
from ha_sidecar.transfer.codec import FrameHeader, Handshake, HandshakeReply
from ha_sidecar.transfer.errors import HaProtocolError, TransferUsageError
from ha_sidecar.transfer.master import MasterMachine, MasterState
from ha_sidecar.transfer.served_log import LogExtent, MasterConfig
from testkit.ha.served_log import ServedLog

FILE_BYTES = 4096
HELLO = codec.encode_handshake(Handshake(2))


def log_of(*epochs_and_counts: tuple[int, int], min_offset: int = 0, body_bytes: int = 20) -> ServedLog:
    """Return a log with so many messages in each epoch."""
    log = ServedLog(FILE_BYTES, min_offset)
    for epoch, count in epochs_and_counts:
        log.open_epoch(epoch)
        log.append(count, body_bytes)
    return log


def machine(log: ServedLog, *, batch_bytes: int = 1000, flow: int = 0) -> MasterMachine:
    """Return a machine whose slave has connected at time 0."""
    made = MasterMachine(MasterConfig(FILE_BYTES, batch_bytes, flow), log.record_end)
    made.connected(0)
    return made


def serving(log: ServedLog, first_ack: int = 0, *, batch_bytes: int = 1000, flow: int = 0) -> MasterMachine:
    """Return a machine whose slave has shaken hands and acked at time 0."""
    made = machine(log, batch_bytes=batch_bytes, flow=flow)
    made.received(HELLO, log.view(), 0)
    assert made.received(codec.encode_ack(first_ack), log.view(), 0)[-1:] != []
    return made


def header(frame: object) -> FrameHeader:
    assert isinstance(frame, SendFrame)
    decoded = codec.decode_frame_header(frame.header)
    assert (decoded.offset, decoded.body_bytes) == (frame.offset, frame.body_bytes)
    return decoded


def drain(made: MasterMachine, view: LogExtent, now_ms: int = 0) -> list[FrameHeader]:
    """Return the headers of all frames that are due now."""
    found = []
    while (frame := made.next_frame(view, now_ms)) is not None:
        found.append(header(frame))
    return found


# The handshake.


def test_the_slave_speaks_first_and_the_reply_is_one_piece() -> None:
    log = log_of((1, 5), (3, 2))
    made = machine(log)
    assert made.next_frame(log.view(), 0) is None
    reply = SendBytes(codec.encode_reply(HandshakeReply(log.end_offset, log.epochs)))
    assert made.received(HELLO, log.view(), 1) == [reply]
    assert made.handshake == Handshake(2)


def test_a_handshake_in_pieces_is_read_whole() -> None:
    # A Java master takes the id once 12 of the 16 bytes are there, and so a wrong one.
    log = log_of((1, 1))
    made = machine(log)
    for byte in HELLO[:-1]:
        assert made.received(bytes([byte]), log.view(), 0) == []
    assert len(made.received(HELLO[-1:], log.view(), 0)) == 1
    assert made.handshake == Handshake(2)


def test_a_repeated_handshake_is_not_answered_again() -> None:
    log = log_of((1, 1))
    made = machine(log)
    assert len(made.received(HELLO, log.view(), 0)) == 1
    assert made.received(HELLO * 2 + codec.encode_ack(0), log.view(), 1) == [SlaveStarted(Handshake(2), 0)]


def test_a_repeated_handshake_with_another_id_is_rubbish() -> None:
    log = log_of((1, 1))
    made = machine(log)
    made.received(HELLO, log.view(), 0)
    with pytest.raises(HaProtocolError):
        made.received(codec.encode_handshake(Handshake(3)), log.view(), 0)
    assert made.state is MasterState.CLOSED


@pytest.mark.parametrize("rubbish", [b"GET / HTTP/1.1\r\n\r\n", struct.pack(">iiq", 2, 0, 0), b"\0" * 16])
def test_what_is_no_handshake_ends_the_connection(rubbish: bytes) -> None:
    log = log_of((1, 1))
    made = machine(log)
    with pytest.raises(HaProtocolError):
        made.received(rubbish, log.view(), 0)


def test_an_old_handshake_is_named_and_closed() -> None:
    log = log_of((1, 1))
    old = struct.pack(">ihhi", 1, 0, 0, 14) + b"127.0.0.1:1234"
    assert machine(log).received(old, log.view(), 0) == [Close(CloseReason.LEGACY_HANDSHAKE)]


def test_an_old_handshake_without_an_address_is_told_by_its_silence() -> None:
    log = log_of((1, 1))
    made = machine(log)
    made.received(struct.pack(">ihhi", 1, 0, 0, 0), log.view(), 0)
    assert made.tick(master.LEGACY_WAIT_MS - 1) == []
    assert made.tick(master.LEGACY_WAIT_MS) == [Close(CloseReason.LEGACY_HANDSHAKE)]


def test_more_epochs_than_a_reply_takes_are_cut_to_the_newest() -> None:
    log = log_of()
    log.epochs = EpochList.of(*((epoch, epoch) for epoch in range(1200)))
    log.append(100)
    (reply,) = machine(log).received(HELLO, log.view(), 0)
    assert isinstance(reply, SendBytes)
    epochs = codec.decode_reply(reply.data).epochs
    assert (len(epochs), epochs.last_epoch) == (codec.EPOCH_ENTRIES_MAX, 1199)


def test_an_epoch_beyond_what_may_be_served_is_not_told() -> None:
    log = log_of((1, 3))
    view = LogExtent(0, log.end_offset, 0, log.epochs.appended(log_of((1, 9), (2, 0)).epochs.last))  # type: ignore[arg-type]  # there is a last entry
    (reply,) = machine(log).received(HELLO, view, 0)
    assert isinstance(reply, SendBytes)
    assert codec.decode_reply(reply.data).epochs == EpochList.of((1, 0))


def test_a_log_without_an_epoch_is_not_served() -> None:
    log = log_of()
    log.append(3)
    assert machine(log).received(HELLO, log.view(), 0) == [Close(CloseReason.UNLABELLED_LOG)]


# Where a slave goes on.


def test_nothing_is_sent_before_the_first_ack() -> None:
    # A Java slave is silent for 5 s after the reply; that is neither an error nor a reason to send.
    log = log_of((1, 5))
    made = machine(log)
    made.received(HELLO, log.view(), 0)
    assert made.next_frame(log.view(), 5_100) is None
    assert made.tick(5_100) == []


def test_an_ack_of_zero_asks_for_everything_from_the_oldest_byte() -> None:
    made = serving(log_of((1, 5), min_offset=FILE_BYTES))
    assert made.position == FILE_BYTES


def test_a_start_is_taken_exactly() -> None:
    log = log_of((1, 9))
    start = log.ends()[4]
    made = serving(log, start)
    assert [frame.offset for frame in drain(made, log.view())] == [start, start]
    assert made.position == log.end_offset


def test_sync_from_last_file_starts_at_the_newest_file() -> None:
    log = log_of((1, 100))
    made = machine(log)
    made.received(codec.encode_handshake(Handshake(2, sync_from_last_file=True)), log.view(), 0)
    made.received(codec.encode_ack(0), log.view(), 0)
    assert made.position == log.end_offset - log.end_offset % FILE_BYTES > 0


def test_a_start_below_the_oldest_byte_is_refused() -> None:
    log = log_of((1, 5), min_offset=FILE_BYTES)
    made = machine(log)
    made.received(HELLO, log.view(), 0)
    assert made.received(codec.encode_ack(100), log.view(), 0) == [Close(CloseReason.START_BELOW_MIN)]


def test_a_start_beyond_the_end_is_refused_unless_it_is_a_file_s() -> None:
    log = log_of((1, 5))
    made = machine(log)
    made.received(HELLO, log.view(), 0)
    beyond = codec.encode_ack(log.end_offset + 1)
    assert made.received(beyond, log.view(), 0) == [Close(CloseReason.START_BEYOND_END)]
    waiting = serving(log, FILE_BYTES)
    assert all(frame.body_bytes == 0 for frame in drain(waiting, log.view()))
    log.append(100)
    assert sum(frame.body_bytes for frame in drain(waiting, log.view())) == log.end_offset - FILE_BYTES


def test_a_start_below_the_first_epoch_is_served_under_its_name() -> None:
    # A Java master computes a negative body size there.
    log = log_of((1, 20))
    first = log.ends()[10]
    log.epochs = EpochList.of((1, first))
    start = log.ends()[1]
    frames = drain(serving(log, start, batch_bytes=FILE_BYTES), log.view())
    assert [(f.offset, f.body_bytes) for f in frames] == [
        (start, 0),
        (start, first - start),
        (first, log.end_offset - first),
    ]
    assert {(f.epoch, f.epoch_start_offset) for f in frames} == {(1, first)}


# How frames are cut.


def test_every_frame_ends_where_a_record_ends() -> None:
    log = log_of((1, 60))
    for frame in drain(serving(log, batch_bytes=333), log.view()):
        assert frame.offset + frame.body_bytes in log.ends()
        assert frame.body_bytes <= 333


def test_no_frame_crosses_the_end_of_a_file() -> None:
    log = log_of((1, 200))
    frames = drain(serving(log, batch_bytes=3000), log.view())
    assert sum(frame.body_bytes for frame in frames) == log.end_offset
    assert all(frame.offset % FILE_BYTES + frame.body_bytes <= FILE_BYTES for frame in frames)


def test_a_frame_holds_one_epoch_and_names_it_and_each_epoch_is_announced_empty() -> None:
    log = log_of((1, 3), (2, 2), (5, 4))
    frames = drain(serving(log), log.view())
    starts = [entry.start_offset for entry in log.epochs]
    assert [(f.offset, f.body_bytes, f.epoch, f.epoch_start_offset) for f in frames] == [
        (0, 0, 1, 0),
        (0, starts[1], 1, 0),
        (starts[1], 0, 2, starts[1]),
        (starts[1], starts[2] - starts[1], 2, starts[1]),
        (starts[2], 0, 5, starts[2]),
        (starts[2], log.end_offset - starts[2], 5, starts[2]),
    ]


def test_an_epoch_without_bytes_reaches_the_slave() -> None:
    log = log_of((1, 3))
    made = serving(log)
    drain(made, log.view())
    log.open_epoch(2)
    (frame,) = drain(made, log.view())
    assert (frame.offset, frame.body_bytes, frame.epoch) == (log.end_offset, 0, 2)


def test_a_record_larger_than_a_batch_goes_whole() -> None:
    log = log_of((1, 3), body_bytes=900)
    frames = drain(serving(log, batch_bytes=500), log.view())
    assert [frame.offset + frame.body_bytes for frame in frames[1:]][-1] == log.end_offset
    assert all(frame.offset + frame.body_bytes in log.ends() for frame in frames)


def test_a_record_larger_than_any_frame_is_cut_and_not_confirmed_before_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(master, "BODY_BYTES_MAX", 600)
    log = log_of((1, 1), body_bytes=1500)
    frames = drain(serving(log, batch_bytes=500), log.view())
    assert [frame.body_bytes for frame in frames] == [0, 600, 600, log.end_offset - 1200]
    assert [frame.confirm_offset for frame in frames] == [0, 0, 0, log.end_offset]


def test_header_and_body_fit_a_java_slave_s_buffer() -> None:
    assert master.BODY_BYTES_MAX + codec.FRAME_HEADER_BYTES == 4 << 20


def test_the_confirm_offset_never_lies_inside_a_message_of_the_slave() -> None:
    log = log_of((1, 20))
    torn = log.ends()[5] + 7
    for confirm in (0, log.ends()[3], log.end_offset):
        for frame in drain(serving(log, torn, batch_bytes=300), log.view(confirm)):
            assert frame.confirm_offset in log.ends()
            assert frame.confirm_offset <= confirm
            assert frame.confirm_offset <= frame.offset + frame.body_bytes


# Time.


def test_heartbeats_carry_exactly_the_slave_s_position() -> None:
    log = log_of((1, 3))
    made = serving(log)
    drain(made, log.view())
    assert made.next_frame(log.view(), master.HEARTBEAT_MS - 1) is None
    beat = header(made.next_frame(log.view(), master.HEARTBEAT_MS))
    assert (beat.offset, beat.body_bytes, beat.epoch) == (log.end_offset, 0, 1)
    assert made.next_frame(log.view(), master.HEARTBEAT_MS + 1) is None


def test_an_empty_log_is_served_by_heartbeats_until_its_first_byte() -> None:
    log = log_of()
    made = serving(log)
    assert made.next_frame(log.view(), 0) is None
    assert header(made.next_frame(log.view(), master.HEARTBEAT_MS)) == FrameHeader(0, -1, -1, 0, -1)
    log.open_epoch(1)
    log.append(2)
    frames = drain(made, log.view(), master.HEARTBEAT_MS)
    assert [(f.offset, f.body_bytes, f.epoch) for f in frames] == [(0, 0, 1), (0, log.end_offset, 1)]


def test_flow_control_holds_a_second_s_bytes_and_pays_back_what_was_too_much() -> None:
    log = log_of((1, 100))
    made = serving(log, batch_bytes=500, flow=800)
    sent = [
        sum(frame.body_bytes for frame in drain(made, log.view(), now_ms)) for now_ms in range(0, 5000, 100)
    ]
    assert 800 * 4 <= sum(sent) <= 800 * 5 + 500
    assert all(sum(sent[at : at + 10]) <= 800 + 500 for at in range(0, 50, 10))


def test_a_slave_is_given_up_after_twenty_seconds_without_a_byte() -> None:
    log = log_of((1, 3))
    made = serving(log)
    drain(made, log.view())
    assert made.tick(master.SILENCE_MAX_MS) == []
    made.received(codec.encode_ack(0), log.view(), 15_000)
    assert made.tick(15_000 + master.SILENCE_MAX_MS) == []
    assert made.tick(15_001 + master.SILENCE_MAX_MS) == [Close(CloseReason.SLAVE_SILENT)]


def test_a_connection_without_a_handshake_is_given_up() -> None:
    made = machine(log_of((1, 1)))
    assert made.tick(master.HANDSHAKE_TIMEOUT_MS - 1) == []
    assert made.tick(master.HANDSHAKE_TIMEOUT_MS) == [Close(CloseReason.HANDSHAKE_TIMEOUT)]


# Acks, and a log that changes under the connection.


def test_acks_are_cumulative_and_never_wait_for() -> None:
    log = log_of((1, 9))
    made = serving(log)
    drain(made, log.view())
    made.received(
        codec.encode_ack(10) + codec.encode_ack(30) + codec.encode_ack(log.end_offset)[:5], log.view(), 1
    )
    assert made.ack_offset == 30
    made.received(codec.encode_ack(log.end_offset)[5:], log.view(), 1)
    assert made.ack_offset == log.end_offset


@pytest.mark.parametrize("offset", [1, 10**9])
def test_an_ack_that_goes_back_or_beyond_what_was_sent_is_rubbish(offset: int) -> None:
    log = log_of((1, 9))
    made = serving(log, log.ends()[2])
    drain(made, log.view())
    with pytest.raises(HaProtocolError):
        made.received(codec.encode_ack(offset), log.view(), 1)


def test_a_log_that_was_cut_is_not_served_on() -> None:
    log = log_of((1, 9))
    made = serving(log)
    drain(made, log.view())
    log.generation += 1
    assert made.next_frame(log.view(), 1) == Close(CloseReason.LOG_CHANGED)


def test_an_epoch_whose_start_moved_is_not_served_on() -> None:
    log = log_of((1, 9))
    made = serving(log)
    drain(made, log.view())
    log.epochs = EpochList.of((1, log.ends()[3]))
    assert made.next_frame(log.view(), 1) == Close(CloseReason.LOG_CHANGED)


def test_a_cut_between_reply_and_first_ack_asks_for_a_new_handshake() -> None:
    log = log_of((1, 9))
    made = machine(log)
    made.received(HELLO, log.view(), 0)
    log.generation += 1
    assert made.received(codec.encode_ack(0), log.view(), 0) == [Close(CloseReason.LOG_CHANGED)]


def test_files_deleted_before_a_slow_slave_got_them_end_its_connection() -> None:
    log = log_of((1, 200))
    made = serving(log, batch_bytes=100)
    view = log.view()
    made.next_frame(view, 0)
    pruned = LogExtent(FILE_BYTES, view.end_offset, view.confirm_offset, view.epochs)
    assert made.next_frame(pruned, 0) == Close(CloseReason.START_BELOW_MIN)


def test_misuse_is_ours_and_not_the_slave_s() -> None:
    log = log_of((1, 1))
    made = MasterMachine(MasterConfig(FILE_BYTES), log.record_end)
    with pytest.raises(TransferUsageError):
        made.received(HELLO, log.view(), 0)
    made.connected(0)
    with pytest.raises(TransferUsageError):
        made.connected(0)
    made.close()
    assert made.received(b"x" * 100, log.view(), 0) == []
    assert made.next_frame(log.view(), 0) is None
