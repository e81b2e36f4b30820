"""An API server in trouble: gone for ten minutes, asking for time, written by others, seen late.

The loop's time jumps.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import pytest

from rocketmq_operator.clients.api import BusyError, KubeConflictError, PeerUnavailableError
from rocketmq_operator.clients.reflection import KINDS, Reflections, StaleError
from rocketmq_operator.handlers.kinds import RESYNC_S
from rocketmq_operator.handlers.observing.clusters_and_groups import Environment
from rocketmq_operator.handlers.quiet import plan_without_work, quiet_delay_s
from rocketmq_operator.handlers.reconcile import reconcile
from rocketmq_operator.handlers.run import WATCH_DEAD_S, are_watches_dead
from rocketmq_operator.handlers.scheduler import BACKOFF_MAX_S, PassScheduler, ResourceName
from testkit.memory.controllers import NAMESPACE
from testkit.memory.kubernetes import MemoryKube
from testkit.sim.loop.virtual_loop import virtual_loop
from testkit.worlds.operator import GROUP, OperatorWorld

Json = dict[str, Any]
OUTAGE_S: Final = 600.0
ORDERS: Final = ResourceName("BrokerGroup", NAMESPACE, GROUP)
MAIN: Final = ResourceName("RocketMQCluster", NAMESPACE, "main")


def _told(story: Coroutine[Any, Any, None]) -> None:
    with virtual_loop() as loop:
        loop.run_until_complete(story)


class _TroubledKube(MemoryKube):
    """Fails each call as a test says, before anything is done, and counts them.

    Attributes:
        trouble: returns what a call fails with now; None for nothing.
        calls: how many there were.
    """

    def __init__(self) -> None:
        super().__init__()
        self.trouble: Callable[[], Exception | None] = lambda: None
        self.calls = 0

    async def get(self, kind: str, namespace: str, name: str) -> Json | None:
        self._called()
        return await super().get(kind, namespace, name)

    async def find(self, kind: str, namespace: str, labels: Mapping[str, str]) -> list[Json]:
        self._called()
        return await super().find(kind, namespace, labels)

    async def apply(self, body: Json) -> Json:
        self._called()
        return await super().apply(body)

    async def apply_status(self, body: Json) -> Json:
        self._called()
        return await super().apply_status(body)

    def _called(self) -> None:
        self.calls += 1
        if (problem := self.trouble()) is not None:
            raise problem


class _Operator:
    """An operator's passes, on the running loop's time, over a world whose API server can be in trouble."""

    def __init__(self) -> None:
        self.world = OperatorWorld({"logReplicas": 1})
        self.kube = _TroubledKube()
        self.kube.__dict__.update({**self.world.kube.__dict__, "trouble": lambda: None, "calls": 0})
        self.world.kube = self.kube
        self.world.controllers._kube = self.kube
        self.work = PassScheduler(self._pass, lambda: True, quiet=self._quiet)
        self._began = self.world.controllers.now

    async def _pass(self, resource: ResourceName) -> float | None:
        self._tick()
        return await reconcile(self.world.pass_context(), *resource)

    async def _quiet(self, resource: ResourceName) -> float | None:
        self._tick()
        return await quiet_delay_s(self.world.pass_context().environment, *resource)

    def _tick(self) -> None:
        self.world.controllers.now = self._began + timedelta(seconds=asyncio.get_running_loop().time())

    async def run(self, seconds: float) -> None:
        """Let it work so long."""
        self.work.wake(MAIN)
        self.work.wake(ORDERS)
        await asyncio.sleep(seconds)


def test_an_api_server_that_is_gone_for_ten_minutes_is_asked_ever_less_and_then_all_is_made() -> None:
    async def story() -> None:
        operator = _Operator()
        operator.kube.trouble = lambda: PeerUnavailableError("connection refused")
        await operator.run(OUTAGE_S)
        assert operator.kube.writes == []
        # A pass asks a handful of things side by side, and is over at the first that fails.
        assert operator.kube.calls < 2 * 15 * (OUTAGE_S / BACKOFF_MAX_S + 8)
        operator.kube.trouble = lambda: None
        await asyncio.sleep(2 * BACKOFF_MAX_S)
        assert operator.world.condition("Ready") == ("True", "Serving")
        await operator.work.stop()

    _told(story())


def test_an_outage_in_the_midst_of_a_change_restarts_nobody_twice() -> None:
    async def story() -> None:
        operator = _Operator()
        await operator.run(60.0)
        births = dict(operator.kube.births)
        operator.world.write_group({"logReplicas": 1, "config": {"sendMessageThreadPoolNums": "12"}})
        writes = len(operator.kube.writes)
        loop = asyncio.get_running_loop()

        def gone() -> Exception | None:
            # After the second write of the change, and for ten minutes.
            if len(operator.kube.writes) < writes + 2 or loop.time() > 60.0 + OUTAGE_S:
                return None
            return PeerUnavailableError("connection reset")

        operator.kube.trouble = gone
        await operator.run(OUTAGE_S)
        assert len(operator.kube.writes) == writes + 2
        await asyncio.sleep(120.0)
        assert operator.world.condition("Ready") == ("True", "Serving")
        assert operator.kube.births == births | {"orders-0": 2, "orders-1": 2}
        await operator.work.stop()

    _told(story())


def test_an_api_server_that_asks_for_time_is_not_asked_before() -> None:
    async def story() -> None:
        operator = _Operator()
        loop = asyncio.get_running_loop()
        operator.kube.trouble = lambda: BusyError("429", 20.0) if loop.time() < 1.0 else None
        await operator.run(19.0)
        asked = operator.kube.calls
        assert asked <= 2 * 15, "one pass over each of two resources"
        assert operator.kube.writes == []
        await asyncio.sleep(30.0)
        assert operator.world.condition("Ready") == ("True", "Serving")
        await operator.work.stop()

    _told(story())


def test_a_write_that_somebody_else_was_faster_with_is_decided_anew() -> None:
    async def story() -> None:
        operator = _Operator()
        conflicts = iter(range(12))
        kube = operator.kube

        def conflict() -> Exception | None:
            # Every seventh call of the first ones, whatever it is: reads never end in one.
            if kube.calls % 7 or next(conflicts, None) is None:
                return None
            return KubeConflictError("the object has been modified")

        kube.trouble = conflict
        await operator.run(200.0)
        assert operator.world.condition("Ready") == ("True", "Serving")
        assert set(kube.births.values()) == {1}, "nothing was restarted for it"
        await operator.work.stop()

    _told(story())


async def _settled() -> tuple[OperatorWorld, Environment, MemoryKube]:
    """Return a settled world, its cached state, and the API server's copy that holds the cache."""
    world = OperatorWorld({"logReplicas": 1, "replicas": 3})
    await world.settle()
    await world.settle()
    kept = world.fork().kube
    return world, replace(world.pass_context().environment, kube=kept), kept


