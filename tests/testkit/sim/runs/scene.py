"""A simulated installation directed by hand.

It is for scenarios in which exactly one thing goes wrong, at exactly one moment.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace

from controller_core.channel.endpoints import connect
from controller_core.groups.group import Group
from controller_core.groups.keys import GroupKey
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.header import Header
from testkit.sim.brokers.broker import SimulatedBroker
from testkit.sim.controllers.controller_host import ControllerHost
from testkit.sim.loop.virtual_loop import Process
from testkit.sim.runs.world import CLUSTER, Shape, World, make_world

NAME = "b0"
SEED = 3
READY_WITHIN_S = 30.0
_STEP_S = 0.02
_CALL_S = 3.0


class Scene:
    """One group of brokers 1, 2, 3 under its controllers; broker 1 is the first master.

    Attributes:
        person: the process of somebody who asks controllers.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.person = Process(world.loop, "director")
        world.network.place(self.person, "director")

    @property
    def leader(self) -> ControllerHost:
        """The leading controller."""
        leader = self.world.leader()
        if leader is None:
            raise AssertionError("no controller leads")
        return leader

    @property
    def group(self) -> Group:
        """The group as the controller that has applied most knows it."""
        machines = [one.machine for one in self.world.controllers if one.machine is not None]
        newest = max(machines, key=lambda machine: machine.state.applied_index)
        group = newest.state.get(GroupKey(CLUSTER, NAME))
        if group is None:
            raise AssertionError("the group is not known")
        return group

    def broker(self, broker_id: int) -> SimulatedBroker:
        """Return a member by its id."""
        return next(one for one in self.world.brokers[NAME] if one.broker_id == broker_id)

    def kill(self, *broker_ids: int) -> None:
        """Kill members."""
        for broker_id in broker_ids:
            self.broker(broker_id).process.kill()

    def start(self, *broker_ids: int) -> None:
        """Start members again."""
        for broker_id in broker_ids:
            self.broker(broker_id).start()

    def cut(self, some: Iterable[str], others: Iterable[str], *, both: bool = True) -> None:
        """Cut hosts off from others; with `both` False only what the first say is not heard."""
        for one in some:
            for other in others:
                self.world.network.cut.add((one, other))
                if both:
                    self.world.network.cut.add((other, one))

    def controllers(self, *, without: ControllerHost | None = None) -> list[str]:
        """Return the controllers' hosts."""
        return [one.host for one in self.world.controllers if one is not without]

    async def until(self, condition: Callable[[], bool], within_s: float, what: str) -> float:
        """Wait for something; return how long it took.

        Raises:
            AssertionError: it did not come in time.
        """
        began_s = self.world.loop.now_s
        while not _holds(condition):
            if self.world.loop.now_s - began_s > within_s:
                raise AssertionError(f"not within {within_s} s: {what}")
            await asyncio.sleep(_STEP_S)
        return self.world.loop.now_s - began_s

    async def ask(
        self, code: int, header: Header, body: bytes = b"", *, as_broker: int = 0
    ) -> RemotingCommand:
        """Send a request to the leader as a person would, or from the host of a broker."""
        sender = self.broker(as_broker).process if as_broker else self.person
        return await sender.spawn(self._ask(code, header, body))  # type: ignore[no-any-return] # a task of any

    async def _ask(self, code: int, header: Header, body: bytes) -> RemotingCommand:
        host, _, port = self.leader.address.rpartition(":")
        connection = await connect(host, int(port), _CALL_S)
        try:
            return await connection.call(RemotingCommand.request(code, header.to_ext(), body), _CALL_S)
        finally:
            connection.close()


def _holds(condition: Callable[[], bool]) -> bool:
    try:
        return condition()
    except AssertionError:
        return False  # what it looks at is not there yet


Play = Callable[[Scene], Awaitable[None]]


def perform(play: Play, shape: Shape | None = None) -> list[str]:
    """Start an installation, play, heal, judge; return what went wrong, nothing if all held."""
    shape = replace(shape or Shape(), groups=1)
    with make_world(SEED, shape) as world:
        world.loop.run_until_complete(_perform(world, play))
        return world.invariants.violations


async def _perform(world: World, play: Play) -> None:
    scene = Scene(world)
    await world.start()
    try:
        await scene.until(lambda: world.problem() is None, READY_WITHIN_S, "a first master with its slaves")
        await play(scene)
    except AssertionError as error:
        world.invariants.broken(f"play: {error}")
    world.heal()
    await world.recover()
    if not world.invariants.violations:
        await world.settle()
    world.judge()
