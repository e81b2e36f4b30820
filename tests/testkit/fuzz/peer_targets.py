"""Further fuzz targets: whole parts of a process behind a reader, fed with what strangers and peers send.

Each builds its inputs from any bytes, so that the fuzzer need not guess lengths and check words first.
"""

import asyncio
import contextlib
import io
import json
import socket
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, Final, cast

import pyarrow as pa
import pyarrow.parquet as pq
from aiohttp import web
from msgspec import structs

from controller_core import bounded_json, limits
from controller_core.bounded_json import JsonError
from controller_core.log.memory import MemoryStore
from controller_core.raft.bounds import TERM_AHEAD_MAX
from controller_core.raft.config import Config
from controller_core.raft.errors import PeerMessageError, ProposalDroppedError, RefusedMessageError
from controller_core.raft.peer_checks import PeerChecks
from controller_core.raft.types import (
    ConfState,
    Entry,
    EntryType,
    LogIndex,
    Message,
    MessageType,
    NodeId,
    Snapshot,
    Term,
)
from controller_core.remoting.errors import RemotingUsageError
from controller_core.remoting.frame import decode_frame, encode
from controller_core.remoting.numbers import LogOffset
from controller_core.server.common.http_errors import HttpError
from controller_core.server.http_api.changes import ChangeRoutes, ChangesView
from controller_core.server.peers import codec as peer_codec
from controller_core.server.peers.codec import PeerProtocolError
from ha_sidecar.companion.holding.held_client import HeldClient
from ha_sidecar.epoch import EpochList
from ha_sidecar.transfer import codec
from ha_sidecar.transfer.errors import HaProtocolError
from ha_sidecar.transfer.reconcile import OwnLog, SlaveConfig
from ha_sidecar.transfer.slave import SlaveMachine
from slo_pipeline.schemas.segments import SAMPLES
from slo_pipeline.sources.layout import unusable_content
from slo_pipeline.sources.prometheus_wire import PrometheusError, read_response
from testkit.raft.group import RaftMember

_ME: Final = 1
_VOTERS: Final = ConfState(voters=(NodeId(1), NodeId(2), NodeId(3)))
_FRAME_BYTES_MAX: Final = 1 << 16
_MESSAGES_MAX: Final = 32
_LARGEST: Final = 2**64 - 1
_LOOP: Final = asyncio.new_event_loop()


class PeerFindingError(AssertionError):
    """A process took something from a peer that it must refuse."""


class _Bytes:
    """Any bytes as a row of numbers; 0 when they are used up."""

    def __init__(self, data: bytes) -> None:
        self._data: Final = data
        self._at = 0

    @property
    def is_empty(self) -> bool:
        return self._at >= len(self._data)

    def byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1] if self._at <= len(self._data) else 0

    def number(self) -> int:
        """Return a small number, or one near the end of a range."""
        kind, value = self.byte(), self.byte()
        match kind % 8:
            case 0:
                return 2**61 - 1 + value % 3
            case 1:
                return 2**64 - 1 - value % 2
            case 2:
                return 2**30 + value
            case _:
                return value % 8


def peer_messages(data: bytes) -> None:
    """Step messages of a peer whose greeting was accepted: they are refused, or Raft goes on."""
    member = RaftMember(Config(id=_ME, pre_vote=True, check_quorum=True), _store())
    checks = PeerChecks(member.raw, _ME)
    # A node that has never heard a term takes any.
    member.raw.step(Message(MessageType.HEARTBEAT, NodeId(_ME), NodeId(2), Term(2)))
    member.work()
    numbers = _Bytes(data)
    for _ in range(_MESSAGES_MAX):
        if numbers.is_empty:
            return
        before = member.raw.term
        with contextlib.suppress(
            PeerProtocolError, RefusedMessageError, PeerMessageError, ProposalDroppedError
        ):
            message = _sent(_message(numbers))
            if message is not None:
                checks.check(message)
                if _says_that_the_log_was_lost(message, member.raw.last_index):
                    return
                member.raw.step(message)
        member.work()
        if member.raw.term > before + TERM_AHEAD_MAX:
            raise PeerFindingError(f"term {member.raw.term} after {before}")


def _says_that_the_log_was_lost(message: Message, last: int) -> bool:
    """Say whether the node's own leader tells of entries that the node lacks: the core ends the node then."""
    return message.type is MessageType.HEARTBEAT and message.commit > last


def _store() -> MemoryStore:
    store = MemoryStore()
    store.apply_snapshot(Snapshot(LogIndex(1), Term(1), _VOTERS))
    return store


def _message(numbers: _Bytes) -> Message:
    kinds = tuple(MessageType)
    index, term = numbers.number(), numbers.number()
    entries = tuple(
        Entry(
            Term(numbers.number()),
            LogIndex(min(index + at, _LARGEST)),
            EntryType(0),
            bytes([numbers.byte()]),
        )
        for at in range(1, 1 + numbers.byte() % 4)
    )
    snapshot = (
        Snapshot(LogIndex(numbers.number()), Term(numbers.number()), _VOTERS, b"state")
        if numbers.byte() % 4 == 0
        else None
    )
    return Message(
        kinds[numbers.byte() % len(kinds)],
        NodeId(_ME),
        NodeId(2 + numbers.byte() % 2),
        Term(term),
        log_term=Term(numbers.number()),
        index=LogIndex(index),
        entries=entries,
        commit=LogIndex(numbers.number()),
        reject=bool(numbers.byte() % 2),
        reject_hint=LogIndex(numbers.number()),
        snapshot=snapshot,
    )


