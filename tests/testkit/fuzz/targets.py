"""What strangers' bytes reach, each as a function that takes any bytes and returns, or has found a bug.

A target lets through only what its reader documents to raise; any other exception is a finding. Where a
reader gives a value, the target also asks whether writing it and reading it again gives the same: a value
that cannot be sent on is one that a peer can hide behind.

Never here: sockets and files. `tests/unit/server/requests/test_rubbish.py` sends rubbish to a node's ports.
"""

from collections.abc import Callable
from typing import Final

from controller_core import limits
from controller_core.log.records import (
    RecordType,
    SegmentRecord,
    decode_record,
    decode_segment_head,
    find_records,
)
from controller_core.remoting import bodies, headers
from controller_core.remoting.bodies import Body
from controller_core.remoting.codes import SerializeType
from controller_core.remoting.errors import BodyError, FrameError, HeaderError, RemotingProtocolError
from controller_core.remoting.frame import CONTROL_BOUNDS, FrameDecoder, decode_frame, encode
from controller_core.remoting.header import Header
from controller_core.remoting.nodes import bodies as node_bodies
from controller_core.remoting.numbers import LogOffset
from controller_core.server.peers import codec as peer_codec
from controller_core.server.peers.codec import PeerProtocolError
from ha_sidecar.commitlog.records import RecordKind, check_record, texts_hold_nul, texts_lack_bytes
from ha_sidecar.companion.guests.request_filter import RequestFilter
from ha_sidecar.epoch import EpochList, file_format
from ha_sidecar.transfer import codec
from ha_sidecar.transfer.errors import HaProtocolError
from ha_sidecar.transfer.master import MasterMachine, MasterState
from ha_sidecar.transfer.reconcile import OwnLog, SlaveConfig
from ha_sidecar.transfer.served_log import MasterConfig
from ha_sidecar.transfer.slave import SlaveMachine, SlaveState
from testkit.fuzz.answer_targets import ANSWER_TARGETS
from testkit.fuzz.peer_targets import PEER_TARGETS
from testkit.ha.served_log import ServedLog

Target = Callable[[bytes], None]
FILE_BYTES: Final = 4096
_FRAME_BYTES_MAX: Final = 1 << 16
_HEADERS: Final = tuple(
    kind
    for kind in vars(headers).values()
    if isinstance(kind, type) and issubclass(kind, Header) and kind is not Header
)
_BODIES: Final = tuple(
    kind
    for module in (bodies, node_bodies)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, Body) and kind is not Body
)


class FindingError(AssertionError):
    """A reader took something, and what it made of it is wrong."""


def _same(before: object, after: object, what: str) -> None:
    if before != after:
        raise FindingError(f"{what}: {before!r} was written, and read as {after!r}")


def remoting_stream(data: bytes) -> None:
    """Feed a stream in two pieces, the first as long as its first byte says, and in one: equal results."""
    cut, stream = data[0] if data else 0, data[1:]
    outcomes = []
    for pieces in ((stream,), (stream[:cut], stream[cut:])):
        decoder, commands = FrameDecoder(CONTROL_BOUNDS), []
        damage = ""
        try:
            for piece in pieces:
                commands += decoder.feed(piece)
        except FrameError as error:
            commands += error.commands
            damage = str(error)
        if decoder.held_bytes > limits.LARGE_REQUEST_BYTES_MAX:
            raise FindingError(f"{decoder.held_bytes} bytes are held")
        outcomes.append((commands, damage))
    if outcomes[0] != outcomes[1]:
        raise FindingError(f"cut after {cut}: {outcomes[1]}, uncut: {outcomes[0]}")


def remoting_frame(data: bytes) -> None:
    """Read a frame and every header and body from it; anything readable can also be written."""
    try:
        command = decode_frame(data)
    except RemotingProtocolError:
        return
    # The binary form cannot express an empty text or an empty map.
    if command.serialize_type is SerializeType.JSON:
        _same(command, decode_frame(encode(command)[4:]), "frame")
    for header in _HEADERS:
        try:
            value = header.from_ext(command.ext)
        except HeaderError:
            continue
        _same(value, header.from_ext(value.to_ext()), header.__name__)


def remoting_body(data: bytes) -> None:
    """Read a body as each body type of the protocol; anything readable can also be written."""
    for body in _BODIES:
        try:
            value = body.decode(data)
        except BodyError:
            continue
        _same(value, body.decode(value.encode()), body.__name__)
    try:
        names = bodies.decode_names(data)
    except BodyError:
        return
    _same(names, bodies.decode_names(bodies.encode_names(names)), "names")


