"""Reads at a follower of a leader that is cut off with it, while the others elect another and go on.

Five controllers: the old leader and one follower are cut off from the other three. Brokers and people reach
all of them. The follower keeps asking the old leader; whatever it answers must be as new as what the new
leader has acknowledged. The checker judges the history (`testkit.check.linearizability`).
"""

import asyncio
from dataclasses import replace

import pytest

from controller_core.channel.connection import Connection
from controller_core.channel.endpoints import connect
from controller_core.channel.errors import ChannelError
from controller_core.remoting import headers
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from testkit.sim.controllers.api_answers import of_election, of_replica_info
from testkit.sim.controllers.controller_host import ControllerHost
from testkit.sim.runs.scene import NAME, Scene, perform
from testkit.sim.runs.world import CLUSTER, Shape

SHAPE = Shape(controllers=5)
SETTLED_S = 3.0
"""Longer than a new master is told by the leader alone."""
READ_EVERY_S = 0.01
CALL_S = 3.0


class FollowerReader:
    """Asks one controller for the group's master, again and again, and notes the answers."""

    def __init__(self, scene: Scene, host: ControllerHost) -> None:
        self.answered = 0
        self._scene = scene
        self._host = host
        self._asking: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Ask without waiting for the answers."""
        host, _, port = self._host.address.rpartition(":")
        connection = await connect(host, int(port), CALL_S)
        while True:
            asking = asyncio.ensure_future(self._ask(connection))
            self._asking.add(asking)
            asking.add_done_callback(self._asking.discard)
            await asyncio.sleep(READ_EVERY_S)

    async def _ask(self, connection: Connection) -> None:
        began_s = self._scene.world.loop.now_s
        request = RemotingCommand.request(
            RequestCode.CONTROLLER_GET_REPLICA_INFO, headers.GetReplicaInfoRequestHeader(NAME).to_ext()
        )
        try:
            answer = await connection.call(request, CALL_S)
        except ChannelError:
            return
        if (told := of_replica_info(answer)) is not None:
            self.answered += 1
            self._scene.world.observations.call(NAME, began_s, told.seen)


async def cut_off(scene: Scene) -> tuple[ControllerHost, ControllerHost]:
    """Cut the leader and one follower off from the rest; return both.

    The follower does not campaign for a long time, and the rest does at once: by their own chance, either may
    come a little later or sooner.
    """
    await asyncio.sleep(SETTLED_S)
    old = scene.leader
    kept, *rest = (one for one in scene.world.controllers if one is not old)
    for host in (kept, *rest):
        assert host.node is not None
        raft = host.node._raw._raft
        raft.randomized_election_ticks = raft.config.election_ticks + (10_000 if host is kept else 0)
    assert old.node is not None
    old.node._raw._raft.election_elapsed = 0
    scene.cut([old.host, kept.host], [one.host for one in rest])
    return old, kept


async def another_master(scene: Scene, old: ControllerHost) -> None:
    """Wait for another leader, and have it elect another master."""
    await scene.until(lambda: scene.leader is not old, 5.0, "another leader")
    began_s = scene.world.loop.now_s
    header = headers.ElectMasterRequestHeader(NAME, CLUSTER, 2, designate_elect=True)
    answer = await scene.ask(RequestCode.CONTROLLER_ELECT_MASTER, header)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    told = of_election(answer)
    assert told is not None
    scene.world.observations.call(NAME, began_s, told.seen)


async def beside_a_living_leader(scene: Scene) -> None:
    """Read while the old leader has not noticed yet that it has lost its followers."""
    old, kept = await cut_off(scene)
    reader = FollowerReader(scene, kept)
    reading = scene.person.spawn(reader.run())
    await another_master(scene, old)
    await asyncio.sleep(2.0)
    reading.cancel()
    assert reader.answered > 0


async def beside_a_leader_that_wakes(scene: Scene) -> None:
    """Read while the old leader stands still, until it wakes and finds the questions."""
    old, kept = await cut_off(scene)
    old.process.freeze()
    await another_master(scene, old)
    reader = FollowerReader(scene, kept)
    reading = scene.person.spawn(reader.run())
    await asyncio.sleep(0.1)
    old.process.thaw()
    await asyncio.sleep(2.0)
    reading.cancel()


@pytest.mark.parametrize("play", [beside_a_living_leader, beside_a_leader_that_wakes])
def test_a_follower_of_a_deposed_leader_tells_nothing_old(play: object) -> None:
    assert perform(play, replace(SHAPE, designates=0.0)) == []  # type: ignore[arg-type] # one of the two plays
