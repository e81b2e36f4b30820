"""What a migration asks brokers, and what it tells them: it finds every unread message, whatever hides it."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from controller_core.channel.asking import AskError
from controller_core.remoting.codes import RequestCode
from controller_core.remoting.errors import RemotingProtocolError
from ha_sidecar.migration.cli import _survey_brokers
from ha_sidecar.migration.permission import BrokerPermission, permit
from ha_sidecar.migration.survey import UnreadMessages, parse_survey, survey, unread
from testkit.fakes.surveyed_broker import SurveyedBroker
from testkit.processes.ports import free_port


@pytest.fixture
async def broker() -> AsyncIterator[SurveyedBroker]:
    one = SurveyedBroker()
    await one.start()
    yield one
    await one.stop()


async def test_a_broker_tells_who_it_is_and_what_it_has(broker: SurveyedBroker) -> None:
    broker.queues = {"Payments": {0: (0, 5)}}
    broker.committed = {"Payments@billing": {0: 3, 1: 4}}
    said = await survey(broker.address)
    assert (said.name, said.cluster, said.broker_id, said.permission) == ("orders", "DefaultCluster", 0, 6)
    assert (said.store, said.commit_log) == ("/data/store", "/data/store/commitlog")
    assert (said.min_offset, said.max_offset, said.file_bytes) == (0, 1000, 67108864)
    assert (said.topics, said.groups, said.offsets, said.consumed) == (1, 1, 2, 7)
    assert not said.controller_mode
    assert not said.dledger


async def test_what_is_no_answer_of_a_broker_is_said_and_not_guessed(broker: SurveyedBroker) -> None:
    del broker.settings["brokerPermission"]
    with pytest.raises(RemotingProtocolError, match="brokerPermission"):
        await survey(broker.address)
    with pytest.raises(RemotingProtocolError, match="topics, groups or offsets"):
        parse_survey("a:1", {}, {}, {})


@pytest.mark.parametrize(
    ("queues", "committed", "expected"),
    [
        ({}, {}, []),
        ({"P": {0: (0, 5)}}, {"P@g": {0: 5}}, []),
        ({"P": {0: (0, 5), 1: (0, 4)}}, {"P@g": {0: 5, 1: 1}}, [UnreadMessages("P", "g", 3)]),
        # Below the oldest one nothing is left to be read.
        ({"P": {0: (4, 5)}}, {"P@g": {0: 1}}, [UnreadMessages("P", "g", 1)]),
        ({"P": {0: (0, 5), 1: (0, 4)}}, {"P@g": {0: 5}}, [UnreadMessages("P", "g", 4)]),
        ({"P": {0: (0, 5)}}, {}, [UnreadMessages("P", "", 5)]),
        ({"P": {0: (5, 5)}}, {}, []),
        ({"P": {0: (0, 5)}}, {"P@g": {0: 5}, "P@h": {0: 4}}, [UnreadMessages("P", "h", 1)]),
        ({"%RETRY%g": {0: (0, 2)}}, {"%RETRY%g@g": {0: 1}}, [UnreadMessages("%RETRY%g", "g", 1)]),
        ({"%DLQ%g": {0: (0, 2)}}, {}, [UnreadMessages("%DLQ%g", "", 2)]),
        (
            {"RMQ_SYS_TRANS_HALF_TOPIC": {0: (0, 2)}},
            {"RMQ_SYS_TRANS_HALF_TOPIC@CID_RMQ_SYS_TRANS": {0: 1}},
            [UnreadMessages("RMQ_SYS_TRANS_HALF_TOPIC", "CID_RMQ_SYS_TRANS", 1)],
        ),
        ({"rmq_sys_wheel_timer": {0: (0, 2)}, "orders": {0: (0, 2)}, "TBW102": {0: (0, 2)}}, {}, []),
        ({"DefaultCluster_REPLY_TOPIC": {0: (0, 2)}}, {}, []),
    ],
)
async def test_all_that_is_unread_is_found(
    broker: SurveyedBroker, queues: Any, committed: Any, expected: list[UnreadMessages]
) -> None:
    broker.queues, broker.committed = queues, committed
    assert await unread(broker.address) == expected


async def test_delayed_messages_are_unread_until_they_were_delivered(broker: SurveyedBroker) -> None:
    broker.queues = {"SCHEDULE_TOPIC_XXXX": {0: (0, 3), 17: (0, 2)}}
    broker.delivered = {1: 3, 18: 1}
    assert await unread(broker.address) == [UnreadMessages("SCHEDULE_TOPIC_XXXX", "", 1)]
    broker.runtime["timerCongestNum"] = "4"
    assert (await unread(broker.address))[0] == UnreadMessages("rmq_sys_wheel_timer", "", 4)


async def test_what_nobody_waits_for_is_left_out_by_name(broker: SurveyedBroker) -> None:
    broker.queues, broker.committed = {"P": {0: (0, 5)}, "Q": {0: (0, 1)}}, {"P@gone": {0: 1}}
    assert await unread(broker.address, {"gone", "Q"}) == []


async def test_a_broker_that_is_not_there_is_told_beside_those_that_are(broker: SurveyedBroker) -> None:
    class Options:
        brokers: list[str]
        unread, ignore, credentials = True, ["nothing"], None

    options = Options()
    options.brokers = [broker.address, f"127.0.0.1:{free_port()}"]
    found = await _survey_brokers(options)  # type: ignore[arg-type]  # has the requested names
    assert [one.get("name") for one in found["brokers"]] == ["orders", None]
    assert "problem" in found["brokers"][1]
    assert (found["unread"], found["unread_messages"]) == ([], 0)
    assert len(json.dumps(found)) < 4_096


async def test_writes_are_forbidden_and_allowed_at_brokers_and_name_servers(broker: SurveyedBroker) -> None:
    name_server = SurveyedBroker()
    await name_server.start()
    try:
        await permit(BrokerPermission.READ, "orders", [broker.address], [name_server.address])
        assert broker.settings["brokerPermission"] == "4"
        await permit(BrokerPermission.READ_AND_WRITE, "orders", [broker.address], [name_server.address])
        assert broker.settings["brokerPermission"] == "6"
        codes = [RequestCode.WIPE_WRITE_PERM_OF_BROKER, RequestCode.ADD_WRITE_PERM_OF_BROKER]
        assert name_server.told == [(code, "orders") for code in codes]
    finally:
        await name_server.stop()


async def test_a_name_server_that_is_gone_is_no_success(broker: SurveyedBroker) -> None:
    with pytest.raises(AskError):
        await permit(BrokerPermission.READ, "orders", [broker.address], [f"127.0.0.1:{free_port()}"])
