"""One held client: its requests as they come, and what it is answered.

Its first byte says whether it speaks TLS. A companion with the broker's certificate answers in TLS as the
broker did, so that a client in TLS waits and is sent away like any other one (`held_clients`).

Never: more than one connection's matters, waiting.
"""

import contextlib
import logging
import socket
from typing import Final

from controller_core.channel.listener import TLS_HANDSHAKE_BYTE
from controller_core.remoting.codes import ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.errors import RemotingProtocolError, RemotingUsageError
from controller_core.remoting.frame import FrameBounds, FrameDecoder, encode
from controller_core.tls.serving import ServerTls
from controller_core.tls.streams import PlainStream, Stream, TlsStream
from ha_sidecar import limits
from ha_sidecar.companion.holding.relaying import SENDS, is_oneway_carried

MEMBERS_CODES: Final = range(900, 1100)
"""Requests among brokers, log replicas and controllers.

RequestCode.java has no client's request in this range.
"""
VERSION_V5_3_1: Final = 475
"""MQVersion.Version.V5_3_1.ordinal(): brokers say GO_AWAY to later ones only."""

_FRAMES: Final = FrameBounds(control_bytes_max=limits.HELD_HEADER_BYTES_MAX, large_codes=SENDS)
_log = logging.getLogger(__name__)


class HeldClient:
    """One connection of a client.

    Attributes:
        is_guest: whether it came by the address of another broker.
    """

    def __init__(
        self, connection: socket.socket, tls: ServerTls | None = None, *, is_guest: bool = False
    ) -> None:
        """Take the connection, which is read without waiting from here on.

        Args:
            connection: as it was accepted.
            tls: how TLS is answered; None for plain TCP alone.
            is_guest: whether it came by the address of another broker.
        """
        self.is_guest: Final = is_guest
        connection.setblocking(False)
        self._connection: Final = connection
        self._tls: Final = tls
        self._stream: Stream | None = None
        self._decoder: Final = FrameDecoder(_FRAMES)
        self._sends: list[RemotingCommand] = []
        self._oneways: list[RemotingCommand] = []
        self._relayed = 0
        self._answered_go_away = bytearray()
        self._answers = bytearray()
        self._can_go = True
        self._others_go = self._all_go = False

    @property
    def held_bytes(self) -> int:
        """Bytes of a request that has not come whole yet, of sends that wait, and of answers that wait."""
        waiting = sum(send.size_bytes() for send in self._sends)
        encrypted = 0 if self._stream is None else self._stream.held_bytes
        answers = len(self._answered_go_away) + len(self._answers)
        return self._decoder.held_bytes + waiting + answers + encrypted

    @property
    def is_idle(self) -> bool:
        """Whether nothing of it waits, here or at the successor."""
        return not self._relayed and not self.held_bytes

    def read(self) -> bool:
        """Read the pending bytes; False if the connection is of no use any more."""
        try:
            if self._stream is None:
                self._stream = _begun(self._connection, self._tls)
            data = self._stream.receive()
            commands = self._decoder.feed(data)
        except BlockingIOError:
            return True
        except (OSError, RemotingProtocolError):
            return False
        for command in commands:
            if command.code in MEMBERS_CODES:
                return False
            if command.is_response:
                continue
            if command.is_oneway:
                if is_oneway_carried(command):
                    self._oneways.append(command)
                continue
            self._can_go = self._can_go and command.version > VERSION_V5_3_1
            if command.code in SENDS and not self._all_go:
                self._sends.append(command)
            else:
                self._answered_go_away += _go_away_response(command)
        return bool(data) and self._write_responses()

    def take_oneways(self) -> list[RemotingCommand]:
        """Return the one-way sends that came; they are the taker's from now on."""
        oneways, self._oneways = self._oneways, []
        return oneways

    def take_sends(self) -> list[RemotingCommand]:
        """Return the waiting sends for the successor; the caller must answer each, or drop the client."""
        sends, self._sends = self._sends, []
        self._relayed += len(sends)
        return sends

    def answer(self, answer: RemotingCommand) -> bool:
        """Hand it what the successor answered to one send; False if the connection is of no use any more."""
        self._relayed -= 1
        try:
            self._answers += encode(answer)
        except RemotingUsageError as error:
            _log.warning("an answer of the successor cannot be handed on: %s", error)
            return False
        return self._write_responses()

    def send_others_away(self) -> bool:
        """Answer from now on everything except sends; False if the connection is of no use any more."""
        self._others_go = True
        return self._write_responses()

    def send_away(self) -> bool:
        """Answer from now on all that is not on its way already.

        False if the connection is of no use any more.
        """
        self._others_go = self._all_go = True
        for command in self._sends:
            self._answered_go_away += _go_away_response(command)
        self._sends.clear()
        return self._write_responses()

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def _write_responses(self) -> bool:
        """Write the pending answers.

        False if the client does not take them, or must go and does not know GO_AWAY.
        """
        is_to_go = self._all_go or (self._others_go and bool(self._answered_go_away))
        if self._can_go and self._others_go:
            self._answers += self._answered_go_away
            self._answered_go_away.clear()
        with contextlib.suppress(OSError):
            if not self._answers or self._is_sent(self._answers):
                self._answers.clear()
                return self._can_go or not is_to_go or self._relayed + len(self._sends) > 0
        return False

    def _is_sent(self, answers: bytearray) -> bool:
        stream = self._stream
        return stream is not None and stream.send(answers) == len(answers) and stream.is_flushed


def _begun(connection: socket.socket, tls: ServerTls | None) -> Stream:
    """Return the connection in TLS or plain, as its first byte says.

    Raises:
        BlockingIOError: no byte has come.
        OSError: it has ended, or speaks plain TCP where that is not allowed.
    """
    if tls is None:
        return PlainStream(connection)
    first = connection.recv(1, socket.MSG_PEEK)
    if first[:1] == bytes([TLS_HANDSHAKE_BYTE]):
        return TlsStream(connection, tls.context, server_side=True)
    if not tls.plain_allowed:
        raise ConnectionAbortedError("plain TCP where TLS is required")
    return PlainStream(connection)


def _go_away_response(command: RemotingCommand) -> bytes:
    return encode(
        RemotingCommand.response_to(command, ResponseCode.GO_AWAY, remark="another broker is master")
    )
