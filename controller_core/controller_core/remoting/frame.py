"""Frames: commands to bytes, and a byte stream back to commands, without a socket.

A frame on the wire (big-endian):

| bytes | meaning |
|---|---|
| 4 | length of all that follows, at most `FRAME_BYTES_MAX` less these 4 |
| 1 | how the header is written: 0 JSON, 1 ROCKETMQ (`SerializeType`) |
| 3 | header length |
| n | header |
| rest | body, possibly empty |

`FrameDecoder` keeps at most one incomplete frame, so its memory is O(bytes of the largest frame) whatever the
peer does, and a frame whose length word is too large is refused before any byte of it is stored. It may be
fed any cut of the stream, one byte at a time too. After a `FrameError` the position in the stream is unknown:
the owner closes it.

A server may bound most frames more tightly (`FrameBounds`): then only requests of some codes may be large.
The code is known when the header has come, and the header itself has the tighter bound. So an unfinished
frame of any other code is refused before more than that is stored.

TLS and the HAProxy preamble are not spoken: a stream that begins with either fails as a frame of absurd
length.

Source: RemotingCommand.java encodeHeader and decode, NettyDecoder.java, Netty's LengthFieldBasedFrameDecoder.
"""

import struct
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from controller_core import limits
from controller_core.remoting import header_binary, header_json
from controller_core.remoting.codes import RequestCode, SerializeType
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.errors import FrameError, RemotingProtocolError, RemotingUsageError

FRAME_BYTES_MAX: Final = limits.FRAME_BYTES_MAX
"""A whole frame with its length word."""
HEADER_BYTES_MAX: Final = 0xFF_FFFF
"""What fits in the 24 bits of the header length."""

LENGTH_BYTES: Final = 4
"""The length word of a frame, or of its header."""
_JSON: Final = int(SerializeType.JSON)
_ROCKETMQ: Final = int(SerializeType.ROCKETMQ)
_WORDS: Final = struct.Struct(">II")
_LENGTH: Final = struct.Struct(">I")
FRAME_START_BYTES: Final = _WORDS.size
"""A frame before its header."""


def encode(command: RemotingCommand) -> bytes:
    """Write a command as one frame.

    Raises:
        RemotingUsageError: a value does not fit its wire type, or the frame is longer than `FRAME_BYTES_MAX`.
    """
    if command.serialize_type is SerializeType.JSON:
        header = header_json.encode(command)
    else:
        header = header_binary.encode(command)
    header_bytes = len(header)
    length = LENGTH_BYTES + header_bytes + len(command.body)
    if length + LENGTH_BYTES > FRAME_BYTES_MAX or header_bytes > HEADER_BYTES_MAX:
        raise RemotingUsageError(
            f"frame of {length + LENGTH_BYTES} bytes (header {header_bytes}) for code {command.code}: "
            f"the limit is {FRAME_BYTES_MAX}"
        )
    return _WORDS.pack(length, command.serialize_type << 24 | header_bytes) + header + command.body


class PreparedAnswer:
    """An answer whose frame is written but for the opaque.

    To say the same thing to many requests costs one copy.

    Attributes:
        command: the answer; its opaque means nothing.
    """

    __slots__ = ("_before", "_header_bytes", "_length", "_rest", "command")

    def __init__(self, command: RemotingCommand) -> None:
        """Write all that does not depend on the request.

        Raises:
            RemotingUsageError: the command is not JSON, or cannot be written; see `encode`.
        """
        if command.serialize_type is not SerializeType.JSON:
            raise RemotingUsageError("an answer's header is JSON")
        frame = encode(command.with_opaque(0))
        # Inside a text each quote has a backslash before it, so this is the header's own field and no other.
        before, found, rest = frame[FRAME_START_BYTES:].partition(b',"opaque":0,')
        if not found:
            raise RemotingUsageError(f"the header of code {command.code} is without an opaque")
        self.command = command
        self._before = before + b',"opaque":'
        self._rest = b"," + rest
        self._length = len(frame) - LENGTH_BYTES - 1
        self._header_bytes = self._length - LENGTH_BYTES - len(command.body)

    def frame(self, opaque: int) -> bytes:
        """Return the frame that answers the request with this opaque, an int32."""
        number = b"%d" % opaque
        digits = len(number)
        # The top byte of the second word says JSON, which is 0.
        words = _WORDS.pack(self._length + digits, self._header_bytes + digits)
        return b"".join((words, self._before, number, self._rest))


@dataclass(frozen=True, slots=True)
class FrameBounds:
    """How long frames may be.

    Attributes:
        frame_bytes_max: no frame is longer, length word included.
        control_bytes_max: nor is a frame of another code than `large_codes`, nor any header.
        large_codes: codes of requests that may be longer than that.
    """

    frame_bytes_max: int = FRAME_BYTES_MAX
    control_bytes_max: int = FRAME_BYTES_MAX
    large_codes: Collection[int] = ()


ANY_FRAMES: Final = FrameBounds()
"""The protocol's own bound alone."""
CONTROL_BOUNDS: Final = FrameBounds(
    limits.LARGE_REQUEST_BYTES_MAX,
    limits.CONTROL_FRAME_BYTES_MAX,
    frozenset({RequestCode.CONTROLLER_GET_SYNC_STATE_DATA}),
)
"""Those of a controller's requests."""


