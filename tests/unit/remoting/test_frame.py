"""Frames against bytes that RocketMQ 5.4.0 wrote, and the decoder against every cut and kind of damage.

Source: RemotingCommand.java, RocketMQSerializable.java, NettyDecoder.java 5.4.0; the
golden bytes were produced by it.
"""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller_core.remoting.codes import LanguageCode, RequestCode, ResponseCode, SerializeType
from controller_core.remoting.command import FLAG_ONEWAY, FLAG_RESPONSE, RemotingCommand
from controller_core.remoting.errors import FrameError, RemotingProtocolError, RemotingUsageError
from controller_core.remoting.frame import FRAME_BYTES_MAX, FrameDecoder, decode_frame, encode

BINARY_GOLDEN = bytes.fromhex(
    "000000380100003200000001f40000000700000001000000026f6b0000001b00146e657753796e635374617465"
    "53657445706f636800000001300102"
)

# The first draw of a text builds Unicode tables, and other tests share the CPU: the test does not check time.
UNHURRIED = settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])

INT32 = st.integers(-(2**31), 2**31 - 1)
INT16 = st.integers(-(2**15), 2**15 - 1)
TEXT = st.text(st.characters(codec="utf-8"), max_size=12)


def commands(serialize_type: SerializeType) -> st.SearchStrategy[RemotingCommand]:
    """Give commands that survive a round trip: the binary form cannot express empty texts or an empty ext."""
    if serialize_type is SerializeType.JSON:
        code, version, text, ext_size_min = INT32, INT32, TEXT, 0
    else:
        code, version, text, ext_size_min = INT16, INT16, TEXT.filter(bool), 1
    return st.builds(
        RemotingCommand,
        code=code,
        opaque=INT32,
        flag=INT32,
        remark=st.none() | text,
        ext=st.none() | st.dictionaries(text, text, min_size=ext_size_min, max_size=5),
        body=st.binary(max_size=64),
        language=st.sampled_from(LanguageCode),
        version=version,
        serialize_type=st.just(serialize_type),
    )


any_command = st.sampled_from(SerializeType).flatmap(commands)


def json_frame(header: bytes, body: bytes = b"") -> bytes:
    """Frame a hand-written JSON header."""
    return (4 + len(header) + len(body)).to_bytes(4) + len(header).to_bytes(4) + header + body


def test_the_binary_frame_is_read_as_java_wrote_it() -> None:
    [command] = FrameDecoder().feed(BINARY_GOLDEN)
    assert command == RemotingCommand(
        code=0,
        opaque=7,
        flag=FLAG_RESPONSE,
        remark="ok",
        ext={"newSyncStateSetEpoch": "0"},
        body=b"\x01\x02",
        language=LanguageCode.JAVA,
        version=500,
        serialize_type=SerializeType.ROCKETMQ,
    )


def test_the_binary_frame_is_written_as_java_wrote_it() -> None:
    assert encode(decode_frame(BINARY_GOLDEN[4:])) == BINARY_GOLDEN


@pytest.mark.parametrize(
    ("command", "header"),
    [
        pytest.param(
            RemotingCommand(0, 101, FLAG_RESPONSE, None, {"masterEpoch": "0"}, language=LanguageCode.JAVA),
            b'{"code":0,"extFields":{"masterEpoch":"0"},"flag":1,"language":"JAVA","opaque":101,'
            b'"serializeTypeCurrentRPC":"JSON","version":0}',
            id="answer with a field",
        ),
        pytest.param(
            RemotingCommand(RequestCode.CONTROLLER_GET_METADATA_INFO, 5, language=LanguageCode.JAVA),
            b'{"code":1005,"flag":0,"language":"JAVA","opaque":5,"serializeTypeCurrentRPC":"JSON","version":0}',
            id="no header object",
        ),
        pytest.param(
            RemotingCommand(2011, 7, FLAG_RESPONSE, None, {}, language=LanguageCode.JAVA),
            b'{"code":2011,"extFields":{},"flag":1,"language":"JAVA","opaque":7,'
            b'"serializeTypeCurrentRPC":"JSON","version":0}',
            id="header object without a field that is set",
        ),
        pytest.param(
            RemotingCommand(
                ResponseCode.CONTROLLER_NOT_LEADER,
                8,
                FLAG_RESPONSE,
                "The controller is not in leader state",
                language=LanguageCode.JAVA,
            ),
            b'{"code":2007,"flag":1,"language":"JAVA","opaque":8,'
            b'"remark":"The controller is not in leader state","serializeTypeCurrentRPC":"JSON","version":0}',
            id="remark",
        ),
        pytest.param(
            RemotingCommand(
                RequestCode.BROKER_HEARTBEAT, 9, FLAG_ONEWAY, None, {}, language=LanguageCode.JAVA
            ),
            b'{"code":904,"extFields":{},"flag":2,"language":"JAVA","opaque":9,'
            b'"serializeTypeCurrentRPC":"JSON","version":0}',
            id="oneway",
        ),
    ],
)
def test_a_json_header_is_written_byte_for_byte_as_java_writes_it(
    command: RemotingCommand, header: bytes
) -> None:
    frame = encode(command)
    assert frame == json_frame(header)
    assert FrameDecoder().feed(frame) == [command]


