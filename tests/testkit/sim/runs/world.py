"""A simulated installation: controllers, broker groups, clients, and one verdict.

    disturbed   for `FaultPlan.disturbed_s` seconds faults come as the plan allows (`nemesis`)
    healed      every cut, crash and pause ends; within `LIVENESS_S` everything must work again:
                one leader, all controllers with the same bytes, each group with a living master,
                two in sync, sends acknowledged
    judged      nothing acknowledged is lost, the logs agree, and the history of each group is linearizable

One seed is one plan and one run.
"""

import asyncio
import logging
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

from controller_core.groups.keys import GroupKey
from controller_core.remoting.nodes.bodies import NamedMember
from controller_core.server.controller import Controller
from testkit.sim.brokers.broker import IN_SYNC_MIN, SimulatedBroker
from testkit.sim.brokers.broker_calls import BEAT_S
from testkit.sim.brokers.node_agent import CLUSTER_TOKEN, SimulatedAgent
from testkit.sim.checks.invariants import Invariants
from testkit.sim.checks.lost_nodes import LostNodes
from testkit.sim.checks.observations import Observations
from testkit.sim.controllers.controller_host import ControllerHost
from testkit.sim.loop.simulated_network import Network
from testkit.sim.loop.virtual_loop import Process, VirtualLoop, virtual_loop
from testkit.sim.runs.sim_clients import Onlooker, Producer

CLUSTER = "c1"
LIVENESS_S = 40.0
"""Seconds after healing within which everything must work: hold after a start (10 s),
polls, retries, a lost node."""
SETTLE_S = 0.4
AGENTS_BROKER_BEAT_S = 0.3
AGENTS_STARTING_MS = 1_000
_CHECK_S = 0.25


@dataclass(frozen=True, slots=True)
class Shape:
    """The installation.

    Attributes:
        log_replicas: how many of each group's members keep the log only.
        snapshot_entries: entries between two snapshots of a controller.
        agents: whether each broker's machine has a node agent. Brokers then send heartbeats faster, and count
            as started after a second.
        drift: how far clocks are apart at most; the lease allows for a tenth.
    """

    controllers: int = 3
    groups: int = 1
    brokers: int = 3
    log_replicas: int = 0
    snapshot_entries: int = 200
    designates: float = 0.0
    agents: bool = False
    drift: float = 0.0
    producers: int = 1
    flaws: frozenset[str] = frozenset()
    controller_keys: dict[str, str] = field(default_factory=dict)


