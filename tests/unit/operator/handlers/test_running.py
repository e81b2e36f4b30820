"""One whole operator against a Kubernetes in memory: how its parts start, and in which order they end."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import aiohttp
import pytest

from rocketmq_operator.clients.kube import KubeClient
from rocketmq_operator.handlers.run import Operator, Options
from testkit.memory.kubernetes import MemoryKube

Json = dict[str, Any]
LEASE = ("Lease", "shop", "rocketmq-operator")


class _Kube(MemoryKube):
    """Sets `held` when an operator takes the Lease.

    When the Lease is given away, it records what the health server answers.
    """

    def __init__(self) -> None:
        super().__init__()
        self.held = asyncio.Event()
        self.given_away: list[bool] = []
        self.serves: Callable[[], bool] = lambda: False

    async def create(self, body: Json) -> Json:
        written = await super().create(body)
        if body["kind"] == "Lease":
            self.held.set()
        return written

    async def replace(self, body: Json) -> Json:
        if body["kind"] == "Lease" and not body["spec"]["holderIdentity"]:
            self.given_away.append(self.serves())
        return await super().replace(body)


class _Watches:
    """`Stream` of nothing, which counts open watches.

    A broken one raises an error that is not the API server's.
    """

    def __init__(self, *, broken: bool = False) -> None:
        self.open: set[str] = set()
        self._broken = broken

    async def list(self, kind: str, namespace: str, label: str) -> tuple[list[Json], str]:
        if self._broken:
            raise RuntimeError("a fault of our own")
        return [], "1"

    async def watch(
        self, kind: str, namespace: str, label: str, version: str
    ) -> AsyncIterator[tuple[str, Json]]:
        self.open.add(kind)
        try:
            await asyncio.Event().wait()
            yield "", {}
        finally:
            self.open.discard(kind)


async def _run(kube: _Kube, watches: _Watches, stop: asyncio.Event) -> None:
    client = cast("KubeClient", kube)
    async with aiohttp.ClientSession() as session:
        operator = Operator(client, client, watches, session, Options(["shop"], "shop", "127.0.0.1", 0))
        await operator.run(stop)


async def test_an_operator_that_stops_gives_its_lease_away_while_its_watches_are_still_open() -> None:
    kube, watches, stop = _Kube(), _Watches(), asyncio.Event()
    kube.serves = lambda: bool(watches.open)
    running = asyncio.create_task(_run(kube, watches, stop))
    async with asyncio.timeout(30):
        await kube.held.wait()
        stop.set()
        await running
    assert kube.given_away == [True]
    assert not kube.objects[LEASE]["spec"]["holderIdentity"]
    assert not watches.open


async def test_an_operator_whose_watches_broke_ends_and_says_why(caplog: pytest.LogCaptureFixture) -> None:
    kube = _Kube()
    async with asyncio.timeout(30):
        await _run(kube, _Watches(broken=True), asyncio.Event())
    assert "a fault of our own" in caplog.text