@UNHURRIED
@given(any_command)
def test_what_is_written_is_read_back_equal(command: RemotingCommand) -> None:
    assert FrameDecoder().feed(encode(command)) == [command]


@UNHURRIED
@given(st.lists(any_command, max_size=3), st.data())
def test_how_the_stream_is_cut_changes_nothing(sent: list[RemotingCommand], data: st.DataObject) -> None:
    stream = b"".join(map(encode, sent))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    decoder = FrameDecoder()
    received: list[RemotingCommand] = []
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        received += decoder.feed(stream[begin:end])
    assert received == sent
    assert decoder.held_bytes == 0


def test_a_frame_fed_byte_by_byte_appears_with_its_last_byte() -> None:
    decoder = FrameDecoder()
    for byte in BINARY_GOLDEN[:-1]:
        assert decoder.feed(bytes([byte])) == []
    assert len(decoder.feed(BINARY_GOLDEN[-1:])) == 1


@UNHURRIED
@given(st.binary(max_size=200), any_command, st.integers(0, 300), st.integers(1, 255))
def test_rubbish_raises_nothing_but_a_protocol_error(
    rubbish: bytes, command: RemotingCommand, at: int, flip: int
) -> None:
    damaged = bytearray(encode(command))
    damaged[at % len(damaged)] ^= flip
    for stream in (rubbish, json_frame(rubbish), bytes(damaged)):
        try:
            FrameDecoder().feed(stream)
        except RemotingProtocolError:
            continue


@UNHURRIED
@given(st.binary(max_size=100))
def test_any_binary_header_is_read_or_refused(header: bytes) -> None:
    try:
        command = decode_frame((1 << 24 | len(header)).to_bytes(4) + header)
    except RemotingProtocolError:
        return
    assert command.serialize_type is SerializeType.ROCKETMQ


def binary_header(remark: bytes, ext: bytes) -> bytes:
    """Frame, without its length word, a binary header for code 10 with hand-written remark and ext."""
    header = bytes.fromhex("000a 00 0000 00000001 00000000") + remark + ext
    return (1 << 24 | len(header)).to_bytes(4) + header


NOTHING = bytes(4)
FIELD_A_B = bytes.fromhex("0001 61 00000001 62")


@pytest.mark.parametrize(
    ("fields", "ext"),
    [
        pytest.param(FIELD_A_B, {"a": "b"}, id="key and value"),
        pytest.param(
            bytes.fromhex("0001 61 00000000") + FIELD_A_B, {"a": "b"}, id="null value, then its value"
        ),
        pytest.param(bytes.fromhex("0001 63 00000000"), {}, id="null value"),
        pytest.param(bytes.fromhex("0000 00000001 62"), {}, id="null key"),
    ],
)
def test_a_binary_text_of_no_bytes_is_null_and_so_absent(fields: bytes, ext: dict[str, str]) -> None:
    assert decode_frame(binary_header(NOTHING, len(fields).to_bytes(4) + fields)).ext == ext


@pytest.mark.parametrize(
    ("remark", "ext"),
    [
        pytest.param((-1).to_bytes(4, signed=True), NOTHING, id="negative remark length"),
        pytest.param((9).to_bytes(4) + b"x", NOTHING, id="remark beyond the header"),
        pytest.param(NOTHING, (-1).to_bytes(4, signed=True), id="negative ext length"),
        pytest.param(NOTHING, (99).to_bytes(4) + FIELD_A_B, id="ext beyond the header"),
        pytest.param(
            NOTHING, (8).to_bytes(4) + bytes.fromhex("ffff 61 00000001 62"), id="negative key length"
        ),
        pytest.param(
            NOTHING, (8).to_bytes(4) + bytes.fromhex("0001 61 fffffff9 62"), id="negative value length"
        ),
        pytest.param(NOTHING, (7).to_bytes(4) + FIELD_A_B[:-1], id="value cut off"),
        pytest.param((1).to_bytes(4) + b"\xff", NOTHING, id="remark not UTF-8"),
    ],
)
def test_a_binary_length_that_points_nowhere_is_refused(remark: bytes, ext: bytes) -> None:
    with pytest.raises(RemotingProtocolError):
        decode_frame(binary_header(remark, ext))


def test_an_absurd_length_is_refused_before_its_bytes_are_kept() -> None:
    decoder = FrameDecoder()
    with pytest.raises(FrameError, match="out of range") as caught:
        decoder.feed((FRAME_BYTES_MAX - 3).to_bytes(4) + b"x" * 100)
    assert caught.value.length == FRAME_BYTES_MAX - 3
    assert decoder.held_bytes == 0


def test_a_tls_hello_is_a_frame_error() -> None:
    with pytest.raises(FrameError, match="out of range"):
        FrameDecoder().feed(bytes.fromhex("16030100f0010000ec0303"))


def test_a_length_that_cannot_hold_the_header_word_is_refused() -> None:
    with pytest.raises(FrameError) as caught:
        FrameDecoder().feed((3).to_bytes(4) + b"abc")
    assert (caught.value.offset, caught.value.length) == (0, 3)


