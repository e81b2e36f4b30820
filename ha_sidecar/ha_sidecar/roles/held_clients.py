"""The clients of a dead master and what they asked, kept to be answered with one thing: go away.

From 5.3.2 on, a client that is answered GO_AWAY dials the same address anew and asks there again, within the same try and
without a word to the application: brokers say it while they shut down. An older client would take it for an error. It has its
connection closed instead, which costs it one of its three tries.

Why the answer matters more than the tries: when a connection ends, `NettyRemotingClient` fails what was asked over it only
if nobody replaced the connection in its table meanwhile. Where somebody did, the sender waits until its 3 s are over: so its
source reads, and senders did wait for 3 s in 2 of 12 faults while held connections were closed.

What brokers and controllers ask each other comes from no client: a companion asks who is master where clients come to, a log
replica asks the new master for its HA address, and by the old route both still come here. They are disconnected at once, so that
they ask anew: a log replica that was held came back to its master 1.4 s late, and nothing could be acknowledged until then.

Never: carries out a request, keeps its body, holds more than its bounds allow.

Source: NettyRemotingClient.invokeImpl, NettyRemotingAbstract.processRequestCommand 5.3.2 to 5.5.0.
"""

import contextlib
import selectors
import socket
import time
from typing import Final

from controller_core.remoting.codes import ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.errors import RemotingProtocolError
from controller_core.remoting.frame import FrameDecoder, encode

RECEIVE_BYTES: Final = 1 << 16
CLIENTS_MAX: Final = 4096
HELD_BYTES_MAX: Final = 32 << 20
"""A companion has little memory; who comes on top of these is disconnected."""
WAKES_MAX: Final = 16
MEMBERS_CODES: Final = range(900, 1100)
"""What brokers, log replicas and controllers ask each other; RequestCode.java has nothing of a client's there."""
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
    def held_bytes(self) -> int:
        """Bytes of a request that has not come whole yet, and of answers that wait."""
        return self._decoder.held_bytes + len(self._answers)

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
            if command.code in MEMBERS_CODES:
                return False
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


class HeldClients:
    """All connections that are held at one port; for one thread.

    Attributes:
        taken: connections that ever came.
    """

    def __init__(self, listener: socket.socket, woken: socket.socket) -> None:
        """Take the port, and what tells the thread to look up from it; both stay the caller's."""
        self.taken = 0
        self._listener: Final = listener
        self._woken: Final = woken
        self._clients: Final[dict[socket.socket, HeldClient]] = {}
        self._held_bytes = 0
        self._selector: Final = selectors.DefaultSelector()
        for socket_ in (listener, woken):
            self._selector.register(socket_, selectors.EVENT_READ)

    def serve(self, until_s: float) -> None:
        """Take connections and what they ask until woken, or until `until_s` on the monotonic clock."""
        while (left_s := until_s - time.monotonic()) > 0:
            for key, _ in self._selector.select(left_s):
                if key.fileobj is self._woken:
                    self._woken.recv(WAKES_MAX)
                    return
                if key.fileobj is self._listener:
                    self._accept()
                else:
                    self._read(key.data)

    def send_away(self) -> None:
        """Answer all that were not answered yet."""
        for connection, client in list(self._clients.items()):
            if not client.is_sent_away:
                before_bytes = client.held_bytes
                is_of_use = client.send_away()
                self._after(connection, client, before_bytes, is_of_use=is_of_use)

    def close(self) -> None:
        """Disconnect everybody."""
        for connection in list(self._clients):
            self._drop(connection)
        self._selector.close()

    def _accept(self) -> None:
        try:
            connection = self._listener.accept()[0]
        except OSError:  # it has left again
            return
        self.taken += 1
        if len(self._clients) == CLIENTS_MAX:
            connection.close()
            return
        self._clients[connection] = HeldClient(connection)
        self._selector.register(connection, selectors.EVENT_READ, connection)

    def _read(self, connection: socket.socket) -> None:
        client = self._clients[connection]
        before_bytes = client.held_bytes
        is_of_use = client.read()
        self._after(connection, client, before_bytes, is_of_use=is_of_use)

    def _after(
        self, connection: socket.socket, client: HeldClient, before_bytes: int, *, is_of_use: bool
    ) -> None:
        self._held_bytes += client.held_bytes - before_bytes
        if not is_of_use or self._held_bytes > HELD_BYTES_MAX:
            self._drop(connection)

    def _drop(self, connection: socket.socket) -> None:
        client = self._clients.pop(connection)
        self._held_bytes -= client.held_bytes
        self._selector.unregister(connection)
        client.close()
