"""Real processes under floods at each port: they live in the memory of their containers, and serve."""

import asyncio
import re
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest

from controller_core import limits
from controller_core.channel import connect
from controller_core.remoting.codes import RequestCode
from controller_core.remoting.command import RemotingCommand
from ha_sidecar.address import HostPort, host_port
from testkit.fakes.broker import FakeBroker
from testkit.processes.ports import LOOPBACK, free_port
from testkit.processes.process import ManagedProcess
from testkit.processes.strangers import (
    connections,
    endless_header,
    flood,
    frame,
    memory_max_mib,
    page_request,
    tiny_fields,
    unfinished_frame,
)
from testkit.products.controllers import ControllerCluster
from testkit.products.replica import LogReplicaProcess
from testkit.products.route_front import RouteFrontProcess

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

CONTROLLER_MIB, REPLICA_MIB, SMALL_MIB = 512, 256, 128
HOLD_S = 2.0
ANSWER_S = 30.0
HTTP_FLOODS = [endless_header(), page_request("/metrics"), page_request("/v1/events")]
REMOTING_FLOODS = [
    unfinished_frame(50_000),
    tiny_fields(RequestCode.GET_BROKER_HA_STATUS) * 3,
    b"".join(
        frame(
            RequestCode.BROKER_HEARTBEAT,
            {"clusterName": "x", "brokerName": "f", "brokerAddr": "h:1", "brokerId": str(number)},
            oneway=True,
        )
        for number in range(300)
    ),
    b"\xff" * 100,
]


async def _probe(url: str) -> int:
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(ANSWER_S)) as session,
        session.get(url) as answer,
    ):
        return answer.status


async def _flooded(
    http: HostPort, says: list[tuple[HostPort, list[bytes], int]], probe: Callable[[], Awaitable[None]]
) -> float:
    """Flood, and probe all the while; return the longest probe in seconds."""
    floods = asyncio.gather(
        flood(http, HTTP_FLOODS, 120, HOLD_S),
        *(flood(address, texts, count, HOLD_S) for address, texts, count in says),
    )
    longest_s = 0.0
    while not floods.done():
        begun_s = time.monotonic()
        await probe()
        longest_s = max(longest_s, time.monotonic() - begun_s)
        await asyncio.sleep(0.02)
    await floods
    return longest_s


async def test_controllers_keep_their_leader_and_elect_while_each_port_is_flooded(tmp_path: Path) -> None:
    async with ControllerCluster(tmp_path, 3) as cluster:
        leader = await cluster.wait_leader()
        term = (await cluster.status(leader) or {})["term"]
        remoting, http = (
            host_port(cluster.remoting_addresses[leader]),
            host_port(cluster.http_addresses[leader]),
        )
        peers = (remoting[0], remoting[1] + 1)
        async with FakeBroker(cluster.remoting_addresses, "orders") as broker:

            async def serves() -> None:
                assert await _probe("http://{}:{}/readyz".format(*http)) == 200
                connection = await connect(*remoting, ANSWER_S)
                try:
                    asked = RemotingCommand.request(RequestCode.CONTROLLER_GET_METADATA_INFO)
                    assert (await connection.call(asked, ANSWER_S)).code == 0
                finally:
                    connection.close()

            says = [(remoting, REMOTING_FLOODS, 100), (peers, [b"", b"\x00\x00\x0f\xff" + b"x" * 3_000], 150)]
            longest_s = await _flooded(http, says, serves)
            status = await cluster.status(leader) or {}
            assert (status["role"], status["term"]) == ("leader", term), f"longest probe {longest_s:.2f} s"
            assert (await broker.elect()).code == 0
        for process in cluster.processes:
            assert memory_max_mib(process.pid) < CONTROLLER_MIB


async def test_a_log_replica_lives_in_its_memory_while_each_port_is_flooded(tmp_path: Path) -> None:
    ha_port = free_port()
    async with ControllerCluster(tmp_path / "controllers", 1) as cluster:
        await cluster.wait_leader()
        settings = {"ha-listen": f"{LOOPBACK}:{ha_port}"}
        replica = LogReplicaProcess(tmp_path / "replica", "c", "g", cluster.remoting_addresses, settings)
        async with replica.process:
            url = f"http://{replica.http_address}/livez"
            await replica.process.wait_for_text("runs", ANSWER_S)

            async def serves() -> None:
                assert await _probe(url) == 200

            says = [
                (host_port(replica.address), REMOTING_FLOODS, 60),
                ((LOOPBACK, ha_port), [b"", b"x" * 8], 60),
            ]
            await _flooded(host_port(replica.http_address), says, serves)
            assert memory_max_mib(replica.process.pid) < REPLICA_MIB
            assert "Traceback" not in replica.process.output()


async def test_a_route_front_lives_in_its_memory_while_each_port_is_flooded(tmp_path: Path) -> None:
    front = RouteFrontProcess([f"{LOOPBACK}:{free_port()}"], tmp_path, {"a:1": "b:1"})
    async with front.process:
        await front.process.wait_for_text("serving routes", ANSWER_S)

        async def serves() -> None:
            assert await _probe(f"{front.url}/livez") == 200

        route = tiny_fields(RequestCode.GET_ROUTEINFO_BY_TOPIC)
        says = [(host_port(front.address), [unfinished_frame(50_000), route * 8, b"\xff" * 100], 150)]
        await _flooded(host_port(front.url.removeprefix("http://")), says, serves)
        assert memory_max_mib(front.process.pid) < SMALL_MIB
        assert "Traceback" not in front.process.output()


async def test_a_report_server_lives_in_its_memory_while_pages_are_not_read(tmp_path: Path) -> None:
    folder = tmp_path / "reports" / "week-47"
    folder.mkdir(parents=True)
    (folder / "index.html").write_bytes(b"<p>" + bytes(4 << 20))
    program = Path(sys.executable).parent / "slo-pipeline"
    command = [str(program), "serve-reports", str(tmp_path / "reports"), "--http", f"{LOOPBACK}:0"]
    async with ManagedProcess("serve-reports", command, tmp_path / "server.log") as process:
        await process.wait_for_text("ready", ANSWER_S)
        found = re.search(r"'127\.0\.0\.1', (\d+)", process.output())
        assert found is not None
        address = (LOOPBACK, int(found[1]))
        async with connections(address, 200, page_request("/reports/week-47/")):
            for _ in range(10):
                assert await _probe("http://{}:{}/livez".format(*address)) == 200
        assert memory_max_mib(process.pid) < SMALL_MIB
        assert limits.HTTP_UNSENT_BYTES_MAX < SMALL_MIB << 20