def test_whole_frames_before_the_damage_are_handed_over() -> None:
    good = RemotingCommand.request(RequestCode.CONTROLLER_GET_METADATA_INFO)
    decoder = FrameDecoder()
    with pytest.raises(FrameError) as caught:
        decoder.feed(encode(good) + json_frame(b"[]"))
    assert caught.value.commands == (good,)
    assert caught.value.offset == len(encode(good))


def test_a_header_longer_than_its_frame_is_refused() -> None:
    with pytest.raises(RemotingProtocolError, match="header of 9 bytes"):
        decode_frame((9).to_bytes(4) + b"{}")


def test_an_unknown_serialize_type_is_refused() -> None:
    with pytest.raises(RemotingProtocolError, match="serialize type 2"):
        decode_frame((2 << 24 | 2).to_bytes(4) + b"{}")


def test_the_longest_frame_passes_and_one_byte_more_does_not() -> None:
    empty = encode(RemotingCommand(10))
    fits = RemotingCommand(10, body=bytes(FRAME_BYTES_MAX - len(empty)))
    assert FrameDecoder().feed(encode(fits)) == [fits]
    with pytest.raises(RemotingUsageError, match="limit is 16777216"):
        encode(RemotingCommand(10, body=bytes(FRAME_BYTES_MAX - len(empty) + 1)))


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(RemotingCommand(2**31), id="code beyond int32"),
        pytest.param(RemotingCommand(10, remark="\ud800"), id="lone surrogate in JSON"),
        pytest.param(RemotingCommand(200050, serialize_type=SerializeType.ROCKETMQ), id="code beyond int16"),
        pytest.param(
            RemotingCommand(10, ext={"a": "\ud800"}, serialize_type=SerializeType.ROCKETMQ),
            id="lone surrogate in binary",
        ),
    ],
)
def test_what_cannot_be_written_is_our_own_mistake(command: RemotingCommand) -> None:
    with pytest.raises(RemotingUsageError):
        encode(command)


def header_of(header: bytes) -> RemotingCommand:
    """Read one hand-written JSON header."""
    return decode_frame(json_frame(header)[4:])


@pytest.mark.parametrize(
    ("header", "ext"),
    [
        pytest.param(
            b'{"code":0,"extFields":{"id":1,"f":1.5,"live":true}}', {"id": "1", "f": "1.5", "live": "true"}
        ),
        pytest.param(b'{"code":0,"extFields":{"id":null,"a":"b"}}', {"a": "b"}),
        pytest.param(b'{"code":0,"extFields":null}', None),
        pytest.param(b'{"code":0,"extFields":{}}', {}),
        pytest.param(b'{"code":0}', None),
        pytest.param(b'{"code":0,"extFields":{"o":{"a":[1]}}}', {"o": '{"a":[1]}'}),
    ],
)
def test_header_fields_become_text_and_null_becomes_absent(header: bytes, ext: dict[str, str] | None) -> None:
    assert header_of(header).ext == ext


@pytest.mark.parametrize(
    ("language", "meaning"),
    [
        pytest.param(b"", LanguageCode.JAVA, id="absent"),
        pytest.param(b',"language":"GO"', LanguageCode.GO, id="name"),
        pytest.param(b',"language":3', LanguageCode.PYTHON, id="ordinal"),
        pytest.param(b',"language":"NOPE"', LanguageCode.OTHER, id="unknown name"),
        pytest.param(b',"language":99', LanguageCode.OTHER, id="unknown ordinal"),
        pytest.param(b',"language":null', LanguageCode.OTHER, id="null"),
    ],
)
def test_a_language_is_a_name_or_an_ordinal(language: bytes, meaning: LanguageCode) -> None:
    assert header_of(b'{"code":0' + language + b"}").language is meaning


def test_numbers_as_texts_and_unknown_keys_are_accepted() -> None:
    command = header_of(b'{"code":"1001","flag":"1","opaque":"5","remark":null,"unknown":[1]}')
    assert (command.code, command.flag, command.opaque, command.remark) == (1001, 1, 5, None)


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"null",
        b"[1]",
        b'{"code":"x"}',
        b'{"code":1e999}',
        b'{"code":4294967296}',
        b'{"code":0,"extFields":[1]}',
        b'{"code":0,"x":' + b"[" * 100_000,
        b'{"code":0,"remark":"\xff"}',
    ],
)
def test_a_header_that_java_could_not_read_either_is_refused(header: bytes) -> None:
    with pytest.raises(RemotingProtocolError):
        header_of(header)


def test_an_answer_repeats_the_opaque_and_only_sets_the_response_bit() -> None:
    asked = RemotingCommand.request(RequestCode.CONTROLLER_ELECT_MASTER).with_opaque(77)
    answer = RemotingCommand.response_to(asked, ResponseCode.SUCCESS, {"a": "b"})
    assert (answer.opaque, answer.is_response, answer.is_oneway) == (77, True, False)
    assert RemotingCommand.request(904, oneway=True).is_oneway
