"""Reads at a follower while its leader is deposed without it, or while entries reach it late.

Five controllers. Brokers and people reach all of them. In the first two plays the old leader and one follower
are cut off from the other three, which elect another leader and go on; the follower keeps asking the old one.
In the third, the leader's answers reach the follower and its entries do not. Whatever the follower answers
must be as new as what any leader has acknowledged. The checker judges the history
(`testkit.check.linearizability`).
"""

import asyncio

import pytest

from controller_core.channel.connection import Connection
from controller_core.channel.endpoints import connect
from controller_core.channel.errors import ChannelError
from controller_core.raft.types import Message, MessageType
from controller_core.remoting import headers
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from testkit.sim.controllers.api_answers import of_election, of_replica_info
from testkit.sim.controllers.controller_host import ControllerHost
from testkit.sim.runs.scene import NAME, Play, Scene, perform
from testkit.sim.runs.world import CLUSTER, Shape

SHAPE = Shape(controllers=5)
SETTLED_S = 3.0
"""Longer than a new master is told by the leader alone."""
READ_EVERY_S = 0.01
LONG_TICKS = 10_000
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


async def followed(scene: Scene) -> tuple[ControllerHost, ControllerHost, asyncio.Task[None]]:
    """Read at a follower until it answers by itself; return the leader, the follower and the reading."""
    old = scene.leader
    kept = next(one for one in scene.world.controllers if one is not old)
    reading = scene.person.spawn(FollowerReader(scene, kept).run())
    await asyncio.sleep(SETTLED_S)
    assert kept.follower_reads > 0, "the follower answers no read"
    return old, kept, reading


def cut_off(scene: Scene, old: ControllerHost, kept: ControllerHost) -> None:
    """Cut the leader and one follower off from the rest.

    The follower does not campaign, the rest does as soon as it may, and the leader does not look for its
    quorum: left to themselves, all three do so within some tenths of a second of one another.
    """
    rest = [one for one in scene.world.controllers if one not in (old, kept)]
    for host in (kept, *rest):
        assert host.node is not None
        raft = host.node._raw._raft
        raft.randomized_election_ticks = raft.config.election_ticks + (LONG_TICKS if host is kept else 0)
    assert old.node is not None
    old.node._raw._raft.election_elapsed = -LONG_TICKS
    scene.cut([old.host, kept.host], [one.host for one in rest])


async def another_master(scene: Scene) -> None:
    """Have the present leader elect another master."""
    began_s = scene.world.loop.now_s
    header = headers.ElectMasterRequestHeader(NAME, CLUSTER, 2, designate_elect=True)
    answer = await scene.ask(RequestCode.CONTROLLER_ELECT_MASTER, header)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    told = of_election(answer)
    assert told is not None
    scene.world.observations.call(NAME, began_s, told.seen)


async def beside_a_living_leader(scene: Scene) -> None:
    """Read while the old leader has not noticed yet that it has lost its followers."""
    old, kept, reading = await followed(scene)
    cut_off(scene, old, kept)
    await scene.until(lambda: scene.leader is not old, 5.0, "another leader")
    assert old.node is not None
    assert old.node._raw.is_leader, "the old leader has noticed already"
    await another_master(scene)
    await asyncio.sleep(2.0)
    reading.cancel()


async def beside_a_leader_that_wakes(scene: Scene) -> None:
    """Read while the old leader stands still, until it wakes and finds the questions."""
    old, kept, reading = await followed(scene)
    cut_off(scene, old, kept)
    old.process.freeze()
    await scene.until(lambda: scene.leader is not old, 5.0, "another leader")
    await another_master(scene)
    await asyncio.sleep(0.1)
    old.process.thaw()
    await asyncio.sleep(2.0)
    reading.cancel()


async def beside_a_leader_whose_entries_are_lost(scene: Scene) -> None:
    """Read while the leader's answers arrive and its entries do not."""
    old, kept, reading = await followed(scene)
    post = old.post

    def lossy(message: Message) -> None:
        if message.to != kept.raft_id or message.type is MessageType.READ_INDEX_RESP:
            post(message)

    old.post = lossy  # type: ignore[method-assign] # this host's alone
    await another_master(scene)
    await asyncio.sleep(0.3)
    old.post = post  # type: ignore[method-assign] # as before
    await asyncio.sleep(2.0)
    reading.cancel()


PLAYS = (beside_a_living_leader, beside_a_leader_that_wakes, beside_a_leader_whose_entries_are_lost)


@pytest.mark.parametrize("play", PLAYS)
def test_a_follower_of_a_deposed_leader_tells_nothing_old(play: Play) -> None:
    assert perform(play, SHAPE) == []
