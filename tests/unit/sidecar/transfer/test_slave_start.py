"""Where a replica without a log begins.

It begins with everything, the newest file, or the first whole file that has epochs.
"""

import pytest

from ha_sidecar.epoch import EpochList
from ha_sidecar.transfer import codec
from ha_sidecar.transfer.actions import Action, Close, CloseReason, SendBytes
from ha_sidecar.transfer.codec import FrameHeader, HandshakeReply
from ha_sidecar.transfer.reconcile import OwnLog, SlaveConfig
from ha_sidecar.transfer.slave import NO_DATA_BEATS_MIN, NO_DATA_MAX_MS, SlaveMachine, SlaveState

FILE_BYTES = 4096


def connected(own: OwnLog | None = None, **config: bool) -> SlaveMachine:
    """Return a machine that has sent its handshake; `config` are fields of `SlaveConfig`."""
    made = SlaveMachine(SlaveConfig(2, FILE_BYTES, **config), own or OwnLog(0, 0, EpochList()))
    made.connected(0)
    return made


def reply(max_offset: int, *pairs: tuple[int, int]) -> bytes:
    return codec.encode_reply(HandshakeReply(max_offset, EpochList.of(*pairs)))


def acks(actions: list[Action]) -> list[int]:
    sent = [action.data for action in actions if isinstance(action, SendBytes)]
    return [codec.decode_ack(data) for data in sent]


def beat(made: SlaveMachine, offset: int, epoch: int, epoch_start_offset: int, now_ms: int) -> list[Action]:
    header = FrameHeader(0, offset, epoch, epoch_start_offset, 0)
    return made.received(codec.encode_frame_header(header), now_ms)


@pytest.mark.parametrize(
    ("config", "golden"),
    [
        ({}, "00000001 0000 0000 0000000000000002"),
        ({"sync_from_last_file": True}, "00000001 0001 0000 0000000000000002"),
        ({"async_learner": True}, "00000001 0000 0001 0000000000000002"),
    ],
)
def test_each_flag_of_the_handshake_has_its_own_place(config: dict[str, bool], golden: str) -> None:
    made = SlaveMachine(SlaveConfig(2, FILE_BYTES, **config), OwnLog(0, 0, EpochList()))
    assert made.connected(0) == [SendBytes(bytes.fromhex(golden))]


def test_from_the_newest_file_a_log_begins_where_the_master_begins_it() -> None:
    made = connected(sync_from_last_file=True)
    assert acks(made.received(reply(9000, (1, 0), (2, 5000)), 1)) == [0]
    header = FrameHeader(3, 8192, 2, 5000, 0)
    made.received(codec.encode_frame_header(header) + b"abc", 2)
    assert (made.position, made.epochs) == (8195, EpochList.of((1, 0), (2, 5000)))


def test_a_replica_with_a_log_goes_on_in_it_whatever_the_flag() -> None:
    made = connected(OwnLog(0, 1000, EpochList.of((1, 0))), sync_from_last_file=True)
    assert acks(made.received(reply(9000, (1, 0)), 1)) == [1000]


def test_a_newest_file_that_has_not_a_byte_yet_is_waited_for() -> None:
    made = connected(sync_from_last_file=True)
    made.received(reply(8192, (1, 0)), 1)
    for now_ms in range(5_000, 3 * NO_DATA_MAX_MS, 5_000):
        beat(made, 8192, 1, 0, now_ms)
        made.tick(now_ms)
    assert made.state is SlaveState.TRANSFER


def test_a_newest_file_that_is_withheld_is_missed() -> None:
    made = connected(sync_from_last_file=True)
    made.received(reply(9000, (1, 0)), 1)
    for number in range(NO_DATA_BEATS_MIN):
        beat(made, 8192, 1, 0, number)
    made.tick(NO_DATA_MAX_MS + 1)
    assert made.state is SlaveState.CLOSED


def test_a_newest_file_with_an_epoch_s_start_in_it_is_left_for_the_next_one() -> None:
    made = connected(sync_from_last_file=True, start_at_file=True)
    actions = made.received(reply(9000, (3, 8500)), 1)
    assert actions == [Close(CloseReason.NO_WHOLE_FILE_YET)]
    again = connected(sync_from_last_file=True, start_at_file=True)
    assert acks(again.received(reply(20_000, (3, 8500)), 1)) == [0]


def test_a_file_beyond_the_master_s_end_is_not_acknowledged() -> None:
    made = connected(start_at_file=True)
    assert made.received(reply(8191, (3, 5000)), 1) == [Close(CloseReason.NO_WHOLE_FILE_YET)]
    assert made.state is SlaveState.CLOSED


def test_a_file_that_begins_at_the_master_s_end_is_waited_for() -> None:
    made = connected(start_at_file=True)
    assert acks(made.received(reply(8192, (3, 5000)), 1)) == [8192]
    for now_ms in range(5_000, 3 * NO_DATA_MAX_MS, 5_000):
        beat(made, 8192, 3, 5000, now_ms)
        made.tick(now_ms)
    assert made.state is SlaveState.TRANSFER
