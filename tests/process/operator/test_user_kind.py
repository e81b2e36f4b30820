"""A User on real brokers: they serve its client, and refuse what it may not do, also after a switchover.

The operator is one in this process. It knows the group's brokers by their addresses, and speaks to them as it
does on Kubernetes.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from controller_core.access.signing import Credentials
from controller_core.channel.asking import AskError
from controller_core.remoting.client_headers import (
    PullMessageRequestHeader,
    QueryConsumerOffsetRequestHeader,
    SendMessageRequestHeaderV2,
)
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.header import Header
from rocketmq_operator.api.names import ROTATE_ANNOTATION
from rocketmq_operator.clients.brokers import BrokersClient
from rocketmq_operator.plan.common.objects import Owner
from rocketmq_operator.plan.credentials.inner_users import InnerUsers, credentials_secret
from testkit.processes.credentials import write_credentials
from testkit.products.signed_group import INNER, WAIT_S, SignedGroup, asking, known, refused
from testkit.rocketmq.jars import jars
from testkit.rocketmq.load import LoadClient, LoadSettings, read_back
from testkit.rocketmq.processes import JavaBroker
from testkit.worlds.metadata import API, WITH_USERS, MetadataWorld

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

CLUSTER = ("RocketMQCluster", "main")
INNER_SECRET = "main-broker-credentials"  # noqa: S105 - a name
TOPIC, READERS = "load", "read-back-"
SPEC = {
    "cluster": "main",
    "passwordSecret": {"name": "keys"},
    "rights": [
        {"resource": f"Topic:{TOPIC}", "actions": ["Pub", "Sub", "Get"]},
        {"resource": f"Group:{READERS}*", "actions": ["Sub"]},
    ],
}
FIRST, SECOND = Credentials("alice", "first-password"), Credentials("alice", "second-password")


class OperatedGroup:
    """A group with users, and an operator's world that knows its brokers."""

    def __init__(self, group: SignedGroup, directory: Path) -> None:
        self.group = group
        self.world = MetadataWorld()
        self._directory = directory
        self.world.put("RocketMQCluster", "main", WITH_USERS)
        self.world.kube.remove("BrokerGroup", "shop", "pay")
        for name_server in ("main-nameserver", "main-nameserver-0"):
            self.world.kube.remove("Service", "shop", name_server)  # not the operator's own
        uid = self.world.kube.objects["RocketMQCluster", "shop", "main"]["metadata"]["uid"]
        owner = Owner(API, "RocketMQCluster", "main", "shop", uid)
        self.world.kube.put(credentials_secret(owner, InnerUsers(INNER)))
        self.world.put_secret("keys", password=FIRST.password)
        self.world.brokers = BrokersClient()  # type: ignore[assignment]  # real ones in place of those in memory

    async def apply(self, **spec: object) -> None:
        """Write alice."""
        await self.settle("alice", SPEC | spec)

    async def settle(self, name: str, spec: dict[str, object]) -> None:
        """Write a User, and make passes until it is ready: a JVM's first answers may come too late."""
        self.world.put("User", name, spec)
        master = await self.group.master()
        self.world.controllers.masters = {"orders": self.group.brokers[master].address}
        self.world.controllers.slaves = {"orders": [self.group.brokers[1 - master].address]}
        async with asyncio.timeout(WAIT_S):
            while True:
                await self.world.one_pass("User", name)
                if self.world.condition("Ready", "User", name) == ("True", "Applied"):
                    return
                await asyncio.sleep(0.2)

    async def refusal(self, broker: JavaBroker, user: Credentials, topic: str = TOPIC) -> str:
        """Send a message as a user; return why it is refused, empty if it is not."""
        header = SendMessageRequestHeaderV2.of_message(topic, 0, {}, 0, group="orders")
        return await self._asked(broker, user, RequestCode.SEND_MESSAGE_V2, header, b"x")

    async def reading_refusals(self, broker: JavaBroker, user: Credentials) -> list[str]:
        """Read as a consumer of the user does; return why that is refused."""
        group = f"{READERS}1"
        pull = PullMessageRequestHeader(group, TOPIC, 0, 0, 1, 0, 0, 0, "*")
        offset = QueryConsumerOffsetRequestHeader(group, TOPIC, 0)
        asked = [
            await self._asked(broker, user, RequestCode.PULL_MESSAGE, pull),
            await self._asked(broker, user, RequestCode.QUERY_CONSUMER_OFFSET, offset),
        ]
        return [one for one in asked if one]

    async def _asked(
        self, broker: JavaBroker, user: Credentials, code: RequestCode, header: Header, body: bytes = b""
    ) -> str:
        """Ask until there is an answer; return a refusal for want of a right, or of a valid signature."""
        directory = write_credentials(self._directory / user.password, user)
        async with asking(broker, directory) as asker, asyncio.timeout(WAIT_S):
            while True:
                try:
                    await asker.ask(code, header, body)
                except AskError as error:
                    if error.code == ResponseCode.NO_PERMISSION:
                        return str(error)
                    if error.is_refusal:
                        return ""
                    await asyncio.sleep(0.1)
                else:
                    return ""

    async def pass_until(self, done: Callable[[], bool]) -> None:
        """Make passes over the cluster until something holds."""
        deadline_s = time.monotonic() + WAIT_S
        while not done():
            assert time.monotonic() < deadline_s, self.rotation()
            master = await self.group.master()
            self.world.controllers.masters = {"orders": self.group.brokers[master].address}
            self.world.controllers.slaves = {"orders": [self.group.brokers[1 - master].address]}
            await self.world.one_pass(*CLUSTER)
            await asyncio.sleep(0.2)

    def rotation(self) -> str:
        """Return the message of the condition about the rotation."""
        found = self.world.status(*CLUSTER)["conditions"]
        return next(str(one["message"]) for one in found if one["type"] == "CredentialsCurrent")

    async def restart(self, index: int, signer: Credentials) -> None:
        """Restart a broker that is not master, as its start script does with the Secret's files."""
        broker = self.group.brokers[index]
        await broker.kill()
        config = broker.place.directory / "broker.conf"
        kept = [line for line in config.read_text().splitlines() if not line.startswith("innerClient")]
        inner = json.dumps({"accessKey": signer.username, "secretKey": signer.password})
        config.write_text("\n".join([*kept, f"innerClientAuthenticationCredentials={inner}", ""]))
        await broker.start()
        await self.group.wait_in_sync()