async def test_a_settled_group_costs_the_api_server_nothing() -> None:
    world, kept, _ = await _settled()
    writes = list(world.kube.writes)
    assert await quiet_delay_s(kept, *ORDERS) == RESYNC_S
    assert await quiet_delay_s(kept, *MAIN) == RESYNC_S
    assert world.kube.writes == writes


class _Lists:
    """`Stream` that lists what a memory holds, and never tells of a change."""

    def __init__(self, kube: MemoryKube) -> None:
        self._kube = kube

    async def list(self, kind: str, namespace: str, label: str) -> tuple[list[Json], str]:
        found = await self._kube.find(kind, namespace, {})
        return [one for one in found if not label or label in one["metadata"].get("labels", {})], "1"

    async def watch(
        self, kind: str, namespace: str, label: str, version: str
    ) -> AsyncIterator[tuple[str, Json]]:
        await asyncio.Event().wait()
        yield "", {}


async def test_all_that_a_settled_group_is_judged_by_is_kept_in_reflections() -> None:
    world, _, _ = await _settled()
    kept = Reflections(world.kube, _Lists(world.kube), [NAMESPACE], time.monotonic)
    running = asyncio.create_task(kept.run())
    async with asyncio.timeout(5):
        while True:
            with contextlib.suppress(StaleError):
                for kind in KINDS:
                    await kept.get(kind, NAMESPACE, "any")
                break
            await asyncio.sleep(0)
    # A pass that reads objects outside the cache would never be quiet: it would cost a dozen calls.
    for resource in (ORDERS, MAIN):
        assert (
            await quiet_delay_s(replace(world.pass_context().environment, kube=kept), *resource) == RESYNC_S
        )
    running.cancel()


@pytest.mark.parametrize(
    "change",
    [
        lambda world: world.kube.remove("Service", NAMESPACE, "orders-0"),
        lambda world: world.write_group({"logReplicas": 1, "replicas": 3, "storage": {"size": "2Gi"}}),
        lambda world: world.controllers.behind.add("orders-1"),
        lambda world: world.controllers.lags.update({"orders-1": 17 << 20}),
        lambda world: world.kube.remove("BrokerGroup", NAMESPACE, GROUP),
    ],
    ids=[
        "a child is gone",
        "the spec is another",
        "a member is behind",
        "its log is far behind",
        "the group is gone",
    ],
)
async def test_what_is_no_longer_as_it_was_is_looked_at(change: Callable[[OperatorWorld], None]) -> None:
    world, kept, _ = await _settled()
    change(world)
    assert await plan_without_work(replace(kept, kube=world.kube), *ORDERS) is None


async def test_what_is_on_its_way_between_two_heartbeats_is_no_reason_to_look() -> None:
    world, kept, _ = await _settled()
    for lag_bytes in (0, 518, 16 << 20):
        world.controllers.lags["orders-1"] = lag_bytes
        assert await quiet_delay_s(kept, *ORDERS) == RESYNC_S


async def test_what_is_kept_and_old_deletes_nothing() -> None:
    # Kept: a fourth member that the spec no longer asks for. True: the spec requests it again.
    world, kept, old = await _settled()
    old.put(
        {
            "apiVersion": "rocketmq-ha.dev/v1alpha1",
            "kind": "BrokerGroup",
            "metadata": {"name": GROUP, "namespace": NAMESPACE},
            "spec": {"cluster": "main", "storage": {"size": "1Gi"}, "logReplicas": 1, "replicas": 1},
        }
    )
    before = (dict(world.kube.births), list(world.kube.writes))
    assert await quiet_delay_s(kept, *ORDERS) is None, "it shows something to do"
    assert await reconcile(world.pass_context(), *ORDERS) == RESYNC_S
    assert (world.kube.births, world.kube.writes) == before, "and there is nothing"


def test_a_dead_watch_is_one_that_is_silent_while_the_api_server_answers() -> None:
    long_s = WATCH_DEAD_S + 1
    assert are_watches_dead(silence_s=long_s, heard_for_s=long_s)
    assert not are_watches_dead(silence_s=long_s, heard_for_s=0.0), (
        "the API server is gone: a restart does not help"
    )
    assert not are_watches_dead(silence_s=long_s, heard_for_s=20.0), (
        "it has just come back, and watches come after"
    )
    assert not are_watches_dead(silence_s=10.0, heard_for_s=long_s)
