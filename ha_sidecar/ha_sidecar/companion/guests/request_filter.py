"""Changes what clients that come by a former master's address ask the broker.

A consumer sends heartbeats to all brokers of its routes. While a former master's address leads to its
successor, one client is connected to one broker twice: by the successor's own address and by this one. The
broker names its consumers by connection, so it names this client twice (`GET_CONSUMER_LIST_BY_GROUP`). Each
client divides a topic's queues by that list and takes the share of the first of its names. The shares of the
second belong to no client, and half of the queues are not consumed. (5.5.0 on Kubernetes: two of four queues
stood still from a kill on, for as long as the client ran.)

So a heartbeat that comes this way names producers only. Its consumers are known to the broker by the other
connection, or `introductions` makes them known until they are.

A broker refuses pulls of a group that it knows no consumer of, and clients pull before their first heartbeat
comes. So pulls are taken out too, whole and unchanged, until `keeps_pulls` is turned off.

All other bytes pass unchanged; of them, only the code of each request is read.

A signed heartbeat cannot be changed: its signature covers its body. It is answered here, and the broker does
not see it. Its producers are unknown to the broker until their next heartbeat by the new routes.

Never here: I/O. Unreadable bytes pass unchanged; the broker judges them.

Source: ConsumerGroupInfo.getAllClientId, ClientManageProcessor.heartBeat, AllocateMessageQueueAveragely,
HeartbeatData, PullMessageProcessor, PullSysFlag 5.5.0.
"""

import json
import re
import struct
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from msgspec import structs

from controller_core.access.signing import SIGNATURE
from controller_core.remoting import lenient_json
from controller_core.remoting.codes import RequestCode, ResponseCode, SerializeType
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.errors import RemotingProtocolError, RemotingUsageError
from controller_core.remoting.frame import FRAME_START_BYTES, LENGTH_BYTES, decode_frame, encode, frame_start
from ha_sidecar import limits

CONSUMERS: Final = "consumerDataSet"

_SHORT: Final = struct.Struct(">h")
_KEPT: Final = (RequestCode.HEART_BEAT, RequestCode.PULL_MESSAGE)
_KEPT_IN_JSON: Final = re.compile(rb'"code"\s*:\s*(?:%d|%d)(?!\d)' % _KEPT)
_SUBSCRIPTION_FLAG: Final = 0x4
"""In the `sysFlag` of a pull that names its own subscription; the broker needs to know no consumer for it."""


class Consumers(NamedTuple):
    """The consumers of one heartbeat: the client, its groups, and the heartbeat as it came."""

    client_id: str
    groups: tuple[str, ...]
    heartbeat: RemotingCommand


class Pull(NamedTuple):
    """A pull that the broker would refuse if it knew no consumer of the group: a whole frame."""

    group: str
    frame: bytes


class Passed(NamedTuple):
    """What becomes of some bytes of a client: some go to the broker, some are an answer to the client."""

    to_broker: bytes
    to_client: bytes = b""
    consumers: tuple[Consumers, ...] = ()
    pulls: tuple[Pull, ...] = ()


