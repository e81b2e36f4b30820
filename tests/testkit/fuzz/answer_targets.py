"""Fuzz targets for answers: what name servers, brokers, controllers and successors send to those that asked.

Whoever answers may be a stranger at a known address. The first bytes of a connection are here too: they
decide whether TLS is spoken.
"""

import contextlib
import json
import selectors
import socket
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final, cast
from unittest import mock

from msgspec import structs

from controller_core import bounded_json
from controller_core.channel.http_answers import sequence_of
from controller_core.remoting import lenient_json
from controller_core.remoting.bodies import EpochEntryCache, HARuntimeInfo, ReplicasInfo
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.errors import BodyError, RemotingProtocolError
from controller_core.remoting.frame import encode
from controller_core.remoting.routes import KVTable
from controller_core.route_front import requests
from controller_core.route_front.addresses import AddressesError, ListenerAddresses
from controller_core.route_front.rewriting import UnreachableError, rewrite
from controller_core.tls.serving import MemberTls, ServerTls
from controller_core.tls.streams import PlainStream
from ha_sidecar.companion.holding import relaying
from ha_sidecar.companion.holding.held_client import HeldClient
from ha_sidecar.companion.holding.relaying import FIRST_OPAQUE, SendRelay
from ha_sidecar.decisions.broker_facts import (
    GroupName,
    broker_facts,
    group_facts,
    master_client_address,
    master_process_address,
    readiness,
    settings,
    with_controller_id,
)
from ha_sidecar.decisions.metadata_comparison import missing_names, put_back
from ha_sidecar.decisions.metadata_tables import KINDS, MetadataKind
from ha_sidecar.decisions.revive_log import ReviveLogError, entries
from ha_sidecar.node_agent.elections import ElectionVotes, parse_election
from ha_sidecar.node_agent.replaced import ProcessBook, Replaced, group_view, is_ip, judge
from ha_sidecar.node_agent.segments import probe, read_answer, reset
from slo_pipeline.collect.scraping.event_rows import EventError, event_row
from slo_pipeline.formats.exposition import ExpositionParser, lines_of
from slo_pipeline.formats.openmetrics import OpenMetricsError, timed_samples
from testkit.processes.certificates import Authority

_INSIDE: Final = "10.96.0.7:10911"
_OUTSIDE: Final = "mq.example:30911"
_REWRITTEN: Final = (
    RequestCode.GET_ROUTEINFO_BY_TOPIC,
    RequestCode.GET_BROKER_CLUSTER_INFO,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS,
    RequestCode.GET_BROKER_MEMBER_GROUP,
)
_GROUP: Final = GroupName("c", "g")
_SENDS: Final = 3
_HELD_BYTES_MAX: Final = 1 << 20


class AnswerFindingError(AssertionError):
    """A process made something wrong of an answer."""


def route_front(data: bytes) -> None:
    """Rewrite an answer of a name server: each address that clients get is one of the listener."""
    addresses = ListenerAddresses({_INSIDE: _OUTSIDE})
    texts = (data, b'{"brokerDatas":[{"brokerName":"g","brokerAddrs":{0:"%s",1:"%s"}}]}' % (_IN, data))
    for code in _REWRITTEN:
        for body in texts:
            answer = RemotingCommand(code=ResponseCode.SUCCESS, flag=1, opaque=1, body=body)
            try:
                found = rewrite(code, answer, addresses)
            except (BodyError, UnreachableError):
                continue
            if found.body:
                _check_addresses(code, lenient_json.decode(found.body))
    for asked in data[:2]:
        requests.refusal(asked)
    with contextlib.suppress(AddressesError):
        ListenerAddresses.parse(data)


_IN: Final = _INSIDE.encode()


def _check_addresses(code: int, body: Any) -> None:
    match code:
        case RequestCode.GET_ROUTEINFO_BY_TOPIC:
            groups = body["brokerDatas"]
        case RequestCode.GET_BROKER_CLUSTER_INFO:
            groups = body["brokerAddrTable"].values()
        case RequestCode.GET_BROKER_MEMBER_GROUP:
            groups = [body["brokerMemberGroup"]] if body.get("brokerMemberGroup") else []
        case _:
            groups = [{"brokerAddrs": {"": body.get("brokerAddr", _OUTSIDE)}}]
    found = {address for group in groups for address in group["brokerAddrs"].values()}
    if not found <= {_OUTSIDE}:
        raise AnswerFindingError(f"clients outside get {found}")


