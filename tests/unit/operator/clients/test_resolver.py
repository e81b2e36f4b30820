"""Controllers are found without DNS: by their Services, as the API server has them or had them last."""

import asyncio
import socket
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult

from rocketmq_operator.clients import resolver as module
from rocketmq_operator.clients.api import PeerUnavailableError
from rocketmq_operator.clients.controllers import ControllersClient
from rocketmq_operator.clients.resolver import ServiceResolver
from rocketmq_operator.plan.common import names
from testkit.processes.http_served import http_served
from testkit.worlds.operator import OperatorWorld

HOST = names.controller_hosts("main", "shop", 3)[1]


class NoDns(AbstractResolver):
    """Resolves no name, and records the requested names."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.closed = False

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Keep the question."""
        self.asked.append(host)
        raise OSError("no DNS")

    async def close(self) -> None:
        """Keep that it was called."""
        self.closed = True


class Kube:
    """Answers from a world's memory, later or not at all."""

    def __init__(self, world: OperatorWorld) -> None:
        self._world = world
        self.away = self.frozen = False

    async def get(self, kind: str, namespace: str, name: str) -> dict[str, Any] | None:
        """Answer, if somebody is there."""
        if self.away:
            raise PeerUnavailableError("away")
        if self.frozen:
            await asyncio.Event().wait()
        return await self._world.kube.get(kind, namespace, name)


async def _settled() -> tuple[OperatorWorld, Kube, NoDns, ServiceResolver]:
    world = OperatorWorld({"logReplicas": 1})
    await world.settle()
    kube, others = Kube(world), NoDns()
    return world, kube, others, ServiceResolver(kube, others)  # type: ignore[arg-type] # the one call that it makes


async def test_a_controllers_host_is_its_service() -> None:
    world, _, others, resolver = await _settled()
    (found,) = await resolver.resolve(HOST, 9880)
    assert found["host"] == world.get("Service", "main-controller-1")["spec"]["clusterIP"]
    assert (found["port"], found["family"]) == (9880, socket.AF_INET)
    assert others.asked == []


async def test_the_api_server_is_asked_only_for_what_is_not_kept() -> None:
    world, kube, others, resolver = await _settled()
    before = await resolver.resolve(HOST, 9880)
    kube.away = True
    resolver.prefer(world.kube)
    assert await resolver.resolve(HOST, 9880) == before
    world.kube.remove("Service", "shop", "main-controller-1")
    kube.away = False
    with pytest.raises(OSError, match="no DNS"):
        await resolver.resolve(HOST, 9880)
    assert others.asked == [HOST], "nobody knows it"


async def test_what_is_kept_may_be_old_and_then_the_api_server_is_asked() -> None:
    world, _, _, resolver = await _settled()
    old = Kube(world)
    old.away = True
    resolver.prefer(old)  # type: ignore[arg-type] # the one call that it makes
    (found,) = await resolver.resolve(HOST, 9880)
    assert found["host"] == world.get("Service", "main-controller-1")["spec"]["clusterIP"]


@pytest.mark.parametrize("trouble", ["away", "frozen"])
async def test_what_it_was_last_time_holds_while_the_api_server_gives_no_answer(
    trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ASK_TIMEOUT_S", 0.05)
    _, kube, _, resolver = await _settled()
    before = await resolver.resolve(HOST, 9880)
    setattr(kube, trouble, True)
    assert await resolver.resolve(HOST, 9880) == before
    with pytest.raises(OSError, match="no DNS"):
        await resolver.resolve(names.controller_hosts("main", "shop", 3)[2], 9880)


@pytest.mark.parametrize(
    "host", ["main-controller.shop.svc", "none.shop.svc", "a.b.c.d.svc", "example.org", "svc"]
)
async def test_what_is_no_service_with_an_address_is_somebody_elses_to_find(host: str) -> None:
    _, _, others, resolver = await _settled()
    with pytest.raises(OSError, match="no DNS"):
        await resolver.resolve(host, 80)
    assert others.asked == [host]
    await resolver.close()
    assert others.closed


async def test_the_controllers_client_reads_without_dns() -> None:
    world, _, others, resolver = await _settled()

    async def status(_request: web.Request) -> web.Response:
        return web.json_response({"role": "leader", "term": 1})

    service = world.get("Service", "main-controller-1")
    service["spec"]["clusterIP"] = "127.0.0.1"
    world.kube.put(service)
    connector = aiohttp.TCPConnector(resolver=resolver)
    async with (
        http_served(status, "/v1/status") as served,
        aiohttp.ClientSession(connector=connector) as session,
    ):
        client = ControllersClient(session, [f"{HOST}:{served.rpartition(':')[2]}"])
        assert await client.nodes() == [{"role": "leader", "term": 1}]
    assert others.asked == []
