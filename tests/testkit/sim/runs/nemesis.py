"""The faults of a simulated run: a schedule's kinds, when they strike, and whether they had an effect.

Each schedule has each kind with probability one half, so that some have few and undisturbed ones are rare. A
kind that was injected many times over many schedules and never had an effect is a broken injector, not a
strong system: effects are counted where they show (a process that died, a byte that stalled, a sync that
failed), not at their request.

What the promise tolerates, and thus the largest set of faults injected at the same time: any number of cuts
and pauses, processes killed and restarted at will, power lost on any controller, a damaged log on one of them
(with no others down for good). A broker keeps its log when it dies. Beyond it, nothing is injected.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from testkit.sim.brokers.broker import SimulatedBroker
from testkit.sim.controllers.controller_host import ControllerHost
from testkit.sim.runs.node_faults import NodeFault, NodeFaults
from testkit.sim.runs.world import World

PAUSE_BETWEEN_S = (0.3, 2.2)
DOWN_S = (0.1, 6.0)
FROZEN_S = (0.2, 4.0)
CUT_S = (0.3, 6.0)
SLOW_FSYNC_S = (0.05, 0.5)
FULL_S = (0.5, 3.0)
UTC_JUMP_S = 3_600.0


class Fault(StrEnum):
    """Kinds of faults."""

    CONTROLLER_KILL = "controller kill"
    CONTROLLER_POWER = "controller power loss"
    CONTROLLER_TORN = "controller torn write"
    CONTROLLER_FREEZE = "controller freeze"
    CONTROLLER_DAMAGE = "controller log damage"
    DISK_ERROR = "disk sync error"
    DISK_FULL = "disk full"
    DISK_SLOW = "disk slow"
    CUT = "cut between controllers"
    CUT_ONE_WAY = "one-way cut"
    CUT_BROKER = "cut broker"
    SLOW_NETWORK = "slow network"
    LOSS = "messages lost and doubled"
    BROKER_KILL = "broker kill"
    BROKER_FREEZE = "broker freeze"
    NOTICES = "notices lost, late, doubled"
    CLOCK_JUMP = "wall clock jump"
    TRANSFER = "leadership transfer"
    EVERYTHING = "all controllers killed"
    LEADER_AND_MASTER = "leader and master killed"


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """Which faults a schedule has, and for how long."""

    kinds: tuple[Fault | NodeFault, ...]
    disturbed_s: float

    @classmethod
    def draw(cls, random: Random) -> "FaultPlan":
        """Draw a plan; damage of a log is rare, since the node is lost for the rest of the run."""
        kinds = [kind for kind in Fault if random.random() < 0.5]
        if Fault.CONTROLLER_DAMAGE in kinds and random.random() < 0.6:
            kinds.remove(Fault.CONTROLLER_DAMAGE)
        return cls(tuple(kinds), random.uniform(10.0, 16.0))

    def with_agents(self, random: Random) -> "FaultPlan":
        """Return the plan with faults of machines, and half of the others."""
        kinds = [kind for kind in self.kinds if random.random() < 0.5]
        kinds += [kind for kind in NodeFault if random.random() < 0.6]
        return FaultPlan(tuple(kinds), self.disturbed_s)


class Nemesis:
    """Injects a plan's faults into a world.

    Attributes:
        injected: the number of requests of each kind.
    """

    def __init__(self, world: World, random: Random, plan: FaultPlan) -> None:
        self.injected: Counter[Fault | NodeFault] = Counter()
        self.plan = plan
        self._world = world
        self._random = random
        self._killed: Counter[Fault | NodeFault] = Counter()
        self._node_faults = NodeFaults(world, random)
        self._acts: dict[Fault | NodeFault, Callable[[], bool]] = {
            Fault.CONTROLLER_KILL: self._kill_controller,
            Fault.CONTROLLER_POWER: self._cut_power,
            Fault.CONTROLLER_TORN: lambda: self._on_disk(ControllerHost.tear_next_write),
            Fault.CONTROLLER_FREEZE: self._freeze_controller,
            Fault.CONTROLLER_DAMAGE: self._damage,
            Fault.DISK_ERROR: lambda: self._on_disk(ControllerHost.fail_next_sync),
            Fault.DISK_FULL: self._fill_disk,
            Fault.DISK_SLOW: self._slow_disk,
            Fault.CUT: self._cut_controllers,
            Fault.CUT_ONE_WAY: self._cut_one_way,
            Fault.CUT_BROKER: self._cut_broker,
            Fault.SLOW_NETWORK: self._slow_network,
            Fault.LOSS: self._lose_messages,
            Fault.BROKER_KILL: self._kill_broker,
            Fault.BROKER_FREEZE: self._freeze_broker,
            Fault.NOTICES: self._disturb_notices,
            Fault.CLOCK_JUMP: self._jump_clock,
            Fault.TRANSFER: self._transfer,
            Fault.EVERYTHING: self._kill_all,
            Fault.LEADER_AND_MASTER: self._kill_leader_and_master,
        }
        self._acts.update(self._node_faults.acts.items())

    def strike(self) -> float:
        """Inject one fault, if it is possible now; return the seconds until the next."""
        if self.plan.kinds:
            kind = self._random.choice(self.plan.kinds)
            self._world.observations.note(f"fault {kind}")
            if self._acts[kind]():
                self.injected[kind] += 1
        return self._random.uniform(*PAUSE_BETWEEN_S)

    def effects(self) -> Counter[Fault | NodeFault]:
        """Return how often each kind was seen to have an effect, as far as that can be seen from here."""
        world, network = self._world, self._world.network
        seen = Counter(self._killed)
        seen.update(self._node_faults.effects)
        for fault, count in (
            (Fault.CONTROLLER_TORN, sum(one.power_losses_in_writes for one in world.controllers)),
            (Fault.DISK_ERROR, sum(one.disk_errors for one in world.controllers)),
            (Fault.DISK_FULL, sum(one.full_writes for one in world.controllers)),
            (Fault.CONTROLLER_DAMAGE, sum(one.refused_starts for one in world.controllers)),
            (Fault.CONTROLLER_FREEZE, self._parked(world.controllers)),
            (Fault.BROKER_FREEZE, self._parked(world.all_brokers)),
            (Fault.CUT, network.lost),
            (Fault.CUT_BROKER, network.stalled),
            (Fault.CUT_ONE_WAY, network.lost + network.stalled),
            (Fault.LOSS, network.doubled),
            (
                Fault.NOTICES,
                sum(
                    one.notices_lost + one.notices_doubled + one.notices_delayed for one in world.all_brokers
                ),
            ),
        ):
            if self.injected[fault] and count:
                seen[fault] = count
        return seen

    @staticmethod
    def _parked(hosts: "list[ControllerHost] | list[SimulatedBroker]") -> int:
        return sum(one.process.parked for one in hosts)

    # -- controllers

    def _controller(self) -> ControllerHost | None:
        living = [one for one in self._world.controllers if one.process.alive]
        return self._random.choice(living) if living else None

    def _later(self, delay_s: float, action: Callable[[], object]) -> None:
        self._world.loop.call_in(None, delay_s, action)

    def _note_death(self, fault: Fault, is_alive: bool) -> None:
        if not is_alive:
            self._killed[fault] += 1

    def _kill_controller(self) -> bool:
        victim = self._controller()
        if victim is not None:
            self._kill(victim, Fault.CONTROLLER_KILL)
        return victim is not None

    def _kill(self, victim: ControllerHost, fault: Fault) -> None:
        victim.kill()
        self._note_death(fault, victim.process.alive)
        self._later(self._random.uniform(*DOWN_S), victim.start)

    def _cut_power(self) -> bool:
        victim = self._controller()
        if victim is not None:
            victim.lose_power()
            self._note_death(Fault.CONTROLLER_POWER, victim.process.alive)
            self._later(self._random.uniform(*DOWN_S), victim.start)
        return victim is not None

    def _on_disk(self, act: Callable[[ControllerHost], None]) -> bool:
        victim = self._controller()
        if victim is not None:
            act(victim)
        return victim is not None

    def _fill_disk(self) -> bool:
        victim = self._controller()
        if victim is None:
            return False
        victim.fill_disk(True)
        self._later(self._random.uniform(*FULL_S), lambda: victim.fill_disk(False))
        return True

    def _slow_disk(self) -> bool:
        victim = self._controller()
        if victim is None:
            return False
        victim.fsync_s = SLOW_FSYNC_S
        self._killed[Fault.DISK_SLOW] += 1
        self._later(self._random.uniform(*FULL_S), victim.calm)
        return True

    def _freeze_controller(self) -> bool:
        victim = self._controller()
        if victim is None:
            return False
        process = victim.process
        process.freeze()
        self._later(self._random.uniform(*FROZEN_S), process.thaw)
        return True

    def _damage(self) -> bool:
        world = self._world
        if any(one.is_damaged for one in world.controllers):
            return False
        victim = self._controller()
        if victim is None:
            return False
        victim.kill()
        done = victim.damage()
        self._later(0.5, victim.start)
        return done

    def _kill_all(self) -> bool:
        for victim in self._world.controllers:
            if victim.process.alive:
                self._kill(victim, Fault.EVERYTHING)
        return True

    def _transfer(self) -> bool:
        leader = self._world.leader()
        if leader is None or leader.node is None:
            return False
        self._killed[Fault.TRANSFER] += 1
        leader.process.spawn(leader.transfer())
        return True

    def _jump_clock(self) -> bool:
        victim = self._controller()
        if victim is None:
            return False
        victim.process.utc_offset_s = self._random.uniform(-UTC_JUMP_S, UTC_JUMP_S)
        self._killed[Fault.CLOCK_JUMP] += 1
        return True

    # -- network

    def _cut(self, pairs: set[tuple[str, str]]) -> bool:
        network = self._world.network
        network.cut |= pairs

        def mend() -> None:
            network.cut -= pairs
            network.resume()

        self._later(self._random.uniform(*CUT_S), mend)
        return bool(pairs)

    def _cut_controllers(self) -> bool:
        hosts = [one.host for one in self._world.controllers]
        side = {host for host in hosts if self._random.random() < 0.5} or {hosts[0]}
        if self._random.random() < 0.3:  # with the brokers that happen to be on its side
            side |= {one.host for one in self._world.all_brokers if self._random.random() < 0.5}
            hosts += [one.host for one in self._world.all_brokers]
        others = set(hosts) - side
        pairs = {(one, other) for one in side for other in others}
        return self._cut(pairs | {(other, one) for one, other in pairs})

    def _cut_one_way(self) -> bool:
        hosts = [one.host for one in self._world.controllers]
        everybody = hosts + [one.host for one in self._world.all_brokers]
        pair = (self._random.choice(everybody), self._random.choice(hosts))
        if self._random.random() < 0.5:
            pair = (pair[1], pair[0])
        return pair[0] != pair[1] and self._cut({pair})

    def _cut_broker(self) -> bool:
        victim = self._random.choice(self._world.all_brokers).host
        hosts = {one.host for one in self._world.controllers}
        if self._random.random() < 0.5:
            hosts |= {one.host for one in self._world.all_brokers}
        if self._random.random() < 0.3:  # its controller stays with it
            hosts.discard(self._random.choice(self._world.controllers).host)
        pairs = {(victim, host) for host in hosts if host != victim}
        return self._cut(pairs | {(host, victim) for victim, host in pairs})

    def _slow_network(self) -> bool:
        network = self._world.network
        network.slow_s = self._random.choice((0.02, 0.1, 0.3))
        self._killed[Fault.SLOW_NETWORK] += 1
        self._later(self._random.uniform(*CUT_S), lambda: setattr(network, "slow_s", 0.0))
        return True

    def _lose_messages(self) -> bool:
        network = self._world.network
        network.loss = self._random.uniform(0, 0.3)
        network.duplication = self._random.uniform(0, 0.3)

        def stop() -> None:
            network.loss = network.duplication = 0.0

        self._later(self._random.uniform(*CUT_S), stop)
        return True

    # -- brokers

    def _broker(self) -> SimulatedBroker | None:
        living = [one for one in self._world.all_brokers if one.process.alive]
        masters = [one for one in living if one.is_master]
        if masters and self._random.random() < 0.5:
            return self._random.choice(masters)
        return self._random.choice(living) if living else None

    def _kill_broker(self) -> bool:
        victim = self._broker()
        if victim is not None:
            self._end_broker(victim, Fault.BROKER_KILL)
        return victim is not None

    def _end_broker(self, victim: SimulatedBroker, fault: Fault) -> None:
        victim.process.kill()
        self._note_death(fault, victim.process.alive)
        self._later(self._random.uniform(1.0, DOWN_S[1]), victim.start)

    def _kill_leader_and_master(self) -> bool:
        leader = self._world.leader()
        masters = [one for one in self._world.all_brokers if one.is_master and one.process.alive]
        if leader is None or not masters:
            return False
        self._kill(leader, Fault.LEADER_AND_MASTER)
        self._end_broker(self._random.choice(masters), Fault.LEADER_AND_MASTER)
        return True

    def _freeze_broker(self) -> bool:
        victim = self._broker()
        if victim is None:
            return False
        process = victim.process
        process.freeze()
        self._later(self._random.uniform(*FROZEN_S), process.thaw)
        return True

    def _disturb_notices(self) -> bool:
        for broker in self._world.all_brokers:
            broker.notice_loss = self._random.choice((0.0, 0.5, 1.0))
            broker.notice_doubling = self._random.choice((0.0, 0.5))
            broker.notice_delay_s = self._random.choice((0.0, 0.5, 3.0))
        return True
