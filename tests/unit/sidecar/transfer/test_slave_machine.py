"""The slave's machine against a scripted master: the handshake's decision, the stream, every end."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ha_sidecar.epoch import EpochList, PointRule
from ha_sidecar.transfer import codec, slave
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
from ha_sidecar.transfer.codec import FrameHeader, HandshakeReply
from ha_sidecar.transfer.errors import HaProtocolError, TransferUsageError
from ha_sidecar.transfer.reconcile import OwnLog, SlaveConfig
from ha_sidecar.transfer.slave import SlaveMachine, SlaveState

FILE_BYTES = 4096


def machine(
    max_offset: int = 0,
    epochs: EpochList | None = None,
    *,
    min_offset: int = 0,
    restarted_epoch: int | None = None,
    start_at_file: bool = False,
) -> SlaveMachine:
    """Return a machine that has sent its handshake."""
    config = SlaveConfig(2, FILE_BYTES, restarted_epoch, start_at_file)
    made = SlaveMachine(config, OwnLog(min_offset, max_offset, epochs or EpochList()))
    assert made.connected(0) == [SendBytes(codec.encode_handshake(codec.Handshake(2)))]
    return made


def reply(max_offset: int, *pairs: tuple[int, int]) -> bytes:
    return codec.encode_reply(HandshakeReply(max_offset, EpochList.of(*pairs)))


def frame(offset: int, body: bytes, epoch: int, epoch_start: int, confirm: int = 0) -> bytes:
    return codec.encode_frame_header(FrameHeader(len(body), offset, epoch, epoch_start, confirm)) + body


def ack(offset: int) -> SendBytes:
    return SendBytes(codec.encode_ack(offset))


@dataclass
class DiskInMemory:
    """Carries out actions on bytes in memory, as the shell would on files."""

    base: int = 0
    log: bytearray = field(default_factory=bytearray)
    epochs: EpochList = field(default_factory=EpochList)
    acks: list[int] = field(default_factory=list)
    truth: EpochList = field(default_factory=EpochList)

    def carry_out(self, actions: list[Action]) -> None:
        """Do them in order."""
        for action in actions:
            match action:
                case AppendBody(offset, data):
                    if not self.log:
                        self.base = offset
                    assert offset == self.base + len(self.log)
                    self.log += data
                    # A crash right after this write must find the epoch of every byte in the file.
                    last = self.truth.find_by_offset(self.base + len(self.log) - 1)
                    assert last is None or last in self.epochs
                case Truncate(to_offset):
                    del self.log[to_offset - self.base :]
                case AdoptEpochs(epochs):
                    self.epochs = epochs
                case SendBytes(data) if len(data) == codec.ACK_BYTES:
                    self.acks.append(codec.decode_ack(data))


def test_an_empty_replica_asks_for_everything_and_acks_at_once() -> None:
    made = machine()
    actions = made.received(reply(1460, (1, 0)), 1)
    assert actions == [
        HandshakeDone(EpochList.of((1, 0)), 1460, 0, None),
        AdoptEpochs(EpochList.of((1, 0))),
        ack(0),
    ]
    assert made.state is SlaveState.TRANSFER


def test_an_empty_replica_of_an_empty_master_is_caught_up() -> None:
    actions = machine().received(reply(0, (1, 0)), 1)
    assert CaughtUp(0) in actions
    assert actions[-2] == ack(0)


def test_a_replica_resumes_where_its_log_ends() -> None:
    actions = machine(1000, EpochList.of((1, 0))).received(reply(1460, (1, 0)), 1)
    assert actions == [HandshakeDone(EpochList.of((1, 0)), 1460, 1000, PointRule.COMMON_EPOCH), ack(1000)]


def test_a_diverged_tail_is_cut_before_the_epochs_change_and_before_the_first_ack() -> None:
    actions = machine(1000, EpochList.of((0, 0))).received(reply(1500, (0, 0), (1, 900)), 1)
    assert actions[1:] == [Truncate(900), AdoptEpochs(EpochList.of((0, 0), (1, 900))), ack(900)]


def test_the_epochs_come_from_the_reply_and_not_from_headers() -> None:
    # A Java master with {1:0, 2:1460, 3:2920} sends an empty slave a first frame that already says epoch 2.
    made, disk = machine(), DiskInMemory()
    disk.carry_out(made.received(reply(4000, (1, 0), (2, 1460), (3, 2920)), 1))
    disk.carry_out(made.received(frame(0, bytes(1460), 2, 1460), 2))
    assert disk.epochs == EpochList.of((1, 0), (2, 1460))
    disk.carry_out(made.received(frame(1460, bytes(1460), 3, 2920), 3))
    disk.carry_out(made.received(frame(2920, bytes(1080), 3, 2920), 4))
    assert (disk.epochs, len(disk.log)) == (EpochList.of((1, 0), (2, 1460), (3, 2920)), 4000)


def test_an_epoch_that_began_after_the_reply_is_learnt_from_an_empty_frame() -> None:
    made = machine(1606, EpochList.of((4, 0)))
    made.received(reply(1606, (4, 0)), 1)
    assert made.received(frame(1606, b"", 5, 1606), 2) == [AdoptEpochs(EpochList.of((4, 0), (5, 1606)))]


def test_an_epoch_is_on_disk_before_a_byte_behind_its_start() -> None:
    made = machine(1606, EpochList.of((4, 0)))
    made.received(reply(1606, (4, 0)), 1)
    kinds = [type(action) for action in made.received(frame(1606, b"x", 5, 1606), 2)]
    assert kinds == [AdoptEpochs, AppendBody]


def test_a_body_is_passed_on_as_it_comes() -> None:
    made = machine()
    made.received(reply(300, (1, 0)), 1)
    data = frame(0, bytes(range(200)), 1, 0, confirm=150)
    first = made.received(data[:100], 2)
    second = made.received(data[100:], 3)
    parts = [action for action in first + second if isinstance(action, AppendBody)]
    assert [(part.offset, len(part.data)) for part in parts] == [(0, 64), (64, 136)]
    assert (made.position, made.confirm_offset) == (200, 150)


@given(st.lists(st.integers(1, 1500), max_size=12))
def test_any_cutting_of_the_stream_gives_the_same_log(lengths: list[int]) -> None:
    body = bytes(range(256)) * 8
    stream = reply(2048, (1, 0), (3, 1000))
    stream += frame(0, body[:1000], 3, 1000) + frame(1000, b"", 3, 1000) + frame(1000, body[1000:], 3, 1000)
    made, disk, at = machine(), DiskInMemory(truth=EpochList.of((1, 0), (3, 1000))), 0
    for length in [*lengths, len(stream)]:
        disk.carry_out(made.received(stream[at : at + length], at))
        at += length
    assert bytes(disk.log) == body
    assert disk.epochs == EpochList.of((1, 0), (3, 1000))


@given(st.binary(max_size=300), st.integers(0, 60))
def test_any_bytes_are_actions_or_a_protocol_error(rubbish: bytes, cut: int) -> None:
    made = machine(100, EpochList.of((1, 0)))
    try:
        made.received(reply(300, (1, 0))[:cut], 1)
        made.received(rubbish, 2)
    except HaProtocolError:
        assert made.state is SlaveState.CLOSED


def test_acks_never_say_more_than_is_stored() -> None:
    made = machine()
    made.received(reply(300, (1, 0)), 1)
    made.received(frame(0, bytes(200), 1, 0), 2)
    assert made.stored(120, 3) == [ack(120)]
    assert made.stored(120, 4) == []
    assert made.stored(90, 4) == []
    with pytest.raises(TransferUsageError):
        made.stored(201, 5)


def test_acks_repeat_quickly_until_the_replica_is_in_the_set() -> None:
    made = machine(100, EpochList.of((1, 0)))
    made.received(reply(100, (1, 0)), 0)
    assert made.tick(slave.ACK_REPEAT_MS - 1) == []
    assert made.tick(slave.ACK_REPEAT_MS) == [ack(100)]
    made.set_in_sync(True)
    assert made.tick(2 * slave.ACK_REPEAT_MS) == []
    assert made.tick(slave.ACK_REPEAT_MS + slave.ACK_IDLE_MS) == [ack(100)]


def test_a_master_without_a_reply_is_given_up() -> None:
    made = machine()
    assert made.tick(slave.REPLY_TIMEOUT_MS - 1) == []
    assert made.tick(slave.REPLY_TIMEOUT_MS) == [Close(CloseReason.REPLY_TIMEOUT)]
    assert made.state is SlaveState.CLOSED


def test_a_silent_master_is_given_up_and_heartbeats_keep_it() -> None:
    made = machine(100, EpochList.of((1, 0)))
    made.set_in_sync(True)
    made.received(reply(100, (1, 0)), 0)
    made.received(frame(100, b"", 1, 0), 15_000)
    assert Close(CloseReason.MASTER_SILENT) not in made.tick(15_000 + slave.SILENCE_MAX_MS)
    assert made.tick(15_001 + slave.SILENCE_MAX_MS) == [Close(CloseReason.MASTER_SILENT)]


def test_a_slave_that_was_stopped_for_long_does_not_take_its_master_for_one_without_data() -> None:
    made = machine(100, EpochList.of((1, 0)))
    made.received(reply(500, (1, 0)), 0)
    made.received(frame(100, b"", 1, 0), 100)
    (action,) = made.tick(slave.NO_DATA_MAX_MS + 100)
    assert isinstance(action, SendBytes)


def test_a_master_that_has_more_and_sends_none_has_deleted_it() -> None:
    made = machine(100, EpochList.of((1, 0)))
    made.received(reply(500, (1, 0)), 0)
    made.received(frame(100, b"", 1, 0), 5_000)
    made.received(frame(100, b"", 1, 0), 9_990)
    (action,) = made.tick(slave.NO_DATA_MAX_MS)
    assert isinstance(action, Diverged)
    assert action.reason is DivergenceReason.BEHIND_MASTER_MIN


@pytest.mark.parametrize(
    ("own_max", "own", "master_max", "master", "reason"),
    [
        pytest.param(
            2000,
            [(2, 1570)],
            2500,
            [(1, 0), (3, 1500)],
            DivergenceReason.NO_COMMON_EPOCH,
            id="no-common-epoch",
        ),
        pytest.param(100, [], 2500, [(1, 0)], DivergenceReason.UNLABELLED_LOG, id="unlabelled"),
        pytest.param(
            1400,
            [(1, 0)],
            2000,
            [(1, 1460)],
            DivergenceReason.BEHIND_FIRST_EPOCH,
            id="behind-a-restarted-master",
        ),
        pytest.param(
            1500,
            [(0, 0), (1, 1000)],
            2000,
            [(0, 0), (1, 900)],
            DivergenceReason.EPOCH_START_MOVED_BACK,
            id="moved",
        ),
        pytest.param(
            900, [(1, 0)], 0, [(1, 0)], DivergenceReason.TRUNCATES_TO_NOTHING, id="master-lost-everything"
        ),
    ],
)
def test_a_log_that_cannot_be_continued_is_named_and_nothing_is_sent(
    own_max: int,
    own: list[tuple[int, int]],
    master_max: int,
    master: list[tuple[int, int]],
    reason: DivergenceReason,
) -> None:
    made = machine(own_max, EpochList.of(*own), restarted_epoch=1)
    (action,) = made.received(reply(master_max, *master), 1)
    assert isinstance(action, Diverged)
    assert action.reason is reason
    assert made.state is SlaveState.CLOSED


def test_a_restarted_master_s_list_replaces_ours_without_a_cut() -> None:
    actions = machine(1500, EpochList.of((1, 0)), restarted_epoch=1).received(reply(1500, (1, 1460)), 1)
    assert actions[:3] == [
        HandshakeDone(EpochList.of((1, 1460)), 1500, 1460, PointRule.RESTARTED_EPOCH),
        Truncate(1460),
        AdoptEpochs(EpochList.of((1, 1460))),
    ]
    assert ack(1460) in actions


def test_an_equal_log_survives_the_master_s_restart_whole() -> None:
    actions = machine(1460, EpochList.of((1, 0)), restarted_epoch=1).received(reply(1460, (1, 1460)), 1)
    assert not any(isinstance(action, Truncate) for action in actions)


def test_a_negative_body_says_that_the_start_was_below_the_first_epoch() -> None:
    made = machine()
    made.received(reply(9000, (3, 5000)), 1)
    broken = codec.encode_frame_header(FrameHeader(-904, 4096, 3, 5000, 0))
    assert made.received(broken, 2) == [Close(CloseReason.START_BELOW_FIRST_EPOCH)]
    again = machine(start_at_file=True)
    assert ack(8192) in again.received(reply(9000, (3, 5000)), 1)


def test_an_empty_log_starts_at_the_master_s_first_file() -> None:
    made, disk = machine(), DiskInMemory()
    disk.carry_out(made.received(reply(9000, (3, 100)), 1))
    disk.carry_out(made.received(frame(4096, b"abc", 3, 100), 2))
    assert (made.position, disk.base, disk.epochs) == (4099, 4096, EpochList.of((3, 100)))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        pytest.param(frame(101, b"x", 1, 0), "the log ends at 100", id="gap"),
        pytest.param(frame(99, b"", 1, 0), "the log ends at 100", id="heartbeat-elsewhere"),
        pytest.param(frame(100, bytes(FILE_BYTES), 1, 0), "cross the end of a file", id="crossing-a-file"),
        pytest.param(frame(100, b"", 1, 50), "epoch 1 moved from 0 to 50", id="epoch-start-moved"),
        pytest.param(frame(100, b"", 2, 500), "does not follow", id="epoch-from-the-future"),
        pytest.param(
            codec.encode_frame_header(FrameHeader(-1, 100, 1, 0, 0)), "-1 bytes", id="negative-body"
        ),
        pytest.param(
            codec.encode_reply(HandshakeReply(1, EpochList())).ljust(36, b"\0"), "state 1", id="second-reply"
        ),
    ],
)
def test_frames_that_do_not_fit_end_the_connection(bad: bytes, message: str) -> None:
    made = machine(100, EpochList.of((1, 0)))
    made.received(reply(300, (1, 0)), 1)
    with pytest.raises(HaProtocolError, match=message) as caught:
        made.received(bad, 2)
    assert (caught.value.stream_offset, made.state) == (32, SlaveState.CLOSED)


def test_an_empty_log_refuses_a_start_inside_a_file() -> None:
    made = machine()
    made.received(reply(9000, (1, 0)), 1)
    with pytest.raises(HaProtocolError, match="cannot start at 4242"):
        made.received(frame(4242, b"x", 1, 0), 2)


def test_an_epoch_older_than_the_newest_known_is_not_learnt() -> None:
    made = machine(100, EpochList.of((1, 0), (5, 50)))
    made.received(reply(300, (1, 0), (5, 50)), 1)
    assert made.received(frame(100, b"", 3, 70), 2) == []
    assert made.received(frame(100, b"", -1, -1), 3) == []


def test_every_transition_of_the_table_is_walked_and_no_other() -> None:
    for state in SlaveState:
        for event in slave.SlaveEvent:
            made = SlaveMachine(SlaveConfig(2, FILE_BYTES), OwnLog(0, 0, EpochList()))
            made.state = state
            if (state, event) in slave.TRANSITIONS:
                made._move(event)
                assert made.state is slave.TRANSITIONS[state, event]
            else:
                with pytest.raises(TransferUsageError):
                    made._move(event)


def test_bytes_before_the_connection_are_misuse() -> None:
    made = SlaveMachine(SlaveConfig(2, FILE_BYTES), OwnLog(0, 0, EpochList()))
    with pytest.raises(TransferUsageError):
        made.received(b"x", 0)


def test_a_slave_that_parts_says_that_it_is_nobody_and_acks_nothing_more() -> None:
    made = machine()
    made.received(reply(1460, (1, 0)), 1)
    nobody = codec.Handshake(slave.NOBODY_ID, async_learner=True)
    assert made.part() == [SendBytes(codec.encode_handshake(nobody))]
    assert made.received(frame(0, bytes(1460), 1, 0), 2) == []
    assert made.stored(made.position, 3) == []
    assert made.tick(100_000) == []
    assert made.part() == []
    assert made.state is SlaveState.PARTED


def test_a_slave_parts_also_before_its_master_has_replied() -> None:
    made = machine()
    assert len(made.part()) == 1
    assert made.received(reply(1460, (1, 0)), 1) == []


def test_a_connection_that_is_over_has_nothing_to_part_from() -> None:
    made = machine()
    made.close()
    assert made.part() == []
