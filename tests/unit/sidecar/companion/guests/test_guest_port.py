"""Guests reach the broker with every byte, and are sent home when the address leads elsewhere."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controller_core.remoting.bodies import HARuntimeInfo
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.frame import FrameDecoder, encode
from controller_core.tls.files import ENFORCING, PERMISSIVE
from controller_core.tls.serving import MemberTls
from ha_sidecar import limits
from ha_sidecar.companion.guests import guest, guest_port
from ha_sidecar.companion.guests.guest_port import GuestPort
from testkit.processes.certificates import Authority
from testkit.processes.ports import free_port

WITHIN_S = 20.0
QUESTION = str(int(RequestCode.GET_BROKER_HA_STATUS)).encode()
LARGE_BYTES = 8 * 1024 * 1024


class EchoingBroker:
    """Sends back what it reads, remembers its connections, and answers questions (907) on others."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.port = free_port()
        self.is_master = True
        self.asked = asyncio.Event()
        self.writers: list[asyncio.StreamWriter] = []
        self.came = asyncio.Event()
        self._context = context
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self._context)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, ssl.SSLError):
            data = await reader.read(65_536)
            if QUESTION in data:
                await self._answer(data, reader, writer)
            else:
                self.writers.append(writer)
                self.came.set()
                await self._echo(data, reader, writer)
        writer.close()

    async def _echo(self, data: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data:
            writer.write(data)
            await writer.drain()
            data = await reader.read(65_536)

    async def _answer(self, data: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        decoder = FrameDecoder()
        while data:
            for question in decoder.feed(data):
                body = HARuntimeInfo(master=self.is_master).encode()
                writer.write(encode(RemotingCommand.response_to(question, ResponseCode.SUCCESS, body=body)))
            self.asked.set()
            data = await reader.read(65_536)

    def stop(self) -> None:
        """End the port and all connections."""
        assert self._server is not None
        self._server.close()
        for writer in self.writers:
            writer.transport.abort()


class Entrance:
    """A guest port before an echoing broker; its address leads here while `is_lent`."""

    def __init__(self, tls: MemberTls | None = None, context: ssl.SSLContext | None = None) -> None:
        self.broker = EchoingBroker(context)
        self.is_lent = True
        self.looks = 0
        self.number = free_port()
        self.port = GuestPort(self.number, ("127.0.0.1", self.broker.port), self._look, lambda: None, tls)
        self.running: asyncio.Task[None] | None = None
        self._writers: list[asyncio.StreamWriter] = []

    async def _look(self) -> bool:
        self.looks += 1
        return self.is_lent

    async def start(self, *, broker: bool = True) -> None:
        """Open the port, and start the broker unless told otherwise."""
        if broker:
            await self.broker.start()
        self.running = asyncio.create_task(self.port.run())
        async with asyncio.timeout(WITHIN_S):
            while not self.port.is_open:  # noqa: ASYNC110 - of another thread
                await asyncio.sleep(0.01)

    async def guest(
        self, tls: ssl.SSLContext | None = None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Come in."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.number, ssl=tls)
        self._writers.append(writer)
        return reader, writer

    async def stop(self) -> None:
        """End all."""
        assert self.running is not None
        self.running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.running
        self.broker.stop()
        for writer in self._writers:
            writer.close()
            with contextlib.suppress(OSError, ssl.SSLError):
                await writer.wait_closed()


@pytest.fixture
async def entrance(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Entrance]:
    monkeypatch.setattr(guest_port, "LOOK_S", 0.02)
    monkeypatch.setattr(guest_port, "TURN_S", 0.02)
    monkeypatch.setattr(guest, "QUIET_S", 0.1)
    made = Entrance()
    await made.start()
    yield made
    await made.stop()


async def _echoed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: bytes) -> bytes:
    writer.write(data)
    async with asyncio.timeout(WITHIN_S):
        return await reader.readexactly(len(data))


def _frame(body: bytes, code: int = RequestCode.SEND_MESSAGE_V2) -> bytes:
    return encode(RemotingCommand.request(code, {}, body))


def _heartbeat() -> bytes:
    names = {"clientID": "c", "consumerDataSet": [{"groupName": "g"}], "producerDataSet": []}
    return _frame(json.dumps(names).encode(), RequestCode.HEART_BEAT)


async def test_bytes_pass_both_ways(entrance: Entrance) -> None:
    reader, writer = await entrance.guest()
    assert await _echoed(reader, writer, _frame(b"one")) == _frame(b"one")
    assert await _echoed(reader, writer, _frame(bytes(300_000))) == _frame(bytes(300_000))
    assert entrance.port.guests == 1
    writer.close()
    async with asyncio.timeout(WITHIN_S):
        while entrance.port.guests:  # noqa: ASYNC110 - of another thread
            await asyncio.sleep(0.01)


async def test_the_broker_does_not_see_a_guests_consumers(entrance: Entrance) -> None:
    reader, writer = await entrance.guest()
    writer.write(_heartbeat())
    decoder, found = FrameDecoder(), list[RemotingCommand]()
    async with asyncio.timeout(WITHIN_S):
        while not found:
            found = decoder.feed(await reader.read(65_536))
    assert json.loads(found[0].body)["consumerDataSet"] == []
    assert entrance.port.emptied == 1


async def test_guests_stay_while_the_address_leads_here_and_go_when_it_does_not(entrance: Entrance) -> None:
    reader, writer = await entrance.guest()
    await _echoed(reader, writer, _frame(b"one"))
    async with asyncio.timeout(WITHIN_S):
        while entrance.looks < 20:  # noqa: ASYNC110 - of a task
            await asyncio.sleep(0.01)
    assert await _echoed(reader, writer, _frame(b"two")) == _frame(b"two")
    entrance.is_lent = False
    async with asyncio.timeout(WITHIN_S):
        assert await reader.read() == b""
    assert entrance.port.guests == 0


async def test_a_guest_that_comes_before_the_broker_is_back_waits_for_it(entrance: Entrance) -> None:
    entrance.broker.stop()
    reader, writer = await entrance.guest()
    writer.write(_frame(b"early"))
    await asyncio.sleep(0.05)  # several dials are refused
    await entrance.broker.start()
    async with asyncio.timeout(WITHIN_S):
        assert await reader.readexactly(len(_frame(b"early"))) == _frame(b"early")


async def test_what_a_guest_sends_reaches_no_broker_that_is_not_master_yet(entrance: Entrance) -> None:
    entrance.broker.is_master = False
    reader, writer = await entrance.guest()
    writer.write(_frame(b"early"))
    await asyncio.wait_for(entrance.broker.asked.wait(), WITHIN_S)
    entrance.broker.asked.clear()
    await asyncio.wait_for(entrance.broker.asked.wait(), WITHIN_S)
    assert not entrance.broker.writers
    entrance.broker.is_master = True
    async with asyncio.timeout(WITHIN_S):
        assert await reader.readexactly(len(_frame(b"early"))) == _frame(b"early")


async def test_a_guest_goes_when_no_broker_comes(entrance: Entrance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest, "DIAL_WITHIN_S", 0.05)
    entrance.broker.stop()
    reader, _ = await entrance.guest()
    async with asyncio.timeout(WITHIN_S):
        assert await reader.read() == b""


async def test_the_end_of_the_broker_ends_its_guests(entrance: Entrance) -> None:
    reader, writer = await entrance.guest()
    await _echoed(reader, writer, _frame(b"one"))
    entrance.broker.stop()
    async with asyncio.timeout(WITHIN_S):
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""


async def test_of_a_guest_that_does_not_read_little_is_kept(entrance: Entrance) -> None:
    reader, writer = await entrance.guest()
    frame = _frame(bytes(1_000_000))
    writer.write(frame * (LARGE_BYTES // len(frame)))
    await asyncio.wait_for(entrance.broker.came.wait(), WITHIN_S)
    total, wanted = 0, len(frame) * (LARGE_BYTES // len(frame))
    async with asyncio.timeout(WITHIN_S):
        while total < wanted:
            total += len(await reader.read(65_536))
    assert total == wanted


async def test_a_guest_is_ended_when_too_much_waits(
    entrance: Entrance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "GUESTS_BYTES_MAX", 0)
    reader, writer = await entrance.guest()
    frame = _frame(bytes(1_000_000))
    with contextlib.suppress(OSError):
        async with asyncio.timeout(WITHIN_S):
            while entrance.port.guests or not entrance.broker.writers:
                writer.write(frame)
                await asyncio.wait([asyncio.ensure_future(writer.drain())], timeout=0.05)
    assert entrance.port.guests == 0
    reader.feed_eof()


@pytest.mark.parametrize("in_tls", [True, False])
async def test_a_guest_is_led_to_the_broker_as_it_comes_in_tls_or_not(tmp_path: Path, in_tls: bool) -> None:
    authority = Authority(tmp_path)
    pair = authority.sign("broker")
    context = pair.server()
    made = Entrance(MemberTls(authority.member("companion"), PERMISSIVE), context if in_tls else None)
    await made.start()
    try:
        reader, writer = await made.guest(authority.client() if in_tls else None)
        assert await _echoed(reader, writer, _frame(bytes(200_000))) == _frame(bytes(200_000))
        writer.close()
    finally:
        await made.stop()


async def test_plain_guests_are_refused_where_tls_is_required(tmp_path: Path) -> None:
    made = Entrance(MemberTls(Authority(tmp_path).member("companion"), ENFORCING))
    await made.start()
    try:
        reader, writer = await made.guest()
        writer.write(_frame(b"plain"))
        async with asyncio.timeout(WITHIN_S):
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
        assert not made.broker.writers
    finally:
        await made.stop()


async def test_a_port_that_is_taken_is_an_error(entrance: Entrance) -> None:
    other = GuestPort(entrance.number, ("127.0.0.1", 1), entrance._look, lambda: None)
    with pytest.raises(OSError, match="in use"):
        await asyncio.wait_for(other.run(), WITHIN_S)
