"""Brokers with users and rights (ACL 2.0), and everything of ours that asks them.

The controllers, the companions and the log replica sign. So a switchover sets its write guard, and failovers
work as without access control. Each broker keeps users in its own store, which slaves do not copy. The
companions copy them, also to a broker that lost its store.
"""

import asyncio
from pathlib import Path

import pytest

from controller_core.access.signing import Credentials
from controller_core.access.users import (
    AclInfo,
    AclRequestHeader,
    DeleteAclRequestHeader,
    ListUsersRequestHeader,
    PolicyEntryInfo,
    PolicyInfo,
    UserInfo,
    UserRequestHeader,
    subject,
)
from controller_core.channel.asking import Asker
from controller_core.remoting.codes import RequestCode
from testkit.processes.credentials import write_credentials
from testkit.products.signed_group import (
    ACCESS_CONTROL,
    INNER,
    WAIT_S,
    SignedGroup,
    asking,
    known,
    must,
    refused,
)
from testkit.rocketmq.jars import jars
from testkit.rocketmq.load import LoadClient, LoadSettings, read_back
from testkit.rocketmq.processes import (
    BrokerPlace,
    JavaBroker,
    NameServer,
    mqadmin,
)

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

ALICE = ("alice", "alice-password-1")
RIGHTS = (
    PolicyEntryInfo("Group:*", ("Sub",), None, "Allow"),
    PolicyEntryInfo("Topic:*", ("Pub", "Sub", "Create", "Get"), None, "Allow"),
)


async def make_alice(master: Asker) -> None:
    """Make a user with rights to send and read."""
    user = UserInfo(ALICE[0], ALICE[1], "Normal", "enable")
    await must(master, RequestCode.AUTH_CREATE_USER, UserRequestHeader(ALICE[0]), user.encode())
    rights = AclInfo(subject(ALICE[0]), (PolicyInfo("Custom", RIGHTS),))
    await must(master, RequestCode.AUTH_CREATE_ACL, AclRequestHeader(subject(ALICE[0])), rights.encode())


async def _wait_copied(group: SignedGroup, index: int) -> None:
    """Wait until a slave is ready, and check that it has alice with all rights."""
    await group.wait_ready(index)
    async with asking(group.brokers[index], group.credentials) as asker:
        users, rights = await known(asker)
    assert users[ALICE[0]] == UserInfo(ALICE[0], ALICE[1], "Normal", "enable")
    assert rights == {subject(ALICE[0]): {"Group:*", "Topic:*"}}


async def test_users_survive_switchovers_failovers_and_a_lost_store(tmp_path: Path) -> None:
    release = await jars("5.5.0")
    group = SignedGroup(release, tmp_path)
    load_settings = LoadSettings(rate=200, poll_name_server_ms=200, user=ALICE)
    load = LoadClient(release, group.name_server.address, "load", tmp_path / "load", load_settings)
    try:
        await group.start()
        master = await group.master()
        async with asking(group.brokers[master], group.credentials) as asker:
            await make_alice(asker)
        await group.companions[1 - master].wait_status(lambda found: found["users_in_sync"] is True, WAIT_S)
        await _wait_copied(group, 1 - master)
        await load.start()
        await load.wait_for_acknowledged(500, 120.0)
        # The controllers set the write guard, which they could not without a signature.
        await group.elect(1 - master)
        await load.wait_for_acknowledged(500, 120.0)
        await group.lose_store(1 - master)
        await load.wait_for_acknowledged(500, 120.0)
        await _wait_copied(group, 1 - master)
        await group.wait_in_sync()
        await group.elect(1 - master)
        await load.wait_for_acknowledged(500, 120.0)
        await load.stop()
        directory = tmp_path / "load"
        result = await read_back(release, group.name_server.address, "load", load.sends(), directory, ALICE)
        await _delete_alice(group, 1 - master)
    finally:
        await load.process.stop()
        await group.stop()
    assert result.acknowledged >= 1_500
    assert result.lost == frozenset()
    assert [send.problem for send in load.sends() if "permission" in send.problem.lower()] == []
    logs = [one.process.output() for one in group.companions]
    for text in (*logs, group.replica.process.output(), group.controllers.logs()):
        assert INNER.password not in text
        assert ALICE[1] not in text


