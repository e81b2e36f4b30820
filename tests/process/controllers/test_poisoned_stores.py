"""Stores whose committed entry ended every controller of an older release: they start and serve again."""

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from testkit.fakes.broker import FakeBroker
from testkit.products.controllers import ControllerCluster, command_path
from testkit.raft.poisoned_stores import POISON_INDEX, write_poisoned_store

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

NODES = 3


async def _get(address: str, path: str) -> Any:
    async with aiohttp.ClientSession() as session, session.get(f"http://{address}{path}") as response:
        return await response.json() if response.content_type == "application/json" else await response.text()


async def _applied(address: str) -> list[tuple[Any, ...]]:
    """Return what a node has applied of each group; who lives is its own view."""
    groups = (await _get(address, "/v1/groups"))["groups"]
    fields = ("cluster", "name", "master_id", "master_epoch", "sync_state_set", "sync_state_set_epoch")
    return [tuple(group[field] for field in fields) for group in groups]


async def _all_equal(cluster: ControllerCluster) -> list[int]:
    """Wait until every node has applied the same groups; return how many entries each has passed over."""
    async with asyncio.timeout(60):
        while True:
            seen = [await _applied(address) for address in cluster.http_addresses]
            if [group[1] for group in seen[0]] == ["before", "behind", "orders"] and seen == seen[:1] * NODES:
                break
            await asyncio.sleep(0.05)
    return [(await _get(address, "/v1/status"))["skipped_entries"] for address in cluster.http_addresses]


async def _write_snapshots(cluster: ControllerCluster) -> None:
    async with aiohttp.ClientSession() as session:
        for address in cluster.http_addresses:
            async with session.post(f"http://{address}/v1/snapshot", json={}) as response:
                response.raise_for_status()


async def test_nodes_of_poisoned_stores_start_serve_and_start_again_from_a_snapshot(tmp_path: Path) -> None:
    cluster = ControllerCluster(tmp_path, NODES)
    for index in range(NODES):
        write_poisoned_store(cluster.store_path(index), f"{cluster.group}/n{index}", NODES)
    shown = subprocess.run(  # noqa: ASYNC221 - nothing else runs yet
        [command_path("controller-core"), "inspect", str(cluster.store_path(0)), "--output", "json"],
        check=True,
        capture_output=True,
        timeout=60,
    )
    texts = {
        row["index"]: row["text"]
        for row in map(json.loads, shown.stdout.splitlines())
        if row["kind"] == "ENTRY"
    }
    assert texts[POISON_INDEX].startswith("NO EFFECT: a command of 1200")
    async with cluster, FakeBroker(cluster.remoting_addresses, "orders") as broker:
        await broker.elect()
        assert await _all_equal(cluster) == [1] * NODES
        text = await _get(cluster.http_addresses[1], "/metrics")
        assert "rmqha_controller_skipped_entries_total 1.0" in text
        assert f'"index": {POISON_INDEX}, "term": 2, "size_bytes": 1200' in cluster.processes[1].output()
        await _write_snapshots(cluster)
        for index in range(NODES):
            await cluster.kill_node(index)
        for index in range(NODES):
            await cluster.start_node(index)
        await cluster.wait_leader()
        await cluster.wait_all_ready()
        assert await _all_equal(cluster) == [0] * NODES
