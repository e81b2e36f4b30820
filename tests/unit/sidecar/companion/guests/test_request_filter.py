"""Consumers are taken out of heartbeats, first pulls are kept, and all other bytes pass as they are."""

import json
from random import Random

import pytest
from msgspec import structs

from controller_core.access.signing import Credentials, signed
from controller_core.remoting.codes import RequestCode, ResponseCode, SerializeType
from controller_core.remoting.command import FLAG_ONEWAY, RemotingCommand
from controller_core.remoting.frame import FrameDecoder, encode
from ha_sidecar import limits
from ha_sidecar.companion.guests.request_filter import Passed, Pull, RequestFilter

PRODUCERS = [{"groupName": "p"}]
CONSUMERS = [{"groupName": "c", "subscriptionDataSet": [{"topic": "T", "subVersion": 1_795_000_000_000}]}]


def _heartbeat(**changes: object) -> RemotingCommand:
    body = {"clientID": "10.0.0.1@1", "consumerDataSet": CONSUMERS, "producerDataSet": PRODUCERS}
    return structs.replace(
        RemotingCommand.request(RequestCode.HEART_BEAT, {}, json.dumps(body | changes).encode()), version=475
    )


def _others(random: Random) -> list[RemotingCommand]:
    """Return requests that pass: one whose body looks like a heartbeat's header among them."""
    body = random.choice((b"", b'{"code":34}', random.randbytes(random.randrange(200))))
    codes = (RequestCode.SEND_MESSAGE_V2, RequestCode.PULL_MESSAGE, 341, 3, RequestCode.HEART_BEAT)
    found = [RemotingCommand.request(code, {"a": "1", "b": '"code":34'}, body) for code in codes]
    kinds = random.choices([SerializeType.JSON, SerializeType.ROCKETMQ], k=len(found))
    return [structs.replace(one, serialize_type=kind) for one, kind in zip(found, kinds, strict=True)]


def _fed(filtering: RequestFilter, stream: bytes, random: Random) -> tuple[bytes, bytes]:
    """Feed a stream in random cuts; return all that went to the broker and to the client."""
    to_broker, to_client = b"", b""
    while stream:
        size = random.choice((1, 3, 8, 60, 4096))
        passed = filtering.feed(stream[:size])
        to_broker, to_client, stream = (
            to_broker + passed.to_broker,
            to_client + passed.to_client,
            stream[size:],
        )
    return to_broker, to_client


@pytest.mark.parametrize("kind", SerializeType)
def test_a_heartbeat_reaches_the_broker_without_its_consumers(kind: SerializeType) -> None:
    filtering = RequestFilter()
    sent = structs.replace(_heartbeat(), serialize_type=kind)
    passed = filtering.feed(encode(sent))
    (command,) = FrameDecoder().feed(passed.to_broker)
    assert json.loads(command.body) == {
        "clientID": "10.0.0.1@1",
        "consumerDataSet": [],
        "producerDataSet": PRODUCERS,
    }
    assert (command.code, command.opaque, command.flag, command.version) == (34, sent.opaque, sent.flag, 475)
    assert command.serialize_type is kind
    assert (passed.to_client, filtering.emptied, filtering.held_bytes) == (b"", 1, 0)
    (consumers,) = passed.consumers
    assert (consumers.client_id, consumers.groups, consumers.heartbeat.body) == (
        "10.0.0.1@1",
        ("c",),
        sent.body,
    )


def test_a_heartbeat_without_consumers_passes_as_it_is() -> None:
    filtering = RequestFilter()
    frame = encode(_heartbeat(consumerDataSet=[]))
    assert filtering.feed(frame) == Passed(frame)
    assert filtering.emptied == 0


@pytest.mark.parametrize("seed", range(40))
def test_every_other_byte_passes_in_its_order_however_the_stream_is_cut(seed: int) -> None:
    random = Random(seed)
    wanted, stream = b"", b""
    for _ in range(12):
        for one in _others(random):
            stream += (frame := encode(one))
            wanted += frame
        stream += encode(sent := _heartbeat())
        emptied = {"clientID": "10.0.0.1@1", "consumerDataSet": [], "producerDataSet": PRODUCERS}
        wanted += encode(structs.replace(sent, body=json.dumps(emptied).encode()))
    filtering = RequestFilter()
    assert _fed(filtering, stream, random) == (wanted, b"")
    assert (filtering.emptied, filtering.held_bytes) == (12, 0)


