"""Carries what held clients want stored to their new master, before their own way leads there.

The controllers name a successor with a copy some 200 ms before a client can reach it: its address has to be written, each node's
kube-proxy has to learn of it, the client has to dial anew. The companion knows the successor's own address, and it has the sends
already. It asks in the clients' place and hands the answers back; a send is ambiguous where it would be without it.

A successor refuses for the first milliseconds: it does not know yet that it is master, or that it has a copy. Such a refusal says
that nothing was stored, and is not handed on: it would cost the client one of three tries that follow each other without a
pause. The send is asked again.

Never: stores anything, answers of itself, asks twice what may have been stored, carries what is not a send: a consumer's long poll
would hang on a connection that is about to end. Messages that came this way name the companion's host as the one they were born on.

Source: SendMessageProcessor.java (rejectRequest, handlePutMessageResult), NettyRemotingAbstract.java (REJECTREQUEST) 5.5.0.
"""

import contextlib
import selectors
import socket
import time
from collections.abc import Hashable, Iterator, Sequence
from typing import Final, Generic, TypeVar

from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.frame import FrameDecoder, encode
from ha_sidecar.roles.config import HostPort

DIAL_WITHIN_S: Final = 0.05
AGAIN_S: Final = 0.01
RECEIVE_BYTES: Final = 1 << 16
SENDS: Final = frozenset(
    (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
)
C = TypeVar("C", bound=Hashable)
"""A client, of which nothing is known here."""
NOT_ENOUGH_COPIES: Final = "in-sync replicas not enough"
"""What a master's SYSTEM_ERROR says when it refused before it wrote."""


def is_refused_for_now(answer: RemotingCommand) -> bool:
    """Say whether an answer to a send means that nothing was stored, and that this will pass."""
    if answer.code == ResponseCode.SYSTEM_ERROR:
        return NOT_ENOUGH_COPIES in (answer.remark or "")
    return answer.code in (ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE)


class Relay(Generic[C]):
    """One connection to the successor, for all clients; for one thread."""

    def __init__(self, successor: HostPort, selector: selectors.BaseSelector) -> None:
        """Connect.

        Args:
            successor: the remoting address of the new master itself.
            selector: told what is waited for, with this relay as the data.

        Raises:
            OSError: it cannot be reached within `DIAL_WITHIN_S`.
        """
        self._socket: Final = socket.create_connection(successor, DIAL_WITHIN_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setblocking(False)
        self._selector: Final = selector
        self._decoder: Final = FrameDecoder()
        self._unsent = bytearray()
        self._opaque = 0
        self._asked: Final[dict[int, tuple[C, RemotingCommand]]] = {}
        self._again: list[tuple[C, RemotingCommand]] = []
        self._again_s = 0.0
        selector.register(self._socket, selectors.EVENT_READ, self)

    @property
    def again_s(self) -> float | None:
        """When `ask_again` has something to do, on the monotonic clock; None for never."""
        return self._again_s if self._again else None

    def ask(self, client: C, sends: Sequence[RemotingCommand]) -> None:
        """Ask what a client asked; raise `OSError` if the connection has ended."""
        for command in sends:
            self._opaque += 1
            self._asked[self._opaque] = (client, command)
            self._unsent += encode(command.with_opaque(self._opaque))
        self._flush()

    def ask_again(self) -> None:
        """Ask once more what was refused, when it is time; raise `OSError` if the connection has ended."""
        if self._again and time.monotonic() >= self._again_s:
            again, self._again = self._again, []
            for client, command in again:
                self.ask(client, [command])

    def answers(self) -> Iterator[tuple[C, RemotingCommand]]:
        """Send what waits and take in what came: each client, and the answer to be handed to it.

        Raises:
            OSError: the connection has ended.
            RemotingProtocolError: what came is no frame.
        """
        self._flush()
        try:
            data = self._socket.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return
        if not data:
            raise ConnectionResetError("it closed the connection")
        for answer in self._decoder.feed(data):
            found = self._asked.pop(answer.opaque, None)
            if found is None or not answer.is_response:
                continue
            if is_refused_for_now(answer):
                self._again_s = self.again_s or time.monotonic() + AGAIN_S
                self._again.append(found)
            else:
                yield found[0], answer.with_opaque(found[1].opaque)

    def forget(self, client: C) -> None:
        """Ask nothing again for a client that has gone: it has asked somebody else since."""
        self._again = [one for one in self._again if one[0] != client]

    def close(self) -> list[C]:
        """End the connection; return whose sends were on their way, as often as they had one."""
        self._selector.unregister(self._socket)
        self._socket.close()
        return [client for client, _ in (*self._asked.values(), *self._again)]

    def _flush(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._unsent:
                del self._unsent[: self._socket.send(self._unsent)]
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent else 0)
        self._selector.modify(self._socket, events, self)
