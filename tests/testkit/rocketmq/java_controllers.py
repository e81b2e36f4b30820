"""Three of RocketMQ's own controllers on loopback, of either kind: what ours is measured beside.

DLedger is RocketMQ's default and never syncs its log to the disk; JRaft is the other choice and does.
"""

import asyncio
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Self

from controller_core.channel import ChannelError, connect
from controller_core.remoting.codes import RequestCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.headers import GetMetaDataResponseHeader
from testkit.processes.ports import free_ports
from testkit.processes.process import ManagedProcess
from testkit.rocketmq.processes import java_command, write_properties

NODES = 3
_BOOT_TIMEOUT_S = 150.0
_LEADER_TIMEOUT_S = 60.0


class JavaConsensus(StrEnum):
    """Which consensus library a Java controller uses."""

    DLEDGER = "DLedger"
    JRAFT = "jRaft"


class JavaControllers:
    """A started group of three; an async context manager.

    Attributes:
        addresses: where they serve remoting.
        processes: the JVMs.
    """

    def __init__(self, jars: Path, directory: Path, kind: JavaConsensus) -> None:
        ports = free_ports(2 * NODES)
        self.addresses = [f"127.0.0.1:{port}" for port in ports[:NODES]]
        self.processes = [
            self._describe(
                jars, directory / f"n{index}", index, _settings(kind, index, self.addresses, ports[NODES:])
            )
            for index in range(NODES)
        ]

    @staticmethod
    def _describe(jars: Path, directory: Path, index: int, settings: Mapping[str, str]) -> ManagedProcess:
        values = {
            **settings,
            "controllerStorePath": str(directory / "store"),
            "configStorePath": str(directory / "controller.properties"),
            "mappedFileSize": str(16 * 1024 * 1024),
        }
        config = write_properties(directory / "controller.conf", values)
        command = java_command(
            jars,
            "org.apache.rocketmq.controller.ControllerStartup",
            *("-c", str(config)),
            home=directory / "home",
            log="WARN",
        )
        return ManagedProcess(f"Java controller n{index}", command, directory / "controller.log")

    async def leader(self, timeout_s: float = _LEADER_TIMEOUT_S) -> str:
        """Return the address of the node that leads.

        Raises:
            TimeoutError: no controller does in time.
        """
        async with asyncio.timeout(timeout_s):
            while True:
                for address in self.addresses:
                    if found := await _leader_known_to(address):
                        return found
                await asyncio.sleep(0.2)

    async def __aenter__(self) -> Self:
        """Start all and wait until one leads."""
        try:
            await asyncio.gather(*(process.start() for process in self.processes))
            await self.leader(_BOOT_TIMEOUT_S)
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop all."""
        await self.stop()

    async def stop(self) -> None:
        """Kill all: what they have written is of no use to anybody."""
        await asyncio.gather(*(process.kill() for process in self.processes))


def _settings(kind: JavaConsensus, index: int, addresses: list[str], raft_ports: list[int]) -> dict[str, str]:
    if kind is JavaConsensus.DLEDGER:
        peers = ";".join(f"n{number}-{address}" for number, address in enumerate(addresses))
        return {
            "controllerDLegerGroup": "java",
            "controllerDLegerPeers": peers,
            "controllerDLegerSelfId": f"n{index}",
        }
    servers = [f"127.0.0.1:{port}" for port in raft_ports]
    return {
        "controllerType": str(kind),
        "jRaftGroupId": "java",
        "jRaftServerId": servers[index],
        "jRaftInitConf": ",".join(servers),
        "jRaftControllerRPCAddr": ",".join(addresses),
    }


async def _leader_known_to(address: str) -> str | None:
    host, _, port = address.rpartition(":")
    try:
        connection = await connect(host, int(port), 1.0)
    except ChannelError:
        return None
    try:
        answer = await connection.call(RemotingCommand.request(RequestCode.CONTROLLER_GET_METADATA_INFO), 2.0)
        return GetMetaDataResponseHeader.from_ext(answer.ext or {}).controller_leader_address or None
    except ChannelError:
        return None
    finally:
        connection.close()
