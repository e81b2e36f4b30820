"""The clients of a dead master and their requests: sends go to the successor, all else gets GO_AWAY.

From 5.3.2 on, a client that receives GO_AWAY dials the same address again and repeats its request there,
within the same try and without a word to the application: brokers say it while they shut down. An older
client would take it for an error. It has its connection closed instead, which costs it one of its three
tries.

Why the answer matters more than the tries: when a connection ends, `NettyRemotingClient` fails its pending
requests only if the connection in its table was not replaced in between. If it was, the sender waits until
its 3 s are over. The source reads so, and senders did wait for 3 s in 2 of 12 faults while held connections
were closed.

Requests between brokers and controllers do not come from clients. A companion asks for the master at the
clients' address, a log replica asks the new master for its HA address, and by the old route both still come
here. They are disconnected at once, so that they ask again: a held log replica came back to its master 1.4 s
late, and nothing could be acknowledged until then.

A send waits for a successor with a copy, and is carried there (`relaying`). So an older client loses no try
either, for what it sends: it is disconnected when its sends are answered.

A one-way send outlives its connection: its client expects no answer, and may end before the send is carried.
A send that is not carried when the hold ends, or not answered by then, counts as lost. So does the end of a
transaction, for which the next master asks then. Other one-way requests are dropped: clients repeat them
(offsets, every 5 s).

The bytes of a client end at most that client: an unexpected exception is logged, and the others stay held.

Never: carries out a request, holds more than its bounds allow.

Source: NettyRemotingClient.invokeImpl, NettyRemotingAbstract.processRequestCommand 5.3.2 to 5.5.0.
"""

import contextlib
import errno
import functools
import logging
import selectors
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from controller_core.remoting.codes import ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.errors import RemotingProtocolError
from controller_core.tls.dialling import ClientTls
from controller_core.tls.serving import ServerTls
from ha_sidecar import limits
from ha_sidecar.address import HostPort
from ha_sidecar.companion.holding.held_client import HeldClient
from ha_sidecar.companion.holding.relaying import SendRelay

WAKES_MAX: Final = 16
GUESTS_SOURCES: Final = frozenset({"127.0.0.1", "::ffff:127.0.0.1"})
"""Where guests come from: their port is of this very process, and dials the broker there."""
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_EXHAUSTED_PAUSE_S: Final = 0.01

_log = logging.getLogger(__name__)


def _illegal(command: RemotingCommand) -> RemotingCommand:
    remark = (
        "send cannot be carried to the new master: "
        "its frame is longer than the bound once its header is written as Java writes it"
    )
    return RemotingCommand.response_to(command, ResponseCode.MESSAGE_ILLEGAL, remark=remark)