def peer_stream(data: bytes) -> None:
    """Take a stream between controllers as a greeting, a reply and messages."""
    frames = peer_codec.FrameReader(_FRAME_BYTES_MAX)
    messages = peer_codec.MessageReader(_FRAME_BYTES_MAX)
    try:
        cut = frames.feed(data)
    except PeerProtocolError:
        return
    for frame in cut:
        for read in (peer_codec.decode_greeting, peer_codec.decode_reply):
            try:
                read(frame)
            except PeerProtocolError:
                continue
        try:
            message = messages.take(frame)
        except PeerProtocolError:
            return
        if message is not None:
            [again] = peer_codec.FrameReader(_FRAME_BYTES_MAX * 2).feed(peer_codec.encode_message(message))
            _same(message, peer_codec.decode_message(again), "message")


def log_record(data: bytes) -> None:
    """Judge a record of the controllers' log, and look for others behind it."""
    record = decode_record(data, 0)
    found = find_records(data, 0)
    if isinstance(record, SegmentRecord):
        _same(record, found[0], "record")
        if record.type is RecordType.SEGMENT:
            decode_segment_head(record)


def commitlog_record(data: bytes) -> None:
    """Judge a message of a broker's commitlog, and the texts of one that is whole."""
    record = check_record(data, 0, len(data), 0, FILE_BYTES)
    if record.kind is RecordKind.MESSAGE:
        texts_hold_nul(data, 0)
        texts_lack_bytes(data, 0)
    if not 0 <= record.length_bytes <= FILE_BYTES:
        raise FindingError(f"a record of {record.length_bytes} bytes in a file of {FILE_BYTES}")


def epoch_file(data: bytes) -> None:
    """Read a broker's epoch file; anything readable can also be written."""
    try:
        epochs = file_format.decode(data)
    except file_format.EpochFileError:
        return
    if epochs:  # without an epoch the file does not exist
        _same(epochs, file_format.decode(file_format.encode(epochs)), "epochs")


def ha_slave(data: bytes) -> None:
    """Receive from a master of the HA port; only the connection may end."""
    machine = SlaveMachine(
        SlaveConfig(2, FILE_BYTES), OwnLog(LogOffset(0), LogOffset(100), EpochList.of((1, 0)))
    )
    machine.connected(0)
    cut = data[0] if data else 0
    try:
        machine.received(data[1 : 1 + cut], 1)
        machine.received(data[1 + cut :], 2)
        machine.tick(10)
    except HaProtocolError:
        if machine.state is not SlaveState.CLOSED:
            raise FindingError(f"the machine is {machine.state} after an error") from None


def ha_master(data: bytes) -> None:
    """Receive from a slave on the HA port; only the connection may end."""
    log = ServedLog(FILE_BYTES, 0)
    log.open_epoch(1)
    log.append(4, 20)
    machine = MasterMachine(MasterConfig(FILE_BYTES, 1000, 0), log.record_end)
    machine.connected(0)
    cut = data[0] if data else 0
    try:
        machine.received(data[1 : 1 + cut], log.view(), 1)
        machine.next_frame(log.view(), 1)
        machine.received(data[1 + cut :], log.view(), 2)
        machine.next_frame(log.view(), 2)
        machine.tick(10)
    except HaProtocolError:
        if machine.state is not MasterState.CLOSED:
            raise FindingError(f"the machine is {machine.state} after an error") from None


def ha_handshake(data: bytes) -> None:
    """Read the first bytes of both sides of the HA port, in every form that exists."""
    for ended in (False, True):
        try:
            codec.decode_handshake(data, ended=ended)
        except HaProtocolError:
            continue
    if len(data) >= codec.REPLY_HEADER_BYTES:
        try:
            reply = codec.decode_reply(data)
        except HaProtocolError:
            return
        _same(reply, codec.decode_reply(codec.encode_reply(reply)), "reply")


def guest_stream(data: bytes) -> None:
    """Feed a guest's bytes in pieces, as long as the first byte says, and at once.

    The same reaches broker and client, and without an emptied heartbeat and a kept pull the broker gets all.
    """
    step, stream = max(data[0], 1) if data else 1, data[1:]
    at_once, in_pieces = RequestFilter(), RequestFilter()
    whole = at_once.feed(stream)
    parts = [in_pieces.feed(stream[at : at + step]) for at in range(0, len(stream), step)]
    _same(whole.to_broker, b"".join(part.to_broker for part in parts), "what a broker gets of a guest")
    _same(whole.to_client, b"".join(part.to_client for part in parts), "what a guest is answered")
    _same(whole.pulls, tuple(pull for part in parts for pull in part.pulls), "a guest's pulls")
    if not at_once.emptied and not whole.pulls:
        end = len(stream) - at_once.held_bytes
        _same(stream[:end], whole.to_broker, "what a guest sent")


TARGETS: Final[dict[str, Target]] = {
    "remoting_stream": remoting_stream,
    "remoting_frame": remoting_frame,
    "remoting_body": remoting_body,
    "peer_stream": peer_stream,
    "log_record": log_record,
    "commitlog_record": commitlog_record,
    "epoch_file": epoch_file,
    "ha_slave": ha_slave,
    "ha_master": ha_master,
    "ha_handshake": ha_handshake,
    "guest_stream": guest_stream,
    **PEER_TARGETS,
    **ANSWER_TARGETS,
}