def _sent(message: Message) -> Message | None:
    """Return a message as it arrives."""
    frames = peer_codec.FrameReader(_FRAME_BYTES_MAX).feed(peer_codec.encode_message(message))
    return peer_codec.MessageReader(_FRAME_BYTES_MAX).take(frames[0])


def json_text(data: bytes) -> None:
    """Read a stranger's JSON; a value is within the bounds and can be written again."""
    try:
        value = bounded_json.decode(data)
    except JsonError:
        return
    bounded_json.check_depth(value)
    if bounded_json.decode(json.dumps(value)) != value:
        raise PeerFindingError(f"{data!r} is read as {value!r}, which is another value when written")


def http_change(data: bytes) -> None:
    """Send a body to each path of a controller that changes something: an answer, or `HttpError`."""
    routes = ChangeRoutes(cast("ChangesView", _View()))
    for route in routes.routes():
        request = SimpleNamespace(
            read=lambda: _answer(data),
            remote="127.0.0.1",
            transport=None,
            secure=False,
            headers={"Authorization": data[:40].decode(errors="surrogateescape")},
            match_info={"cluster": "c", "name": "g"},
            path_qs=route.path,
        )
        request.clone = lambda same=request, **_: same
        handler = cast("Callable[[web.Request], Coroutine[Any, Any, web.StreamResponse]]", route.handler)
        with contextlib.suppress(HttpError):
            _LOOP.run_until_complete(handler(cast("web.Request", request)))


async def _answer(value: Any) -> Any:
    return value


class _View:
    """A controller that leads and accepts each change."""

    http_token = ""
    asks_for_certificate = False

    def leader_http_url(self) -> None:
        """Lead."""

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, dict[str, Any]]]:
        return lambda *_: _answer({"changed": name})


class _Wire:
    """A socket that has received all that it ever will."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def setblocking(self, _blocking: bool) -> None:
        """Do nothing."""

    def recv(self, size: int) -> bytes:
        """Return the next bytes, nothing at the end."""
        found, self._data = self._data[:size], self._data[size:]
        return found

    def send(self, data: bytes) -> int:
        """Take all bytes."""
        return len(data)

    def close(self) -> None:
        """Do nothing."""


def held_client(data: bytes) -> None:
    """Hold a client of a dead master, carry its sends, answer each, and send it away."""
    client = HeldClient(cast("socket.socket", _Wire(data)))
    while client.read():
        if client.held_bytes > limits.FRAME_BYTES_MAX + limits.HELD_BYTES_MAX:
            raise PeerFindingError(f"{client.held_bytes} bytes are held")
        for send in [*client.take_sends(), *client.take_oneways()]:
            try:
                frame = encode(structs.replace(send, opaque=1_000_000_000, flag=0))
            except RemotingUsageError:
                continue
            carried = decode_frame(frame[4:])
            if carried.body != send.body:
                raise PeerFindingError(f"a send with body {send.body!r} is carried as {carried.body!r}")
            client.answer(carried)
    client.send_away()


def remote_read(data: bytes) -> None:
    """Read an answer of Prometheus' remote read: plain protobuf in snappy, or the bytes themselves."""
    packed = bytes(pa.Codec("snappy").compress(data, asbytes=True))
    for body in (data, packed):
        with contextlib.suppress(PrometheusError):
            for _labels, times, values in read_response(body):
                if len(times) != len(values):
                    raise PeerFindingError(f"{len(times)} times and {len(values)} values")


def parquet(data: bytes) -> None:
    """Look at a stranger's segment, and read it if it looks usable."""
    for content in (data, b"PAR1" + data + b"PAR1"):
        if unusable_content(io.BytesIO(content), SAMPLES) is None:
            with contextlib.suppress(pa.ArrowException, OSError):
                pq.ParquetFile(io.BytesIO(content)).read()


def hostile_master(data: bytes) -> None:
    """Copy from a master that sends any frames: epochs and positions stay within bounds."""
    machine = SlaveMachine(SlaveConfig(2, 4096), OwnLog(LogOffset(0), LogOffset(100), EpochList.of((1, 0))))
    machine.connected(0)
    numbers = _Bytes(data)
    try:
        machine.received(codec.encode_reply(codec.HandshakeReply(LogOffset(100), EpochList.of((1, 0)))), 1)
        for at in range(_MESSAGES_MAX):
            if numbers.is_empty:
                break
            length, epoch = numbers.byte() % 4, 1 + at * (numbers.byte() % 3)
            start = machine.position if numbers.byte() % 2 else LogOffset(numbers.number() % 2**63)
            header = codec.FrameHeader(length, machine.position, epoch, start, LogOffset(numbers.byte()))
            machine.received(codec.encode_frame_header(header) + bytes(length), 2)
            machine.tick(3)
    except HaProtocolError:
        pass
    if machine.confirm_offset > machine.position:
        raise PeerFindingError(f"confirm offset {machine.confirm_offset} beyond {machine.position}")


PEER_TARGETS: Final[dict[str, Callable[[bytes], None]]] = {
    "peer_messages": peer_messages,
    "json_text": json_text,
    "http_change": http_change,
    "held_client": held_client,
    "remote_read": remote_read,
    "parquet": parquet,
    "hostile_master": hostile_master,
}
