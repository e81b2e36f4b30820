"""Carries what held clients want stored to their new master, before their own way leads there.

The controllers name a successor with a copy some 200 ms before a client can reach it: its address has to be
written, each node's kube-proxy has to learn of it, the client has to dial again. The companion knows the
successor's own address, and it has the sends already. It asks in the clients' place and hands the answers
back; a send is ambiguous where it would be without it.

A successor refuses for the first milliseconds: it does not know yet that it is master, or that it has a copy.
Such a refusal says that nothing was stored, and is not handed on: it would cost the client one of three tries
that follow each other without a pause. The relay repeats the send.

A one-way send is carried as a request that wants an answer: a successor that refuses a one-way send says
nothing, and the message would be gone. Its answer ends here, as its client expects none (`SendRelay.ask` with
the client None). So is a commit or a rollback, which clients send one-way to the broker that took the
message: without it the transaction stays open until the new master asks, which it does every 30 s.

The relay writes a send again, with an opaque of its own. That can fail: a JSON header with numbers in place
of texts grows, and a frame near the bound then passes it. Such a send is not carried; `SendRelay.ask` returns
it, and nothing of it was stored.

Never: stores anything, invents answers, repeats a request that the successor may have stored, carries others:
a consumer's long poll would hang on a connection that is about to end. Messages that came this way name the
companion's host as the one they were born on.

Source: SendMessageProcessor.java (rejectRequest, handlePutMessageResult), EndTransactionProcessor.java,
MessageSysFlag.java, NettyRemotingAbstract.java (REJECTREQUEST) 5.5.0.
"""

import contextlib
import selectors
import time
from collections.abc import Hashable, Iterator, Sequence
from typing import Final, Generic, TypeVar

from msgspec import structs

from controller_core.broker_settings import MIN_IN_SYNC_REFUSAL, SENDS_FROM_REFUSAL
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import FLAG_ONEWAY, RemotingCommand
from controller_core.remoting.errors import RemotingUsageError
from controller_core.remoting.frame import FrameDecoder, encode
from controller_core.tls.dialling import NOT_IN_TLS, ClientTls
from controller_core.tls.streams import HandshakeTimeoutError, begin
from ha_sidecar.address import HostPort

