"""Send role notices (1008) over connections of our own, until each broker shows that it knows its master.

The request is oneway, so no answer confirms it. RocketMQ sends it once, and a broker that misses it learns of
its master by its poll of 5 s. Here a notice is sent again after `RESEND_S`, twice that and so on, until the
member's heartbeat or 1001 shows the epoch, at most for `PERSIST_S`. One address has one notice at a time: a
newer epoch replaces an older one that was not delivered.

A notice that is sent again goes over a fresh connection: an old connection may lead to another broker that
used the same address, or to a frozen process that accepts everything and does not answer. With very many
notices at once, only `REDIALS_PER_S` of them get a fresh connection: nearly all brokers have received the
first notice, and more dials would delay the next elections.

The notifier connects ahead, when a member comes alive: a dial during a failover would wait for a JVM that is
busy with the loss of its master (0.4 s on a loaded machine). A broker closes connections that are idle for
two minutes; then the notifier dials again. A dial to a dead broker has a short timeout and a task of its own,
so it does not delay other notices.

Never here: the choice of receivers. The applied election decides them.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field

from controller_core.access.signing import Sign
from controller_core.channel.connection import Connection
from controller_core.channel.endpoints import connect
from controller_core.channel.errors import ChannelError
from controller_core.groups.keys import ReplicaKey
from controller_core.groups.replies import RoleNotice
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.host_port import read_host_port
from controller_core.server.logs import bind
from controller_core.server.notices.role_notice import role_notice_frame
from controller_core.tls.dialling import ClientTls

RESEND_S = 0.2
PERSIST_S = 3.0
REDIALS_PER_S = 100
DIAL_TIMEOUT_S = 0.5
_REDIAL_S = 0.1
AHEAD_TRIES_MAX = 10
AHEAD_PAUSE_S = 1.0
CONNECTIONS_MAX = 20_000

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Delivery:
    """The newest notice for one address, and the task that delivers it."""

    notice: RoleNotice
    deadline_s: float
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    sent: bool = False
    known: bool = False


class Notifier:
    """Delivers notices; one address has one notice at a time."""

    def __init__(
        self,
        on_sent: Callable[[RoleNotice], None],
        dial_at: Callable[[str], str] = str,
        broker_tls: ClientTls | None = None,
        sign: Sign | None = None,
    ) -> None:
        """Start without a connection.

        Args:
            on_sent: called with each notice when it was first written to its broker's socket.
            dial_at: returns the address at which to reach the broker that announced an address.
            broker_tls: with it, connections to brokers use TLS.
            sign: signs notices and questions, for brokers with access control.
        """
        self._dial_at = dial_at
        self._broker_tls = broker_tls
        self._sign = sign
        self._on_sent = on_sent
        self._deliveries: dict[str, _Delivery] = {}
        self._by_member: dict[ReplicaKey, _Delivery] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._connections: dict[str, Connection] = {}
        self._ahead: set[str] = set()
        self._redials = 0
        self._redials_until_s = 0.0
        self._stopped = False

    def prepare(self, address: str) -> None:
        """Keep a connection to a living member ready until the member cannot be reached any more."""
        if address not in self._ahead and not self._is_connected(address) and not self._stopped:
            self._ahead.add(address)
            self._start(self._dial_ahead(address))

    def notify(self, notices: Iterable[RoleNotice]) -> None:
        """Start delivering these notices."""
        for notice in notices:
            self._take(notice)

    async def ask(self, address: str, request: RemotingCommand, timeout_s: float) -> RemotingCommand:
        """Send a request over the connection that notices use, and return the answer.

        Raises:
            ChannelError: the broker cannot be reached, or does not answer in time.
            ValueError: the address is invalid.
        """
        connection = await self._connection(address)
        return await connection.call(request, timeout_s)

    def forget(self, address: str) -> None:
        """Close the connection to an address; the next notice or question dials again."""
        if connection := self._connections.pop(address, None):
            connection.close()

    def seen(self, key: ReplicaKey, epoch: int) -> None:
        """A member showed that it knows `epoch`: stop its notice of that epoch or an older one."""
        delivery = self._by_member.get(key)
        if delivery is not None and epoch >= delivery.notice.master_epoch:
            delivery.known = True
            delivery.changed.set()

    async def stop(self) -> None:
        """Stop all deliveries and close all connections."""
        self._stopped = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _take(self, notice: RoleNotice) -> None:
        deadline_s = asyncio.get_running_loop().time() + PERSIST_S
        running = self._deliveries.get(notice.address)
        if running is not None:
            if running.notice.key == notice.key and running.notice.master_epoch >= notice.master_epoch:
                return
            self._by_member.pop(_member(running.notice), None)
            running.notice, running.deadline_s = notice, deadline_s
            running.sent = running.known = False
            running.changed.set()
            self._by_member[_member(notice)] = running
            return
        delivery = _Delivery(notice, deadline_s)
        self._deliveries[notice.address] = self._by_member[_member(notice)] = delivery
        self._start(self._deliver(notice.address, delivery))

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _dial_ahead(self, address: str) -> None:
        try:
            for _ in range(AHEAD_TRIES_MAX):
                with contextlib.suppress(ChannelError, ValueError):
                    await self._connection(address)
                    return
                await asyncio.sleep(AHEAD_PAUSE_S)
        finally:
            self._ahead.discard(address)

    async def _deliver(self, address: str, delivery: _Delivery) -> None:
        patience_s = RESEND_S
        try:
            while not delivery.known and asyncio.get_running_loop().time() < delivery.deadline_s:
                delivery.changed.clear()
                sent = await self._send(address, delivery)
                try:
                    async with asyncio.timeout(patience_s if sent else _REDIAL_S):
                        await delivery.changed.wait()
                    patience_s = RESEND_S
                except TimeoutError:
                    patience_s *= 2 if sent else 1
                    if self._may_redial():
                        self.forget(address)
        finally:
            self._deliveries.pop(address, None)
            self._by_member.pop(_member(delivery.notice), None)

    async def _send(self, address: str, delivery: _Delivery) -> bool:
        try:
            connection = await self._connection(address)
            notice = delivery.notice  # Why read now: a newer one may have come while we dialled.
            connection.send_oneway(role_notice_frame(notice))
        except (ChannelError, ValueError) as error:
            _log.info("a notice is not delivered yet", extra=bind(address=address, error=str(error)))
            return False
        if not delivery.sent:
            delivery.sent = True
            self._on_sent(notice)
        return True

    def _may_redial(self) -> bool:
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._redials_until_s:
            self._redials, self._redials_until_s = 0, now_s + 1.0
        self._redials += 1
        return self._redials <= REDIALS_PER_S

    def _is_connected(self, address: str) -> bool:
        connection = self._connections.get(address)
        return (
            connection is not None and not connection.is_closed and connection.label == self._dial_at(address)
        )

    async def _connection(self, address: str) -> Connection:
        if self._is_connected(address):
            return self._connections[address]
        self.forget(address)  # it is closed, or leads to another broker
        dialled = self._dial_at(address)
        connection = await connect(
            *read_host_port(dialled), DIAL_TIMEOUT_S, client_tls=self._broker_tls, sign=self._sign
        )
        connection.label = dialled
        if self._is_connected(address):
            connection.close()  # a concurrent dial was quicker
            return self._connections[address]
        if len(self._connections) >= CONNECTIONS_MAX:
            oldest = next(iter(self._connections))
            self._connections.pop(oldest).close()
        self._connections[address] = connection
        connection.on_closed(lambda ended, _reason: self._closed(address, ended))
        return connection

    def _closed(self, address: str, connection: Connection) -> None:
        if self._connections.get(address) is connection:
            del self._connections[address]
            self.prepare(address)


def _member(notice: RoleNotice) -> ReplicaKey:
    return ReplicaKey(*notice.key, notice.broker_id)
