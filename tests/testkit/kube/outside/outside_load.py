"""The Java producer outside any pod, as a process in the network of `testkit.nodes.outside_network`.

It has the JVM settings of the one in a pod (`testkit.kube.pods.load_pod`), and answers the same questions.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from testkit.kube.kubectl import KubeError, until
from testkit.nodes.outside_network import OutsideNetwork
from testkit.processes.process import ProcessFailedError
from testkit.rocketmq.jars import jars
from testkit.rocketmq.load import LoadClient, LoadSettings, LoadStats, ReadBackResult, Send, read_back

JVM: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
STARTED_WITHIN_S: Final = 120.0
STARTED_SENDS: Final = 10
_READ_WITHIN_S: Final = 90.0


class OutsideLoad:
    """One producer outside."""

    def __init__(self, network: OutsideNetwork, name_server: str, topic: str, directory: Path) -> None:
        """Take where it runs, its route front, a topic of its own, and a folder for its files."""
        self._network: Final = network
        self._name_server: Final = name_server
        self._topic: Final = topic
        self._directory: Final = directory
        self._client: LoadClient | None = None

    async def start(self, settings: LoadSettings) -> None:
        """Start the producer and wait until its first sends were acknowledged.

        Raises:
            KubeError: it ended, or nothing was acknowledged in time.
        """
        self._client = LoadClient(
            await jars(),
            self._name_server,
            self._topic,
            self._directory,
            LoadSettings(threads=settings.threads, rate=settings.rate, jvm=JVM),
            entering=self._network.entering,
        )
        await _as_of_the_cluster(self._client.start)
        started = self._client

        async def sends() -> None:
            await started.wait_for_acknowledged(STARTED_SENDS, STARTED_WITHIN_S)

        await _as_of_the_cluster(sends)

    async def sends(self) -> list[Send]:
        """Return what the ledger holds now."""
        return [] if self._client is None else await asyncio.to_thread(self._client.sends)

    async def stop(self) -> LoadStats:
        """End the producer in good order and return its numbers.

        Raises:
            KubeError: it does not run, or had to be killed.
        """
        if self._client is None:
            raise KubeError(f"the load of {self._topic} was not started")
        try:
            return await self._client.stop()
        except ProcessFailedError as error:
            raise KubeError(str(error)) from error

    async def read_back(self) -> ReadBackResult:
        """Read the whole topic from outside and compare it with the ledger; the producer must have ended."""
        found: list[ReadBackResult] = []

        async def read() -> bool:
            try:
                found.append(
                    await read_back(
                        *(await jars(), self._name_server, self._topic, await self.sends(), self._directory),
                        entering=self._network.entering,
                    )
                )
            except ProcessFailedError as error:
                raise KubeError(str(error)) from error
            return True

        await until(f"{self._topic} is read back from outside", read, _READ_WITHIN_S, poll_s=2.0)
        return found[-1]

    async def remove(self) -> None:
        """End the producer, whatever happened."""
        if self._client is not None:
            await self._client.process.stop()


async def _as_of_the_cluster(start: Callable[[], Awaitable[None]]) -> None:
    """Start something; report a failed process as a fault of the cluster, which a run survives."""
    try:
        await start()
    except ProcessFailedError as error:
        raise KubeError(str(error)) from error
