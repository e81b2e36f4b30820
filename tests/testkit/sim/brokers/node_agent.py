"""A modelled node agent: it tells all controllers which members live on its node, or lies about that."""

from collections.abc import Callable
from random import Random

from controller_core.remoting.codes import RequestCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.nodes.bodies import NamedMember, NodeHeartbeat
from controller_core.remoting.nodes.token import TOKEN_FIELD, node_token
from testkit.sim.brokers.broker_calls import ControllerLinks
from testkit.sim.loop.simulated_network import Network
from testkit.sim.loop.virtual_loop import Process, VirtualLoop

AGENT_BEAT_S = 0.1
CLUSTER_TOKEN = "simulated"  # noqa: S105 - of no cluster


class SimulatedAgent:
    """The agent of one machine.

    Attributes:
        process: the process of now.
        lies: members of other machines that it names too.
        skipped: the share of its heartbeats that it does not send.
        sent: how many it has sent.
        left_out: how many it has left out.
    """

    def __init__(
        self,
        host: str,
        controllers: list[str],
        loop: VirtualLoop,
        network: Network,
        random: Random,
        members: Callable[[], tuple[NamedMember, ...]],
    ) -> None:
        """Take the machine, and what returns the members on it."""
        self.host = host
        self.lies: tuple[NamedMember, ...] = ()
        self.skipped = 0.0
        self.sent = self.left_out = 0
        self.process = Process(loop, f"agent-{host}")
        self.process.alive = False
        self._controllers = controllers
        self._loop = loop
        self._network = network
        self._random = random
        self._members = members
        self._links = ControllerLinks(controllers, random, AGENT_BEAT_S)

    def start(self) -> None:
        """Start its process."""
        if self.process.alive:
            return
        self.process = Process(self._loop, f"agent-{self.host}")
        self._network.place(self.process, self.host)
        self._links = ControllerLinks(self._controllers, self._random, AGENT_BEAT_S)
        for address in self._controllers:
            self.process.spawn(self._links.keep(address, self._beat))

    def calm(self) -> None:
        """End its faults."""
        self.lies, self.skipped = (), 0.0
        self.process.thaw()
        self.start()

    def _beat(self, address: str) -> None:
        if self.skipped and self._random.random() < self.skipped:
            self.left_out += 1
            return
        body = NodeHeartbeat((*self._members(), *self.lies)).encode()
        ext = {TOKEN_FIELD: node_token(CLUSTER_TOKEN)}
        self._links.send_oneway(address, RemotingCommand.request(RequestCode.NODE_HEARTBEAT, ext, body))
        self.sent += 1
