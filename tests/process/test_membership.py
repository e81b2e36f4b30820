"""Controllers that join, leave, and lose their disk, over real processes, while brokers go on writing."""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest

from controller_core.channel.connection import Connection
from controller_core.channel.endpoints import connect
from controller_core.channel.errors import ChannelError
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.headers import ApplyBrokerIdRequestHeader
from testkit.controllers import ControllerCluster
from testkit.process import ProcessFailedError

pytestmark = pytest.mark.process

SETTLE_S = 15.0


class Writer:
    """Claims a broker id of a new group with each write, at one node after the other; keeps what was acknowledged."""

    def __init__(self, cluster: ControllerCluster) -> None:
        self._cluster = cluster
        self._connections: dict[str, Connection] = {}
        self.acknowledged: list[str] = []
        self.failed = 0

    async def run(self) -> None:
        """Write until cancelled."""
        number = 0
        while True:
            number += 1
            address = self._cluster.remoting_addresses[number % len(self._cluster.remoting_addresses)]
            if await self._write(address, f"w{number}"):
                self.acknowledged.append(f"w{number}")
            else:
                self.failed += 1
            await asyncio.sleep(0.002)

    async def _write(self, address: str, name: str) -> bool:
        header = ApplyBrokerIdRequestHeader("c1", name, 1, f"127.0.0.1:1;{name}")
        try:
            connection = self._connections.get(address)
            if connection is None or connection.is_closed:
                host, _, port = address.rpartition(":")
                connection = self._connections[address] = await connect(host, int(port), 0.5)
            request = RemotingCommand.request(RequestCode.CONTROLLER_APPLY_BROKER_ID, header.to_ext())
            return (await connection.call(request, 3.0)).code == ResponseCode.SUCCESS
        except ChannelError:
            return False

    def close(self) -> None:
        """End the connections."""
        for connection in self._connections.values():
            connection.close()


@contextlib.asynccontextmanager
async def writing(cluster: ControllerCluster) -> AsyncIterator[Writer]:
    writer = Writer(cluster)
    task = asyncio.create_task(writer.run())
    try:
        yield writer
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        writer.close()


async def grow(cluster: ControllerCluster) -> int:
    """Start one more node, add and promote it."""
    index = cluster.describe_further()
    await cluster.start_node(index)
    await retried(lambda: cluster.members("add", f"n{index}-{cluster.remoting_addresses[index]}"))
    await retried(lambda: cluster.members("promote", f"n{index}"))
    return index


async def retried(attempt: Callable[[], Awaitable[object]]) -> None:
    """Try what is refused until something else has happened, for a while."""
    deadline_s = asyncio.get_running_loop().time() + SETTLE_S
    while True:
        try:
            await attempt()
        except ProcessFailedError:
            if asyncio.get_running_loop().time() > deadline_s:
                raise
            await asyncio.sleep(0.1)
        else:
            return


async def group_names(cluster: ControllerCluster, index: int) -> set[str]:
    url = f"http://{cluster.http_addresses[index]}/v1/groups"
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return {group["name"] for group in (await response.json())["groups"]}


async def hold_all(cluster: ControllerCluster, nodes: list[int], names: set[str]) -> None:
    """Wait until every node has every group."""
    async with asyncio.timeout(SETTLE_S):
        for index in nodes:
            while not names <= await group_names(cluster, index):  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.05)


async def test_one_grows_to_five_and_shrinks_to_three_while_a_writer_loses_nothing(tmp_path: Path) -> None:
    async with ControllerCluster(tmp_path, 1, settings={"snapshotEntries": "200"}) as cluster:
        async with writing(cluster) as writer:
            for _ in range(4):
                await grow(cluster)
            members = (await cluster.members("list"))["members"]
            assert [(one["name"], one["role"]) for one in members] == [
                (f"n{number}", "voter") for number in range(5)
            ]
            assert len({one["incarnation"] for one in members}) == 5
            await cluster.kill_node(4)
            leader = await cluster.wait_leader()
            await cluster.members("remove", "n4")
            await cluster.members("remove", f"n{leader}")
            await asyncio.sleep(0.2)
        left = sorted({0, 1, 2, 3} - {leader})
        assert await cluster.wait_leader() in left
        members = (await cluster.members("list"))["members"]
        assert [one["name"] for one in members] == [f"n{number}" for number in left]
        assert len(writer.acknowledged) > 100
        await hold_all(cluster, left, set(writer.acknowledged))
        await retried(lambda: says(cluster, leader, "is none of the peers"))


