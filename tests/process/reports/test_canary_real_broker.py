"""The canary process against a real name server and a broker that is killed and that loses its disk."""

import asyncio
import itertools
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import pytest_asyncio

from testkit.processes.ports import free_port
from testkit.processes.process import ManagedProcess
from testkit.rocketmq.jars import jars
from testkit.rocketmq.processes import BrokerPlace, JavaBroker, NameServer

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

RATE = 20
MISSED = "rmqha_canary_missed_slots_total"
BOOT_S_MAX = 150.0
Rows = list[dict[str, Any]]


@pytest_asyncio.fixture
async def broker(tmp_path: Path, name_server: NameServer) -> AsyncIterator[JavaBroker]:
    place = BrokerPlace("test", "orders", "orders-0", tmp_path / "broker")
    # The canary must make its topic itself, as on a broker in production.
    settings = {"brokerRole": "ASYNC_MASTER", "autoCreateTopicEnable": "false"}
    process = JavaBroker(await jars(), place, name_server.address, settings)
    try:
        await process.start(BOOT_S_MAX)
        yield process
    finally:
        await process.stop()


def canary(directory: Path, name_server: NameServer) -> ManagedProcess:
    program = Path(sys.executable).parent / "slo-pipeline"
    options = [
        "--name-servers",
        name_server.address,
        "--group",
        "orders",
        "--topic",
        "Canary",
        "--queues",
        "2",
    ]
    output = ["--out", str(directory / "data"), "--segment-duration", "1s", "--rate", str(RATE)]
    http = ["--http", f"127.0.0.1:{free_port()}"]
    return ManagedProcess(
        "canary", [str(program), "canary", *options, *output, *http], directory / "canary.log"
    )


def rows(directory: Path, table: str) -> Rows:
    paths = sorted(directory.glob(f"data/{table}/day=*/[!.]*.parquet"))
    tables = [pq.ParquetFile(path).read() for path in paths]
    return pa.concat_tables(tables).to_pylist() if tables else []


def sends(directory: Path, result: str) -> Rows:
    return [row for row in rows(directory, "probe_ops") if (row["op"], row["result"]) == ("send", result)]


async def wait_for_sends(directory: Path, result: str, count: int) -> None:
    async with asyncio.timeout(120):
        while len(sends(directory, result)) < count:  # noqa: ASYNC110 - files of another process signal nothing
            await asyncio.sleep(0.2)


async def missed_slots(probe: ManagedProcess) -> int:
    """Return how many sends it skipped because it was paused for a second or more, by its own count."""
    address = probe.command[-1]
    async with aiohttp.ClientSession() as session, session.get(f"http://{address}/metrics") as response:
        lines = (await response.text()).splitlines()
    return int(sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(MISSED)))


async def test_an_outage_is_seen_slot_by_slot_and_what_was_acknowledged_is_read_back(
    tmp_path: Path, name_server: NameServer, broker: JavaBroker
) -> None:
    async with canary(tmp_path, name_server) as probe:
        await wait_for_sends(tmp_path, "ok", 3 * RATE)
        await broker.kill()
        # The name server drops a broker whose connection is closed.
        await wait_for_sends(tmp_path, "no_route", RATE)
        before = len(sends(tmp_path, "ok"))
        await broker.start(BOOT_S_MAX)
        await wait_for_sends(tmp_path, "ok", before + 3 * RATE)
        missed = await missed_slots(probe)
        probe.signal(signal.SIGTERM)
        assert await probe.wait(90) == 0, probe.tail()

    every = rows(tmp_path, "probe_ops")
    sent = sorted((row for row in every if row["op"] == "send"), key=lambda row: row["seq"])
    # Open loop: the intended times are a grid, and no slot is left out while nothing answers; those that the
    # machine has cost are counted, and few.
    steps = [
        round((later["intended_ts"] - earlier["intended_ts"]).total_seconds() * RATE, 3)
        for earlier, later in itertools.pairwise(sent)
    ]
    assert all(step >= 1 and step.is_integer() for step in steps)
    assert sum(steps) - len(steps) == missed <= len(sent) // 3
    assert [row["seq"] for row in sent] == list(range(sent[0]["seq"], sent[0]["seq"] + len(sent)))
    assert {row["result"] for row in sent} <= {"ok", "refused", "no_route", "timeout", "other"}

    acknowledged = {row["seq"] for row in sent if row["result"] == "ok"}
    reads = [row for row in every if row["op"] == "read"]
    assert {row["result"] for row in reads} == {"ok"}
    assert {row["seq"] for row in reads} == acknowledged
    assert len(reads) == len(acknowledged)
    assert {row["queue_id"] for row in reads} == {0, 1}

    # Seen at the start, and again when the broker came back.
    seen = [row for row in rows(tmp_path, "events") if row["kind"] == "RouteSeen"]
    assert [(row["group"], row["cluster"]) for row in seen] == [("orders", "test")] * 2
    assert {dict(row["attrs"])["master_address"] for row in seen} == {broker.address}


async def test_a_broker_that_comes_back_without_its_disk_is_found_out(
    tmp_path: Path, name_server: NameServer, broker: JavaBroker
) -> None:
    async with canary(tmp_path, name_server) as probe:
        await wait_for_sends(tmp_path, "ok", 6 * RATE)
        await broker.kill()
        await wait_for_sends(tmp_path, "no_route", RATE)
        promised = {row["seq"] for row in sends(tmp_path, "ok")}
        shutil.rmtree(broker.store)
        await broker.start(BOOT_S_MAX)
        await wait_for_sends(tmp_path, "ok", len(promised) + 2 * RATE)
        probe.signal(signal.SIGTERM)
        assert await probe.wait(90) == 0, probe.tail()

    missing = {
        row["seq"] for row in rows(tmp_path, "probe_ops") if (row["op"], row["result"]) == ("read", "missing")
    }
    # Also those that the old master had given back before it died.
    assert promised <= missing
    later = {row["seq"] for row in sends(tmp_path, "ok")} - missing
    assert later
