"""The transport between controllers: accepted peers, dropped messages.

A peer does not hold up another.
"""

import asyncio
import contextlib
import logging
import struct
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import msgspec
import pytest

from controller_core.raft.types import (
    ConfState,
    Entry,
    LogIndex,
    Message,
    MessageType,
    NodeId,
    Snapshot,
    Term,
)
from controller_core.server.peers import codec, links
from controller_core.server.peers import transport as transport_module
from controller_core.server.peers.codec import Greeting
from controller_core.server.peers.transport import PeerTransport
from testkit.fakes.peer_receiver import RecordingReceiver
from testkit.processes.ports import free_port

WITHIN_S = 60.0
"""How long anything is waited for; only a test that hangs waits so long."""
FENCE = Term(2**40)


@pytest.fixture(autouse=True)
def _unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the kernel wait for this process too when it stands still with something to read."""
    monkeypatch.setattr(links, "SILENT_MS_MAX", 600_000)


@contextlib.asynccontextmanager
async def transports(
    count: int = 2, clusters: dict[int, str] | None = None
) -> AsyncIterator[list[tuple[PeerTransport, RecordingReceiver]]]:
    addresses = {node_id: ("127.0.0.1", free_port()) for node_id in range(1, count + 1)}
    made = []
    for node_id in addresses:
        cluster = (clusters or {}).get(node_id, "main")
        made.append((PeerTransport(cluster, node_id, addresses, bind_host="127.0.0.1"), RecordingReceiver()))
    for transport, ear in made:
        await transport.start(ear)
    try:
        yield made
    finally:
        for transport, _ in made:
            await transport.stop()


def beat(from_: int, to: int, term: int = 1) -> Message:
    return Message(MessageType.HEARTBEAT, NodeId(to), NodeId(from_), Term(term))


async def send_until_heard(transport: PeerTransport, message: Message, ear: RecordingReceiver) -> None:
    """Send repeatedly, as Raft does, until the other end has received all messages up to then."""
    async with asyncio.timeout(WITHIN_S):
        while ear.messages.empty():
            transport.send([message])
            await asyncio.sleep(0.02)
        transport.send([replace(message, term=FENCE)])
        while (await ear.messages.get()).term != FENCE:
            pass


async def until_lost(transport: PeerTransport, node_id: int) -> None:
    """Wait until a transport knows that a peer is gone."""
    async with asyncio.timeout(WITHIN_S):
        while node_id in transport._links:  # noqa: ASYNC110 - without a notification
            await asyncio.sleep(0.005)


async def refuse(port: int, frame: bytes) -> str:
    """Greet a node by hand and return its reason to refuse, "" if it accepts."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(frame)
        (length,) = struct.unpack(">I", await asyncio.wait_for(reader.readexactly(4), WITHIN_S))
        return codec.decode_reply(await reader.readexactly(length)).reason
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def test_messages_arrive_in_order() -> None:
    async with transports() as [(first, _), (_, ear)]:
        await send_until_heard(first, beat(1, 2, 0), ear)
        first.send([beat(1, 2, term) for term in range(1, 500)])
        assert [(await ear.messages.get()).term for _ in range(1, 500)] == list(range(1, 500))


async def test_a_message_to_a_peer_that_is_away_is_dropped_and_reported() -> None:
    async with transports() as [(first, ear), (second, _)]:
        await second.stop()
        async with asyncio.timeout(WITHIN_S):
            while ear.unreachable.empty():
                first.send([beat(1, 2)])
                await asyncio.sleep(0.01)
        assert ear.unreachable.get_nowait() == 2


async def test_a_peer_that_comes_back_is_dialled_again() -> None:
    addresses = {1: ("127.0.0.1", free_port()), 2: ("127.0.0.1", free_port())}
    first, own = PeerTransport("main", 1, addresses, bind_host="127.0.0.1"), RecordingReceiver()
    await first.start(own)
    for _ in range(3):
        second, ear = PeerTransport("main", 2, addresses, bind_host="127.0.0.1"), RecordingReceiver()
        await second.start(ear)
        await send_until_heard(first, beat(1, 2), ear)
        await second.stop()
    await first.stop()


