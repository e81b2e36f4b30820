"""The demo's cluster under a Java client's load: what tests of one fault begin and end with."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from testkit.demo.cluster import DemoCluster
from testkit.demo.progress import StepPrinter
from testkit.demo.story import wait_whole
from testkit.rocketmq.jars import jars
from testkit.rocketmq.load import LoadClient, LoadSettings, ReadBackResult, read_back

_TOPIC = "load"


@dataclass(frozen=True)
class UnderLoad:
    """A whole cluster and the client that writes to it."""

    cluster: DemoCluster
    load: LoadClient
    progress: StepPrinter
    release: Path
    directory: Path

    async def read_back(self) -> ReadBackResult:
        """Stop the load and read all of it."""
        await self.load.stop()
        address = self.cluster.name_server.address
        return await read_back(self.release, address, _TOPIC, self.load.sends(), self.directory / "load")


@asynccontextmanager
async def under_load(
    directory: Path,
    *,
    relayed: bool = False,
    rate: int = 500,
    threads: int = 4,
    settings: Mapping[str, str] | None = None,
    brokers: int = 2,
    log_replicas: int = 1,
) -> AsyncIterator[UnderLoad]:
    """Run the cluster with `rate` sends per second, from the 500th acknowledgement on; end it afterwards.

    Args:
        directory: everything is written below it.
        relayed: see `DemoCluster`.
        rate: sends per second.
        threads: senders, each waiting for its answer.
        settings: see `DemoCluster`.
        brokers: see `DemoCluster`.
        log_replicas: see `DemoCluster`.
    """
    release = await jars()
    progress = StepPrinter()
    cluster = DemoCluster(
        release,
        directory,
        progress,
        relayed=relayed,
        settings=settings,
        brokers=brokers,
        log_replicas=log_replicas,
    )
    load_settings = LoadSettings(threads=threads, rate=rate, poll_name_server_ms=200)
    load = LoadClient(release, cluster.name_server.address, _TOPIC, directory / "load", load_settings)
    try:
        await cluster.start()
        await wait_whole(cluster)
        await load.start()
        await load.wait_for_acknowledged(500, 90.0)
        yield UnderLoad(cluster, load, progress, release, directory)
    finally:
        await load.process.stop()
        await cluster.stop()
