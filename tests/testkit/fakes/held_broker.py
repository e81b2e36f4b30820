"""A broker's port that a test holds.

There are clients, the controllers' answers, and a successor that takes sends or not yet.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from typing import Final, cast

from controller_core.groups.keys import BrokerId
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.frame import FrameDecoder, encode
from controller_core.tls.serving import MemberTls
from ha_sidecar.common.events import EventLog
from ha_sidecar.companion.holding.client_hold import ClientHold
from ha_sidecar.companion.holding.hold_port import HoldPort
from ha_sidecar.companion.holding.relaying import SENDS
from ha_sidecar.companion.holding.served_elsewhere import ServedClients
from ha_sidecar.decisions.broker_facts import GroupFacts
from testkit.processes.ports import free_port

WITHIN_S: Final = 20.0
V5_2_0: Final = 453
V5_5_0: Final = 513
"""MQVersion's ordinals, as clients send them."""
BEFORE: Final = GroupFacts(BrokerId(1), "a:1", 3, (BrokerId(1), BrokerId(2), BrokerId(3)), ())


def request(
    version: int,
    opaque: int = 7,
    flag: int = 0,
    code: int = RequestCode.SEND_MESSAGE_V2,
    body: bytes = b"hello",
    ext: dict[str, str] | None = None,
) -> bytes:
    """Return what a client of that version asks; a send unless told."""
    return encode(RemotingCommand(code, opaque, flag, body=body, version=version, ext=ext))


async def shake_hands_late(writer: asyncio.StreamWriter, tls: ssl.SSLContext, delay_s: float) -> bool:
    """Begin the handshake of a new connection after a delay; return whether it succeeded."""
    # The client's first bytes are for the handshake, not for the reader.
    cast("asyncio.Transport", writer.transport).pause_reading()
    await asyncio.sleep(delay_s)
    try:
        await writer.start_tls(tls)
    except (OSError, ssl.SSLError):
        return False
    return True


