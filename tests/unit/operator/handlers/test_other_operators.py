"""Two releases that watch all namespaces: the first installed acts, the other says why it does not."""

import logging
from collections.abc import Mapping
from typing import Any

import aiohttp
import pytest

from rocketmq_operator.clients.api import KubeApi, PeerUnavailableError, RequestRefusedError
from rocketmq_operator.handlers.metrics import HealthServer, OperatorMetrics
from rocketmq_operator.handlers.other_operators import OtherOperators
from rocketmq_operator.plan.leadership.other_operators import (
    earlier_operator,
    operators_in_watched_namespaces,
)
from testkit.memory.kubernetes import MemoryKube

Json = dict[str, Any]


def _operator(namespace: str, made: int, *watched: str, replicas: int = 2) -> Json:
    """Return the Deployment of a release that was installed `made` minutes past twelve."""
    args = ["run", "--http=0.0.0.0:8080", *(f"--namespace={one}" for one in watched)]
    return {
        "metadata": {
            "namespace": namespace,
            "name": "rocketmq-ha-operator",
            "uid": f"uid-{namespace}",
            "creationTimestamp": f"2026-03-01T12:{made:02}:00Z",
        },
        "spec": {
            "replicas": replicas,
            "template": {"spec": {"containers": [{"name": "operator", "args": args}]}},
        },
    }


class _Kube(MemoryKube):
    """Has some Deployments in the whole cluster, or fails."""

    def __init__(self, *found: Json) -> None:
        super().__init__()
        self.found = list(found)
        self.trouble: Exception | None = None

    async def find(self, kind: str, namespace: str, labels: Mapping[str, str]) -> list[Json]:
        assert (kind, namespace) == ("Deployment", "")
        assert labels["app.kubernetes.io/component"] == "operator"
        if self.trouble:
            raise self.trouble
        return self.found


def _second(kube: KubeApi) -> OtherOperators:
    return OtherOperators(kube, "two", whole_cluster=True)


def test_the_operator_that_was_installed_first_acts_whatever_the_order_of_the_list() -> None:
    both = [_operator("one", 1), _operator("two", 2)]
    for found in (both, both[::-1]):
        assert earlier_operator(found, "one") == ""
        assert earlier_operator(found, "two") == "one/rocketmq-ha-operator"


def test_of_two_that_were_installed_in_one_second_exactly_one_acts() -> None:
    both = [_operator("one", 1), _operator("two", 1)]
    assert [bool(earlier_operator(both, one)) for one in ("one", "two")] == [False, True]


def test_an_operator_that_no_deployment_made_is_the_last() -> None:
    assert earlier_operator([_operator("one", 1)], "laptop") == "one/rocketmq-ha-operator"


def test_an_operator_of_some_namespaces_or_without_pods_is_not_in_the_way() -> None:
    found = [_operator("one", 1, "shop"), _operator("three", 1, replicas=0), _operator("two", 2)]
    assert earlier_operator(found, "two") == ""
    assert operators_in_watched_namespaces(found, "two") == ("one/rocketmq-ha-operator",)


async def test_nothing_is_done_before_others_were_looked_for() -> None:
    others = _second(_Kube())
    assert not others.may_act()
    await others.once()
    assert others.may_act()


async def test_the_second_operator_says_which_is_in_the_way_and_acts_when_that_is_gone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    kube = _Kube(_operator("one", 1), _operator("two", 2))
    others = _second(kube)
    with caplog.at_level(logging.ERROR):
        await others.once()
        await others.once()
    assert not others.may_act()
    (said,) = caplog.messages
    assert "operator one/rocketmq-ha-operator was installed before this one" in said
    assert "operator.clusterWide" in said
    kube.found = kube.found[1:]
    await others.once()
    assert others.may_act()


async def test_an_operator_inside_a_watched_namespace_is_told(caplog: pytest.LogCaptureFixture) -> None:
    others = _second(_Kube(_operator("two", 1), _operator("shop", 2, "shop")))
    await others.once()
    await others.once()
    assert others.may_act(), "a later release of a namespace cannot stop the operator of the cluster"
    (said,) = caplog.messages
    assert "operator shop/rocketmq-ha-operator watches namespaces that this one watches too" in said


async def test_what_was_found_holds_while_the_api_server_is_silent() -> None:
    kube = _Kube(_operator("one", 1), _operator("two", 2))
    others = _second(kube)
    await others.once()
    kube.trouble = PeerUnavailableError("gone")
    await others.once()
    assert not others.may_act()


async def test_an_operator_that_may_not_look_acts() -> None:
    kube = _Kube()
    kube.trouble = RequestRefusedError("forbidden")
    others = _second(kube)
    await others.once()
    assert others.may_act()


async def test_an_operator_of_some_namespaces_does_not_look() -> None:
    kube = _Kube(_operator("one", 1))
    kube.trouble = AssertionError("it has no right to")
    others = OtherOperators(kube, "two", whole_cluster=False)
    await others.run()
    assert others.may_act()


async def test_readiness_says_why_an_operator_does_nothing() -> None:
    others = _second(_Kube(_operator("one", 1)))
    await others.once()
    server = HealthServer(OperatorMetrics(lambda: False), lambda: True, problem=lambda: others.problem)
    port = await server.start("127.0.0.1", 0)
    try:
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/readyz") as answer:
                assert (answer.status, await answer.text()) == (503, others.problem + "\n")
            async with session.get(f"http://127.0.0.1:{port}/livez") as answer:
                assert answer.status == 200
    finally:
        await server.stop()
