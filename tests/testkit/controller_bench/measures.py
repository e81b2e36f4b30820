"""Measure running controllers: requests, elections of many groups at once, a restart of all.

Each measure returns its figures by name. One that failed raises `MeasureError`.
"""

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from controller_core.channel import ChannelError
from testkit.controller_bench.fleet import Fleet, FleetError, wait_for_read
from testkit.controller_bench.subjects import RunningControllers, cpu_s, resident_mib
from testkit.products.controllers import command_path

WAIT_S: Final = 120.0
MASTERS_AT_ONCE: Final = 1_000
"""Connections of masters to each controller at most: a controller takes 10,000 of all kinds."""
_SETTLE_S: Final = 1.0


class MeasureError(Exception):
    """A measurement could not be made."""


@dataclass(frozen=True, slots=True)
class RequestLoad:
    """How a workload is put on controllers."""

    seconds: float
    warm_up_s: float
    groups: int
    in_flight: int
    spread: bool = False
    connections: int = 4


async def requests(running: RunningControllers, workload: str, load: RequestLoad) -> dict[str, float]:
    """Run one workload from a process of its own; return its figures, and what the nodes used for it."""
    before_s = sum(map(cpu_s, running.processes))
    process = await asyncio.create_subprocess_exec(
        *(command_path("controller-core"), "bench", "--output", "json"),
        *("--controllers", ";".join(running.addresses), "--workload", workload),
        *("--duration", f"{load.seconds}s", "--groups", str(load.groups)),
        *("--in-flight", str(load.in_flight), "--warm-up", f"{load.warm_up_s}s"),
        *("--connections", str(load.connections), *(("--spread",) if load.spread else ())),
        *(() if running.trust is None else ("--cacert", str(running.trust))),
        stdout=asyncio.subprocess.PIPE,
    )
    printed, _ = await process.communicate()
    if process.returncode:
        raise MeasureError(f"the load generator ended with {process.returncode}")
    result = json.loads(printed)
    used_s = sum(map(cpu_s, running.processes)) - before_s
    return {
        "per second": result["requests_per_s"],
        "p50, ms": result["p50_ms"],
        "p99, ms": result["p99_ms"],
        "errors": result["errors"],
        "CPU, µs": used_s * 1e6 / max(1, result["requests"] + result["warm_up_requests"]),
        "generator, %": result["client_share"] * 100,
    }


async def warm_up(running: RunningControllers, workloads: Sequence[str], seconds: float) -> None:
    """Put every workload on controllers in turn, for so many seconds together; a JVM needs it."""
    load = RequestLoad(seconds=0.1, warm_up_s=seconds / len(workloads), groups=100, in_flight=100)
    for workload in workloads:
        await requests(running, workload, load)


async def re_election(running: RunningControllers, groups: int) -> dict[str, float]:
    """Measure how long it takes until all groups that lost their masters at once have new ones."""
    shared = max(1, groups // MASTERS_AT_ONCE)
    try:
        async with Fleet(running.addresses, f"losing{groups}", groups, masters_a_connection=shared) as fleet:
            await fleet.prepare(slaves=True)
            await asyncio.sleep(_SETTLE_S)  # What the preparation left to do is not measured.
            before_s, started_s = sum(map(cpu_s, running.processes)), time.monotonic()
            fleet.lose_masters()
            await fleet.wait_re_elected(WAIT_S)
            took_s = time.monotonic() - started_s
            return {"s": took_s, "CPU, s": sum(map(cpu_s, running.processes)) - before_s}
    except (FleetError, ChannelError, TimeoutError) as error:
        raise MeasureError(f"{groups} re-elections: {error}") from error


async def restart(running: RunningControllers, groups: int) -> dict[str, float]:
    """Measure how long a restart of all takes until a read is answered, and the memory then."""
    try:
        async with Fleet(running.addresses, "restart", groups) as fleet:
            await fleet.prepare(slaves=False)
        await asyncio.gather(*(process.kill() for process in running.processes))
        started_s = time.monotonic()
        for process in running.processes:
            await process.start()
        await wait_for_read(running.addresses, fleet.names[-1], WAIT_S)
        return {"s": time.monotonic() - started_s, "memory, MiB": resident_mib(running.processes)}
    except (FleetError, ChannelError, TimeoutError) as error:
        raise MeasureError(f"a restart with {groups} groups: {error}") from error