async def test_a_snapshot_that_left_is_reported() -> None:
    snapshot = Snapshot(LogIndex(9), Term(1), ConfState(voters=(NodeId(1),)), bytes(3_000_000))
    message = Message(MessageType.SNAP, NodeId(2), NodeId(1), Term(1), snapshot=snapshot)
    async with transports() as [(first, own), (_, ear)]:
        await send_until_heard(first, beat(1, 2), ear)
        first.send([message])
        assert (await asyncio.wait_for(ear.messages.get(), WITHIN_S)).snapshot == snapshot
        assert await asyncio.wait_for(own.snapshots.get(), WITHIN_S) == (2, True)


async def test_a_large_snapshot_holds_up_no_heartbeat_and_little_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = bytes(range(256)) * 4 * 1024 * 20  # 20 MiB
    snapshot = Snapshot(LogIndex(9), Term(1), ConfState(voters=(NodeId(1),)), data)
    message = Message(MessageType.SNAP, NodeId(2), NodeId(1), Term(1), snapshot=snapshot)
    waiting_bytes: list[int] = []
    parts = codec.encode_parts

    def watched(data: bytes) -> Iterator[bytes]:
        for part in parts(data):
            yield part
            first.send([beat(1, 2, len(waiting_bytes))])
            transport = first._links[2]._transport
            assert transport is not None
            waiting_bytes.append(transport.get_write_buffer_size())

    monkeypatch.setattr(links, "encode_parts", watched)
    async with transports() as [(first, own), (_, ear)]:
        await send_until_heard(first, beat(1, 2), ear)
        while not ear.messages.empty():
            ear.messages.get_nowait()
        first.send([message])
        heard = [await asyncio.wait_for(ear.messages.get(), WITHIN_S)]
        while heard[-1].snapshot is None:
            heard.append(await asyncio.wait_for(ear.messages.get(), WITHIN_S))
        assert heard[-1] == message
        assert len(heard) > 50
        assert await asyncio.wait_for(own.snapshots.get(), WITHIN_S) == (2, True)
    assert max(waiting_bytes) < 2 * codec.PART_BYTES


async def test_a_snapshot_whose_connection_breaks_is_reported_as_failed() -> None:
    data = bytes(20 * 1024 * 1024)
    message = Message(
        MessageType.SNAP, NodeId(2), NodeId(1), Term(1), snapshot=Snapshot(LogIndex(9), data=data)
    )
    async with transports() as [(first, own), (second, ear)]:
        await send_until_heard(first, beat(1, 2), ear)
        first.send([message])
        await second.stop()
        assert await asyncio.wait_for(own.snapshots.get(), WITHIN_S) == (2, False)


async def test_a_snapshot_to_a_peer_that_is_away_is_reported_as_failed() -> None:
    message = Message(MessageType.SNAP, NodeId(2), NodeId(1), Term(1), snapshot=Snapshot(LogIndex(9)))
    async with transports() as [(first, own), (second, ear)]:
        await send_until_heard(first, beat(1, 2), ear)
        await second.stop()
        await until_lost(first, 2)
        first.send([message])
        assert await asyncio.wait_for(own.snapshots.get(), WITHIN_S) == (2, False)


async def test_a_peer_that_does_not_read_costs_nobody_else_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "SEND_BUFFER_BYTES_MAX", 1_000_000)
    addresses = {node_id: ("127.0.0.1", free_port()) for node_id in (1, 2, 3)}

    async def accept_and_fall_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(codec.encode_reply(codec.GreetingReply()))
        reader._transport.pause_reading()  # type: ignore[attr-defined] # a process that was stopped
        writers.append(writer)

    writers: list[asyncio.StreamWriter] = []
    deaf = await asyncio.start_server(accept_and_fall_silent, *addresses[3])
    first, own = PeerTransport("main", 1, addresses, bind_host="127.0.0.1"), RecordingReceiver()
    second, ear = PeerTransport("main", 2, addresses, bind_host="127.0.0.1"), RecordingReceiver()
    await first.start(own)
    await second.start(ear)
    await send_until_heard(first, beat(1, 2), ear)
    while not own.unreachable.empty():
        own.unreachable.get_nowait()
    large = Message(
        MessageType.APP, NodeId(3), NodeId(1), entries=(Entry(Term(1), LogIndex(1), data=bytes(500_000)),)
    )
    for term in range(100):
        first.send([large, beat(1, 2, term)])
    heard = [(await asyncio.wait_for(ear.messages.get(), WITHIN_S)).term for _ in range(100)]
    assert heard == list(range(100))
    reported = await asyncio.wait_for(own.unreachable.get(), WITHIN_S)
    await first.stop()
    await second.stop()
    for writer in writers:
        writer.transport.abort()
    deaf.close()
    await deaf.wait_closed()
    assert reported == 3


