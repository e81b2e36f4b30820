"""A slave's machine against a master that tells far too many epochs."""

import time

import pytest

from ha_sidecar import limits
from ha_sidecar.epoch import EpochList
from ha_sidecar.transfer import codec
from ha_sidecar.transfer.codec import FrameHeader, HandshakeReply
from ha_sidecar.transfer.errors import HaProtocolError
from ha_sidecar.transfer.reconcile import OwnLog, SlaveConfig
from ha_sidecar.transfer.slave import SlaveMachine, SlaveState

FILE_BYTES = 4096


def following() -> SlaveMachine:
    """Return a machine with an empty log whose master has answered its handshake."""
    made = SlaveMachine(SlaveConfig(2, FILE_BYTES), OwnLog(0, 0, EpochList()))
    made.connected(0)
    made.received(codec.encode_reply(HandshakeReply(0, EpochList())), 1)
    return made


def epochs_of_one_byte(count: int) -> bytes:
    return b"".join(
        codec.encode_frame_header(FrameHeader(1, at, at + 1, at, 0)) + b"x" for at in range(count)
    )


def test_a_hostile_master_with_thousands_of_epochs_is_left_at_the_bound_and_in_linear_time() -> None:
    made = following()
    frames = epochs_of_one_byte(4_000)
    started_s = time.process_time()
    with pytest.raises(HaProtocolError, match=f"{limits.HA_EPOCHS_MAX} epochs"):
        made.received(frames, 2)
    assert time.process_time() - started_s < 1.0
    assert made.state is SlaveState.CLOSED
    assert len(made.epochs) <= limits.HA_EPOCHS_MAX


def test_thousand_epochs_of_an_honest_master_are_followed() -> None:
    made = following()
    made.received(epochs_of_one_byte(limits.HA_EPOCHS_MAX), 2)
    assert len(made.epochs) == limits.HA_EPOCHS_MAX
