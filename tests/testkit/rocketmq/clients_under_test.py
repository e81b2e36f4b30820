"""The clients whose cost of a change of master is measured, each as a load on the demo's cluster."""

from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from rocketmq_operator.api.proxy import ProxyMode
from testkit.demo.cluster import CLUSTER, DemoCluster
from testkit.rocketmq.jars import tools_jars
from testkit.rocketmq.load import LoadClient, LoadSettings
from testkit.rocketmq.other_clients import GoLoad, GrpcLoad
from testkit.rocketmq.processes import mqadmin
from testkit.rocketmq.proxy import BOOT_TIMEOUT_S, STARTED, ProxyFile, proxy_process

JAVA_CLIENTS: Final = ("4.9.7", "5.1.1", "5.2.0", "5.5.0")
GRPC: Final = "grpc"
GO: Final = "go"
CLIENTS: Final = (*JAVA_CLIENTS, GRPC, GO)
_QUEUES: Final = "4"
"""Of a topic that a broker makes for a producer's first message."""
_PROXY_ASKS: Final = {"topicRouteServiceCacheRefreshSeconds": "1"}
"""Its minimum; the default is 20. On loopback the address of a dead master does not move."""


class ClientsUnderTest:
    """Makes the load of each client; starts a proxy in Cluster mode for the first one that needs it.

    Attributes:
        release: folder of the jars of the brokers' release.
    """

    def __init__(self, cluster: DemoCluster, release: Path) -> None:
        """Describe them for a cluster that has started, and whose brokers are of that release."""
        self.release: Final = release
        self._cluster: Final = cluster
        self._stack: Final = AsyncExitStack()
        self._endpoints: str | None = None

    async def load(self, client: str, topic: str, directory: Path, settings: LoadSettings) -> LoadClient:
        """Return the load of one of `CLIENTS`, which is not started yet."""
        name_server = self._cluster.name_server.address
        if client == GO:
            return GoLoad(name_server, topic, directory, settings)
        if client != GRPC:
            return LoadClient(await tools_jars(client), name_server, topic, directory, settings)
        if self._endpoints is None:
            self._endpoints = await self._started_proxy()
        # A proxy makes no topics. A master without this one yet makes it again, with so many queues.
        queues = ("-r", _QUEUES, "-w", _QUEUES)
        command = ("updateTopic", "-n", name_server, "-c", CLUSTER, "-t", topic, *queues)
        await mqadmin(self.release, directory / "admin", *command)
        return GrpcLoad(self._endpoints, topic, directory, settings)

    async def _started_proxy(self) -> str:
        directory = self._cluster.directory / "proxy"
        name_server = self._cluster.name_server.address
        file = ProxyFile(ProxyMode.CLUSTER, CLUSTER, name_server, directory, settings=_PROXY_ASKS)
        proxy = proxy_process(self.release, file, directory)
        await self._stack.enter_async_context(proxy)
        await proxy.wait_for_text(STARTED, BOOT_TIMEOUT_S)
        return file.grpc_address

    async def __aenter__(self) -> Self:
        """Start nothing yet."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the proxy."""
        await self._stack.aclose()
