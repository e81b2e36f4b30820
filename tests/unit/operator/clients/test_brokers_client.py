"""What the operator says to brokers and name servers on the wire, and what it makes of their answers."""

import contextlib
import json
from collections.abc import AsyncIterator

import pytest

from controller_core.channel import Connection, Server, serve
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from rocketmq_operator.clients.api import PeerUnavailableError, RequestRefusedError
from rocketmq_operator.clients.brokers import BrokersClient
from testkit.processes.ports import free_port

CONFIG = {
    "topicName": "prices",
    "readQueueNums": 4,
    "writeQueueNums": 3,
    "perm": 6,
    "order": True,
    "attributes": {"+message.type": "FIFO", "+reserve.time": "72"},
}


class _Peer:
    """Answers every request with the same code, remark and body, and records the requests."""

    def __init__(self) -> None:
        self.asked: list[RemotingCommand] = []
        self.code: int = ResponseCode.SUCCESS
        self.body = b""
        self.server: Server | None = None

    @property
    def address(self) -> str:
        assert self.server is not None
        return f"127.0.0.1:{self.server.port}"

    def accept(self, connection: Connection) -> None:
        connection.on_request = self._answer

    def _answer(self, _: Connection, request: RemotingCommand) -> RemotingCommand:
        self.asked.append(request)
        return RemotingCommand.response_to(request, self.code, remark="in its words", body=self.body)


@pytest.fixture
async def peer() -> AsyncIterator[_Peer]:
    one = _Peer()
    one.server = await serve("127.0.0.1", 0, one.accept)
    yield one
    with contextlib.suppress(TimeoutError):
        await one.server.close()


async def test_a_topic_is_read_as_the_broker_wrote_it(peer: _Peer) -> None:
    peer.body = (
        b'{"attributes":{"message.type":"FIFO"},"order":false,"perm":6,"readQueueNums":4,'
        b'"topicName":"prices"}'
    )
    config = await BrokersClient().read(peer.address, "Topic", "prices")
    assert config is not None
    assert (config["perm"], config["attributes"]) == (6, {"message.type": "FIFO"})
    assert [(one.code, one.ext) for one in peer.asked] == [(351, {"topic": "prices"})]


async def test_a_topic_that_is_not_there_is_none_and_no_error(peer: _Peer) -> None:
    peer.code = ResponseCode.TOPIC_NOT_EXIST
    assert await BrokersClient().read(peer.address, "Topic", "prices") is None


async def test_a_consumer_group_is_read_from_the_whole_table_because_352_would_make_it(peer: _Peer) -> None:
    peer.body = (
        b'{"dataVersion":{"counter":1},"subscriptionGroupTable":{"readers":{"retryMaxTimes":3,"x":{0:1}}}}'
    )
    config = await BrokersClient().read(peer.address, "ConsumerGroup", "readers")
    assert config == {"retryMaxTimes": 3, "x": {"0": 1}}
    assert await BrokersClient().read(peer.address, "ConsumerGroup", "others") is None
    assert {one.code for one in peer.asked} == {RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG}


async def test_a_topic_is_written_by_17_with_its_changed_attributes(peer: _Peer) -> None:
    await BrokersClient().write(
        peer.address, "Topic", CONFIG | {"topicFilterType": "MULTI_TAG", "topicSysFlag": 2}
    )
    (asked,) = peer.asked
    assert asked.code == RequestCode.UPDATE_AND_CREATE_TOPIC
    assert asked.ext == {
        "topic": "prices",
        "defaultTopic": "TBW102",
        "readQueueNums": "4",
        "writeQueueNums": "3",
        "perm": "6",
        "topicFilterType": "MULTI_TAG",
        "topicSysFlag": "2",
        "order": "true",
        "attributes": "+message.type=FIFO,+reserve.time=72",
    }


async def test_a_topic_without_changed_attributes_is_written_without_any(peer: _Peer) -> None:
    await BrokersClient().write(peer.address, "Topic", CONFIG | {"attributes": {}})
    assert "attributes" not in (peer.asked[0].ext or {})


async def test_a_consumer_group_is_written_by_200_as_a_body(peer: _Peer) -> None:
    config = {"groupName": "readers", "retryMaxTimes": 3, "attributes": {}}
    await BrokersClient().write(peer.address, "ConsumerGroup", config)
    (asked,) = peer.asked
    assert asked.code == RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
    assert json.loads(asked.body) == config


async def test_what_is_forgotten_is_named_and_a_groups_offsets_go_with_it(peer: _Peer) -> None:
    client = BrokersClient()
    await client.delete(peer.address, "Topic", "prices")
    await client.delete(peer.address, "ConsumerGroup", "readers")
    await client.delete_route(peer.address, "main", "prices")
    assert [(one.code, one.ext) for one in peer.asked] == [
        (215, {"topic": "prices"}),
        (207, {"groupName": "readers", "cleanOffset": "true"}),
        (216, {"topic": "prices", "clusterName": "main"}),
    ]


async def test_a_refusal_is_told_in_the_brokers_words(peer: _Peer) -> None:
    peer.code = ResponseCode.SYSTEM_ERROR
    with pytest.raises(RequestRefusedError, match="in its words"):
        await BrokersClient().write(peer.address, "Topic", CONFIG)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"other":{}}', b'{"subscriptionGroupTable":{"readers":7}}']
)
async def test_an_answer_that_is_none_is_told_as_one(peer: _Peer, body: bytes) -> None:
    peer.body = body
    with pytest.raises(PeerUnavailableError, match=peer.address):
        await BrokersClient().read(peer.address, "ConsumerGroup", "readers")


async def test_nobody_there_is_told_with_the_address() -> None:
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(PeerUnavailableError, match=address):
        await BrokersClient().read(address, "Topic", "prices")
