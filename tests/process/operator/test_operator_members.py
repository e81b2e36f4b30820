"""The operator's plan with real controllers: their number follows the spec; it replaces a lost store."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio

from testkit.memory.membership import NAMESPACE, SET
from testkit.products.operated_controllers import OperatedControllers
from testkit.worlds.operator import GROUP, OperatorWorld

pytestmark = [pytest.mark.process, pytest.mark.timeout(400)]

SETTLE_S = 90.0
KIND = "RocketMQCluster"


class _Operated:
    """A cluster of real controllers, and the operator that looks after it."""

    def __init__(self, world: OperatorWorld, controllers: OperatedControllers) -> None:
        self.world = world
        self.controllers = controllers

    async def until(self, what: str, holds: Callable[[], bool]) -> None:
        """Let the operator have passes until something holds."""
        try:
            async with asyncio.timeout(SETTLE_S):
                while True:
                    await self.world.one_pass()
                    await self.controllers.follow()
                    if holds():
                        return
                    await asyncio.sleep(0.1)
        except TimeoutError:
            pytest.fail(f"{what}: not in {SETTLE_S} s: {self.world.status(KIND, 'main')}")

    async def until_voters(self, count: int) -> list[str | None]:
        """Wait until so many vote and the operator is idle; return their stores."""

        def settled() -> bool:
            return self.world.condition("QuorumHealthy", KIND, "main") == ("True", "AllReady")

        await self.until(f"{count} controllers", settled)
        nodes = await self.controllers.nodes()
        leader = next(number for number, node in enumerate(nodes) if node and node["role"] == "leader")
        members = (await self.controllers.members(leader))["members"]
        assert [(one["name"], one["role"]) for one in members] == [
            (f"n{number}", "voter") for number in range(count)
        ]
        return [one["incarnation"] for one in members]


@pytest_asyncio.fixture
async def operated(tmp_path: Path) -> AsyncIterator[_Operated]:
    world = OperatorWorld(cluster={"controllers": {"replicas": 1}})
    async with aiohttp.ClientSession() as session:
        controllers = OperatedControllers(world.kube, GROUP, tmp_path, session)
        world.controllers = controllers
        try:
            yield _Operated(world, controllers)
        finally:
            await controllers.stop()


async def test_controllers_become_more_and_fewer_and_one_that_lost_its_store_votes_again(
    operated: _Operated,
) -> None:
    world = operated.world
    (first,) = await operated.until_voters(1)
    for count in (3, 5, 3):
        world.write_cluster({"controllers": {"replicas": count}})
        stores = await operated.until_voters(count)
    assert stores[0] == first, "who was there from the beginning still is"
    world.kube.remove("PersistentVolumeClaim", NAMESPACE, f"data-{SET}-0")
    world.kube.remove("Pod", NAMESPACE, f"{SET}-0")

    def is_replaced() -> bool:
        return world.condition("QuorumHealthy", KIND, "main")[1] == "ControllerReplaced"

    await operated.until("the lost one is replaced", is_replaced)
    after = await operated.until_voters(3)
    assert after[1:] == stores[1:]
    assert after[0] != first
    world.write_cluster({"controllers": {"replicas": 1}})
    assert await operated.until_voters(1) == after[:1]
