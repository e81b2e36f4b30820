"""What a growing fleet costs our controllers when nothing happens, and what an election then takes.

Each row has that many groups of three members, with a heartbeat of every member to every controller in each
interval. Then single masters lose their connections, one after the other; an election's time runs from there
until the slave has its notice. The load generator shares the machine's cores with the three controllers.
"""

import asyncio
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from testkit.controller_bench.beating_groups import MEMBERS, BeatingGroups, heartbeats_taken
from testkit.controller_bench.fleet import Fleet
from testkit.controller_bench.measures import MeasureError
from testkit.controller_bench.subjects import OURS, RunningControllers, cpu_s, resident_mib, started

NOTICE_WITHIN_S: Final = 30.0
_QUIET_S: Final = 5.0
"""Notices of the preparation are repeated for 3 s."""
_PAUSE_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class GrowthRow:
    """The figures of one size of fleet.

    Attributes:
        groups: beating groups; 0 for an idle cluster.
        interval_ms: between two heartbeats of a member.
        taken_share: heartbeats that the busiest controller took, of those that members should have sent.
        cpu_percent: of one core, the busiest controller.
        election_p50_ms: half of the elections were quicker.
        election_p99_ms: the slowest but one of a hundred.
        memory_mib: of the largest controller.
    """

    groups: int
    interval_ms: int
    taken_share: float
    cpu_percent: float
    election_p50_ms: float
    election_p99_ms: float
    memory_mib: float


async def measure_growth(groups: int, interval_ms: int, seconds: float, elections: int) -> GrowthRow:
    """Run three controllers of ours with so many groups; return their figures."""
    with tempfile.TemporaryDirectory() as directory:
        async with (
            started(OURS, "", Path(directory)) as running,
            Fleet(running.addresses, "probe", elections) as fleet,
            BeatingGroups(running.addresses, groups, interval_ms / 1000, fleet.shared_address) as beating,
        ):
            await beating.prepare()
            await fleet.prepare(slaves=True)
            if groups:
                beating.start()
            await asyncio.sleep(_QUIET_S)
            taken, cpu_percent = await _idle(running, seconds)
            expected = groups * MEMBERS * seconds * 1000 / interval_ms
            times_ms = [await _election_ms(fleet, index) for index in range(elections)]
            return GrowthRow(
                groups=groups,
                interval_ms=interval_ms,
                taken_share=taken / expected if expected else 1.0,
                cpu_percent=cpu_percent,
                election_p50_ms=statistics.median(times_ms),
                election_p99_ms=sorted(times_ms)[min(len(times_ms) - 1, len(times_ms) * 99 // 100)],
                memory_mib=resident_mib(running.processes),
            )


async def _idle(running: RunningControllers, seconds: float) -> tuple[float, float]:
    """Return the heartbeats that a controller took meanwhile, and the CPU of the busiest, %."""
    taken = [await heartbeats_taken(address) for address in running.http_addresses]
    before_s, begun_s = [cpu_s(process) for process in running.processes], time.monotonic()
    await asyncio.sleep(seconds)
    after_s, took_s = [cpu_s(process) for process in running.processes], time.monotonic() - begun_s
    used_s = max(after - before for after, before in zip(after_s, before_s, strict=True))
    counts = [await heartbeats_taken(address) for address in running.http_addresses]
    most = max(after - before for after, before in zip(counts, taken, strict=True))
    return most * seconds / took_s, used_s / took_s * 100


async def _election_ms(fleet: Fleet, index: int) -> float:
    await asyncio.sleep(_PAUSE_S)
    try:
        return await fleet.replace_master(index, NOTICE_WITHIN_S) * 1000
    except TimeoutError as error:
        raise MeasureError(f"election {index}: no notice within {NOTICE_WITHIN_S} s") from error