DIAL_WITHIN_S: Final = 0.05
HANDSHAKE_WITHIN_S: Final = 1.0
"""Of TLS. A JVM that takes its role makes the handshakes of all its clients too: this one took 0.3 s."""
AGAIN_S: Final = 0.01
SENDS: Final = frozenset(
    (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
)
FIRST_OPAQUE: Final = 1_000_000_000
"""All opaques of a relay have ten digits, so a send that could be written once can be written again."""
C = TypeVar("C", bound=Hashable)
"""A client, of which nothing is known here."""
REFUSED_UNWRITTEN: Final = (MIN_IN_SYNC_REFUSAL, SENDS_FROM_REFUSAL)
"""What a master's SYSTEM_ERROR says when it refused before it wrote: has too few copies, or is guarded."""


_TRANSACTION_ENDS: Final = frozenset({"8", "12"})
"""Of a commit and a rollback; a broker does not answer a request that says neither."""


def is_oneway_carried(command: RemotingCommand) -> bool:
    """Say whether a one-way request is carried: a send, or the end of a transaction."""
    if command.code == RequestCode.END_TRANSACTION:
        return (command.ext or {}).get("commitOrRollback") in _TRANSACTION_ENDS
    return command.code in SENDS


def is_refused_for_now(answer: RemotingCommand, asked: int) -> bool:
    """Say whether an answer to a request means that nothing was stored, and that this will pass.

    Args:
        answer: the successor's.
        asked: code of the request.
    """
    if answer.code == ResponseCode.SYSTEM_ERROR:
        return any(refusal in (answer.remark or "") for refusal in REFUSED_UNWRITTEN)
    if asked == RequestCode.END_TRANSACTION and answer.code == ResponseCode.SLAVE_NOT_AVAILABLE:
        # It is not master yet. After a send this code means that no slave has the message in time.
        return True
    return answer.code in (ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE)


class SendRelay(Generic[C]):
    """One connection to the successor, for all clients; for one thread.

    It carries sends from the end of its handshake on (`open`). It does not wait for that end, because the
    thread has other clients to read.

    Attributes:
        held_bytes: size of the unanswered sends.
    """

    def __init__(
        self, successor: HostPort, selector: selectors.BaseSelector, tls: ClientTls | None = None
    ) -> None:
        """Connect.

        Args:
            successor: the remoting address of the new master itself.
            selector: receives the sockets to wait for, with this relay as the data.
            tls: how to dial; None for plain TCP.

        Raises:
            OSError: it cannot be reached within `DIAL_WITHIN_S`.
        """
        self._successor: Final = successor
        self._tls: Final = tls
        self._stream = begin(successor, tls, DIAL_WITHIN_S)
        self._open_until_s: Final = time.monotonic() + HANDSHAKE_WITHIN_S
        self._selector: Final = selector
        self._decoder: Final = FrameDecoder()
        self._unsent = bytearray()
        self._opaque = FIRST_OPAQUE
        self._asked: Final[dict[int, tuple[C | None, RemotingCommand]]] = {}
        self._again: list[tuple[C | None, RemotingCommand]] = []
        self.held_bytes = 0
        self._again_s = 0.0
        selector.register(self._stream.socket, selectors.EVENT_READ, self)

    @property
    def is_open(self) -> bool:
        """Whether sends can be carried."""
        return self._stream.is_ready

    @property
    def again_s(self) -> float | None:
        """When `open` or `ask_again` has something to do, on the monotonic clock; None for never."""
        if not self.is_open:
            return self._open_until_s
        return self._again_s if self._again else None

    def open(self) -> bool:
        """Go on with the handshake; return whether sends can be carried.

        Raises:
            OSError: the successor does not answer TLS where plain TCP is not allowed, or not within
                `HANDSHAKE_WITHIN_S`.
        """
        try:
            if not self._stream.shake_hands() and time.monotonic() >= self._open_until_s:
                raise HandshakeTimeoutError("the TLS handshake took too long")
        except NOT_IN_TLS:
            if self._tls is None or not self._tls.plain_allowed:
                raise
            self._dial_plain()
        self._await_events()
        return self.is_open

    def _dial_plain(self) -> None:
        stream = begin(self._successor, None, DIAL_WITHIN_S)
        self._selector.unregister(self._stream.socket)
        self._stream.socket.close()
        self._stream = stream
        self._selector.register(stream.socket, selectors.EVENT_READ, self)

    def ask(self, client: C | None, sends: Sequence[RemotingCommand]) -> list[RemotingCommand]:
        """Forward a client's sends, and return those that cannot be written as a frame.

        Args:
            client: gets the answers; None for one-way sends, whose answers are dropped.
            sends: sends as they came.

        Raises:
            OSError: the connection has ended.
        """
        unwritable: list[RemotingCommand] = []
        for command in sends:
            try:
                self._write(client, command)
            except RemotingUsageError:
                unwritable.append(command)
        self._flush()
        return unwritable

    def _write(self, client: C | None, command: RemotingCommand) -> None:
        frame = encode(structs.replace(command, opaque=self._opaque, flag=command.flag & ~FLAG_ONEWAY))
        self._asked[self._opaque] = (client, command)
        self._opaque += 1
        self._unsent += frame
        self.held_bytes += command.size_bytes()

    def ask_again(self) -> None:
        """Repeat the refused sends when it is time; raise `OSError` if the connection has ended."""
        if self._again and time.monotonic() >= self._again_s:
            again, self._again = self._again, []
            for client, command in again:
                self.held_bytes -= command.size_bytes()
                self.ask(client, [command])

    def answers(self) -> Iterator[tuple[C | None, RemotingCommand]]:
        """Send pending bytes and read answers: yield each client (None: of a one-way send), and its answer.

        Raises:
            OSError: the connection has ended.
            RemotingProtocolError: the bytes are not a frame.
        """
        self._flush()
        try:
            data = self._stream.receive()
        except BlockingIOError:
            return
        if not data:
            raise ConnectionResetError("it closed the connection")
        for answer in self._decoder.feed(data):
            found = self._asked.pop(answer.opaque, None)
            if found is None or not answer.is_response:
                continue
            if is_refused_for_now(answer, found[1].code):
                if not self._again:
                    self._again_s = time.monotonic() + AGAIN_S
                self._again.append(found)
            else:
                self.held_bytes -= found[1].size_bytes()
                yield found[0], answer.with_opaque(found[1].opaque)

    def forget(self, client: C) -> None:
        """Ask nothing again for a client that has gone: it has asked somebody else since."""
        self.held_bytes -= sum(command.size_bytes() for of, command in self._again if of == client)
        self._again = [entry for entry in self._again if entry[0] != client]

    def close(self) -> list[C | None]:
        """End the connection.

        Return the clients of the sends on their way (None: one-way sends), one for each send.
        """
        self._selector.unregister(self._stream.socket)
        self._stream.socket.close()
        return [client for client, _ in (*self._asked.values(), *self._again)]

    def _flush(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._stream.flush()
            while self._unsent:
                del self._unsent[: self._stream.send(self._unsent)]
        self._await_events()

    def _await_events(self) -> None:
        is_done = self._stream.is_flushed and not self._unsent
        events = selectors.EVENT_READ | (0 if is_done else selectors.EVENT_WRITE)
        self._selector.modify(self._stream.socket, events, self)