@pytest.mark.parametrize(
    ("greeting", "reason"),
    [
        (Greeting(2, "other", 2, 1), "cluster 'other', this node belongs to 'main'"),
        (Greeting(3, "main", 2, 1), "protocol version 3, this node speaks 2"),
        (Greeting(2, "main", 2, 3), "meant for node 3, this is node 1"),
        (Greeting(2, "main", 7, 1), "node 7 is not a peer of node 1"),
        (Greeting(2, "main", 1, 1), "node 1 is not a peer of node 1"),
        (Greeting(2, "main", 2, 1), ""),
    ],
)
async def test_a_greeting_is_refused_with_its_reason(greeting: Greeting, reason: str) -> None:
    async with transports() as [(first, _), _]:
        assert await refuse(first.port, codec.encode_greeting(greeting)) == reason


async def test_a_refusal_is_logged_once_on_both_sides(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport_module, "REFUSED_PAUSE_S", 0.01)
    refusals: list[int] = []
    note = PeerTransport._note_refusal

    def noted(transport: PeerTransport, node_id: int, reply: codec.GreetingReply) -> None:
        note(transport, node_id, reply)
        refusals.append(node_id)

    monkeypatch.setattr(PeerTransport, "_note_refusal", noted)
    with caplog.at_level(logging.ERROR):
        async with transports(2, {2: "other"}), asyncio.timeout(WITHIN_S):
            while min(refusals.count(1), refusals.count(2)) < 3:  # noqa: ASYNC110 - without a notification
                await asyncio.sleep(0.005)
    said = [record.getMessage() for record in caplog.records]
    assert sum("node 2 refuses us: cluster 'main'" in text for text in said) == 1
    assert sum("node 1 refuses us: cluster 'other'" in text for text in said) == 1


@pytest.mark.parametrize(
    "frames",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">I", 3) + b"abc",
        struct.pack(">I", 1 << 20),
        codec.encode_greeting(Greeting(2, "main", 2, 1)) + struct.pack(">I", 3) + b"abc",
        codec.encode_greeting(Greeting(2, "main", 2, 1)) + codec.encode_message(beat(3, 1)),
        codec.encode_greeting(Greeting(2, "main", 2, 1)) + codec.encode_message(beat(2, 3)),
        codec.encode_greeting(Greeting(2, "main", 2, 1))
        + struct.pack(">I", len(msgspec.msgpack.encode((3, 99))))
        + msgspec.msgpack.encode((3, 99)),
    ],
)
async def test_who_talks_rubbish_is_cut_off_and_nothing_reaches_the_node(frames: bytes) -> None:
    async with transports() as [(first, ear), _]:
        reader, writer = await asyncio.open_connection("127.0.0.1", first.port)
        writer.write(frames)
        with contextlib.suppress(ConnectionError):
            await asyncio.wait_for(reader.read(), WITHIN_S)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        assert ear.messages.empty()


async def test_who_says_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "GREETING_S_MAX", 0.05)
    async with transports() as [(first, _), _]:
        reader, writer = await asyncio.open_connection("127.0.0.1", first.port)
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), WITHIN_S) == b""
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def test_peers_can_move_join_and_leave() -> None:
    async with transports(3) as [(first, own), (second, ear), (third, other)]:
        await send_until_heard(first, beat(1, 2), ear)
        first.remove_peer(2)
        first.send([beat(1, 2)])
        assert await asyncio.wait_for(own.unreachable.get(), WITHIN_S) == 2
        first.set_peer(2, ("127.0.0.1", second.port))
        await send_until_heard(first, beat(1, 2), ear)
        await send_until_heard(first, beat(1, 3), other)
        assert third.port != second.port