async def _move_to_another_super_user(operated: OperatedGroup) -> None:
    """Let operator, controllers and members sign as another user, and switch over: the guard needs it."""
    other = Credentials("inner-2", "inner-password-2")
    operated.world.put_secret("inner", password=other.password)
    spec = {"cluster": "main", "type": "Super", "passwordSecret": {"name": "inner"}}
    await operated.settle("inner-2", spec)
    write_credentials(operated.group.credentials, other)
    operated.world.put_secret("main-broker-credentials", username=other.username, password=other.password)
    await operated.group.elect(1 - await operated.group.master())


@pytest.fixture
async def operated(tmp_path: Path) -> AsyncIterator[OperatedGroup]:
    group = SignedGroup(await jars("5.5.0"), tmp_path)
    try:
        await group.start()
        yield OperatedGroup(group, tmp_path / "credentials")
    finally:
        await group.stop()


async def test_a_user_is_served_within_its_rights_through_switchover_and_new_password(
    operated: OperatedGroup, tmp_path: Path
) -> None:
    group = operated.group
    await operated.apply()
    master, slave = (group.brokers[index] for index in (await group.master(), 1 - await group.master()))
    for broker in (master, slave):
        async with asking(broker, group.credentials) as asker:
            users, rights = await known(asker)
        assert users["alice"].password == FIRST.password
        assert rights == {"User:alice": {f"Topic:{TOPIC}", f"Group:{READERS}*"}}
    assert await operated.refusal(master, FIRST) == ""
    assert "check signature failed" in await operated.refusal(master, SECOND)
    assert "has no permission" in await operated.refusal(master, FIRST, "payments")
    assert await operated.reading_refusals(master, FIRST) == []

    load_settings = LoadSettings(rate=200, poll_name_server_ms=200, user=(FIRST.username, FIRST.password))
    load = LoadClient(await jars("5.5.0"), group.name_server.address, TOPIC, tmp_path / "load", load_settings)
    async with load:
        await load.wait_for_acknowledged(300, 120.0)
        await group.elect(group.brokers.index(slave))
        await load.wait_for_acknowledged(600, 120.0)
    sends = load.sends()
    assert [one.problem for one in sends if "permission" in one.problem or "signature" in one.problem] == []
    result = await read_back(
        await jars("5.5.0"),
        group.name_server.address,
        TOPIC,
        sends,
        tmp_path / "load",
        (FIRST.username, FIRST.password),
    )
    assert result.lost == frozenset()

    await _move_to_another_super_user(operated)
    operated.world.put_secret("keys", password=SECOND.password)
    await operated.apply()
    for broker in (master, slave):
        # By reading: a slave refuses sends before it looks at who sends.
        assert "check signature failed" in (await operated.reading_refusals(broker, FIRST))[-1]
        assert await operated.reading_refusals(broker, SECOND) == []
    await operated.apply(enabled=False)
    assert "is disabled" in (await operated.reading_refusals(slave, SECOND))[-1]
    await operated.apply(rights=[], enabled=True)
    assert "has no permission" in (await operated.reading_refusals(slave, SECOND))[-1]

    operated.world.delete("User", "alice")
    await operated.world.one_pass("User", "alice")
    assert not operated.world.has("User", "alice")
    for broker in (master, slave):
        async with asking(broker, group.credentials) as asker:
            users, rights = await known(asker)
        assert (set(users), rights) == ({INNER.username, "inner-2"}, {})


