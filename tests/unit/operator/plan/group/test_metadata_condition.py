"""MetadataInSync: the metadata that brokers lack by their companions' account.

The operator asks each broker's companion, and names the missing parts.
"""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from rocketmq_operator.clients.api import PeerUnavailableError
from rocketmq_operator.clients.canaries_and_companions import CompanionsClient
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.group.status import NAMES_SHOWN_MAX
from testkit.processes.http_served import http_served
from testkit.worlds.operator import OperatorWorld

CONDITION = "MetadataInSync"


async def _world(**missing: Any) -> OperatorWorld:
    """Return a whole group of three whose companions say that this is missing.

    Keys are brokers, with an underscore for the dash.
    """
    world = OperatorWorld({"logReplicas": 1})
    await world.settle()
    world.companions.asked.clear()
    for broker, found in missing.items():
        world.companions.told[_host(world, broker.replace("_", "-"))] = {"metadata_missing": found}
    world.advance(60)
    await world.one_pass()
    return world


def _host(world: OperatorWorld, pod: str) -> str:
    return f"{world.get('Pod', pod)['status']['podIP']}:{names.COMPANION_HTTP_PORT}"


def _message(world: OperatorWorld) -> str:
    (found,) = [one for one in world.status()["conditions"] if one["type"] == CONDITION]
    return str(found["message"])


async def test_brokers_companions_are_asked_and_log_replicas_are_not() -> None:
    world = await _world()
    assert set(world.companions.asked) == {_host(world, "orders-0"), _host(world, "orders-1")}


async def test_nobody_who_compared_is_no_agreement() -> None:
    world = await _world(orders_0=None)
    assert world.condition(CONDITION) == ("Unknown", "NotCompared")


async def test_a_slave_that_knows_all_is_in_sync() -> None:
    world = await _world(orders_0=None, orders_1={})
    assert world.condition(CONDITION) == ("True", "AllKnown")
    assert "orders-1" in _message(world)


async def test_what_a_slave_lacks_is_named_by_file_and_counted() -> None:
    topics = [f"topic-{number}" for number in range(NAMES_SHOWN_MAX + 3)]
    world = await _world(orders_0=None, orders_1={"topics.json": topics, "consumerOffset.json": ["g@t"]})
    assert world.condition(CONDITION) == ("False", "SlaveLacks")
    assert _message(world) == (
        "orders-1 lacks 1 of consumerOffset.json, g@t; "
        f"orders-1 lacks {len(topics)} of topics.json, {', '.join(topics[:NAMES_SHOWN_MAX])}"
    )


@pytest.mark.parametrize("answer", [{}, {"metadata_missing": 7}], ids=["no word of it", "of another shape"])
async def test_an_answer_that_cannot_be_read_is_none(answer: dict[str, Any]) -> None:
    world = await _world(orders_0=None)
    world.companions.told[_host(world, "orders-1")] = answer
    await world.one_pass()
    assert world.condition(CONDITION) == ("Unknown", "NotCompared")


@pytest.fixture
async def served() -> AsyncIterator[str]:
    async def status(_: web.Request) -> web.Response:
        return web.json_response({"metadata_missing": {"topics.json": ["a"]}})

    async with http_served(status, "/v1/status") as host:
        yield host


async def test_a_companion_is_asked_over_http(served: str) -> None:
    async with aiohttp.ClientSession() as session:
        assert await CompanionsClient(session).status(served) == {"metadata_missing": {"topics.json": ["a"]}}
        with pytest.raises(PeerUnavailableError, match=r"the companion 127\.0\.0\.1:1 does not answer"):
            await CompanionsClient(session).status("127.0.0.1:1")