class RequestFilter:
    """One client's bytes on their way to the broker.

    Invariant: `_held` is empty or begins at the first byte of a frame that may be a heartbeat or a pull.

    Attributes:
        emptied: heartbeats whose consumers were taken out, or that were answered here.
        keeps_pulls: whether pulls are taken out.
    """

    def __init__(self) -> None:
        """Start at the stream's first byte."""
        self.emptied = 0
        self.keeps_pulls = True
        self._held = b""
        self._passing_bytes = 0
        self._is_unreadable = False

    @property
    def is_between_frames(self) -> bool:
        """Whether the broker has got whole requests only, so that another one may follow."""
        return not self._passing_bytes and not self._is_unreadable

    @property
    def held_bytes(self) -> int:
        """Bytes of a frame that may be a heartbeat or a pull and has not come whole."""
        return len(self._held)

    def feed(self, data: bytes) -> Passed:
        """Take the next bytes of the client; return those to send now."""
        if self._passing_bytes >= len(data):
            self._passing_bytes -= len(data)
            return Passed(data)
        if self._is_unreadable:
            return Passed(data)
        data = self._held + data
        self._held = b""
        to_broker: list[bytes] = []
        to_client: list[bytes] = []
        consumers: list[Consumers] = []
        pulls: list[Pull] = []
        begin, at = 0, self._passing_bytes
        self._passing_bytes = 0
        while at < len(data):
            size = self._size_of_kept(data, at)
            if size is None:
                break
            if not size:
                at += self._frame_bytes(data, at)
                continue
            changed = self._changed(data[at : at + size])
            if changed is not None:
                to_broker += [data[begin:at], changed.to_broker]
                to_client.append(changed.to_client)
                consumers += changed.consumers
                pulls += changed.pulls
                begin = at + size
            at += size
        if at > len(data):
            self._passing_bytes, at = at - len(data), len(data)
        self._held = data[at:]
        to_broker.append(data[begin:at])
        return Passed(b"".join(to_broker), b"".join(to_client), tuple(consumers), tuple(pulls))

    def _frame_bytes(self, data: bytes, at: int) -> int:
        """Return the length of the frame that begins there; of the rest if the stream is unreadable."""
        if self._is_unreadable:
            return len(data) - at
        return frame_start(data, at).frame_bytes

    def _size_of_kept(self, data: bytes, at: int) -> int | None:
        """Return the bytes of a whole frame to look into, 0 for one that passes, None for too few."""
        there = len(data) - at
        if there < FRAME_START_BYTES:
            return None
        start = frame_start(data, at)
        if not start.is_possible:
            self._is_unreadable = True
            return 0
        if start.frame_bytes > limits.GUEST_HEARTBEAT_BYTES_MAX:
            return 0
        begin = at + FRAME_START_BYTES
        end = begin + start.header_bytes
        if len(data) < end:
            return None
        if not _may_be_kept(start.kind, data[begin:end]):
            return 0
        return start.frame_bytes if there >= start.frame_bytes else None

    def _changed(self, frame: bytes) -> Passed | None:
        """Return the replacement of a heartbeat or a pull; None if it passes unchanged."""
        try:
            command = decode_frame(frame[LENGTH_BYTES:])
            if command.is_response:
                return None
            if command.code == RequestCode.PULL_MESSAGE:
                pull = _pull(command, frame) if self.keeps_pulls else None
                return None if pull is None else Passed(b"", pulls=(pull,))
            return self._emptied(command) if command.code == RequestCode.HEART_BEAT else None
        except (RemotingProtocolError, RemotingUsageError, AttributeError, TypeError):
            return None

    def _emptied(self, heartbeat: RemotingCommand) -> Passed | None:
        names = lenient_json.decode(heartbeat.body)
        if not names.get(CONSUMERS):
            return None
        self.emptied += 1
        consumers = _consumers(heartbeat, names)
        if SIGNATURE in (heartbeat.ext or {}):
            return Passed(b"", b"" if heartbeat.is_oneway else encode(_taken(heartbeat)), consumers)
        emptied = structs.replace(heartbeat, body=json.dumps(names | {CONSUMERS: []}).encode())
        return Passed(encode(emptied), b"", consumers)


def _may_be_kept(kind: int, header: bytes) -> bool:
    if kind == SerializeType.ROCKETMQ:
        return len(header) >= _SHORT.size and _SHORT.unpack_from(header)[0] in _KEPT
    return _KEPT_IN_JSON.search(header) is not None


def _pull(command: RemotingCommand, frame: bytes) -> Pull | None:
    """Return a pull that the broker could refuse for its group; None for another or an unreadable one."""
    fields = command.ext or {}
    group, flags = fields.get("consumerGroup"), fields.get("sysFlag", "")
    if not group or not flags.isdecimal() or int(flags) & _SUBSCRIPTION_FLAG:
        return None
    return Pull(group, frame)


def _consumers(command: RemotingCommand, names: Mapping[str, Any]) -> tuple[Consumers, ...]:
    """Return a heartbeat's consumers; none if it does not name its client and their groups."""
    client_id = names.get("clientID")
    found = names[CONSUMERS] if isinstance(names[CONSUMERS], list) else []
    told = [one.get("groupName") if isinstance(one, dict) else None for one in found]
    groups = tuple(dict.fromkeys(group for group in told if isinstance(group, str)))
    if not isinstance(client_id, str) or not groups or None in told:
        return ()
    return (Consumers(client_id, groups, command),)


def _taken(command: RemotingCommand) -> RemotingCommand:
    """Return a broker's answer; a client reads from it the broker's release, for which its own stands."""
    answer = RemotingCommand.response_to(command, ResponseCode.SUCCESS)
    return structs.replace(answer, version=command.version)
