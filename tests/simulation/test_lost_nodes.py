"""Whole controllers, brokers and node agents, with exactly one thing that goes wrong at one moment.

Random schedules (`make sim`) have the same faults in any mixture, and a second judgement of each lost node.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from controller_core.groups.history import FailoverRecord
from controller_core.remoting.nodes.bodies import NamedMember
from testkit.sim.brokers.node_agent import SimulatedAgent
from testkit.sim.runs.scene import Scene, perform
from testkit.sim.runs.world import AGENTS_BROKER_BEAT_S, Shape

TRUST_S = 6.0
"""Longer than an agent needs to be relied on, and than a broker counts as starting."""
HEARTBEAT_TIMEOUT_S = 3.0
QUIET_S = 5.0
SHAPE = Shape(agents=True)
Play = Callable[[Scene], Awaitable[None]]


def agent_of(scene: Scene, broker_id: int) -> SimulatedAgent:
    """Return the agent on the machine of a member."""
    host = scene.broker(broker_id).host
    return next(agent for agent in scene.world.agents if agent.host == host)


def newest(scene: Scene) -> FailoverRecord:
    """Return the record of the newest election."""
    machine = scene.leader.machine
    assert machine is not None
    record = machine.state.history.failover(scene.group.key, scene.group.master_epoch)
    assert record is not None
    return record


def freeze(scene: Scene, broker_id: int) -> None:
    """Stop a machine with its broker and its agent."""
    scene.broker(broker_id).process.freeze()
    agent_of(scene, broker_id).process.freeze()


async def settled(scene: Scene) -> int:
    """Wait until agents can be relied on; return the master epoch."""
    await asyncio.sleep(TRUST_S)
    return scene.group.master_epoch


async def replaced(scene: Scene, epoch: int, within_s: float) -> float:
    """Wait for a new master; return how long it took."""
    return await scene.until(lambda: scene.group.master_epoch > epoch, within_s, "a new master")


async def nothing_happens(scene: Scene, epoch: int, for_s: float = QUIET_S) -> None:
    """Watch that the master stays."""
    await asyncio.sleep(for_s)
    assert scene.group.master_epoch == epoch, "a living master was replaced"
    assert scene.world.lost_nodes.declared == 0, "a member was declared lost"


async def a_frozen_node(scene: Scene) -> None:
    epoch = await settled(scene)
    freeze(scene, 1)
    took_s = await replaced(scene, epoch, 2.0)
    assert newest(scene).cause == "NodeLost"
    assert 0.5 - AGENTS_BROKER_BEAT_S < took_s < 0.5 + AGENTS_BROKER_BEAT_S


async def a_node_cut_off_from_all(scene: Scene) -> None:
    epoch = await settled(scene)
    scene.cut([scene.broker(1).host], scene.controllers())
    took_s = await replaced(scene, epoch, 2.0)
    assert newest(scene).cause == "NodeLost"
    assert took_s < 1.0


async def a_frozen_node_with_a_controller(scene: Scene) -> None:
    epoch = await settled(scene)
    freeze(scene, 1)
    other = next(one for one in scene.world.controllers if one is not scene.leader)
    other.process.freeze()
    assert await replaced(scene, epoch, 2.0) < 1.0
    assert newest(scene).cause == "NodeLost"


async def a_frozen_node_with_the_leader(scene: Scene) -> None:
    epoch = await settled(scene)
    freeze(scene, 1)
    scene.leader.process.freeze()
    await replaced(scene, epoch, 2.5)


async def a_frozen_broker(scene: Scene) -> None:
    epoch = await settled(scene)
    scene.broker(1).process.freeze()
    took_s = await replaced(scene, epoch, 5.0)
    assert newest(scene).cause == "HeartbeatTimeout"
    assert took_s > HEARTBEAT_TIMEOUT_S - 2 * AGENTS_BROKER_BEAT_S


async def a_frozen_agent(scene: Scene) -> None:
    epoch = await settled(scene)
    agent_of(scene, 1).process.freeze()
    await nothing_happens(scene, epoch)


async def a_pause_of_the_broker_after_its_agent_has_stopped(scene: Scene) -> None:
    epoch = await settled(scene)
    agent_of(scene, 1).process.freeze()
    await asyncio.sleep(1.0)
    scene.broker(1).process.freeze()
    await asyncio.sleep(HEARTBEAT_TIMEOUT_S / 2)
    scene.broker(1).process.thaw()
    await nothing_happens(scene, epoch)


async def a_killed_agent_and_a_pause_of_its_broker(scene: Scene) -> None:
    epoch = await settled(scene)
    agent_of(scene, 1).process.kill()
    scene.broker(1).process.freeze()
    await asyncio.sleep(HEARTBEAT_TIMEOUT_S / 2)
    scene.broker(1).process.thaw()
    await nothing_happens(scene, epoch)


async def a_rollout_of_agents_with_pauses_of_brokers(scene: Scene) -> None:
    epoch = await settled(scene)
    for broker_id in (1, 2, 3):
        agent = agent_of(scene, broker_id)
        agent.process.kill()
        agent.start()
        await asyncio.sleep(1.0)
        agent.process.freeze()
        scene.broker(broker_id).process.freeze()
        await asyncio.sleep(1.5)
        agent.process.thaw()
        scene.broker(broker_id).process.thaw()
        await asyncio.sleep(0.5)
    await nothing_happens(scene, epoch)


async def a_node_cut_off_from_the_leader_alone(scene: Scene) -> None:
    epoch = await settled(scene)
    scene.cut([scene.broker(1).host], [scene.leader.host])
    await nothing_happens(scene, epoch, HEARTBEAT_TIMEOUT_S - 1.0)


async def a_leader_that_stood_still(scene: Scene) -> None:
    epoch = await settled(scene)
    leader = scene.leader
    leader.process.freeze()
    await asyncio.sleep(0.35)  # the others do not elect another one yet
    scene.broker(1).process.freeze()
    await asyncio.sleep(0.35)
    leader.process.thaw()
    await asyncio.sleep(0.3)
    scene.broker(1).process.thaw()
    await nothing_happens(scene, epoch)


async def an_agent_that_names_a_member_of_another_node(scene: Scene) -> None:
    epoch = await settled(scene)
    master, liar = scene.broker(1), agent_of(scene, 2)
    liar.lies = (NamedMember(master.group, master.broker_id, master.host),)
    await asyncio.sleep(TRUST_S)
    liar.process.freeze()
    await asyncio.sleep(0.3)
    master.process.freeze()
    await asyncio.sleep(HEARTBEAT_TIMEOUT_S / 2)
    master.process.thaw()
    await nothing_happens(scene, epoch)


async def an_agent_that_names_wrong_hosts(scene: Scene) -> None:
    epoch = await settled(scene)
    master, liar = scene.broker(1), agent_of(scene, 2)
    agent_of(scene, 1).process.kill()
    liar.lies = (NamedMember(master.group, master.broker_id, liar.host),)
    await asyncio.sleep(TRUST_S)
    liar.process.freeze()
    master.process.freeze()
    await asyncio.sleep(HEARTBEAT_TIMEOUT_S / 2)
    master.process.thaw()
    await nothing_happens(scene, epoch)


async def clocks_that_jump(scene: Scene) -> None:
    epoch = await settled(scene)
    for controller in scene.world.controllers:
        controller.process.utc_offset_s = 3_600.0
    await nothing_happens(scene, epoch)
    freeze(scene, 1)
    await replaced(scene, epoch, 2.0)
    assert newest(scene).cause == "NodeLost"


PLAYS: tuple[Play, ...] = (
    a_frozen_node,
    a_node_cut_off_from_all,
    a_frozen_node_with_a_controller,
    a_frozen_node_with_the_leader,
    a_frozen_broker,
    a_frozen_agent,
    a_pause_of_the_broker_after_its_agent_has_stopped,
    a_killed_agent_and_a_pause_of_its_broker,
    a_rollout_of_agents_with_pauses_of_brokers,
    a_node_cut_off_from_the_leader_alone,
    a_leader_that_stood_still,
    an_agent_that_names_a_member_of_another_node,
    an_agent_that_names_wrong_hosts,
    clocks_that_jump,
)


@pytest.mark.parametrize("play", PLAYS, ids=lambda play: play.__name__.replace("_", " "))
def test_no_living_master_is_replaced_and_a_lost_one_is(play: Play) -> None:
    assert perform(play, SHAPE) == []
