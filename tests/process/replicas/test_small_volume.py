"""A log replica on a real volume that others fill reports it, receives nothing, and goes on with space."""

import asyncio
import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from testkit.fakes.broker import FakeBroker
from testkit.ha.peers import OurMaster
from testkit.processes.process import ProcessFailedError
from testkit.products.one_controller import one_node
from testkit.products.replica import LogReplicaProcess

pytestmark = [pytest.mark.process, pytest.mark.timeout(200)]

CLUSTER, GROUP = "c", "g"
WAIT_S = 60.0
FILE_BYTES = 256 << 10
VOLUME_BYTES = 8 << 20
REFUSE_PERCENT = 95
OTHERS_BYTES = VOLUME_BYTES * 92 // 100
"""Below the mark by less than a file of the log: none of its files can go."""
BODY_BYTES = 8_000
MESSAGES = 1_500
"""More than the volume holds."""


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own in memory, where the replica has its store."""
    directory = tmp_path / "replica" / "store"
    directory.mkdir(parents=True)
    size = f"size={VOLUME_BYTES}"
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", directory], capture_output=True)
    if made.returncode:
        pytest.skip("mounting a file system needs root")
    try:
        yield directory
    finally:
        subprocess.run(["umount", directory], check=True)


async def wait_room(replica: LogReplicaProcess, has_room: bool) -> dict[str, float]:
    """Wait until the replica says so; return its metrics."""
    async with asyncio.timeout(WAIT_S):
        while True:
            if not replica.process.running:
                raise ProcessFailedError(replica.process.tail())
            with contextlib.suppress(aiohttp.ClientError, KeyError):
                metrics = await replica.metrics()
                if metrics["rmqha_ha_has_room"] == has_room and metrics["rmqha_ha_max_offset_bytes"]:
                    return metrics
            await asyncio.sleep(0.05)


async def readiness(replica: LogReplicaProcess) -> str:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://{replica.http_address}/readyz") as response,
    ):
        return await response.text()


async def test_a_volume_that_others_fill_stops_the_log_and_not_the_replica(
    volume: Path, tmp_path: Path
) -> None:
    others = volume / "others"
    others.write_bytes(bytes(OTHERS_BYTES))
    settings = {"mapped-file-bytes": str(FILE_BYTES), "disk-refuse-percent": str(REFUSE_PERCENT)}
    async with (
        one_node(tmp_path / "controller", {}) as node,
        FakeBroker([node.remoting], GROUP, cluster=CLUSTER) as broker,
    ):
        with OurMaster(tmp_path / "master", FILE_BYTES) as master:
            end_offset = master.fill(MESSAGES, BODY_BYTES)
            assert end_offset > VOLUME_BYTES
            broker.ha_address = f"127.0.0.1:{master.port}"
            await broker.elect()
            replica = LogReplicaProcess(volume.parent, CLUSTER, GROUP, [node.remoting], settings)
            await replica.start()
            try:
                refused = await wait_room(replica, False)
                assert "the disk lacks room, nothing is received" in await readiness(replica)
                assert (
                    refused["rmqha_ha_max_offset_bytes"]
                    <= VOLUME_BYTES * REFUSE_PERCENT // 100 - OTHERS_BYTES
                )
                others.unlink()
                await wait_room(replica, True)
                await replica.wait_max_offset(end_offset, WAIT_S)
                assert "; the disk" not in await readiness(replica)
                events = await replica.events()
                log = (volume.parent / "replica.log").read_text()
            finally:
                await replica.process.stop()
    reasons = {event["attrs"]["reason"] for event in events if event["kind"] == "Disconnected"}
    assert "NoRoom" in reasons
    # A look of retention may come first; then the stop request follows.
    assert reasons <= {"NoRoom", "Stopped"}
    assert "the disk lacks room: nothing more is received" in log
    assert "the disk has room again" in log