class World:
    """Everything that runs on one loop.

    Attributes:
        faults: whether the run is in its disturbed part.
    """

    def __init__(self, loop: VirtualLoop, seed: int, shape: Shape) -> None:
        self.loop = loop
        self.shape = shape
        self.random = Random(seed)
        self.faults = True
        self.network = Network(loop, Random(seed + 1))
        self.invariants = Invariants()
        self.observations = Observations(loop, self.invariants)
        self.controllers: list[ControllerHost] = []
        self.lost_nodes = LostNodes(loop, self.invariants, shape.controllers)
        for number in range(shape.controllers):
            rate = 1 + self.random.uniform(-shape.drift, shape.drift) / 2
            self.controllers.append(
                ControllerHost(
                    number,
                    shape.controllers,
                    loop,
                    self.network,
                    Random(seed * 16 + number + 2),
                    self.invariants,
                    self.observations,
                    self.controllers,
                    rate=rate,
                    snapshot_entries=shape.snapshot_entries,
                    set_keys=shape.controller_keys | ({"httpToken": CLUSTER_TOKEN} if shape.agents else {}),
                    on_started=self._watch,
                )
            )
        for controller in self.controllers:
            controller.processes = self.observations.processes
        addresses = [controller.address for controller in self.controllers]
        self.brokers: dict[str, list[SimulatedBroker]] = {}
        self.producers: list[Producer] = []
        for number in range(shape.groups):
            name = f"b{number}"
            hosts = [f"10.1.{number}.{member + 1}" for member in range(shape.brokers)]
            self.brokers[name] = [
                SimulatedBroker(
                    name,
                    host,
                    addresses,
                    loop,
                    self.network,
                    Random(self.random.random()),
                    self.observations,
                    cluster=CLUSTER,
                    log_replica=member >= shape.brokers - shape.log_replicas,
                    flaws=shape.flaws,
                    beat_s=AGENTS_BROKER_BEAT_S if shape.agents else BEAT_S,
                )
                for member, host in enumerate(hosts)
            ]
        self.observations.members = self.brokers
        self.agents = [self._agent_of(broker, addresses, seed) for broker in self.all_brokers if shape.agents]
        self._clients(addresses)

    def _watch(self, name: str, process: Process, controller: Controller) -> None:
        # A schedule is hardly longer than the time for which a new process judges no silence.
        controller.heartbeats.table._judges_from_ms = 0
        if self.shape.agents:
            controller.heartbeats.table._starting_ms = AGENTS_STARTING_MS
            self.lost_nodes.watch(name, process, controller)

    def _agent_of(self, broker: SimulatedBroker, controllers: list[str], seed: int) -> SimulatedAgent:
        def members() -> tuple[NamedMember, ...]:
            named = NamedMember(broker.group, broker.broker_id, broker.host)
            return (named,) if broker.broker_id else ()

        random = Random(f"{seed} {broker.host}")
        return SimulatedAgent(broker.host, controllers, self.loop, self.network, random, members)

    def _clients(self, addresses: list[str]) -> None:
        for name, brokers in self.brokers.items():
            hosts = [broker.host for broker in brokers]
            for number in range(self.shape.producers):
                self.producers.append(
                    Producer(
                        f"client-{name}-{number}",
                        hosts,
                        self.loop,
                        self.network,
                        Random(self.random.random()),
                    )
                )
        self.onlookers = [
            Onlooker(
                f"person-{number}",
                addresses,
                list(self.brokers),
                self.loop,
                self.network,
                Random(self.random.random()),
                self.observations,
                self,
                designates=self.shape.designates,
            )
            for number in range(2)
        ]

    @property
    def all_brokers(self) -> list[SimulatedBroker]:
        """Return the brokers of all groups."""
        return [broker for brokers in self.brokers.values() for broker in brokers]

    async def start(self) -> None:
        """Start everything, controllers first; brokers come one after the other, which orders their ids."""
        for controller in self.controllers:
            controller.start()
        await asyncio.sleep(1.0)
        for brokers in self.brokers.values():
            for broker in brokers:
                broker.start()
                await asyncio.sleep(0.15)
        for agent in self.agents:
            agent.start()

    def leader(self) -> ControllerHost | None:
        """Return the controller that leads, as it sees itself."""
        leading = [
            one
            for one in self.controllers
            if one.process.alive and one.node is not None and one.node.is_leader
        ]
        return max(leading, key=lambda one: one.node.term if one.node is not None else 0, default=None)

    def heal(self) -> None:
        """End every fault."""
        self.faults = False
        self.network.heal()
        for controller in self.controllers:
            controller.calm()
            controller.process.thaw()
            controller.start()
        for broker in self.all_brokers:
            broker.notice_loss = broker.notice_doubling = broker.notice_delay_s = 0.0
            broker.process.thaw()
            broker.start()
        for agent in self.agents:
            agent.calm()

    def problem(self) -> str | None:
        """Return the first part that does not work yet; None when all do."""
        leader = self.leader()
        if leader is None or leader.machine is None:
            return "no controller leads"
        running = [one for one in self.controllers if not one.is_lost]
        applied = {one.node.applied_index if one.node is not None else -1 for one in running}
        if len(applied) > 1:
            return f"controllers have applied {sorted(applied)}"
        for name, brokers in self.brokers.items():
            group = leader.machine.state.get(GroupKey(CLUSTER, name))
            master = next((one for one in brokers if one.is_master), None)
            if group is None or master is None or group.master_id != master.broker_id:
                return f"{name} has master {group and group.master_id}, broker {master and master.broker_id}"
            if master.epoch != group.master_epoch:
                return f"the master of {name} is in epoch {master.epoch}, not {group.master_epoch}"
            stopped = [one.host for one in brokers if one.process.alive and one.in_sync_min > IN_SYNC_MIN]
            if stopped or group.write_guards:
                return f"writes of {stopped} are still stopped, noted are {group.write_guards}"
            registered = {one.broker_id for one in brokers if one.process.alive}
            if set(group.sync_state_set) != registered:
                return f"in sync of {name} are {group.sync_state_set} of {sorted(registered)}"
            if any(one.log.end < master.view.confirmed_end(master.log.end) for one in brokers if master.view):
                return f"logs of {name} are behind"
        return None

    async def recover(self) -> None:
        """Wait until everything works; a violation if it does not in time."""
        deadline_s = self.loop.now_s + LIVENESS_S
        acknowledged = {name: self._acknowledged(name) for name in self.brokers}
        while not self.invariants.violations:
            problem = self.problem()
            if problem is None:
                silent = [name for name, count in acknowledged.items() if self._acknowledged(name) <= count]
                problem = f"{silent} acknowledge nothing" if silent else None
            if problem is None:
                return
            if self.loop.now_s > deadline_s:
                self.invariants.broken(f"L1: {LIVENESS_S:.0f} s after healing {problem}")
                return
            await asyncio.sleep(_CHECK_S)

    def _acknowledged(self, name: str) -> int:
        history = self.observations.groups.get(name)
        return 0 if history is None else len(history.acknowledged)

    async def settle(self) -> None:
        """Let pending work end, with no new messages."""
        for producer in self.producers:
            producer.process.kill()
        deadline_s = self.loop.now_s + LIVENESS_S
        await asyncio.sleep(SETTLE_S)
        while self.problem() and self.loop.now_s < deadline_s:  # noqa: ASYNC110 - simulated waiting costs nothing
            await asyncio.sleep(_CHECK_S / 5)
        problem = self.problem()
        self.invariants.require(problem is None, f"L1: after settling {problem}")

    def judge(self) -> None:
        """Look at the whole run."""
        self._compare_states()
        for name, brokers in self.brokers.items():
            self._judge_messages(name, brokers)
        self.observations.judge()
        for context in self.loop.errors:
            if context["message"].startswith("Exception in callback"):
                self.invariants.broken(f"{context['message']}: {context.get('exception')!r}")

    def _compare_states(self) -> None:
        digests = {
            one.machine.state.digest()
            for one in self.controllers
            if one.machine is not None and not one.is_lost
        }
        self.invariants.require(len(digests) <= 1, "S1: controllers with the same log have other bytes")

    def _judge_messages(self, name: str, brokers: list[SimulatedBroker]) -> None:
        history = self.observations.groups.get(name)
        master = next((one for one in brokers if one.is_master), None)
        if history is None or master is None:
            return
        records = master.log.records
        kept = {record.message for record in records}
        lost = [one for one in history.acknowledged if one.message not in kept]
        self.invariants.require(
            not lost,
            f"S3: {len(lost)} of {len(history.acknowledged)} acknowledged messages are lost: {lost[:2]}",
        )
        moved = [
            one
            for one in history.acknowledged
            if one.offset < len(records) and records[one.offset].message != one.message and one not in lost
        ]
        self.invariants.require(not moved, f"S3: acknowledged messages lie elsewhere: {moved[:2]}")
        attempted = set().union(*(producer.attempted for producer in self.producers))
        self.invariants.require(
            kept <= attempted,
            f"S3: {name} holds messages that no producer sent: {sorted(kept - attempted)[:3]}",
        )
        for broker in brokers:
            if broker.process.alive:
                end = min(broker.log.end, master.log.end)
                self.invariants.require(
                    [record.message for record in broker.log.records[:end]]
                    == [one.message for one in records[:end]],
                    f"S3: the logs of {name} differ at {broker.host}",
                )


@contextmanager
def make_world(seed: int, shape: Shape | None = None) -> Generator[World, None, None]:
    """Give a world that is not started, on a loop of its own; silent, and cleaned up afterwards."""
    logger = logging.getLogger("controller_core")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        with virtual_loop() as loop:
            yield World(loop, seed, shape or Shape())
    finally:
        logger.setLevel(level)
