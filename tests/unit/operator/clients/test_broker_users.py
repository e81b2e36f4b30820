"""A user as the operator reads, writes and deletes it at a broker; the broker is one in this process."""

from collections.abc import AsyncIterator

import pytest

from controller_core.access.signing import Credentials
from controller_core.access.user_table import UserTable
from controller_core.access.users import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from rocketmq_operator.clients.api import Json, PeerUnavailableError, RequestRefusedError
from rocketmq_operator.clients.brokers import BrokersClient
from testkit.fakes.answering_broker import SIGNER, UserBroker

ALICE: Json = {
    "username": "alice",
    "password": "secret-1",
    "userType": "Normal",
    "userStatus": "enable",
    "rights": {
        "Group:readers": {"actions": ["Sub"], "sourceIps": [], "decision": "Allow"},
        "Topic:prices": {"actions": ["Pub", "Sub"], "sourceIps": ["10.0.0.1"], "decision": "Deny"},
    },
}
BOB = UserInfo("bob", "secret-2", "Normal", "enable")


@pytest.fixture
async def broker() -> AsyncIterator[UserBroker]:
    one = UserBroker([], "orders")
    one.has(UserTable.of((BOB,), ()))
    await one.start(register=False)
    yield one
    await one.die()


async def read(broker: UserBroker) -> Json | None:
    return await BrokersClient().read(broker.address, "User", "alice", SIGNER)


async def write(broker: UserBroker, config: Json) -> None:
    await BrokersClient().write(broker.address, "User", config, SIGNER)


async def test_a_user_that_is_not_there_is_none(broker: UserBroker) -> None:
    assert await read(broker) is None


async def test_a_user_is_read_as_it_was_written_and_others_are_left_alone(broker: UserBroker) -> None:
    await write(broker, ALICE)
    assert await read(broker) == ALICE
    assert broker.users["bob"] == BOB


async def test_a_write_changes_what_differs_and_removes_rights_that_are_not_wanted(
    broker: UserBroker,
) -> None:
    await write(broker, ALICE)
    one = {"Topic:orders": {"actions": ["Pub"], "sourceIps": [], "decision": "Allow"}}
    changed = ALICE | {"password": "secret-3", "userStatus": "disable", "rights": one}
    await write(broker, changed)
    assert await read(broker) == changed
    await write(broker, changed | {"rights": {}})
    assert await read(broker) == changed | {"rights": {}}


async def test_rights_of_the_default_policy_are_neither_read_nor_removed(broker: UserBroker) -> None:
    await write(broker, ALICE)
    entry = PolicyEntryInfo("*", ("Get",), None, "Allow")
    broker.rights |= UserTable.of((), (AclInfo("User:alice", (PolicyInfo("Default", (entry,)),)),)).rights
    assert await read(broker) == ALICE
    await write(broker, ALICE | {"rights": {}})
    assert [right[1] for right in broker.rights] == ["Default"]


async def test_a_user_is_deleted_with_its_rights(broker: UserBroker) -> None:
    await write(broker, ALICE)
    await BrokersClient().delete(broker.address, "User", "alice", SIGNER)
    assert await read(broker) is None
    assert (broker.rights, set(broker.users)) == ({}, {"bob"})


async def test_a_refusal_has_the_brokers_words_and_no_password(broker: UserBroker) -> None:
    broker.refused_users = frozenset({"alice"})
    with pytest.raises(RequestRefusedError, match="not configured") as refused:
        await write(broker, ALICE)
    assert ALICE["password"] not in str(refused.value)
    with pytest.raises(RequestRefusedError, match="check signature failed"):
        await BrokersClient().read(broker.address, "User", "alice", Credentials(SIGNER.username, "guessed"))


async def test_a_broker_tells_as_whom_it_signs_and_no_answer_quotes_a_password(broker: UserBroker) -> None:
    async def signs_as() -> str:
        return await BrokersClient().signs_as(broker.address, SIGNER)

    assert await signs_as() == ""
    broker.settings = {
        "innerClientAuthenticationCredentials": '{"accessKey":"rocketmq-ha-2","secretKey":"x="}'
    }
    assert await signs_as() == "rocketmq-ha-2"
    for rubbish in ("[1]", '"text"', "7"):
        broker.settings = {"innerClientAuthenticationCredentials": rubbish}
        assert await signs_as() == ""
    broker.settings = {"innerClientAuthenticationCredentials": '{"secretKey":"hidden'}
    with pytest.raises(PeerUnavailableError) as raised:
        await signs_as()
    assert "hidden" not in str(raised.value)