async def test_members_survive_a_restart_of_all_nodes_whose_files_do_not_name_them(tmp_path: Path) -> None:
    async with ControllerCluster(tmp_path, 1) as cluster:
        await grow(cluster)
        await grow(cluster)
        await asyncio.gather(*(cluster.kill_node(index) for index in range(3)))
        await asyncio.gather(*(cluster.start_node(index) for index in range(3)))
        await cluster.wait_leader()
        assert len((await cluster.members("list"))["members"]) == 3


async def test_a_node_that_lost_its_disk_is_refused_under_its_old_name_and_comes_back_as_a_learner(
    tmp_path: Path,
) -> None:
    async with ControllerCluster(tmp_path, 3) as cluster:
        async with writing(cluster) as writer:
            lost = (await cluster.wait_leader() + 1) % 3
            await retried(lambda: stores_known(cluster, 3))
            await cluster.kill_node(lost)
            shutil.rmtree(cluster.store_path(lost))
            await cluster.start_node(lost)
            await cluster.processes[lost].wait_for_text("waits to be added to the cluster", SETTLE_S)
            await retried(lambda: says(cluster, lost, "remove the member, then add it anew"))
            status = await cluster.status(lost)
            assert status is not None
            assert (status["role"], status["term"], status["applied_index"]) == ("follower", 0, 0)
            with pytest.raises(ProcessFailedError, match="is a member already; remove it first"):
                await cluster.members("add", f"n{lost}-{cluster.remoting_addresses[lost]}")
            await cluster.members("remove", f"n{lost}")
            await retried(lambda: cluster.members("add", f"n{lost}-{cluster.remoting_addresses[lost]}"))
            await retried(lambda: cluster.members("promote", f"n{lost}"))
            await asyncio.sleep(0.2)
        await hold_all(cluster, [0, 1, 2], set(writer.acknowledged))


async def says(cluster: ControllerCluster, index: int, text: str) -> None:
    """Refuse until a node says why it is not ready."""
    status = await cluster.status(index)
    if status is None or text not in (status["ready_problem"] or ""):
        raise ProcessFailedError(f"n{index} says {status}")


async def stores_known(cluster: ControllerCluster, count: int) -> None:
    """Refuse until the book says which store each member has."""
    members = (await cluster.members("list"))["members"]
    if len([one for one in members if one["incarnation"]]) != count:
        raise ProcessFailedError("not all stores are known")


async def test_refusals_say_why(tmp_path: Path) -> None:
    async with ControllerCluster(tmp_path, 2) as cluster:
        leader = await cluster.wait_leader()
        other = 1 - leader
        for arguments, text in (
            (("add", "n7-127.0.0.1:1"), "does not answer; start it first"),
            (("add", "seven"), "not of the form nK-host:port"),
            (("add", f"n7-{cluster.remoting_addresses[other]}"), "another member has this address"),
            (("promote", "n7"), "is none of the members"),
            (("promote", f"n{other}"), "is a voter already"),
            (("remove", "n7"), "is none of the members"),
        ):
            with pytest.raises(ProcessFailedError, match=text):
                await cluster.members(*arguments)
        third = await grow(cluster)
        await cluster.kill_node(other)
        with pytest.raises(ProcessFailedError, match=f"would leave no majority: n{other} of 2 voters"):
            await cluster.members("remove", f"n{third if await cluster.wait_leader() != third else leader}")
