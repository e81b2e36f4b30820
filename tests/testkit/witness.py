"""Two witnesses of who is master: a writer that knows one broker only, and a log of what a broker says of its role.

A client that asks for routes writes to whoever it is told; whether two brokers took writes at the same time it cannot say.
A `DirectWriter` sends to one address, whatever that broker is, and keeps every answer; a `RoleLog` asks the same broker
again and again whether it is master, and in which epoch. One of each beside every broker, on one clock, says which of them
acknowledged what when.
"""

import asyncio
import contextlib
import time
from dataclasses import dataclass

from controller_core.channel import ChannelError, Connection, connect
from controller_core.remoting.codes import ResponseCode
from controller_core.remoting.errors import RemotingProtocolError
from ha_sidecar.roles.asking import Asker, AskError
from ha_sidecar.roles.config import host_port
from ha_sidecar.roles.looking import ask_broker
from slo_pipeline.canary.requests import send_request
from testkit.load import ACKNOWLEDGED, Send

_INTERVAL_S = 0.02
_CALL_TIMEOUT_S = 5.0
_AGAIN_S = 0.1


class DirectWriter:
    """Sends one message after another to one broker; `run` never ends by itself.

    Attributes:
        sends: every send with its answer, in order.
    """

    def __init__(self, address: str, group: str, topic: str, first_sequence: int) -> None:
        """Name the broker; keys are `group-sequence`, counted from `first_sequence`."""
        self.sends: list[Send] = []
        self._address = address
        self._group = group
        self._topic = topic
        self._sequence = first_sequence
        self._answered = asyncio.Event()

    @property
    def acknowledged(self) -> list[Send]:
        """The sends that the broker promised to keep."""
        return [send for send in self.sends if send.acknowledged]

    async def wait_acknowledged(self, count: int, timeout_s: float) -> None:
        """Wait for so many more promises.

        Raises:
            TimeoutError: they do not come.
        """
        wanted = len(self.acknowledged) + count
        async with asyncio.timeout(timeout_s):
            while len(self.acknowledged) < wanted:
                self._answered.clear()
                await self._answered.wait()

    async def run(self) -> None:
        """Send until cancelled; a broker that does not answer is dialled again."""
        while True:
            try:
                connection = await connect(*host_port(self._address), 1.0)
            except ChannelError:
                await asyncio.sleep(_AGAIN_S)
                continue
            try:
                with contextlib.suppress(ChannelError):
                    while True:
                        await self._send(connection)
                        await asyncio.sleep(_INTERVAL_S)
            finally:
                connection.close()

    async def _send(self, connection: Connection) -> None:
        self._sequence += 1
        start_ns = time.time_ns()
        request = send_request(self._topic, self._group, 0, self._sequence, b"direct", start_ns // 1_000_000)
        status = "UNANSWERED"
        try:
            answer = await connection.call(request, _CALL_TIMEOUT_S)
            status = ACKNOWLEDGED if answer.code == ResponseCode.SUCCESS else str(answer.code)
        finally:
            key = f"{self._group}-{self._sequence}"
            self.sends.append(
                Send(self._sequence, key, start_ns, time.time_ns(), status, self._address, 0, None)
            )
            self._answered.set()


@dataclass(frozen=True, slots=True)
class RoleSeen:
    """What a broker said of itself at a time, UTC."""

    ts_ns: int
    is_master: bool
    epoch: int


class RoleLog:
    """Asks one broker for its role; `run` never ends by itself.

    Attributes:
        seen: every answer, in order.
    """

    def __init__(self, address: str) -> None:
        """Name the broker."""
        self.seen: list[RoleSeen] = []
        self._address = address

    @property
    def epochs_as_master(self) -> set[int]:
        """The newest epochs of its log while it took itself for the master."""
        return {role.epoch for role in self.seen if role.is_master}

    async def run(self) -> None:
        """Ask until cancelled."""
        asker = Asker(host_port(self._address))
        try:
            while True:
                with contextlib.suppress(AskError, RemotingProtocolError):
                    facts = await ask_broker(asker, self._address)
                    self.seen.append(RoleSeen(time.time_ns(), facts.is_master, facts.last_epoch))
                await asyncio.sleep(_INTERVAL_S)
        finally:
            asker.close()
