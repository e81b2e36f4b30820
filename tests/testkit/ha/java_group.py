"""A broker group whose Java master has a log of ours: a slave's cost, by the master's own account."""

import asyncio
import contextlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from controller_core.channel.asking import Asker, AskError
from controller_core.remoting.bodies import HARuntimeInfo
from controller_core.remoting.codes import RequestCode
from controller_core.remoting.routes import KVTable
from ha_sidecar.address import host_port
from ha_sidecar.common.questions import ask_broker
from testkit.ha.end_processes import Transfer, TransferWatch
from testkit.products.controllers import ControllerCluster
from testkit.products.replica import LogReplicaProcess
from testkit.rocketmq.load import LoadClient, LoadSettings
from testkit.rocketmq.processes import BrokerPlace, JavaBroker, NameServer

CLUSTER: Final = "c"
GROUP: Final = "g"
WARM_UP_SENDS: Final = 500
BOOT_TIMEOUT_S: Final = 150.0
ROW_TIMEOUT_S: Final = 60.0
_POLL_S: Final = 0.01


class JavaGroup:
    """A group whose Java master has our log, and the slaves that are measured with it, one after another."""

    def __init__(
        self, jar_directory: Path, directory: Path, settings: Mapping[str, str], seconds: int
    ) -> None:
        """Describe it; nothing runs before `start`.

        Args:
            jar_directory: folder of one release's jars.
            directory: everything is written below it.
            settings: of its brokers; `mappedFileSizeCommitLog` is the log's.
            seconds: how long sends are measured.
        """
        self._jars = jar_directory
        self._directory = directory
        self._settings = settings
        self._seconds = seconds
        self._controllers = ControllerCluster(directory / "controllers", 1)
        self._name_server = NameServer(jar_directory, directory / "ns")
        self.master = self.broker("master")
        self._asker = Asker(host_port(self.master.address))

    def broker(self, name: str) -> JavaBroker:
        """Describe a broker of the group."""
        place = BrokerPlace(CLUSTER, GROUP, name, self._directory / name)
        addresses = self._controllers.remoting_addresses
        return JavaBroker(self._jars, place, self._name_server.address, self._settings, controllers=addresses)

    async def start(self, source: Path) -> int:
        """Start the master on a copy of the log, wait until it has built its queues; return the log's end."""
        shutil.copytree(source, self.master.store, ignore=shutil.ignore_patterns("lock"))
        await asyncio.gather(self._name_server.start(), self._controllers.start())
        await self.master.start(BOOT_TIMEOUT_S)
        await self._name_server.wait_for_master(GROUP)
        async with asyncio.timeout(BOOT_TIMEOUT_S):
            while True:
                with contextlib.suppress(AskError):
                    facts = await ask_broker(self._asker, self.master.address)
                    figures = await self._asker.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
                    behind = KVTable.decode(figures.body).table["dispatchBehindBytes"]
                    if facts.is_master and behind == "0":
                        return facts.max_offset
                await asyncio.sleep(0.1)

    async def stop(self) -> None:
        """End all of it."""
        self._asker.close()
        await self.master.kill()
        await asyncio.gather(self._name_server.stop(), self._controllers.stop())

    async def watch(self, slave_pid: int) -> Transfer:
        """Follow the one slave's acknowledgements by the master's word (907) until it has all of the log."""
        status = await self._status()
        watch = TransferWatch(status.master_commit_log_max_offset, self.master.process.pid, slave_pid)
        async with asyncio.timeout(BOOT_TIMEOUT_S + ROW_TIMEOUT_S):
            while watch.transfer is None:
                with contextlib.suppress(AskError):
                    slaves = (await self._status()).ha_connection_info
                    watch.saw(max((slave.slave_ack_offset for slave in slaves), default=-1))
                await asyncio.sleep(_POLL_S)
        return watch.transfer

    async def _status(self) -> HARuntimeInfo:
        return HARuntimeInfo.decode((await self._asker.ask(RequestCode.GET_BROKER_HA_STATUS)).body)

    async def send_latencies_s(self, name: str, members: int) -> list[float]:
        """Let a client send one message after another to the group, whose set has so many members."""
        await self._controllers.wait_group(
            CLUSTER, GROUP, lambda info: len(info["sync_state_set"]) == members, ROW_TIMEOUT_S
        )
        directory = self._directory / f"load-{name}"
        address = self._name_server.address
        async with LoadClient(self._jars, address, "Latency", directory, LoadSettings(threads=1)) as load:
            await load.wait_for_acknowledged(WARM_UP_SENDS, ROW_TIMEOUT_S)
            await asyncio.sleep(self._seconds)
            await load.stop()
        sends = load.sends()[WARM_UP_SENDS:]
        return [(send.end_ns - send.start_ns) / 1e9 for send in sends if send.acknowledged]

    def replica(self, ack_after: str) -> LogReplicaProcess:
        """Describe a log replica of the group."""
        settings = {
            "mapped-file-bytes": self._settings["mappedFileSizeCommitLog"],
            "ack-after": ack_after,
        }
        addresses = self._controllers.remoting_addresses
        return LogReplicaProcess(
            self._directory / f"replica-{ack_after}", CLUSTER, GROUP, addresses, settings
        )