@pytest.mark.parametrize("odd", [{"clientID": 7}, {"consumerDataSet": {"a": 1}}, {"consumerDataSet": [7]}])
def test_consumers_that_cannot_be_named_are_taken_out_and_never_sent_on(odd: dict[str, object]) -> None:
    passed = RequestFilter().feed(encode(_heartbeat(**odd)))
    (command,) = FrameDecoder().feed(passed.to_broker)
    assert (json.loads(command.body)["consumerDataSet"], passed.consumers) == ([], ())


def test_a_signed_heartbeat_is_answered_and_the_broker_does_not_see_it() -> None:
    filtering = RequestFilter()
    sent = signed(_heartbeat(), Credentials("u", "p"))
    passed = filtering.feed(encode(sent))
    (answer,) = FrameDecoder().feed(passed.to_client)
    assert passed.to_broker == b""
    assert answer.is_response
    assert (answer.code, answer.opaque, answer.version) == (ResponseCode.SUCCESS, sent.opaque, 475)


def test_a_signed_one_way_heartbeat_is_not_answered() -> None:
    sent = structs.replace(signed(_heartbeat(), Credentials("u", "p")), flag=FLAG_ONEWAY)
    passed = RequestFilter().feed(encode(sent))
    assert (passed.to_broker, passed.to_client) == (b"", b"")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"7", b'{"consumerDataSet":null}', b"\xff" * 30])
def test_a_heartbeat_that_cannot_be_read_is_left_to_the_broker(body: bytes) -> None:
    frame = encode(structs.replace(_heartbeat(), body=body))
    assert RequestFilter().feed(frame) == Passed(frame)


@pytest.mark.parametrize(
    "stream", [b"\0" * 40, b"\xff" * 40, b"\x16\x03\x01" + b"a" * 40, b"GET / HTTP/1.1\r\n"]
)
def test_what_is_no_frame_is_left_to_the_broker_and_so_is_all_that_follows(stream: bytes) -> None:
    filtering = RequestFilter()
    frame = encode(_heartbeat())
    assert _fed(filtering, stream + frame, Random(1)) == (stream + frame, b"")
    assert filtering.held_bytes == 0


def test_a_heartbeat_over_the_bound_passes_and_is_not_kept() -> None:
    filtering = RequestFilter()
    frame = encode(_heartbeat(filler="x" * limits.GUEST_HEARTBEAT_BYTES_MAX))
    for at in range(0, len(frame), 65_536):
        assert filtering.feed(frame[at : at + 65_536]).to_broker == frame[at : at + 65_536]
        assert filtering.held_bytes == 0
    assert filtering.emptied == 0
    filtering.feed(encode(_heartbeat()))
    assert filtering.emptied == 1


def _pull(**fields: str) -> RemotingCommand:
    named = {"consumerGroup": "c", "topic": "T", "sysFlag": "2"} | fields
    return RemotingCommand.request(RequestCode.PULL_MESSAGE, named)


@pytest.mark.parametrize("kind", SerializeType)
def test_a_pull_is_kept_whole_until_pulls_pass(kind: SerializeType) -> None:
    filtering = RequestFilter()
    frame = encode(structs.replace(_pull(), serialize_type=kind))
    assert filtering.feed(frame[:30]).to_broker == b""
    assert filtering.feed(frame[30:]) == Passed(b"", pulls=(Pull("c", frame),))
    assert filtering.is_between_frames
    filtering.keeps_pulls = False
    assert filtering.feed(frame) == Passed(frame)


@pytest.mark.parametrize(
    "fields",
    [{"sysFlag": "6"}, {"sysFlag": ""}, {"sysFlag": "-1"}, {"sysFlag": "\u00b2"}, {"consumerGroup": ""}],
)
def test_a_pull_that_needs_no_known_group_or_names_none_passes(fields: dict[str, str]) -> None:
    frame = encode(_pull(**fields))
    assert RequestFilter().feed(frame) == Passed(frame)
