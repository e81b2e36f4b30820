"""Requests that make a slave load the code of a master.

They are a greeting, a heartbeat, and a message that no broker can store.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import pytest

from controller_core.remoting.client_headers import SendMessageRequestHeaderV2
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.frame import FrameDecoder, encode
from ha_sidecar.companion import warming
from ha_sidecar.companion.warming import warm
from ha_sidecar.epoch import EpochList
from ha_sidecar.transfer import codec
from testkit.processes.ports import free_port

WITHIN_S = 30.0
JAVA_SHORT_MAX = 32767


class RecordingSlave:
    """A broker's two ports, which record the requests."""

    def __init__(self) -> None:
        self.greetings: list[object] = []
        self.asked: list[RemotingCommand] = []
        self.answers = True
        self.left = asyncio.Event()

    async def serve_ha(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one HA connection."""
        with contextlib.closing(writer):
            self.greetings.append(codec.decode_handshake(await reader.readexactly(codec.HANDSHAKE_BYTES)))
            if self.answers:
                writer.write(codec.encode_reply(codec.HandshakeReply(10, EpochList.of((1, 0)))))
                await reader.read()
                self.left.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one remoting connection: accept heartbeats, refuse messages."""
        decoder = FrameDecoder()
        with contextlib.closing(writer):
            while data := await reader.read(1 << 16):
                for command in decoder.feed(data):
                    self.asked.append(command)
                    is_beat = command.code == RequestCode.HEART_BEAT
                    code = ResponseCode.SUCCESS if is_beat else ResponseCode.SYSTEM_ERROR
                    writer.write(encode(RemotingCommand.response_to(command, code)))


@pytest.fixture
async def slave() -> AsyncIterator[tuple[RecordingSlave, tuple[str, int], tuple[str, int]]]:
    made = RecordingSlave()
    ha = await asyncio.start_server(made.serve_ha, "127.0.0.1")
    remoting = await asyncio.start_server(made.serve, "127.0.0.1", limit=1 << 20)
    async with ha, remoting:
        yield made, remoting.sockets[0].getsockname(), ha.sockets[0].getsockname()


Served = tuple[RecordingSlave, tuple[str, int], tuple[str, int]]


async def test_it_greets_as_a_learner_without_an_id_and_leaves(slave: Served) -> None:
    made, remoting, ha = slave
    assert await warm(remoting, ha, "main")
    await asyncio.wait_for(made.left.wait(), WITHIN_S)
    [(handshake, _)] = made.greetings  # type: ignore[misc]
    assert handshake == codec.Handshake(-1, sync_from_last_file=False, async_learner=True)


async def test_it_beats_as_every_client_does(slave: Served) -> None:
    made, remoting, ha = slave
    await warm(remoting, ha, "main")
    beat = json.loads(made.asked[0].body)
    assert made.asked[0].code == RequestCode.HEART_BEAT
    assert [one["groupName"] for one in beat["producerDataSet"]] == [warming.CLIENTS_GROUP]


async def test_its_message_is_for_a_topic_that_brokers_have_and_too_long_for_any_log(slave: Served) -> None:
    made, remoting, ha = slave
    assert await warm(remoting, ha, "main"), "a refusal is what is wanted"
    header = SendMessageRequestHeaderV2.from_ext(made.asked[1].ext)
    assert (made.asked[1].code, header.topic) == (RequestCode.SEND_REPLY_MESSAGE_V2, "main")
    assert header.properties is not None
    assert len(header.properties) > JAVA_SHORT_MAX
    assert made.asked[1].body, "a broker asks for the length of it"


async def test_a_port_that_closes_instead_is_no_answer(slave: Served) -> None:
    made, remoting, ha = slave
    made.answers = False
    assert not await warm(remoting, ha, "main")


async def test_nobody_there_is_no_answer(slave: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warming, "WITHIN_S", 1.0)
    _, remoting, ha = slave
    assert not await warm(remoting, ("127.0.0.1", free_port()), "main")
    assert not await warm(("127.0.0.1", free_port()), ha, "main")
