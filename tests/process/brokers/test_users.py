"""Brokers with users and rights (ACL 2.0), and everything of ours that asks them.

The controllers, the companions and the log replica sign. So a switchover sets its write guard, and failovers
work as without access control. Each broker keeps users in its own store, which slaves do not copy. The
companions copy them, also to a broker that lost its store.
"""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from controller_core.access.request_signer import RequestSigner
from controller_core.access.signing import Credentials
from controller_core.access.users import (
    AclInfo,
    AclRequestHeader,
    DeleteAclRequestHeader,
    ListAclsRequestHeader,
    ListUsersRequestHeader,
    PolicyEntryInfo,
    PolicyInfo,
    UserInfo,
    UserRequestHeader,
    decode_list,
    subject,
)
from controller_core.channel.asking import Asker, AskError
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.header import Header
from ha_sidecar.address import host_port
from testkit.processes.credentials import write_credentials
from testkit.products.companion import BrokerCompanion
from testkit.products.controllers import ControllerCluster
from testkit.products.replica import LogReplicaProcess
from testkit.rocketmq.jars import jars
from testkit.rocketmq.load import LoadClient, LoadSettings, read_back
from testkit.rocketmq.processes import (
    QUICK_SETTINGS,
    ZERO_LOSS_SETTINGS,
    BrokerPlace,
    JavaBroker,
    NameServer,
    mqadmin,
)

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

INNER = Credentials("rocketmq-ha", "inner-password-1")
ALICE = ("alice", "alice-password-1")
_AUTH = "org.apache.rocketmq.auth"
ACCESS_CONTROL = {
    "authenticationEnabled": "true",
    "authenticationMetadataProvider": f"{_AUTH}.authentication.provider.LocalAuthenticationMetadataProvider",
    "authorizationEnabled": "true",
    "authorizationMetadataProvider": f"{_AUTH}.authorization.provider.LocalAuthorizationMetadataProvider",
    "innerClientAuthenticationCredentials": (
        f'{{"accessKey":"{INNER.username}","secretKey":"{INNER.password}"}}'
    ),
}
RIGHTS = (
    PolicyEntryInfo("Group:*", ("Sub",), None, "Allow"),
    PolicyEntryInfo("Topic:*", ("Pub", "Sub", "Create", "Get"), None, "Allow"),
)
WAIT_S = 60.0


@contextlib.asynccontextmanager
async def asking(broker: JavaBroker, directory: Path) -> AsyncIterator[Asker]:
    """Hold a connection to a broker on which requests are signed with the files of a directory."""
    asker = Asker(host_port(broker.address), RequestSigner(directory))
    try:
        yield asker
    finally:
        asker.close()


async def must(asker: Asker, code: RequestCode, header: Header | None = None, body: bytes = b"") -> bytes:
    """Ask until there is an answer, which must be a success: a JVM's first answers take long."""
    async with asyncio.timeout(WAIT_S):
        while True:
            try:
                return (await asker.ask(code, header, body)).body
            except AskError as error:
                if error.is_refusal:
                    raise
            await asyncio.sleep(0.1)


async def refused(asker: Asker, code: RequestCode, header: Header | None = None) -> str:
    """Return why a request is refused."""
    with pytest.raises(AskError) as raised:
        await must(asker, code, header)
    assert raised.value.code == ResponseCode.NO_PERMISSION
    return str(raised.value)


async def make_alice(master: Asker) -> None:
    """Make a user with rights to send and read."""
    user = UserInfo(ALICE[0], ALICE[1], "Normal", "enable")
    await must(master, RequestCode.AUTH_CREATE_USER, UserRequestHeader(ALICE[0]), user.encode())
    rights = AclInfo(subject(ALICE[0]), (PolicyInfo("Custom", RIGHTS),))
    await must(master, RequestCode.AUTH_CREATE_ACL, AclRequestHeader(subject(ALICE[0])), rights.encode())


async def known(asker: Asker) -> tuple[dict[str, UserInfo], dict[str, set[str]]]:
    """Return a broker's users by name, and the resources that each has rights on."""
    users = decode_list(await must(asker, RequestCode.AUTH_LIST_USER, ListUsersRequestHeader()), UserInfo)
    rights = decode_list(await must(asker, RequestCode.AUTH_LIST_ACL, ListAclsRequestHeader()), AclInfo)
    return (
        {user.username or "": user for user in users},
        {
            acl.subject or "": {
                entry.resource for policy in acl.policies or () for entry in policy.entries or ()
            }
            for acl in rights
        },
    )