class HeldClients:
    """All connections that are held at a broker's ports; for one thread.

    Attributes:
        taken: connections that ever came.
        relayed: sends that were carried to the successor, one-way sends included.
        oneways: one-way sends that came.
        oneways_answered: those of them that the successor answered.
    """

    def __init__(
        self,
        listeners: Sequence[socket.socket],
        woken: socket.socket,
        server_tls: ServerTls | None = None,
        client_tls: ClientTls | None = None,
    ) -> None:
        """Take the ports, and what tells the thread to look up from them; all stay the caller's.

        Args:
            listeners: the ports.
            woken: readable when the thread should look up.
            server_tls: how clients in TLS are answered; None for plain TCP alone.
            client_tls: how the successor is dialled; None for plain TCP.
        """
        self._server_tls: Final = server_tls
        self._client_tls: Final = client_tls
        self.taken = self.relayed = self.oneways = self.oneways_answered = 0
        self._oneways: list[RemotingCommand] = []
        self._woken: Final = woken
        self._connections: Final[dict[HeldClient, socket.socket]] = {}
        self._held_bytes = 0
        self._relay: SendRelay[HeldClient] | None = None
        self._selector: Final = selectors.DefaultSelector()
        for listener in listeners:
            self._selector.register(listener, selectors.EVENT_READ, listener)
        self._selector.register(woken, selectors.EVENT_READ)

    @property
    def is_relaying(self) -> bool:
        """Whether sends are carried to the successor now."""
        return self._open_relay is not None

    @property
    def _open_relay(self) -> SendRelay[HeldClient] | None:
        relay = self._relay
        return relay if relay is not None and relay.is_open else None

    def serve(self, until_s: float) -> bool:
        """Serve connections until `until_s` on the monotonic clock, or until woken; return whether woken."""
        while (left_s := until_s - time.monotonic()) > 0:
            if self._relay is not None:
                left_s = self._retry_within(left_s, self._relay)
            for key, _ in self._selector.select(left_s):
                if key.fileobj is self._woken:
                    self._woken.recv(WAKES_MAX)
                    return True
                self._serve_ready(key.data)
        return False

    def _serve_ready(self, data: object) -> None:
        """Serve what is ready; it may have been lost or dropped in this very turn."""
        if isinstance(data, socket.socket):
            self._accept(data)
        elif isinstance(data, SendRelay):
            if data is self._relay:
                (self._forward_answers if data.is_open else self._open)(data)
        elif isinstance(data, HeldClient) and data in self._connections:
            self._read(data)

    def relay_to(self, successor: HostPort) -> None:
        """Carry the sends that wait, and those that come, to the new master.

        Nothing new if that is done already.
        """
        if self._relay is not None:
            return
        try:
            self._relay = SendRelay(successor, self._selector, self._client_tls)
        except OSError as error:
            _log.info("the successor %s:%d is not reached yet: %s", *successor, error)
            return
        self._open(self._relay)

    def _open(self, relay: SendRelay[HeldClient]) -> None:
        """Carry the sends that wait as soon as the handshake is done; go on without the relay if it fails."""
        try:
            if not relay.open():
                return
        except OSError as error:
            _log.info("the successor does not answer yet: %s", error)
            self._drop_relay(relay)
            return
        self._held_bytes -= sum(send.size_bytes() for send in self._oneways)
        oneways, self._oneways = self._oneways, []
        self._carry_oneways(relay, oneways)
        for client in list(self._connections):
            self._relay_sends(client)

    def send_away(self, *, sends_too: bool, guests_too: bool = True) -> None:
        """Answer all that was not answered yet.

        Args:
            sends_too: whether sends are answered as well, which the relay carries otherwise.
            guests_too: whether clients go that came by the address of another broker.
        """
        for client in list(self._connections):
            if guests_too or not client.is_guest:
                self._serve_client(client, HeldClient.send_away if sends_too else HeldClient.send_others_away)

    def close(self) -> None:
        """Disconnect everybody."""
        if self._relay is not None:
            self._relay.close()
        for client in list(self._connections):
            self._drop(client)
        self._selector.close()

    def _retry_within(self, left_s: float, relay: SendRelay[HeldClient]) -> float:
        """Repeat the refused sends if it is time; return for how long to wait, in seconds."""
        if not relay.is_open:
            self._open(relay)
        with self._drop_relay_on_error(relay):
            relay.ask_again()
        return left_s if relay.again_s is None else min(left_s, max(relay.again_s - time.monotonic(), 0))

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, source = listener.accept()
        except OSError as error:
            if error.errno in _EXHAUSTED and not self._oldest_idle_gives_way():
                time.sleep(_EXHAUSTED_PAUSE_S)
            return  # or it has left again
        self.taken += 1
        if len(self._connections) >= limits.HELD_CLIENTS_MAX and not self._oldest_idle_gives_way():
            connection.close()
            return
        client = HeldClient(connection, self._server_tls, is_guest=source[0] in GUESTS_SOURCES)
        self._connections[client] = connection
        self._selector.register(connection, selectors.EVENT_READ, client)

    def _oldest_idle_gives_way(self) -> bool:
        """Drop the oldest client that waits for nothing; False if each waits for something."""
        idle = next((client for client in self._connections if client.is_idle), None)
        if idle is not None:
            self._drop(idle)
        return idle is not None

    def _read(self, client: HeldClient) -> None:
        self._serve_client(client, HeldClient.read)
        for command in client.take_oneways():
            self._take_oneway(command)
        self._relay_sends(client)

    def _take_oneway(self, command: RemotingCommand) -> None:
        """Carry a one-way send, or keep it until there is a successor; without room for it, it is lost."""
        self.oneways += 1
        if self._all_bytes + command.size_bytes() > limits.HELD_CLIENTS_BYTES_MAX:
            return
        if (relay := self._open_relay) is not None:
            self._carry_oneways(relay, [command])
        else:
            self._oneways.append(command)
            self._held_bytes += command.size_bytes()

    def _carry_oneways(self, relay: SendRelay[HeldClient], oneways: Sequence[RemotingCommand]) -> None:
        self.relayed += len(oneways)
        with self._drop_relay_on_error(relay):
            self.relayed -= len(relay.ask(None, oneways))

    def _relay_sends(self, client: HeldClient) -> None:
        """Have the client's sends carried, if there is somebody to carry them to."""
        relay = self._open_relay
        if relay is None or client not in self._connections:
            return
        before_bytes = client.held_bytes
        sends = client.take_sends()
        self._held_bytes += client.held_bytes - before_bytes
        if sends:
            self.relayed += len(sends)
            with self._drop_relay_on_error(relay):
                for command in relay.ask(client, sends):
                    self.relayed -= 1
                    if client in self._connections:
                        self._serve_client(
                            client, functools.partial(HeldClient.answer, answer=_illegal(command))
                        )
        if client in self._connections and self._all_bytes > limits.HELD_CLIENTS_BYTES_MAX:
            self._drop(client)

    def _forward_answers(self, relay: SendRelay[HeldClient]) -> None:
        """Hand the successor's answers to their clients."""
        with self._drop_relay_on_error(relay):
            for client, answer in relay.answers():
                if client is None:
                    self.oneways_answered += 1
                elif client in self._connections:
                    self._serve_client(client, functools.partial(HeldClient.answer, answer=answer))

    @contextlib.contextmanager
    def _drop_relay_on_error(self, relay: SendRelay[HeldClient]) -> Iterator[None]:
        """Go on without the relay if it fails.

        Disconnect the clients whose sends were on their way, as their result is unknown.
        """
        try:
            yield
        except (OSError, RemotingProtocolError) as error:
            _log.warning("the successor is lost: %s", error)
            self._drop_relay(relay)
        except Exception:
            _log.exception("the relay ends: an unexpected error")
            self._drop_relay(relay)

    def _drop_relay(self, relay: SendRelay[HeldClient]) -> None:
        self._relay = None
        for client in set(relay.close()):
            if client is not None and client in self._connections:
                self._drop(client)

    def _serve_client(self, client: HeldClient, act: Callable[[HeldClient], bool]) -> None:
        """Do something with a client; drop it if it is of no use any more, or exceeds the bounds."""
        before_bytes = client.held_bytes
        try:
            is_of_use = act(client)
        except Exception:
            _log.exception("a held client is disconnected: an unexpected error")
            is_of_use = False
        self._held_bytes += client.held_bytes - before_bytes
        if not is_of_use or self._all_bytes > limits.HELD_CLIENTS_BYTES_MAX:
            self._drop(client)

    @property
    def _all_bytes(self) -> int:
        """Bytes that are held here, and in sends that the successor has not answered."""
        return self._held_bytes + (0 if self._relay is None else self._relay.held_bytes)

    def _drop(self, client: HeldClient) -> None:
        self._held_bytes -= client.held_bytes
        self._selector.unregister(self._connections.pop(client))
        client.close()
        if self._relay is not None:
            self._relay.forget(client)