class _Socket:
    """A socket that has received all that it ever will, and takes each byte."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def setblocking(self, _blocking: bool) -> None:
        """Do nothing."""

    def recv(self, size: int, flags: int = 0) -> bytes:
        """Return the next bytes, nothing at the end."""
        found = self._data[:size]
        if not flags & socket.MSG_PEEK:
            self._data = self._data[size:]
        return found

    def send(self, data: bytes) -> int:
        """Take all bytes."""
        return len(data)

    def close(self) -> None:
        """Do nothing."""


def relay_answers(data: bytes) -> None:
    """Carry sends to a successor that answers anything: each is answered once, or stays asked."""
    answers = b"".join(
        encode(RemotingCommand(code=byte % 16, flag=1, opaque=FIRST_OPAQUE + byte % 5, remark="busy"))
        for byte in data[:8]
    )
    selector = mock.create_autospec(selectors.DefaultSelector, instance=True)
    for stream in (data, answers, answers + data):
        connection = PlainStream(cast("socket.socket", _Socket(stream)))
        with mock.patch.object(relaying, "begin", lambda *_, made=connection: made):
            relay: SendRelay[int] = SendRelay(("successor", 10911), selector)
        sends = [RemotingCommand.request(RequestCode.SEND_MESSAGE, {"a": "b"}, b"x") for _ in range(_SENDS)]
        for client, send in enumerate(sends):
            relay.ask(client or None, [send])
        answered = 0
        with contextlib.suppress(OSError, RemotingProtocolError):
            while True:
                for _client, answer in relay.answers():
                    answered += 1
                    encode(structs.replace(answer, opaque=7))
        if answered + len(relay.close()) != _SENDS or relay.held_bytes < 0:
            raise AnswerFindingError(f"{answered} of {_SENDS} sends are answered, {relay.held_bytes} held")


@cache
def _server_tls() -> ServerTls:
    with tempfile.TemporaryDirectory() as directory:
        return MemberTls(Authority(Path(directory)).member("broker"), "permissive").server()


def tls_hello(data: bytes) -> None:
    """Hold a client whose first byte decides whether it speaks TLS; only its connection may end."""
    tls = _server_tls()
    record = b"\x16\x03\x01" + len(data).to_bytes(2, "big") + data
    for stream in (data, b"\x16" + data, record):
        for one in (tls, _without_plain(tls)):
            client = HeldClient(cast("socket.socket", _Socket(stream)), one)
            while client.read():
                if client.held_bytes > _HELD_BYTES_MAX:
                    raise AnswerFindingError(f"{client.held_bytes} bytes are held for a handshake")
                if client.is_idle:
                    break
            client.send_away()


def _without_plain(tls: ServerTls) -> ServerTls:
    """Return a port's TLS without plain TCP."""
    return ServerTls(tls.context, plain_allowed=False)


_ELECTED: Final = (
    b'{"kind":"MasterElected","sequence":1,"event_id":"e","cluster":"c","group":"g","epoch":2,"attrs":%s}'
)


def node_agent_events(data: bytes) -> None:
    """Take a line of a controller's stream, as the node agent and the collector do."""
    event = (
        b'{"kind":"MasterElected","sequence":1,"event_id":"e","cluster":"c","group":"g","epoch":2,"attrs":%s}'
    )
    for line in (data, event % data):
        with contextlib.suppress(ValueError):
            value = bounded_json.decode(line)
            sequence_of(value)
            election = parse_election(value)
            if election is not None and not ElectionVotes(1).vote(0, election):
                raise AnswerFindingError(f"the only vote for {election} does not count")
        with contextlib.suppress(EventError):
            event_row(line)


_ELECTION: Final = parse_election(
    {
        "kind": "MasterElected",
        "event_id": "e",
        "cluster": "c",
        "group": "g",
        "epoch": 3,
        "attrs": {
            "cause": "HeartbeatTimeout",
            "old_master_id": 1,
            "old_master_address": _INSIDE,
            "new_master_id": 2,
        },
    }
)