async def _delete_alice(group: SignedGroup, master: int) -> None:
    """Delete rights and user at the master, and wait until they are gone at its slave; the signer stays."""
    await group.companions[1 - master].wait_status(lambda found: found["users_in_sync"] is True, WAIT_S)
    async with (
        asking(group.brokers[master], group.credentials) as now,
        asking(group.brokers[1 - master], group.credentials) as slave,
    ):
        header = DeleteAclRequestHeader(subject(ALICE[0]), "Custom", "Topic:*")
        await must(now, RequestCode.AUTH_DELETE_ACL, header)
        await _wait_known(slave, {ALICE[0], INNER.username}, {subject(ALICE[0]): {"Group:*"}})
        await must(now, RequestCode.AUTH_DELETE_USER, UserRequestHeader(ALICE[0]))
        await _wait_known(slave, {INNER.username}, {})


async def test_a_broker_with_users_refuses_what_is_not_signed_or_not_allowed(tmp_path: Path) -> None:
    release = await jars("5.5.0")
    name_server = NameServer(release, tmp_path / "ns")
    broker = JavaBroker(
        release,
        BrokerPlace("demo", "orders", "orders-0", tmp_path / "orders-0"),
        name_server.address,
        ACCESS_CONTROL,
    )
    inner = write_credentials(tmp_path / "inner", INNER)
    wrong = write_credentials(tmp_path / "wrong", Credentials(INNER.username, "guessed"))
    stranger = write_credentials(tmp_path / "stranger", Credentials("mallory", "guessed"))
    normal = write_credentials(tmp_path / "normal", Credentials(*ALICE))
    try:
        await name_server.start()
        await broker.start()
        async with asking(broker, inner) as asker:
            await make_alice(asker)
            users, rights = await known(asker)
            assert users[ALICE[0]] == UserInfo(ALICE[0], ALICE[1], "Normal", "enable")
            assert users[INNER.username].user_type == "Super"
            assert rights == {subject(ALICE[0]): {"Group:*", "Topic:*"}}
            settings = (await must(asker, RequestCode.GET_BROKER_CONFIG)).decode()
            assert INNER.password in settings, "docs/operations/users.md warns of this"
            await _mqadmin_makes_bob(release, tmp_path / "admin", broker)
            users, rights = await known(asker)
            assert users["bob"] == UserInfo("bob", "bob-password-1", "Normal", "enable")
            assert rights[subject("bob")] == {"Topic:orders", "Group:order-readers"}
        for directory, words in (
            (tmp_path / "none", "username cannot be null"),
            (wrong, "check signature failed"),
            (stranger, "User:mallory is not found"),
        ):
            async with asking(broker, directory) as asker:
                assert words in await refused(asker, RequestCode.GET_BROKER_CONFIG)
        async with asking(broker, normal) as asker:
            header = ListUsersRequestHeader()
            assert "has no permission" in await refused(asker, RequestCode.AUTH_LIST_USER, header)
            # RocketMQ asks for no right here; docs/operations/users.md warns of it.
            await must(asker, RequestCode.UPDATE_BROKER_CONFIG, None, b"brokerPermission=6\n")
    finally:
        await broker.process.kill()
        await name_server.stop()


async def _wait_known(asker: Asker, users: set[str], rights: dict[str, set[str]]) -> None:
    """Wait until a broker has these users, and rights on these resources."""
    async with asyncio.timeout(WAIT_S):
        while True:
            found = await known(asker)
            if (set(found[0]), found[1]) == (users, rights):
                return
            await asyncio.sleep(0.2)


async def _mqadmin_makes_bob(release: Path, home: Path, broker: JavaBroker) -> None:
    """Run the commands of docs/operations/users.md."""
    (home / "conf").mkdir(parents=True)
    tools = f"accessKey: {INNER.username}\nsecretKey: {INNER.password}\n"
    (home / "conf" / "tools.yml").write_text(tools)
    at = ("-b", broker.address)
    await mqadmin(release, home, "createUser", *at, *["-u", "bob", "-p", "bob-password-1", "-t", "Normal"])
    rights = ["-s", "User:bob", "-r", "Topic:orders,Group:order-readers", "-a", "Pub,Sub", "-d", "Allow"]
    await mqadmin(release, home, "createAcl", *at, *rights)
    assert "bob" in await mqadmin(release, home, "listUser", *at)
