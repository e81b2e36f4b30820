"""Replication between modelled brokers, as AutoSwitchHA does it, with plain objects for bytes.

    slave -> master   hello: id, the epoch it knows, its log's end
    master -> slave   epochs: the master's epoch, its list, its log's end
    slave             cuts its log to what both have
    slave -> master   from: the offset it goes on at
    master -> slave   data: an offset and the records from there       (again and again)
    slave -> master   ack: its log's end
    client -> master  send: a number, a message
    master -> client  the number, a result, an epoch

A master refuses a slave that knows a higher epoch, a slave refuses a master of a lower one.
"""

import asyncio
import contextlib
from typing import Any, Protocol, cast

from testkit.sim.brokers.broker_log import BrokerLog, LoggedMessage

TELL_S = 2.0
"""How often a slave says how far its log goes, when nothing else makes it."""


class ObjectWriter(Protocol):
    """Writes objects to the other end."""

    def write(self, data: Any) -> None:
        """Send an object."""
        ...

    def close(self) -> None:
        """End the link."""
        ...


class LinkOwner(Protocol):
    """What the ends of links ask of their broker."""

    log: BrokerLog
    broker_id: int
    epoch: int

    @property
    def is_master(self) -> bool:
        """Whether it is master now."""
        ...

    def slave_started(self, port: "BrokerPort", slave_id: int, offset: int) -> None:
        """A slave goes on at an offset."""
        ...

    def slave_acked(self, port: "BrokerPort", offset: int) -> None:
        """A slave has everything before an offset."""
        ...

    def slave_left(self, port: "BrokerPort") -> None:
        """A slave's link ended."""
        ...

    def client_sent(self, port: "BrokerPort", number: int, message: str) -> None:
        """A client wants a message kept."""
        ...


class BrokerPort(asyncio.Protocol):
    """A broker's end of a link that somebody dialled."""

    def __init__(self, owner: LinkOwner) -> None:
        self.owner = owner
        self.link: ObjectWriter | None = None
        self.slave_id = 0
        self.sent_end = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the link."""
        self.link = cast("ObjectWriter", transport)

    def data_received(self, data: Any) -> None:
        """Take an object."""
        if self.link is None:
            return
        match data:
            case ("send", int(number), str(message)):
                self.owner.client_sent(self, number, message)
            case ("hello", int(), int(epoch), int()):
                if not self.owner.is_master or epoch > self.owner.epoch:
                    self.link.close()
                    return
                log = self.owner.log
                self.link.write(("epochs", self.owner.epoch, log.epochs, log.end))
            case ("from", int(slave_id), int(offset)):
                self.slave_id, self.sent_end = slave_id, offset
                self.owner.slave_started(self, slave_id, offset)
                self.push()
            case ("ack", int(offset)):
                self.owner.slave_acked(self, offset)

    def push(self) -> None:
        """Send what the slave was not sent yet."""
        log = self.owner.log
        if self.link is not None and self.sent_end < log.end:
            self.link.write(("data", self.sent_end, log.records[self.sent_end :]))
            self.sent_end = log.end

    def answer(self, number: int, result: str, epoch: int) -> None:
        """Answer a client."""
        if self.link is not None:
            self.link.write((number, result, epoch))

    def end(self) -> None:
        """End the link."""
        if self.link is not None:
            self.link.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """The link ended."""
        self.link = None
        if self.slave_id:
            self.owner.slave_left(self)


class SlaveEnd(asyncio.Protocol):
    """A slave's end of the link to its master."""

    def __init__(self, owner: LinkOwner) -> None:
        self.owner = owner
        self.ended = asyncio.Event()
        self._link: ObjectWriter | None = None
        self._goes_on = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Introduce ourselves."""
        self._link = cast("ObjectWriter", transport)
        self._link.write(("hello", self.owner.broker_id, self.owner.epoch, self.owner.log.end))

    def data_received(self, data: Any) -> None:
        """Take an object of the master."""
        if self._link is None:
            return
        log = self.owner.log
        match data:
            case ("epochs", int(epoch), epochs, int(end)):
                if epoch < self.owner.epoch:
                    self.close()
                    return
                log.truncate(log.common_end(epochs, end))
                self._link.write(("from", self.owner.broker_id, log.end))
                self._goes_on = True
            case ("data", int(offset), list() as records):
                if offset != log.end:
                    self.close()
                    return
                log.receive(cast("list[LoggedMessage]", records))
                self._link.write(("ack", log.end))

    async def lasts(self) -> None:
        """Report the log's end to the master periodically until the link ends.

        The reports reveal a dead link.
        """
        try:
            while not self.ended.is_set():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.ended.wait(), TELL_S)
                if self._link is not None and self._goes_on:
                    self._link.write(("ack", self.owner.log.end))
        finally:
            self.close()

    def close(self) -> None:
        """End the link."""
        link, self._link = self._link, None
        if link is not None:
            link.close()
        self.ended.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """The link ended."""
        self._link = None
        self.ended.set()
