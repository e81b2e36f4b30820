"""`kubectl rmqha`: it shows what the operator says, and does its orders or refuses them by name."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from rocketmq_operator.api.names import SWITCHOVER_ANNOTATION
from rocketmq_operator.plugin import cli, rendering
from rocketmq_operator.plugin.advice import ADVICE
from rocketmq_operator.plugin.formatting import age, align_columns, with_count
from rocketmq_operator.plugin.queries import (
    RequestError,
    failovers_of,
    list_groups,
    observe_group,
    switch_over,
)
from testkit.memory.controllers import NAMESPACE
from testkit.worlds.operator import GROUP, OperatorWorld

Json = dict[str, Any]
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


async def _settled() -> OperatorWorld:
    world = OperatorWorld({"replicas": 2, "logReplicas": 1})
    await world.settle()
    return world


@contextlib.asynccontextmanager
async def _operated(world: OperatorWorld) -> AsyncIterator[None]:
    """Let the operator have passes for as long as the context lasts."""

    async def operate() -> None:
        while True:
            await world.one_pass()
            await asyncio.sleep(0)

    task = asyncio.create_task(operate())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0s"), (0, "0s"), (59, "59s"), (60, "1m"), (3_599, "59m"), (3_600, "1h"), (86_400 * 41, "41d")],
)
def test_an_age_is_its_largest_unit(seconds: int, text: str) -> None:
    assert age(NOW - timedelta(seconds=seconds), NOW) == text


def test_columns_stand_below_each_other() -> None:
    assert align_columns([["a", "bbb", "c"], ["aaaa", "b", "cc"]]) == ["a      bbb   c", "aaaa   b     cc"]


@pytest.mark.parametrize(("number", "text"), [(0, "0 steps"), (1, "1 step"), (1_200, "1,200 steps")])
def test_one_is_one(number: int, text: str) -> None:
    assert with_count(number, "step") == text


async def test_the_picture_of_a_group_names_every_member_with_its_role_and_place() -> None:
    world = await _settled()
    lines = rendering.status_lines(await observe_group(world.kube, NAMESPACE, GROUP))
    epoch = world.status()["master"]["epoch"]
    assert lines[0] == f"orders  Ready  epoch {epoch}  AllInSync, 3 of 3 in sync"
    assert [line.split()[:3] for line in lines[1:4]] == [
        ["orders-0", "master", "node-of-orders-0"],
        ["orders-1", "slave", "node-of-orders-1"],
        ["orders-log-0", "log", "node-of-orders-log-0"],
    ]
    assert "since" in lines[1]
    assert "lag 0 B" in lines[2]


async def test_a_group_that_waits_says_for_what() -> None:
    world = await _settled()
    world.write_group({"replicas": 2, "logReplicas": 1, "config": {"sendMessageThreadPoolNums": "12"}})
    world.kube.unready.add("orders-1")
    world.kube.settle()
    await world.one_pass()
    text = "\n".join(rendering.status_lines(await observe_group(world.kube, NAMESPACE, GROUP)))
    assert "pod not ready" in text
    assert "  waits  " in text


async def test_a_group_that_is_well_needs_no_explanation() -> None:
    world = await _settled()
    lines = rendering.explain_lines(await observe_group(world.kube, NAMESPACE, GROUP))
    assert lines[1] == "  nothing is wrong with it"


async def test_what_is_wrong_is_told_with_what_to_do() -> None:
    world = OperatorWorld({"cluster": "elsewhere"})
    await world.one_pass()
    text = "\n".join(rendering.explain_lines(await observe_group(world.kube, NAMESPACE, GROUP)))
    assert "Ready is False (NoCluster)" in text
    assert ADVICE["NoCluster"] in text
    assert "event" in text


async def test_failovers_are_listed_the_newest_first() -> None:
    world = await _settled()
    async with _operated(world):
        for _ in range(2):
            assert await switch_over(world.kube, NAMESPACE, GROUP, "", timeout_s=60.0)
            world.advance(60)
    await world.settle()
    header, *rows = rendering.failover_lines(await failovers_of(world.kube, NAMESPACE, GROUP), NOW)
    assert header.split() == ["NAME", "CAUSE", "FROM", "TO", "GAP", "LOST", "TOOK", "AGE"]
    epochs = [int(row.split()[0].removeprefix("orders-")) for row in rows]
    assert epochs == sorted(epochs, reverse=True)
    assert len(epochs) == 2


async def test_a_group_without_failovers_has_an_empty_list() -> None:
    world = await _settled()
    assert await failovers_of(world.kube, NAMESPACE, GROUP) == []


async def test_failovers_of_a_deleted_group_are_listed_while_they_exist() -> None:
    world = await _settled()
    async with _operated(world):
        assert await switch_over(world.kube, NAMESPACE, GROUP, "", timeout_s=60.0)
    await world.settle()
    del world.kube.objects["BrokerGroup", NAMESPACE, GROUP]
    assert len(await failovers_of(world.kube, NAMESPACE, GROUP)) == 1


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        ("status", "BrokerGroup"),
        ("switchover", "BrokerGroup"),
        ("failovers", "BrokerGroup"),
        ("explain", "BrokerGroup"),
        ("report", "SLOReport"),
    ],
)
def test_every_command_refuses_a_name_that_does_not_exist(
    command: str, missing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world = asyncio.run(_settled())
    monkeypatch.setattr(cli, "connect_as_person", lambda *_: None)
    monkeypatch.setattr(cli, "KubeClient", lambda _: world.kube)
    monkeypatch.setattr(world.kube, "close", lambda: None, raising=False)
    world.kube.objects["Namespace", "", NAMESPACE] = {"kind": "Namespace", "metadata": {"name": NAMESPACE}}
    assert cli.main([command, "NOSUCH", "-n", NAMESPACE]) == 1
    complaint = f"kubectl rmqha: {missing} NOSUCH does not exist in namespace {NAMESPACE}\n"
    assert capsys.readouterr() == ("", complaint)


def test_nothing_is_said_in_words() -> None:
    assert rendering.failover_lines([], NOW) == ["there are no failovers"]
    assert rendering.list_lines([]) == ["no broker groups found"]


async def test_every_group_of_a_namespace_has_its_line() -> None:
    world = await _settled()
    (line,) = rendering.list_lines(await list_groups(world.kube, NAMESPACE))
    assert line.startswith("orders  Ready")


async def test_a_switchover_is_asked_for_and_awaited() -> None:
    world = await _settled()
    async with _operated(world):
        done = await switch_over(world.kube, NAMESPACE, GROUP, "orders-1", timeout_s=60.0)
    assert done is not None
    assert (done.old_master, done.new_master) == ("orders-0", "orders-1")
    assert await switch_over(world.kube, NAMESPACE, GROUP, "orders-1", timeout_s=60.0) is None


async def test_a_wish_that_nobody_answers_is_taken_back() -> None:
    world = await _settled()
    with pytest.raises(RequestError, match="taken back"):
        await switch_over(world.kube, NAMESPACE, GROUP, "", timeout_s=0.05)
    assert SWITCHOVER_ANNOTATION not in world.get("BrokerGroup", GROUP)["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("to", "complaint"),
    [
        (
            "orders-9",
            "--to orders-9: not a member of orders; its members are orders-0, orders-1, orders-log-0",
        ),
        ("orders-log-0", "--to orders-log-0: a log replica cannot be master"),
        ("orders-1", "--to orders-1: it is not in the SyncStateSet"),
        ("", "no other broker of orders is ready and in sync"),
    ],
)
async def test_what_cannot_be_done_is_refused_before_it_is_asked_for(to: str, complaint: str) -> None:
    world = await _settled()
    world.kube.unready.add("orders-1")
    world.kube.settle()
    await world.one_pass()
    with pytest.raises(RequestError) as refused:
        await switch_over(world.kube, NAMESPACE, GROUP, to, timeout_s=0.05)
    assert str(refused.value) == complaint
    assert not world.get("BrokerGroup", GROUP)["metadata"].get("annotations")


async def test_a_group_that_is_paused_or_unknown_is_refused_by_name() -> None:
    world = await _settled()
    with pytest.raises(RequestError, match="BrokerGroup stock does not exist in namespace shop"):
        await observe_group(world.kube, NAMESPACE, "stock")
    world.write_group({"replicas": 2, "logReplicas": 1, "paused": True})
    with pytest.raises(RequestError, match=r"spec\.paused"):
        await switch_over(world.kube, NAMESPACE, GROUP, "", timeout_s=0.05)


def test_without_a_kubeconfig_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["status", "--kubeconfig", str(tmp_path / "none")]) == 1
    assert "no configuration for Kubernetes" in capsys.readouterr().err
