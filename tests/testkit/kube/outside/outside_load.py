"""Java producers outside any pod, as processes in the network of `testkit.nodes.outside_network`.

They have the JVM settings of the one in a pod (`testkit.kube.pods.load_pod`), and answer the same questions.
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
from testkit.rocketmq.other_clients import GrpcLoad

JVM: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
STARTED_WITHIN_S: Final = 120.0
STARTED_SENDS: Final = 10
_READ_WITHIN_S: Final = 90.0


class OutsideLoad:
    """One producer outside; this one speaks remoting."""

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
        started = await self._made(LoadSettings(threads=settings.threads, rate=settings.rate, jvm=JVM))
        self._client = started
        await _as_of_the_cluster(started.start)

        async def sends() -> None:
            await started.wait_for_acknowledged(STARTED_SENDS, STARTED_WITHIN_S)

        await _as_of_the_cluster(sends)

    async def _made(self, settings: LoadSettings) -> LoadClient:
        """Return the program, not started."""
        return LoadClient(
            *(await jars(), self._name_server, self._topic, self._directory, settings),
            entering=self._network.entering,
        )

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


class OutsideGrpcLoad(OutsideLoad):
    """One producer outside that speaks gRPC with the proxies of a listener."""

    def __init__(
        self, network: OutsideNetwork, name_server: str, endpoints: str, topic: str, directory: Path
    ) -> None:
        """Take what an `OutsideLoad` takes, and the address of the proxies."""
        super().__init__(network, name_server, topic, directory)
        self._endpoints: Final = endpoints

    async def start(self, settings: LoadSettings) -> None:
        """Make the topic, which a proxy cannot, by a remoting client; then start as an `OutsideLoad` does."""
        first = OutsideLoad(self._network, self._name_server, self._topic, self._directory / "first")
        try:
            await first.start(settings)
        finally:
            await first.remove()
        await super().start(settings)

    async def _made(self, settings: LoadSettings) -> LoadClient:
        return GrpcLoad(
            *(self._endpoints, self._topic, self._directory, settings), entering=self._network.entering
        )


async def _as_of_the_cluster(start: Callable[[], Awaitable[None]]) -> None:
    """Start something; report a failed process as a fault of the cluster, which a run survives."""
    try:
        await start()
    except ProcessFailedError as error:
        raise KubeError(str(error)) from error
