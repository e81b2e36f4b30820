"""An answer written once is, for each request, the frame that encoding it again would give."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_core.remoting.codes import SerializeType
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.errors import RemotingUsageError
from controller_core.remoting.frame import FRAME_BYTES_MAX, PreparedAnswer, encode

PRINTABLE = st.characters(exclude_categories=("C", "Z"), include_characters=" ")
TEXTS = st.text(PRINTABLE, max_size=20) | st.sampled_from([',"opaque":0,', '\\,"opaque":0,', "é", ""])
OPAQUES = st.integers(-(2**31), 2**31 - 1)


@given(
    OPAQUES, OPAQUES, st.none() | st.dictionaries(TEXTS, TEXTS, max_size=3), st.none() | TEXTS, st.binary()
)
def test_its_frames_are_those_of_the_command_with_the_opaque(
    own: int, opaque: int, ext: dict[str, str] | None, remark: str | None, body: bytes
) -> None:
    command = RemotingCommand(0, own, 1, remark, ext, body)
    prepared = PreparedAnswer(command)
    assert prepared.frame(opaque) == encode(command.with_opaque(opaque))
    assert prepared.frame(7) == encode(command.with_opaque(7))


def test_only_a_command_that_can_be_written_as_json_is_prepared() -> None:
    with pytest.raises(RemotingUsageError):
        PreparedAnswer(RemotingCommand(0, serialize_type=SerializeType.ROCKETMQ))
    with pytest.raises(RemotingUsageError):
        PreparedAnswer(RemotingCommand(0, body=bytes(FRAME_BYTES_MAX)))