class FrameDecoder:
    """Cuts one direction of one connection into commands.

    Invariant: `_held` is empty or begins at a frame's first byte.
    """

    def __init__(self, bounds: FrameBounds = ANY_FRAMES) -> None:
        """Start at the stream's first byte; frames over their bound are damage."""
        self._frame_bytes_max = bounds.frame_bytes_max
        self._control_bytes_max = bounds.control_bytes_max
        self._large_codes = bounds.large_codes
        self._held = bytearray()
        self._offset = 0
        self._large_offset = -1

    @property
    def held_bytes(self) -> int:
        """Bytes of the incomplete frame that wait for the rest."""
        return len(self._held)

    @property
    def frame_at(self) -> int | None:
        """Offset in the stream of the incomplete frame's first byte; None without one."""
        return self._offset if self._held else None

    def feed(self, data: bytes) -> list[RemotingCommand]:
        """Take the next bytes of the stream and give the commands that are now whole, in order.

        Raises:
            FrameError: the stream is damaged; whole frames before the damage in `data` are in its `commands`.
                The decoder must not be fed again.
        """
        if not self._held:
            commands: list[RemotingCommand] = []
            used = self._cut(data, commands)
            if used < len(data):
                self._held += data[used:] if used else data
            return commands
        self._held += data
        if len(self._held) < LENGTH_BYTES:
            return []
        length = self._length_at(self._held, 0, ())
        if len(self._held) < LENGTH_BYTES + length:
            self._check_code(self._held, 0, length, ())
            return []
        commands = []
        stream = bytes(self._held)
        used = self._cut(stream, commands)
        del self._held[:used]
        return commands

    def _cut(self, data: bytes, commands: list[RemotingCommand]) -> int:
        """Append every whole frame of `data` to `commands`; return how many bytes they take."""
        at = 0
        end = len(data)
        while end - at >= LENGTH_BYTES:
            length = self._length_at(data, at, commands)
            begin = at + LENGTH_BYTES
            self._check_code(data, at, length, commands)
            if end - begin < length:
                break
            try:
                commands.append(_decode(data, begin, begin + length))
            except RemotingProtocolError as error:
                raise FrameError(str(error), offset=self._offset, length=length, commands=commands) from error
            at = begin + length
            self._offset += LENGTH_BYTES + length
        return at

    def _check_code(
        self, data: bytes | bytearray, at: int, length: int, commands: Sequence[RemotingCommand]
    ) -> None:
        """Refuse a frame over `control_bytes_max`, unless its code may be large or is not known yet."""
        if length + LENGTH_BYTES <= self._control_bytes_max or self._large_offset == self._offset:
            return
        if len(data) - at < FRAME_START_BYTES:
            return
        header_bytes = frame_start(data, at).header_bytes
        if header_bytes > self._control_bytes_max:
            raise FrameError("header too long", offset=self._offset, length=length, commands=commands)
        end_header = at + FRAME_START_BYTES + header_bytes
        if len(data) < end_header:
            return
        try:
            code = _decode(bytes(data[at:end_header]), LENGTH_BYTES, end_header - at).code
        except RemotingProtocolError as error:
            raise FrameError(str(error), offset=self._offset, length=length, commands=commands) from error
        if code not in self._large_codes:
            problem = f"a frame of code {code} may have at most {self._control_bytes_max} bytes"
            raise FrameError(problem, offset=self._offset, length=length, commands=commands)
        self._large_offset = self._offset

    def _length_at(self, data: bytes | bytearray, at: int, commands: Sequence[RemotingCommand]) -> int:
        (length,) = _LENGTH.unpack_from(data, at)
        if not LENGTH_BYTES <= length <= self._frame_bytes_max - LENGTH_BYTES:
            raise FrameError(
                "frame length out of range", offset=self._offset, length=length, commands=commands
            )
        return int(length)


class FrameStart(NamedTuple):
    """What the first two words of a frame say, unchecked.

    Attributes:
        frame_bytes: the whole frame with its length word.
        kind: how the header is written, a number of `SerializeType` in a good frame.
        header_bytes: the header alone.
    """

    frame_bytes: int
    kind: int
    header_bytes: int

    @property
    def is_possible(self) -> bool:
        """Whether the header fits in the frame, and the frame in its bound."""
        return FRAME_START_BYTES + self.header_bytes <= self.frame_bytes <= FRAME_BYTES_MAX


def frame_start(data: bytes | bytearray, at: int) -> FrameStart:
    """Read the `FRAME_START_BYTES` with which a frame begins at an offset of some bytes."""
    length, word = _WORDS.unpack_from(data, at)
    return FrameStart(length + LENGTH_BYTES, word >> 24, word & HEADER_BYTES_MAX)


def decode_frame(frame: bytes) -> RemotingCommand:
    """Read one frame without its length word.

    Raises:
        RemotingProtocolError: the header's length, kind or content is impossible.
    """
    return _decode(frame, 0, len(frame))


def _decode(data: bytes, begin: int, end: int) -> RemotingCommand:
    """Read the frame that lies in `data` from `begin` to `end`, without its length word."""
    if end - begin < LENGTH_BYTES:
        raise RemotingProtocolError(f"frame of {end - begin} bytes is too short for its header length")
    (word,) = _LENGTH.unpack_from(data, begin)
    begin_header = begin + LENGTH_BYTES
    end_header = begin_header + (word & HEADER_BYTES_MAX)
    if end_header > end:
        raise RemotingProtocolError(
            f"header of {end_header - begin_header} bytes in a frame of {end - begin}"
        )
    kind = word >> 24
    if kind == _JSON:
        return header_json.decode(data[begin_header:end_header], data[end_header:end])
    if kind == _ROCKETMQ:
        return header_binary.decode(data[begin_header:end_header], data[end_header:end])
    raise RemotingProtocolError(f"serialize type {kind} is neither JSON (0) nor ROCKETMQ (1)")
