"""One schedule of a whole installation from its seed to its verdict."""

import asyncio
from collections import Counter
from dataclasses import dataclass
from random import Random

from testkit.sim.nemesis import Fault, Nemesis, Plan
from testkit.sim.world import Shape, World, make_world

WARM_UP_S = 2.0


@dataclass(frozen=True, slots=True)
class Report:
    """What a schedule led to.

    Attributes:
        violations: empty when all held.
        trace: digest of the run; the same seed gives the same.
        simulated_s: how much time passed in it.
    """

    seed: int
    violations: tuple[str, ...]
    trace: str
    simulated_s: float
    injected: Counter[Fault]
    effects: Counter[Fault]
    elections: int
    leaders: int
    calls: int
    acknowledged: int
    ambiguous: int
    refused: int


def draw_shape(random: Random) -> Shape:
    """Draw what is installed: mostly three controllers and one group, sometimes more."""
    return Shape(
        controllers=random.choice((3, 3, 3, 5)),
        groups=random.choice((1, 1, 1, 2)),
        brokers=random.choice((2, 3, 3)),
        log_replicas=random.choice((0, 0, 1)),
        snapshot_entries=random.choice((10, 20, 50, 200)),
        designates=random.choice((0.0, 0.1, 0.3)),
        drift=random.choice((0.0, 0.05, 0.09)),
    )


def run_schedule(seed: int, nemesis: type[Nemesis] = Nemesis) -> Report:
    """Run the schedule of a seed."""
    random = Random(seed)
    shape = draw_shape(random)
    plan = Plan.draw(random)
    with make_world(seed, shape) as world:
        attacker = nemesis(world, Random(seed + 7), plan)
        world.loop.run_until_complete(_run(world, attacker, plan))
        return _report(seed, world, attacker)


async def _run(world: World, nemesis: Nemesis, plan: Plan) -> None:
    await world.start()
    await asyncio.sleep(WARM_UP_S)
    end_s = world.loop.now_s + plan.disturbed_s
    while world.loop.now_s < end_s and not world.invariants.violations:  # noqa: ASYNC110 - the pauses are the point
        await asyncio.sleep(nemesis.strike())
    world.heal()
    await world.recover()
    if not world.invariants.violations:
        await world.settle()
        world.judge()


def _report(seed: int, world: World, nemesis: Nemesis) -> Report:
    histories = world.observations.groups.values()
    outcomes: Counter[str] = Counter()
    for producer in world.producers:
        outcomes.update(producer.outcomes)
    return Report(
        seed=seed,
        violations=tuple(world.invariants.violations),
        trace=world.observations.trace,
        simulated_s=world.loop.now_s,
        injected=nemesis.injected,
        effects=nemesis.effects(),
        elections=world.invariants.elections,
        leaders=world.invariants.leaders,
        calls=sum(len(history.calls) + len(history.open_calls) for history in histories),
        acknowledged=sum(len(history.acknowledged) for history in histories),
        ambiguous=outcomes["ambiguous"],
        refused=outcomes["refused"],
    )
