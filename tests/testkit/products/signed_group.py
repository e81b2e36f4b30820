"""Two brokers with users and rights, a log replica, and all of ours that asks them, with credentials."""

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
    ListAclsRequestHeader,
    ListUsersRequestHeader,
    UserInfo,
    decode_list,
)
from controller_core.channel.asking import Asker, AskError
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.header import Header
from ha_sidecar.address import host_port
from testkit.processes.credentials import write_credentials
from testkit.products.companion import BrokerCompanion
from testkit.products.controllers import ControllerCluster
from testkit.products.replica import LogReplicaProcess
from testkit.rocketmq.processes import QUICK_SETTINGS, ZERO_LOSS_SETTINGS, BrokerPlace, JavaBroker, NameServer

INNER = Credentials("rocketmq-ha", "inner-password-1")
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

    async def wait_ready(self, index: int) -> None:
        """Wait until a slave is ready, which it is when it has the users of its master."""
        async with asyncio.timeout(WAIT_S), aiohttp.ClientSession() as session:
            while True:
                url = f"http://{self.companions[index].http}/readyz"
                with contextlib.suppress(aiohttp.ClientError):
                    async with session.get(url) as response:
                        if response.ok:
                            return
                await asyncio.sleep(0.1)