class Successor:
    """A new master's port: refuses a set number of times, and then stores every message.

    Attributes:
        refusals: code and remark of the answers to come, before anything is stored.
        stored: bodies, in their order.
        others: requests other than sends.
        came: set by the first request.
        is_mute: answers nothing, until it is to `speak`.
        silences_s: how late it begins the handshake of each of the first connections, in their order.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        """Prepare; `start` makes it listen, with `tls` in TLS."""
        self.silences_s: list[float] = []
        self.refusals: list[tuple[int, str]] = []
        self.stored: list[bytes] = []
        self.refused = self.others = 0
        self.came = asyncio.Event()
        self.is_mute = False
        self.address = ("", 0)
        self._server: asyncio.Server | None = None
        self._tls = tls
        self._connections: list[asyncio.StreamWriter] = []
        self._waiting: list[tuple[asyncio.StreamWriter, RemotingCommand]] = []

    async def start(self) -> None:
        """Listen on a port of its own."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1")
        self.address = self._server.sockets[0].getsockname()

    def speak(self) -> None:
        """Answer the requests that came while it was mute."""
        self.is_mute = False
        for writer, command in self._waiting:
            writer.write(encode(self._answer(command)))

    def stop(self) -> None:
        """End it and its connections."""
        assert self._server is not None
        self._server.close()
        for writer in self._connections:
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.append(writer)
        silence_s = self.silences_s.pop(0) if self.silences_s else 0
        if self._tls is None or await shake_hands_late(writer, self._tls, silence_s):
            await self._serve(reader, writer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        decoder = FrameDecoder()
        while data := await reader.read(1 << 16):
            for command in decoder.feed(data):
                self.came.set()
                if self.is_mute:
                    self._waiting.append((writer, command))
                else:
                    writer.write(encode(self._answer(command)))

    def _answer(self, command: RemotingCommand) -> RemotingCommand:
        if command.code not in SENDS:
            self.others += 1
        if self.refusals:
            self.refused += 1
            code, remark = self.refusals.pop(0)
            return RemotingCommand.response_to(command, code, remark=remark)
        self.stored.append(command.body)
        return RemotingCommand.response_to(command, ResponseCode.SUCCESS, ext={"msgId": "1"})


class Place:
    """A broker's port, what the controllers say, and the hold that watches."""

    def __init__(self, hold_ms: int = 60_000, tls: MemberTls | None = None) -> None:
        """Prepare; `hold.run` watches."""
        self.port, self.hold_port = free_port(), free_port()
        self.room = HoldPort(self.hold_port)
        self.mastered: GroupFacts | None = BEFORE
        self.is_settled = self.is_own_served = self.hangs = False
        self.questions = self.questions_max = 0
        self.successor: Successor | None = None
        self._broker: asyncio.Server | None = None
        self._connections: list[asyncio.StreamWriter] = []
        self._clients: list[asyncio.StreamWriter] = []
        self._connected = asyncio.Event()
        self.events = EventLog("c", "g")
        self.hold = ClientHold(
            ("127.0.0.1", self.port),
            hold_ms,
            lambda: self.mastered,
            self.events,
            self._settled,
            self.room,
            tls,
        )

    async def _settled(
        self, before: GroupFacts, on_successor: Callable[[tuple[str, int]], None]
    ) -> ServedClients:
        assert before is self.mastered
        if self.successor is not None:
            on_successor(self.successor.address)
        self.questions += 1
        self.questions_max = max(self.questions_max, self.questions)
        try:
            if self.hangs:
                await asyncio.Event().wait()
            own = ServedClients.OWN if self.is_own_served else ServedClients.NONE
            return ServedClients.ALL if self.is_settled else own
        finally:
            self.questions -= 1

    async def _take(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.append(writer)
        self._connected.set()

    async def start_broker(self) -> None:
        """Listen, and wait until the hold has connected."""
        self._broker = await asyncio.start_server(self._take, "127.0.0.1", self.port)
        async with asyncio.timeout(WITHIN_S):
            await self._connected.wait()

    def drop_connections(self) -> None:
        """Close the open connections, and go on listening."""
        self._connected.clear()
        while self._connections:
            writer = self._connections.pop()
            writer.transport.abort()

    async def wait_connected(self) -> None:
        """Wait for the hold's next connection."""
        async with asyncio.timeout(WITHIN_S):
            await self._connected.wait()

    def kill_broker(self) -> None:
        """Close all at once, as the kernel does for a process that was killed."""
        assert self._broker is not None
        self._broker.close()
        self.drop_connections()

    async def client(
        self,
        *asked: bytes,
        port: int | None = None,
        tls: ssl.SSLContext | None = None,
        source: str = "127.0.0.1",
    ) -> asyncio.StreamReader:
        """Connect as a client, as often as needed, and ask; by default like 5.2.0 at the broker's port."""
        async with asyncio.timeout(WITHIN_S):
            while True:
                with contextlib.suppress(OSError):
                    reader, writer = await asyncio.open_connection(
                        "127.0.0.1", port or self.port, ssl=tls, local_addr=(source, 0)
                    )
                    writer.writelines(asked or [request(V5_2_0)])
                    self._clients.append(writer)
                    return reader
                await asyncio.sleep(0.001)

    def told(self) -> list[tuple[str, int, str | None]]:
        """Return what the hold has told: kind, epoch, and whether there was a successor."""
        return [
            (event["kind"], event["epoch"], event["attrs"].get("settled")) for event in self.events.after(0)
        ]

    async def stop(self, running: asyncio.Task[None]) -> None:
        """End the hold, the broker and the clients."""
        self.is_settled = True
        if not running.cancelling():
            running.cancel()
        await asyncio.wait([running])
        if self._broker is not None:
            self.kill_broker()
        self.leave()

    def leave(self) -> None:
        """End all clients."""
        while self._clients:
            writer = self._clients.pop()
            writer.transport.abort()


async def closed(client: asyncio.StreamReader) -> None:
    """Wait until the client is disconnected."""
    async with asyncio.timeout(WITHIN_S):
        with contextlib.suppress(ConnectionError):
            assert await client.read() == b""


async def answers(client: asyncio.StreamReader, count: int | None = None) -> list[RemotingCommand]:
    """Return what a client is answered: so many answers, or all until it is disconnected."""
    found: list[RemotingCommand] = []
    decoder = FrameDecoder()
    async with asyncio.timeout(WITHIN_S):
        while (count is None or len(found) < count) and (data := await client.read(1 << 16)):
            found += decoder.feed(data)
    return found


async def is_held(client: asyncio.StreamReader) -> bool:
    """Say whether nothing arrives for a while."""
    reading = asyncio.ensure_future(client.read())
    done, _ = await asyncio.wait([reading], timeout=0.2)
    reading.cancel()
    await asyncio.wait([reading])
    return not done
