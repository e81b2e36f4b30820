"""Faults of machines with node agents: agents that die, stand still, lag or lie, and machines that are lost.

A machine is one broker and its agent. Only schedules with agents have these faults.
"""

from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from random import Random

from controller_core.remoting.nodes.bodies import NamedMember
from testkit.sim.brokers.node_agent import SimulatedAgent
from testkit.sim.runs.world import World

DOWN_S = (0.0, 2.0)
FROZEN_S = (0.2, 4.0)
LAGGING_S = (1.0, 6.0)
LYING_S = (1.0, 8.0)
CUT_S = (0.3, 6.0)


class NodeFault(StrEnum):
    """Kinds of faults of machines with agents."""

    AGENT_KILL = "agent kill"
    AGENT_FREEZE = "agent freeze"
    AGENT_LAG = "agent lags"
    AGENT_LIE = "agent names members elsewhere"
    AGENT_ROLLOUT = "all agents killed in turn"
    NODE_FREEZE = "node freeze"
    NODE_CUT = "node cut"
    NODE_CUT_ONE = "node cut from one controller"


class NodeFaults:
    """Injects them.

    Attributes:
        effects: how often each kind had an effect.
    """

    def __init__(self, world: World, random: Random) -> None:
        self.effects: Counter[NodeFault] = Counter()
        self._world = world
        self._random = random
        self.acts: dict[NodeFault, Callable[[], bool]] = {
            NodeFault.AGENT_KILL: self._kill,
            NodeFault.AGENT_FREEZE: self._freeze_agent,
            NodeFault.AGENT_LAG: self._lag,
            NodeFault.AGENT_LIE: self._lie,
            NodeFault.AGENT_ROLLOUT: self._roll_out,
            NodeFault.NODE_FREEZE: self._freeze_node,
            NodeFault.NODE_CUT: lambda: self._cut(NodeFault.NODE_CUT, len(self._world.controllers)),
            NodeFault.NODE_CUT_ONE: lambda: self._cut(NodeFault.NODE_CUT_ONE, 1),
        }

    def _agent(self) -> SimulatedAgent:
        masters = {broker.host for broker in self._world.all_brokers if broker.is_master}
        beside = [agent for agent in self._world.agents if agent.host in masters]
        some = beside if beside and self._random.random() < 0.6 else self._world.agents
        return self._random.choice(some)

    def _later(self, span_s: tuple[float, float], action: Callable[[], object]) -> None:
        self._world.loop.call_in(None, self._random.uniform(*span_s), action)

    def _kill(self) -> bool:
        agent = self._agent()
        self._end(agent, NodeFault.AGENT_KILL)
        return True

    def _end(self, agent: SimulatedAgent, fault: NodeFault) -> None:
        self.effects[fault] += agent.process.alive
        agent.process.kill()
        self._later(DOWN_S, agent.start)

    def _roll_out(self) -> bool:
        delay_s = 0.0
        for agent in self._world.agents:
            self._world.loop.call_in(None, delay_s, self._end, agent, NodeFault.AGENT_ROLLOUT)
            delay_s += self._random.uniform(*DOWN_S)
        return True

    def _freeze_agent(self) -> bool:
        self._freeze(self._agent(), NodeFault.AGENT_FREEZE)
        return True

    def _freeze(self, agent: SimulatedAgent, fault: NodeFault) -> None:
        process = agent.process
        process.freeze()
        self.effects[fault] += process.alive
        self._later(FROZEN_S, process.thaw)

    def _lag(self) -> bool:
        agent = self._agent()
        agent.skipped = self._random.choice((0.5, 0.8, 0.95))
        self.effects[NodeFault.AGENT_LAG] += 1
        self._later(LAGGING_S, agent.calm)
        return True

    def _lie(self) -> bool:
        agent = self._agent()
        others = [one for one in self._world.all_brokers if one.host != agent.host and one.broker_id]
        if not others:
            return False
        agent.lies = tuple(NamedMember(one.group, one.broker_id, one.host) for one in others)
        self.effects[NodeFault.AGENT_LIE] += 1
        self._later(LYING_S, agent.calm)
        return True

    def _freeze_node(self) -> bool:
        agent = self._agent()
        broker = next(one for one in self._world.all_brokers if one.host == agent.host)
        agent.process.freeze()
        process = broker.process
        process.freeze()
        self.effects[NodeFault.NODE_FREEZE] += process.alive

        def thaw() -> None:
            agent.process.thaw()
            process.thaw()

        self._later(FROZEN_S, thaw)
        return True

    def _cut(self, fault: NodeFault, count: int) -> bool:
        host = self._agent().host
        controllers = self._random.sample([one.host for one in self._world.controllers], count)
        leader = self._world.leader()
        if count == 1 and leader is not None and self._random.random() < 0.6:
            controllers = [leader.host]
        pairs = {pair for other in controllers for pair in ((host, other), (other, host))}
        network = self._world.network
        network.cut |= pairs
        self.effects[fault] += 1

        def mend() -> None:
            network.cut -= pairs
            network.resume()

        self._later(CUT_S, mend)
        return True
