"""Real brokers that predate controller mode, on loopback.

The commands of a migration take their stores over.

A master and a slave as RocketMQ's documents deploy them, or a broker of DLedger. Their stores lie where
ours do not, so that they have to be moved. Their successor is a broker in controller mode on the same
directory, as on the same volume.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from controller_core.access.request_signer import RequestSigner
from controller_core.access.signing import Credentials
from controller_core.channel.asking import Asker, AskError
from controller_core.remoting.bodies import HARuntimeInfo
from controller_core.remoting.client_headers import GetRouteInfoRequestHeader
from controller_core.remoting.codes import RequestCode
from controller_core.remoting.routes import TopicRouteData
from ha_sidecar.address import host_port
from testkit.processes.credentials import write_credentials
from testkit.processes.ports import LOOPBACK, free_ports
from testkit.products.controllers import ControllerCluster, command_path
from testkit.products.store_commands import printed_by
from testkit.rocketmq.load import LoadClient, LoadSettings, Send
from testkit.rocketmq.processes import QUICK_SETTINGS, BrokerPlace, JavaBroker, NameServer

CLUSTER: Final = "c"
GROUP: Final = "orders"
TOPIC: Final = "Payments"
OLD_STORE: Final = "home/rocketmq"
FILE_BYTES: Final = 1 << 20
BOOT_TIMEOUT_S: Final = 200.0
_ACKS_TIMEOUT_S: Final = 240.0
_POLL_S: Final = 0.2
MASTER: Final = {"brokerId": "0", "brokerRole": "ASYNC_MASTER"}
SLAVE: Final = {"brokerId": "1", "brokerRole": "SLAVE"}


def dledger(members: int = 1) -> list[dict[str, str]]:
    """Return the settings of each member of a DLedger group."""
    peers = ";".join(f"n{number}-{LOOPBACK}:{port}" for number, port in enumerate(free_ports(members)))
    return [
        {
            "enableDLegerCommitLog": "true",
            "dLegerGroup": GROUP,
            "dLegerPeers": peers,
            "dLegerSelfId": f"n{number}",
        }
        for number in range(members)
    ]


def _signed(admin: Credentials) -> dict[str, str]:
    """Return the settings of brokers that refuse requests without a signature."""
    auth = "org.apache.rocketmq.auth"
    user = {"username": admin.username, "password": admin.password}
    inner = {"accessKey": admin.username, "secretKey": admin.password}
    return {
        "authenticationEnabled": "true",
        "authenticationProvider": f"{auth}.authentication.provider.DefaultAuthenticationProvider",
        "authenticationMetadataProvider": (
            f"{auth}.authentication.provider.LocalAuthenticationMetadataProvider"
        ),
        "initAuthenticationUser": json.dumps(user),
        "innerClientAuthenticationCredentials": json.dumps(inner),
    }


class OldGroup:
    """Directories of brokers that are started as they were, and then as they will be."""

    def __init__(
        self,
        jars: Path,
        directory: Path,
        name_server: NameServer,
        admin: Credentials | None = None,
        *,
        tls: Path | None = None,
    ) -> None:
        """Take the jars, a directory for all, and the name server that runs.

        With `admin`, brokers want signed requests, and all parts sign with this super user. With `tls`, a
        directory with authorities, commands dial in TLS only.
        """
        self.jars: Final = jars
        self.directory: Final = directory
        self.name_server: Final = name_server
        self.sign: RequestSigner | None = None
        self.user: Final = None if admin is None else (admin.username, admin.password)
        self._access = {} if admin is None else _signed(admin)
        self._credentials: list[str] = []
        self._tls = [] if tls is None else [f"--tls={tls}", "--tls-mode=enforcing"]
        settings: dict[str, str] = {}
        if admin is not None:
            files = write_credentials(directory / "credentials", admin)
            self.sign = RequestSigner(files)
            self._credentials = [f"--credentials={files}"]
            settings = {"credentialsPath": str(files)}
        self.controllers: Final = ControllerCluster(directory / "controllers", 1, settings=settings)
        self._started: list[JavaBroker] = []
        self._loads = 0

    def volume(self, name: str) -> Path:
        """Return what would be a broker's volume."""
        return self.directory / name

    async def start_old(self, name: str, settings: Mapping[str, str]) -> JavaBroker:
        """Start a broker without controllers."""
        store = self.volume(name) / OLD_STORE
        paths = {"storePathRootDir": str(store), "storePathCommitLog": str(store / "commitlog")}
        return await self._start(name, {**paths, **settings}, ())

    async def start_new(self, name: str) -> JavaBroker:
        """Start a broker in controller mode where the operator's have their store."""
        # A machine that stands still for some seconds makes no dead master.
        settings = {**QUICK_SETTINGS, "controllerHeartBeatTimeoutMills": "15000"}
        return await self._start(name, settings, self.controllers.remoting_addresses)

    async def _start(self, name: str, settings: Mapping[str, str], controllers: Sequence[str]) -> JavaBroker:
        given = {"mappedFileSizeCommitLog": str(FILE_BYTES), **self._access, **settings}
        place = BrokerPlace(CLUSTER, GROUP, name, self.volume(name))
        broker = JavaBroker(self.jars, place, self.name_server.address, given, controllers=controllers)
        self._started.append(broker)
        await broker.start(BOOT_TIMEOUT_S)
        return broker

    async def start_both_new(self, first: str, second: str) -> tuple[JavaBroker, JavaBroker]:
        """Start controllers, one broker, and the other when that is master; wait for both in the set."""
        await self.controllers.start()
        master = await self.start_new(first)
        await self.controllers.wait_group(
            CLUSTER, GROUP, lambda info: bool(info["master_id"]), BOOT_TIMEOUT_S
        )
        slave = await self.start_new(second)
        await self.controllers.wait_group(
            CLUSTER, GROUP, lambda info: len(info["sync_state_set"]) == 2, BOOT_TIMEOUT_S
        )
        await self.name_server.wait_for_master(GROUP, BOOT_TIMEOUT_S)
        return master, slave

    async def stop(self) -> None:
        """End all."""
        await asyncio.gather(*(broker.stop() for broker in self._started))
        await self.controllers.stop()

    async def send(self, count: int) -> list[Send]:
        """Let a Java producer send until so many are acknowledged; return all its sends."""
        await self.name_server.wait_for_master(GROUP, BOOT_TIMEOUT_S)
        self._loads += 1
        settings = LoadSettings(threads=2, payload_bytes=2_000, user=self.user)
        directory = self.directory / f"load-{self._loads}"
        async with LoadClient(self.jars, self.name_server.address, TOPIC, directory, settings) as load:
            await load.wait_for_acknowledged(count, _ACKS_TIMEOUT_S)
            await load.stop()
        return load.sends()

    async def survey(self, *brokers: JavaBroker, unread: bool = False) -> dict[str, Any]:
        """Ask brokers what they say of themselves, until each answers."""
        asked = f"--brokers={','.join(broker.address for broker in brokers)}"
        words = ["survey", "--output=json", asked, *(["--unread"] if unread else [])]
        words += [*self._credentials, *self._tls]
        async with asyncio.timeout(BOOT_TIMEOUT_S):
            while True:
                told = await printed_by([command_path("ha-sidecar"), *words])
                if not any("problem" in one for one in told["brokers"]):
                    return told

    async def refusals(self, *brokers: JavaBroker) -> list[str]:
        """Return what brokers answer to somebody without credentials."""
        asked = f"--brokers={','.join(broker.address for broker in brokers)}"
        told = await printed_by([command_path("ha-sidecar"), "survey", "--output=json", asked])
        return [str(one.get("problem", "")) for one in told["brokers"]]

    async def until_one_leads(self, *brokers: JavaBroker) -> JavaBroker:
        """Wait until a member of DLedger leads and the others know as many topics and groups; return it."""
        async with asyncio.timeout(BOOT_TIMEOUT_S):
            while True:
                told = (await self.survey(*brokers))["brokers"]
                leading = [one for one in told if one["broker_id"] == 0]
                if len(leading) == 1 and len({(one["topics"], one["groups"]) for one in told}) == 1:
                    return next(one for one in brokers if one.address == leading[0]["address"])

    async def permit(self, permission: str, *brokers: JavaBroker) -> None:
        """Forbid writes, or allow them."""
        asked = f"--brokers={','.join(broker.address for broker in brokers)}"
        names = [f"--group={GROUP}", f"--name-servers={self.name_server.address}", "--output=json"]
        words = ["permission", permission, *names, asked, *self._credentials, *self._tls]
        await printed_by([command_path("ha-sidecar"), *words])

    async def permissions(self) -> set[int]:
        """Return what the name server says of the topic's queues."""
        asker = Asker(host_port(self.name_server.address))
        header = GetRouteInfoRequestHeader(TOPIC, accept_standard_json_only=True)
        try:
            answer = await asker.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
        except AskError:
            return set()
        finally:
            asker.close()
        return {queues.perm for queues in TopicRouteData.decode(answer.body).queue_datas}

    async def until_permissions(self, wanted: int) -> None:
        """Wait until the name server says so of all queues."""
        async with asyncio.timeout(BOOT_TIMEOUT_S):
            while await self.permissions() != {wanted}:  # noqa: ASYNC110 - without a notification
                await asyncio.sleep(_POLL_S)

    async def until_followed(self, master: JavaBroker) -> None:
        """Wait until a slave reported its end to the master.

        An empty slave begins with the master's newest file: one that connects late
        never gets the earlier files.
        """
        asker = Asker(host_port(master.address), self.sign)
        try:
            async with asyncio.timeout(BOOT_TIMEOUT_S):
                while not await self._is_followed(asker):  # noqa: ASYNC110 - no event tells
                    await asyncio.sleep(_POLL_S)
        finally:
            asker.close()

    async def _is_followed(self, asker: Asker) -> bool:
        try:
            answer = await asker.ask(RequestCode.GET_BROKER_HA_STATUS)
        except AskError:
            return False
        connections = HARuntimeInfo.decode(answer.body).ha_connection_info
        return any(connection.slave_ack_offset >= 0 for connection in connections)

    async def until_equal(self, master: JavaBroker, slave: JavaBroker) -> int:
        """Wait until both logs end at the same offset; return it."""
        async with asyncio.timeout(BOOT_TIMEOUT_S):
            while True:
                ends = {one["max_offset"] for one in (await self.survey(master, slave))["brokers"]}
                if len(ends) == 1:
                    return int(ends.pop())

    async def verify(self, name: str) -> dict[str, Any]:
        """Check every record of a stopped broker's log."""
        log = self.volume(name) / OLD_STORE / "commitlog"
        return await printed_by([command_path("ha-sidecar"), "verify", str(log), "--output=json"])

    async def adopt(self, name: str, keep: str) -> dict[str, Any]:
        """Make a stopped broker's store ours."""
        where = [f"--store={OLD_STORE}", f"--commit-log={OLD_STORE}/commitlog"]
        rest = ["--output=json", f"--keep={keep}", f"--mapped-file-bytes={FILE_BYTES}"]
        return await printed_by([command_path("ha-sidecar"), "adopt", str(self.volume(name)), *where, *rest])