def node_agent_group(data: bytes) -> None:
    """Judge a replaced master by a group's answer (1006); a living member's host is never chosen."""
    members = b'{"notInSyncReplicas":[%s],"masterBrokerId":2,"masterEpoch":3}'
    for body in (data, members % data):
        try:
            info = ReplicasInfo.decode(body)
        except BodyError:
            continue
        view, book = group_view(_GROUP, info), ProcessBook()
        book.learn(view)
        if _ELECTION is None:
            raise AnswerFindingError("the election cannot be read")
        found = judge(_ELECTION, view, book)
        if isinstance(found, Replaced) and found.process[0] in book.living_hosts():
            raise AnswerFindingError(f"{found.process} is a living member's")
        facts = group_facts(info)
        master_client_address(facts)
        master_process_address(facts)


def node_agent_packet(data: bytes) -> None:
    """Read a packet of a client's kernel, and write the segment that ends the connection that it names."""
    for packet in (data, b"\x45" + data, b"\x60" + data):
        found = read_answer(packet)
        if found is None:
            continue
        if not is_ip(found.client[0]) or not 0 <= found.next_sequence < 2**32:
            raise AnswerFindingError(f"{packet!r} is read as {found}")
        server = ("fd00::1" if ":" in found.client[0] else "10.0.0.1", 10911)
        for written in (probe(server, found.client), reset(server, found.client, found.next_sequence)):
            if read_answer(written) is not None:
                raise AnswerFindingError(f"the own segment {written!r} is taken for an answer")


_EPOCHS: Final = b'{"brokerId":1,"brokerName":"g","clusterName":"c","maxOffset":9,"epochList":[%s]}'


def companion_answers(data: bytes) -> None:
    """Make facts of a broker's answers (1007, 907, 28, 26, tables), and ask for what a slave lacks."""
    caches = _decoded(EpochEntryCache.decode, data, _EPOCHS % data, _EPOCHS % b"")
    states = _decoded(HARuntimeInfo.decode, data, b'{"master":true,"haConnectionInfo":[%s]}' % data)
    _decoded(KVTable.decode, data, b'{"table":{"bootTimestamp":"%s"}}' % data)
    for cache_ in caches:
        for state in states or [HARuntimeInfo()]:
            readiness(with_controller_id(broker_facts(cache_, state), None), None)
    settings(data.decode(errors="replace"))
    with contextlib.suppress(ReviveLogError):
        entries(data)
    good: dict[MetadataKind, bytes] = dict.fromkeys(KINDS, data)
    named = {kind: b'{"%s":{"a@b":%s}}' % (kind.table.encode(), data) for kind in KINDS}
    empty = {kind: b'{"%s":{}}' % kind.table.encode() for kind in KINDS}
    for own, theirs in ((empty, good), (empty, named), (named, good)):
        missing_names(own, theirs)
        for request in put_back(own, theirs):
            ext = None if request.header is None else request.header.to_ext()
            encode(RemotingCommand.request(request.code, ext, request.body))


def _decoded(read: Callable[[bytes], Any], *texts: bytes) -> list[Any]:
    found = []
    for text in texts:
        with contextlib.suppress(BodyError):
            found.append(read(text))
    return found


def metrics_page(data: bytes) -> None:
    """Read a page that was scraped, and a text with timestamps that was given for an import."""
    text = data.decode(errors="replace")
    page = ExpositionParser().parse(text)
    if len(page.samples) + page.malformed > lines_of(data) + text.count("\r"):
        raise AnswerFindingError(f"{len(page.samples)} samples in {lines_of(data)} lines")
    json.dumps([one.series.labels for one in page.samples])
    with contextlib.suppress(OpenMetricsError):
        list(timed_samples(f"{text}\n# EOF".split("\n")))


ANSWER_TARGETS: Final[dict[str, Callable[[bytes], None]]] = {
    "route_front": route_front,
    "relay_answers": relay_answers,
    "tls_hello": tls_hello,
    "node_agent_events": node_agent_events,
    "node_agent_group": node_agent_group,
    "node_agent_packet": node_agent_packet,
    "companion_answers": companion_answers,
    "metrics_page": metrics_page,
}