class SignedGroup:
    """Two brokers with users, a log replica, and all that asks them with credentials."""

    def __init__(self, release: Path, directory: Path) -> None:
        self.credentials = write_credentials(directory / "inner", INNER)
        settings = {"credentialsPath": str(self.credentials)}
        self.controllers = ControllerCluster(directory / "controllers", 3, settings=settings)
        self.name_server = NameServer(release, directory / "ns")
        addresses = self.controllers.remoting_addresses
        self.brokers = [
            JavaBroker(
                release,
                BrokerPlace("demo", "orders", f"orders-{index}", directory / f"orders-{index}"),
                self.name_server.address,
                {**ZERO_LOSS_SETTINGS, **QUICK_SETTINGS, **ACCESS_CONTROL},
                controllers=addresses,
            )
            for index in range(2)
        ]
        signs = {"credentials": str(self.credentials)}
        self.replica = LogReplicaProcess(directory / "replica", "demo", "orders", addresses, signs)
        self.companions = [
            BrokerCompanion(one, addresses, **signs, **{"keep-users": "true"}) for one in self.brokers
        ]

    async def start(self) -> None:
        """Start all, and wait until the group has a master and everybody is in sync."""
        await asyncio.gather(self.controllers.start(), self.name_server.start(), self.replica.process.start())
        for broker in self.brokers:
            await broker.start()
        await asyncio.gather(*(one.process.start() for one in self.companions))
        await self.wait_in_sync()
        await self.name_server.wait_for_master("orders")

    async def stop(self) -> None:
        """End all."""
        brokers = [one.process for one in self.brokers]
        processes = [*brokers, self.replica.process, *(one.process for one in self.companions)]
        await asyncio.gather(*(process.kill() for process in processes))
        await asyncio.gather(self.name_server.stop(), self.controllers.stop())

    async def wait_in_sync(self) -> None:
        """Wait until the group has a master and all three members are in its SyncStateSet."""
        await self.controllers.wait_group(
            "demo", "orders", lambda found: len(found["sync_state_set"]) == 3 and found["master_id"], WAIT_S
        )

    async def master(self) -> int:
        """Return which of the brokers is master."""
        group = await self.controllers.wait_group(
            "demo", "orders", lambda found: bool(found["master_id"]), WAIT_S
        )
        (address,) = [one["address"] for one in group["replicas"] if one["master"]]
        return [broker.address for broker in self.brokers].index(address)

    async def elect(self, index: int) -> None:
        """Make a broker master by a switchover."""
        group = await self.controllers.wait_group(
            "demo", "orders", lambda found: bool(found["master_id"]), WAIT_S
        )
        address = self.brokers[index].address
        broker_id = max(one["broker_id"] for one in group["replicas"] if one["address"] == address)
        leader = self.controllers.http_addresses[await self.controllers.wait_leader()]
        async with aiohttp.ClientSession() as session, asyncio.timeout(WAIT_S):
            while True:
                url = f"http://{leader}/v1/groups/demo/orders/elect"
                async with session.post(url, json={"brokerId": broker_id}) as response:
                    text = await response.text()
                    if response.ok:
                        break
                # Its log may lack the newest messages for a moment.
                assert "was answered 16" not in text
                await asyncio.sleep(0.5)
        await self.wait_in_sync()
        assert await self.master() == index

    async def lose_store(self, index: int) -> None:
        """Kill a broker, and start it again without its store."""
        await self.brokers[index].process.kill()
        await self.companions[index].process.kill()
        await self.controllers.wait_group(
            "demo", "orders", lambda found: found["master_id"] and len(found["sync_state_set"]) == 2, WAIT_S
        )
        shutil.rmtree(self.brokers[index].store)
        await self.brokers[index].start()
        await self.companions[index].process.start()

    async def wait_copied(self, index: int) -> None:
        """Wait until a slave is ready, and check that it has alice with all rights."""
        async with asyncio.timeout(WAIT_S), aiohttp.ClientSession() as session:
            while True:
                url = f"http://{self.companions[index].http}/readyz"
                with contextlib.suppress(aiohttp.ClientError):
                    async with session.get(url) as response:
                        if response.ok:
                            break
                await asyncio.sleep(0.1)
        async with asking(self.brokers[index], self.credentials) as asker:
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
        await group.wait_copied(1 - master)
        await load.start()
        await load.wait_for_acknowledged(500, 120.0)
        # The controllers set the write guard, which they could not without a signature.
        await group.elect(1 - master)
        await load.wait_for_acknowledged(500, 120.0)
        await group.lose_store(1 - master)
        await load.wait_for_acknowledged(500, 120.0)
        await group.wait_copied(1 - master)
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