async def test_the_super_user_is_replaced_under_load_and_nobody_is_refused(
    operated: OperatedGroup, tmp_path: Path
) -> None:
    group, world = operated.group, operated.world
    await operated.apply()
    release, user = await jars("5.5.0"), (FIRST.username, FIRST.password)
    settings = LoadSettings(rate=200, poll_name_server_ms=200, user=user)
    async with LoadClient(release, group.name_server.address, TOPIC, tmp_path / "load", settings) as load:
        await load.wait_for_acknowledged(300, 120.0)
        await world.kube.annotate("RocketMQCluster", "shop", "main", {ROTATE_ANNOTATION: INNER.username})
        await operated.pass_until(lambda: "formerUsername" in world.secret(INNER_SECRET))
        secret = world.secret(INNER_SECRET)
        signer = Credentials(secret["username"], secret["password"])
        assert (signer.username, secret["formerUsername"]) == ("rocketmq-ha-2", INNER.username)
        write_credentials(group.credentials, signer)  # as the kubelet does
        world.advance(minutes=11)
        first = await group.master()
        await operated.restart(1 - first, signer)
        await world.one_pass(*CLUSTER)
        assert f"{group.brokers[first].address} do not sign as rocketmq-ha-2 yet" in operated.rotation()
        await group.elect(1 - first)
        await operated.restart(first, signer)
        await operated.pass_until(lambda: world.condition("CredentialsCurrent", *CLUSTER)[0] == "True")
        # With the former user gone, the members still work with each other.
        await group.elect(first)
        await load.wait_for_acknowledged(300, 120.0, after_ns=time.time_ns())
        for broker in group.brokers:
            assert await operated.reading_refusals(broker, FIRST) == []
    sends = load.sends()
    assert [one.problem for one in sends if "permission" in one.problem or "signature" in one.problem] == []
    result = await read_back(release, group.name_server.address, TOPIC, sends, tmp_path / "load", user)
    assert result.lost == frozenset()
    assert "formerUsername" not in world.secret(INNER_SECRET)
    former = write_credentials(tmp_path / "former", INNER)
    for broker in group.brokers:
        async with asking(broker, group.credentials) as asker:
            assert set((await known(asker))[0]) == {"alice", "rocketmq-ha-2"}
        async with asking(broker, former) as asker:
            assert "is not found" in await refused(asker, RequestCode.GET_BROKER_CONFIG)
