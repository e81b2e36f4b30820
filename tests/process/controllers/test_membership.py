"""Controllers that join, leave, and lose their disk, over real processes, while brokers go on writing."""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from controller_core.channel.connection import Connection
from controller_core.channel.endpoints import connect
from controller_core.channel.errors import ChannelError
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.headers import ApplyBrokerIdRequestHeader
from testkit.processes.process import ProcessFailedError
from testkit.products.controllers import ControllerCluster, command_path

pytestmark = [pytest.mark.process, pytest.mark.timeout(400)]

SETTLE_S = 60.0
DONE = {"add": "is a member already", "promote": "is a voter already", "remove": "is not a member"}
"""How a change is refused that has been made."""


class Writer:
    """Claims a broker id of a new group with each write, at alternating nodes; records acknowledged ids."""

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

    async def reached(self, count: int) -> None:
        """Wait until so many writes were acknowledged."""
        async with asyncio.timeout(SETTLE_S):
            while len(self.acknowledged) < count:  # noqa: ASYNC110 - without a notification
                await asyncio.sleep(0.05)

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
    await change(cluster, "add", f"n{index}-{cluster.remoting_addresses[index]}")
    await change(cluster, "promote", f"n{index}")
    return index


async def change(cluster: ControllerCluster, action: str, member: str) -> None:
    """Change the membership; it may need a retry, and an unanswered request may have made it."""
    tries = 0

    async def attempt() -> None:
        nonlocal tries
        tries += 1
        try:
            await cluster.members(action, member)
        except ProcessFailedError as error:
            if tries == 1 or DONE[action] not in str(error):
                raise

    await retried(attempt)


async def refused(cluster: ControllerCluster, text: str, action: str, member: str) -> None:
    """Have a change refused with this text; "no leader" is another refusal."""

    async def attempt() -> None:
        with pytest.raises(ProcessFailedError) as failure:
            await cluster.members(action, member)
        if text not in str(failure.value):
            raise failure.value

    await retried(attempt)


async def retried(attempt: Callable[[], Awaitable[object]]) -> None:
    """Repeat a refused request until its outcome changes, for a while."""
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
    """Return the groups that a node has; none if it cannot say now."""
    url = f"http://{cluster.http_addresses[index]}/v1/groups"
    try:
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            return {group["name"] for group in (await response.json())["groups"]} if response.ok else set()
    except aiohttp.ClientError:
        return set()


async def hold_all(cluster: ControllerCluster, nodes: list[int], names: set[str]) -> None:
    """Wait until every node has every group."""
    async with asyncio.timeout(SETTLE_S):
        for index in nodes:
            while not names <= await group_names(cluster, index):  # noqa: ASYNC110 - without a notification
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
            await change(cluster, "remove", "n4")
            leader = await cluster.wait_leader()
            await change(cluster, "remove", f"n{leader}")
            await writer.reached(max(len(writer.acknowledged) + 3, 101))
        left = sorted({0, 1, 2, 3} - {leader})
        assert await cluster.wait_leader(other_than=leader) in left
        members = (await cluster.members("list"))["members"]
        assert [one["name"] for one in members] == [f"n{number}" for number in left]
        await hold_all(cluster, left, set(writer.acknowledged))
        await says(cluster, leader, "is not a peer of")


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
            status = await says(cluster, lost, "remove the member, then add it again")
            assert (status["role"], status["term"], status["applied_index"]) == ("follower", 0, 0)
            address = cluster.remoting_addresses[lost]
            await refused(cluster, "is a member already; remove it first", "add", f"n{lost}-{address}")
            await change(cluster, "remove", f"n{lost}")
            await change(cluster, "add", f"n{lost}-{address}")
            await change(cluster, "promote", f"n{lost}")
            await writer.reached(len(writer.acknowledged) + 10)
        await hold_all(cluster, [0, 1, 2], set(writer.acknowledged))


async def says(cluster: ControllerCluster, index: int, text: str) -> dict[str, Any]:
    """Wait until a node says why it is not ready; return its status."""
    async with asyncio.timeout(SETTLE_S):
        while True:
            status = await cluster.status(index)
            if status is not None and text in (status["ready_problem"] or ""):
                return status
            await asyncio.sleep(0.1)


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
            (("promote", "n7"), "is not a member"),
            (("promote", f"n{other}"), "is a voter already"),
            (("remove", "n7"), "is not a member"),
        ):
            await refused(cluster, text, *arguments)
        third = await grow(cluster)
        await cluster.kill_node(other)
        following = third if await cluster.wait_leader(other_than=other) != third else leader
        await refused(cluster, f"would leave no majority: n{other} of 2 voters", "remove", f"n{following}")


async def replace(cluster: ControllerCluster, *arguments: str) -> tuple[int, str]:
    """Run `members replace` against the first node; return its status and what it printed."""
    process = await asyncio.create_subprocess_exec(
        *(command_path("controller-core"), "members", "replace", "--server", cluster.http_addresses[0]),
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed, _ = await process.communicate()
    return process.returncode or 0, printed.decode()


async def test_three_are_replaced_by_three_others_in_one_step_while_a_writer_loses_nothing(
    tmp_path: Path,
) -> None:
    async with ControllerCluster(tmp_path, 3, settings={"snapshotEntries": "200"}) as cluster:
        await cluster.wait_leader()
        for arguments, text in (
            (("--add", "n7"), "not of the form nK-host:port"),
            (("--remove", "n7"), "is not a member (remove: n7)"),
            (("--remove", "n0,n1,n2"), "would leave no voter (remove: n0,n1,n2)"),
            ((), "needs --add or --remove"),
        ):
            status, printed = await replace(cluster, *arguments)
            assert status != 0
            assert text in printed
        new = [cluster.describe_further() for _ in range(3)]
        await asyncio.gather(*(cluster.start_node(index) for index in new))
        coming = ",".join(f"n{index}-{cluster.remoting_addresses[index]}" for index in new)
        async with writing(cluster) as writer:
            await asyncio.sleep(0.2)
            status, printed = await replace(cluster, "--add", coming, "--remove", "n0,n1,n2")
            assert status == 0, printed
            assert [line.split()[0] for line in printed.splitlines()] == ["n3", "n4", "n5"]
            await asyncio.gather(*(cluster.kill_node(index) for index in range(3)))
            before = len(writer.acknowledged)
            await writer.reached(before + 20)
        assert await cluster.wait_leader() in new
        await hold_all(cluster, new, set(writer.acknowledged))


async def test_a_leader_that_is_to_go_hands_over_and_the_next_one_replaces_it(tmp_path: Path) -> None:
    async with ControllerCluster(tmp_path, 3) as cluster:
        leader = await cluster.wait_leader()
        status, printed = await replace(cluster, "--remove", f"n{leader}")
        assert status == 0, printed
        staying = sorted({0, 1, 2} - {leader})
        assert [line.split()[0] for line in printed.splitlines()] == [f"n{index}" for index in staying]
        assert await cluster.wait_leader(other_than=leader) in staying
