"""One schedule of a whole installation from its seed to its verdict."""

import asyncio
from collections import Counter
from dataclasses import dataclass, replace
from random import Random

from testkit.sim.checks.observations import AcknowledgedMessage, GroupHistory
from testkit.sim.runs.nemesis import Fault, FaultPlan, Nemesis
from testkit.sim.runs.node_faults import NodeFault
from testkit.sim.runs.world import Shape, World, make_world

WARM_UP_S = 2.0
ALL_START_WITHIN_S = 4.0
AGENTS_EVERY = 3
"""One in so many schedules has node agents and their faults."""
ANEW_KEYS = {"firstElectionWaitMs": "10000", "scanInactiveMasterInterval": "1000"}
"""The wait is longer than a broker needs to start and be taken up:
`ALL_START_WITHIN_S`, and twice its poll."""


@dataclass(frozen=True, slots=True)
class ScheduleReport:
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
    injected: Counter[Fault | NodeFault]
    effects: Counter[Fault | NodeFault]
    lost_nodes: int
    elections: int
    leaders: int
    calls: int
    follower_reads: int
    acknowledged: int
    ambiguous: int
    refused: int


def draw_shape(random: Random) -> Shape:
    """Draw the installation: mostly three controllers and one group, sometimes more."""
    return Shape(
        controllers=random.choice((3, 3, 3, 5)),
        groups=random.choice((1, 1, 1, 2)),
        brokers=random.choice((2, 3, 3)),
        log_replicas=random.choice((0, 0, 1)),
        snapshot_entries=random.choice((10, 20, 50, 200)),
        designates=random.choice((0.0, 0.1, 0.3)),
        drift=random.choice((0.0, 0.05, 0.09)),
    )


def run_schedule(seed: int, nemesis: type[Nemesis] = Nemesis) -> ScheduleReport:
    """Run the schedule of a seed."""
    random = Random(seed)
    shape = draw_shape(random)
    plan = FaultPlan.draw(random)
    if seed % AGENTS_EVERY == AGENTS_EVERY - 1:
        shape, plan = replace(shape, agents=True), plan.with_agents(Random(seed + 13))
    with make_world(seed, shape) as world:
        attacker = nemesis(world, Random(seed + 7), plan)
        world.loop.run_until_complete(_run(world, attacker, plan))
        return _report(seed, world, attacker)


def run_beginning_anew(seed: int) -> ScheduleReport:
    """Run a schedule in which all controllers lose their stores once, while brokers run or start again."""
    random = Random(seed)
    shape = replace(draw_shape(random), groups=1, brokers=3, designates=0.0, controller_keys=ANEW_KEYS)
    plan = FaultPlan((), 0.0)
    with make_world(seed, shape) as world:
        attacker = Nemesis(world, Random(seed + 7), plan)
        world.loop.run_until_complete(_begin_anew(world, random))
        return _report(seed, world, attacker)


def run_with_an_empty_later_epoch(seed: int) -> ScheduleReport:
    """Run controllers without a store under brokers with the logs of an example.

    The example is in `groups.elections.member_logs`.
    """
    shape = Shape(controller_keys=ANEW_KEYS)
    with make_world(seed, shape) as world:
        attacker = Nemesis(world, Random(seed + 7), FaultPlan((), 0.0))
        (name,) = world.brokers
        longest, empty, follower = world.brokers[name]
        common, later = ("m1", "m2", "m3"), ("m4", "m5")
        for broker_id, broker in enumerate((longest, empty, follower), 1):
            broker.broker_id = broker_id
            broker.log.open_epoch(1)
            for message in common:
                broker.log.append(message)
        empty.log.open_epoch(3)
        for broker in (longest, follower):
            broker.log.open_epoch(2)
            broker.log.open_epoch(4)  # refused, as RocketMQ does: epoch 2 starts here
            for message in later:
                broker.log.append(message)
        world.producers[0].attempted.update(common, later)
        # Of an earlier life, whose elections nobody observed: only the judgement at the end counts.
        world.observations.groups[name] = GroupHistory(
            acknowledged=[
                AcknowledgedMessage(0.0, 1 if message in common else 4, 1, offset, message)
                for offset, message in enumerate((*common, *later))
            ]
        )
        world.loop.run_until_complete(_start_and_judge(world))
        return _report(seed, world, attacker)


async def _start_and_judge(world: World) -> None:
    await world.start()
    world.heal()
    await world.recover()
    if not world.invariants.violations:
        await world.settle()
        world.judge()


async def _begin_anew(world: World, random: Random) -> None:
    await world.start()
    await asyncio.sleep(WARM_UP_S)
    for _ in range(random.randrange(3)):  # higher epochs
        victim = random.choice(world.all_brokers)
        victim.process.kill()
        await asyncio.sleep(random.uniform(1.0, 8.0))
        victim.start()
        await asyncio.sleep(random.uniform(0.0, 8.0))
    if random.random() < 0.7:  # one log that is behind, of a broker that may be the first to come
        behind = random.choice(world.all_brokers)
        behind.process.kill()
        await asyncio.sleep(random.uniform(4.0, 8.0))
        world.loop.call_in(None, random.uniform(0.0, ALL_START_WITHIN_S), behind.start)
    for controller in world.controllers:
        controller.kill()
    share = random.choice((0.0, 0.5, 1.0))
    for broker in world.all_brokers:
        if broker.process.alive and random.random() < share:
            broker.process.kill()
            world.loop.call_in(None, random.uniform(0.0, ALL_START_WITHIN_S), broker.start)
    world.observations.begin_anew()
    world.invariants.begin_anew()
    for controller in world.controllers:
        controller.lose_store()
        world.loop.call_in(None, random.uniform(0.0, 1.0), controller.start)
    await asyncio.sleep(ALL_START_WITHIN_S)
    world.heal()
    await world.recover()
    if not world.invariants.violations:
        await world.settle()
        world.judge()


async def _run(world: World, nemesis: Nemesis, plan: FaultPlan) -> None:
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


def _report(seed: int, world: World, nemesis: Nemesis) -> ScheduleReport:
    histories = world.observations.groups.values()
    outcomes: Counter[str] = Counter()
    for producer in world.producers:
        outcomes.update(producer.outcomes)
    return ScheduleReport(
        seed=seed,
        violations=tuple(world.invariants.violations),
        trace=world.observations.trace,
        simulated_s=world.loop.now_s,
        injected=nemesis.injected,
        effects=nemesis.effects(),
        lost_nodes=world.lost_nodes.declared,
        elections=world.invariants.elections,
        leaders=world.invariants.leaders,
        calls=sum(len(history.calls) + len(history.open_calls) for history in histories),
        follower_reads=sum(controller.follower_reads for controller in world.controllers),
        acknowledged=sum(len(history.acknowledged) for history in histories),
        ambiguous=outcomes["ambiguous"],
        refused=outcomes["refused"],
    )
