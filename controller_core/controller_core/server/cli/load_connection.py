"""One connection of the load generator.

Frames out as they are, and of each answer only its opaque and its code.

A generator that decodes all that it is answered, and keeps a future and a task for each request, costs as
much as the controller that it measures. Here a request is a frame made once, and an answer two numbers.

Never here: the choice of requests and their times. For anything but measuring there is `channel.Connection`.
"""

import asyncio
import struct
from collections.abc import Callable
from typing import Final, cast

import msgspec

from controller_core.remoting.frame import HEADER_BYTES_MAX

_WORDS: Final = struct.Struct(">II")


class _Answer(msgspec.Struct):
    """The fields of an answer's header that this reads; controllers write it as JSON."""

    code: int
    opaque: int


_DECODER: Final = msgspec.json.Decoder(_Answer)


class LoadConnection(asyncio.Protocol):
    """Sends frames and tells of answers.

    Attributes:
        on_answer: called with an answer's opaque and code.
        on_lost: called once when the connection ends and was not closed by us.
    """

    def __init__(self) -> None:
        self.on_answer: Callable[[int, int], None] = lambda _opaque, _code: None
        self.on_lost: Callable[[], None] = lambda: None
        self._transport: asyncio.Transport | None = None
        self._held = b""
        self._unsent: list[bytes] = []
        self._reading = False
        self._closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport; part of asyncio.Protocol."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell, unless we closed it; part of asyncio.Protocol."""
        if not self._closed:
            self.on_lost()

    def data_received(self, data: bytes) -> None:
        """Cut the stream into answers; part of asyncio.Protocol."""
        if self._held:
            data = self._held + data
        at, end = 0, len(data)
        self._reading = True
        while end - at >= _WORDS.size:
            length, word = _WORDS.unpack_from(data, at)
            if end - at < length + 4:
                break
            answer = _DECODER.decode(data[at + 8 : at + 8 + (word & HEADER_BYTES_MAX)])
            self.on_answer(answer.opaque, answer.code)
            at += length + 4
        self._held = data[at:]
        self._reading = False
        self._flush()

    def send(self, frame: bytes) -> None:
        """Send a frame; all that one turn of the loop sends leaves in one write."""
        if not self._unsent and not self._reading:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent.append(frame)

    def close(self) -> None:
        """End the connection."""
        self._closed = True
        if self._transport is not None:
            self._transport.abort()

    def _flush(self) -> None:
        if self._unsent and self._transport is not None:
            self._transport.write(b"".join(self._unsent))
            self._unsent.clear()
