"""What the clients of a dead master asked, kept to be answered with one thing: go away.

From 5.3.2 on, a client that is answered GO_AWAY dials the same address anew and asks there again, within the same try and
without a word to the application: brokers say it while they shut down. An older client would take it for an error. It has its
connection closed instead, which costs it one of its three tries.

Why the answer matters more than the tries: when a connection ends, `NettyRemotingClient` fails what was asked over it only
if nobody replaced the connection in its table meanwhile. Where somebody did, the sender waits until its 3 s are over: so its
source reads, and senders did wait for 3 s in 2 of 12 faults while held connections were closed.

Never: carries out a request, keeps its body.

Source: NettyRemotingClient.invokeImpl, NettyRemotingAbstract.processRequestCommand 5.3.2 to 5.5.0.
"""

import contextlib
import socket
from typing import Final

from controller_core.remoting.codes import ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.errors import RemotingProtocolError
from controller_core.remoting.frame import FrameDecoder, encode

RECEIVE_BYTES: Final = 1 << 16
VERSION_V5_3_1: Final = 475
"""MQVersion.Version.V5_3_1.ordinal(): brokers say GO_AWAY to later ones only."""


class HeldClient:
    """One connection of a client.

    Attributes:
        is_sent_away: whether it was answered once; what it asks from then on is answered at once.
    """

    def __init__(self, connection: socket.socket) -> None:
        """Take the connection, which is read without waiting from here on."""
        connection.setblocking(False)
        self.is_sent_away = False
        self._connection: Final = connection
        self._decoder: Final = FrameDecoder()
        self._answers = bytearray()
        self._can_go = True

    @property
    def unfinished_bytes(self) -> int:
        """Bytes of a request that has not come whole yet."""
        return self._decoder.held_bytes

    def read(self) -> bool:
        """Take in what came; False if the connection is of no use any more."""
        try:
            data = self._connection.recv(RECEIVE_BYTES)
            commands = self._decoder.feed(data)
        except BlockingIOError:
            return True
        except (OSError, RemotingProtocolError):
            return False
        for command in commands:
            if not (command.is_oneway or command.is_response):
                self._can_go = self._can_go and command.version > VERSION_V5_3_1
                answer = RemotingCommand.response_to(
                    command, ResponseCode.GO_AWAY, remark="another broker is master"
                )
                self._answers += encode(answer)
        return bool(data) and (not self.is_sent_away or self.send_away())

    def send_away(self) -> bool:
        """Answer all that was asked; False if the client does not know that answer, or does not take it."""
        self.is_sent_away = True
        with contextlib.suppress(OSError):
            if self._can_go and self._connection.send(self._answers) == len(self._answers):
                self._answers.clear()
                return True
        return False

    def close(self) -> None:
        """End the connection."""
        self._connection.close()
