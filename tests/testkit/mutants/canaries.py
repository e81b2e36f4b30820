"""Forgeries for the checkers: each must be reported, or a clean run says nothing.

forged loss        an acknowledged message is taken out of the master's log behind everybody's back
forged stale read  an answer that was right a second earlier is put into a history
silent injector    faults are counted and never carried out
"""

import asyncio
from collections.abc import Callable
from random import Random

from testkit.check.linearizability import Interval, SearchVerdict, check
from testkit.check.registers import Alter, Call, Read, Register, Transition, step
from testkit.sim.runs.controller_schedules import ScheduleReport, run_schedule
from testkit.sim.runs.nemesis import Fault, Nemesis
from testkit.sim.runs.totals import Totals
from testkit.sim.runs.world import World, make_world

SILENT_SCHEDULES = 4


def forged_loss() -> str | None:
    """Lose a message and return the checker's verdict."""
    with make_world(1) as world:
        world.loop.run_until_complete(_run_and_forge(world))
        return next((text for text in world.invariants.violations if text.startswith("S3")), None)


async def _run_and_forge(world: World) -> None:
    await world.start()
    await asyncio.sleep(4.0)
    world.heal()
    await world.recover()
    await world.settle()
    master = next(broker for broker in world.all_brokers if broker.is_master)
    lost = Random(1).randrange(len(master.log.records))
    for broker in world.all_brokers:
        del broker.log.records[lost]
    world.judge()


def forged_stale_read() -> str | None:
    """Judge a history with one stale answer and return the checker's verdict."""
    before, after = Register(1, 1, (1,), 1), Register(1, 1, (1, 2), 2)
    calls: list[Interval[Call]] = [
        Interval(0.0, 0.1, Transition(Register(), before, "ElectMaster")),
        Interval(0.2, 0.3, Alter(1, 1, 1, (1, 2), 0, 2)),
        Interval(0.4, 0.5, Read(1, after.set_epoch, after.members, 1)),
        Interval(0.6, 0.7, Read(1, before.set_epoch, before.members, 1)),
    ]
    finding = check(calls, Register(), step)
    return f"{finding.verdict}: {finding.stuck[0].call}" if finding.verdict is SearchVerdict.INVALID else None


class SilentNemesis(Nemesis):
    """Counts faults and does nothing."""

    def strike(self) -> float:
        """Count a fault."""
        self.injected[Fault.CONTROLLER_KILL] += 3
        return 1.0


def silent_injector(run: Callable[..., ScheduleReport] = run_schedule) -> str | None:
    """Run schedules whose faults never happen and return the checker's verdict."""
    totals = Totals()
    for seed in range(SILENT_SCHEDULES):
        totals.add(run(seed, SilentNemesis))
    return (
        f"{totals.verdict}: {totals.silent}"
        if totals.verdict is SearchVerdict.UNKNOWN and totals.silent
        else None
    )


CANARIES: dict[str, Callable[[], str | None]] = {
    "forged loss": forged_loss,
    "forged stale read": forged_stale_read,
    "silent fault injector": silent_injector,
}
"""Each returns the report, None without one."""
