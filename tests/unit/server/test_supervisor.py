"""A node whose disk fails, fills up or cannot be read at first: its words, and its recovery alone."""

import asyncio
import contextlib
import errno
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from controller_core.log.errors import LogCorruptError, LogFailedError
from controller_core.server import supervisor
from controller_core.server.settings.config import load
from controller_core.server.settings.live_config import LiveConfig
from controller_core.server.supervisor import Supervisor
from testkit.fakes.broker import FakeBroker
from testkit.processes.ports import free_ports
from testkit.processes.troubled_disk import TroubledFile, TroubledFiles

WITHIN_S = 60.0


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "DISK_PAUSE_MIN_S", 0.02)
    monkeypatch.setattr(supervisor, "DISK_PAUSE_S_MAX", 0.1)


@dataclass
class Supervised:
    """A supervised node and its disk."""

    disk: TroubledFiles
    remoting: str
    http: str
    running: asyncio.Task[int]

    async def get(self, path: str) -> tuple[int, Any]:
        """Ask over HTTP; (0, None) without an answer."""
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"http://{self.http}{path}") as response,
            ):
                is_json = response.content_type == "application/json"
                return response.status, await response.json() if is_json else await response.text()
        except aiohttp.ClientError:
            return 0, None

    async def until_ready(self, status: int, text: str = "") -> None:
        """Wait until /readyz answers so."""
        async with asyncio.timeout(WITHIN_S):
            while True:
                found, value = await self.get("/readyz")
                if found == status and text in str(value):
                    return
                await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def supervised(directory: Path, disk: TroubledFiles, **keys: str) -> AsyncIterator[Supervised]:
    port, _, http_port = free_ports(3)
    given = {
        "controllerDLegerGroup": "unit",
        "controllerDLegerPeers": f"n0-127.0.0.1:{port}",
        "controllerStorePath": str(directory),
        "bindAddress": "127.0.0.1",
        "raftElectionTimeoutMs": "60",
        "raftHeartbeatIntervalMs": "10",
        **keys,
    }
    stop = asyncio.Event()
    running = asyncio.create_task(Supervisor(LiveConfig(load(given)[0], given), disk).run(stop))
    try:
        yield Supervised(disk, f"127.0.0.1:{port}", f"127.0.0.1:{http_port}", running)
    finally:
        stop.set()
        assert await asyncio.wait_for(running, WITHIN_S) == 0


async def test_a_broken_disk_leaves_a_node_that_says_so_and_goes_on_when_the_disk_is_back(
    tmp_path: Path,
) -> None:
    async with supervised(tmp_path, TroubledFiles()) as node:
        await node.until_ready(200)
        async with FakeBroker([node.remoting], "before"):
            node.disk.broken = True
            lost = FakeBroker([node.remoting], "after")
            writing = asyncio.ensure_future(lost.start())
            await node.until_ready(503, "failed: writing to")
            assert (await node.get("/livez"))[0] == 200
            assert (await node.get("/v1/status"))[1]["log_state"] == "failed"
            assert [group["name"] for group in (await node.get("/v1/groups"))[1]["groups"]] == ["before"]
            node.disk.broken = False
            await node.until_ready(200)
            # "after" may be there too: it was written, though without an acknowledgement.
            assert "before" in [group["name"] for group in (await node.get("/v1/groups"))[1]["groups"]]
            await asyncio.gather(writing, return_exceptions=True)
            await lost.die()
        async with FakeBroker([node.remoting], "later"):
            names = [group["name"] for group in (await node.get("/v1/groups"))[1]["groups"]]
            assert {"before", "later"} <= set(names)


async def test_a_full_disk_is_said_and_waited_out(tmp_path: Path) -> None:
    async with supervised(tmp_path, TroubledFiles()) as node:
        await node.until_ready(200)
        broker = FakeBroker([node.remoting], "b1")
        node.disk.full = True
        writing = asyncio.ensure_future(broker.start())
        await node.until_ready(503, "waits for space")
        assert (await node.get("/v1/status"))[1]["log_state"] == "full"
        assert 'rmqha_controller_log_state{state="full"} 1.0' in (await node.get("/metrics"))[1]
        node.disk.full = False
        await node.until_ready(200)
        await asyncio.gather(writing, return_exceptions=True)
        await broker.die()


async def test_a_log_that_cannot_be_read_now_is_opened_when_it_can(tmp_path: Path) -> None:
    async with supervised(tmp_path, TroubledFiles()) as node:
        await node.until_ready(200)
    disk = TroubledFiles()
    disk.unreadable = True
    async with supervised(tmp_path, disk) as node:
        await node.until_ready(503, "the log cannot be opened")
        assert (await node.get("/livez"))[0] == 200
        assert (await node.get("/v1/status"))[0] == 503
        disk.unreadable = False
        await node.until_ready(200)


async def test_a_log_that_must_not_be_opened_ends_the_process_at_once(tmp_path: Path) -> None:
    class Forbidden(TroubledFiles):
        """A disk that this process may not use."""

        def create(self, path: Path) -> TroubledFile:
            raise OSError(errno.EACCES, "forbidden")

    with pytest.raises(LogFailedError, match="forbidden"):
        async with supervised(tmp_path, Forbidden()) as node:
            await asyncio.wait((node.running,), timeout=WITHIN_S)
    async with supervised(tmp_path, TroubledFiles()) as node:
        await node.until_ready(200)
    _damage(tmp_path)
    with pytest.raises(LogCorruptError, match="damaged at byte 0"):
        async with supervised(tmp_path, TroubledFiles()) as node:
            await asyncio.wait((node.running,), timeout=WITHIN_S)


def _damage(directory: Path) -> None:
    for segment in directory.glob("raft-n0/*.wal"):
        segment.write_bytes(b"x" * 100)


async def test_two_nodes_at_bracketed_ipv6_addresses_found_a_cluster_and_serve(tmp_path: Path) -> None:
    runs = [free_ports(3) for _ in range(2)]
    peers = ";".join(f"n{number}-[::1]:{run[0]}" for number, run in enumerate(runs))
    stop = asyncio.Event()
    running = []
    for number in range(2):
        given = {
            "controllerDLegerGroup": "unit",
            "controllerDLegerPeers": peers,
            "controllerDLegerSelfId": f"n{number}",
            "controllerStorePath": str(tmp_path),
        }
        node = Supervisor(LiveConfig(load(given)[0], given), TroubledFiles())
        running.append(asyncio.create_task(node.run(stop)))
    try:
        for number, run in enumerate(runs):
            await Supervised(TroubledFiles(), "", f"[::1]:{run[2]}", running[number]).until_ready(200)
        async with FakeBroker([f"[::1]:{run[0]}" for run in runs], "b1") as broker:
            assert broker.broker_id == 1
    finally:
        stop.set()
        assert await asyncio.wait_for(asyncio.gather(*running), WITHIN_S) == [0, 0]


async def test_a_log_in_memory_is_warned_about_and_lost_with_the_process(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for life in range(2):
        caplog.clear()
        async with supervised(tmp_path, TroubledFiles(), controllerStoreType="memory") as node:
            await node.until_ready(200)
            assert (await node.get("/v1/groups"))[1]["groups"] == []
            async with FakeBroker([node.remoting], f"of-life-{life}"):
                names = [group["name"] for group in (await node.get("/v1/groups"))[1]["groups"]]
                assert names == [f"of-life-{life}"]
        assert caplog.text.count("controllerStoreType=memory is for tests") == 1
    assert await asyncio.to_thread(os.listdir, tmp_path) == []
