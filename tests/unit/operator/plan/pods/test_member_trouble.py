"""The reason why a member is not as asked stands in its resource's status.

It does so for each kind of member and each trouble, in a text that stays.
"""

from collections.abc import Callable
from typing import Any, cast

import pytest

from rocketmq_operator.clients.api import RequestRefusedError
from rocketmq_operator.clients.reflection import EVENTS_S, Reflections
from rocketmq_operator.clients.stream import Stream
from rocketmq_operator.handlers.quiet import plan_without_work
from rocketmq_operator.plugin.advice import ADVICE
from rocketmq_operator.plugin.queries import observe_group
from rocketmq_operator.plugin.rendering import explain_lines
from testkit.memory.membership import NAMESPACE
from testkit.memory.pod_faults import PodFault
from testkit.worlds.members import (
    CLUSTER,
    GROUP,
    KINDS,
    QUOTA,
    WITH_VOLUME,
    MemberKind,
    break_member,
    forbid,
    passes,
    progress,
    settled,
)
from testkit.worlds.operator import OperatorWorld

Json = dict[str, Any]


FAULTS = {
    PodFault.UNSCHEDULABLE: ("Unschedulable", "Insufficient cpu"),
    PodFault.IMAGE: ("ImageNotPulled", "image "),
    PodFault.CRASH: ("CrashLoop", "ended with exit code 1: ERROR cannot open /data: no space left"),
    PodFault.MEMORY: ("OOMKilled", "needs more memory than its limit"),
    PodFault.CONFIG: ("MemberNotReady", "ready"),
}
every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
kinds_with_volume = pytest.mark.parametrize("kind", [KINDS[name] for name in WITH_VOLUME], ids=WITH_VOLUME)


def told_of(world: OperatorWorld, kind: MemberKind, reason: str, words: str) -> None:
    """Assert that the resource's status names member, reason and cause, and that each has an advice."""
    status, reason_now, message = progress(world, kind.resource)
    assert (status, reason_now) == ("True", reason), message
    assert f"{kind.member}: {reason}: " in message
    assert words in message
    assert len(message) < 400
    assert "\n" not in message
    assert world.status(*kind.resource)["reason"] == reason
    assert reason in ADVICE


def events(world: OperatorWorld, reason: str) -> list[Json]:
    """Return the Events of a reason that the operator wrote."""
    return [one for key, one in world.kube.objects.items() if key[0] == "Event" and one["reason"] == reason]


@pytest.mark.parametrize("fault", FAULTS)
@every_kind
async def test_a_pod_that_does_not_start_is_told_of_once_and_in_one_text(
    kind: MemberKind, fault: PodFault
) -> None:
    world = await settled()
    break_member(world, kind, fault)
    await passes(world)
    reason, words = FAULTS[fault]
    told_of(world, kind, reason, words)
    assert len(events(world, reason)) == (reason != "MemberNotReady")
    writes = len(world.kube.writes)
    await passes(world)
    assert world.kube.writes[writes:] == []


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_rewritten_field_is_an_event_once_while_a_member_is_in_trouble(fault: PodFault) -> None:
    world = await settled()
    world.kube.webhook = _shorten
    world.write_group({"replicas": 2, "logReplicas": 1, "config": {"sendMessageThreadPoolNums": "6"}})
    break_member(world, KINDS["broker"], fault)
    await passes(world)
    assert len(events(world, "FieldRewritten")) == 1
    await passes(world)
    assert len(events(world, "FieldRewritten")) == 1


def _shorten(value: Json) -> None:
    """Do what a policy of short grace periods does."""
    if value["kind"] == "StatefulSet":
        value["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 30


@every_kind
async def test_a_pod_that_a_quota_refuses_is_told_of(kind: MemberKind) -> None:
    world = await settled()
    forbid(world, kind)
    await passes(world)
    told_of(world, kind, "FailedCreate", "exceeded quota: team, requested: pods=1, limited: pods=9")
    assert len(events(world, "FailedCreate")) == 1


@every_kind
async def test_what_is_told_goes_when_the_trouble_goes(kind: MemberKind) -> None:
    world = await settled()
    forbid(world, kind)
    await passes(world)
    world.kube.forbidden.clear()
    world.kube.settle()
    await passes(world)
    assert progress(world, kind.resource)[:2] == ("False", "Settled")
    assert world.status(*kind.resource)["reason"] == ""


async def test_events_are_asked_for_only_when_a_pod_is_missing_for_some_seconds() -> None:
    world = await settled()
    await passes(world)
    assert world.kube.asked_events == []
    forbid(world, KINDS["broker"])
    await world.one_pass()
    assert world.kube.asked_events == []
    world.advance(10)
    await world.one_pass()
    assert world.kube.asked_events == [("StatefulSet", "orders")]


async def test_what_is_used_of_a_quota_changes_no_status() -> None:
    world = await settled()
    forbid(world, KINDS["broker"])
    await passes(world)
    writes = len(world.kube.writes)
    world.kube.forbidden["orders-1"] = QUOTA.replace("used: pods=9", "used: pods=8")
    world.kube.settle()
    await passes(world)
    assert world.kube.writes[writes:] == []


VOLUMES: dict[str, tuple[Callable[[Json], None], str, str]] = {
    "no provisioner": (
        lambda claim: claim.update(status={"phase": "Pending"}),
        "VolumePending",
        'of storage class fast is not bound: storageclass "fast" not found',
    ),
    "terminating": (
        lambda claim: claim["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z"),
        "VolumeTerminating",
        "is being deleted",
    ),
    "lost": (
        lambda claim: claim.update(status={"phase": "Lost"}),
        "VolumeLost",
        "has lost its PersistentVolume",
    ),
}


@pytest.mark.parametrize("volume", VOLUMES.values(), ids=VOLUMES.keys())
@kinds_with_volume
async def test_a_volume_that_is_missing_is_told_of(
    kind: MemberKind, volume: tuple[Callable[[Json], None], str, str]
) -> None:
    world = await settled()
    change, reason, words = volume
    name = f"data-{kind.pod}"
    claim = world.get("PersistentVolumeClaim", name)
    claim["spec"]["storageClassName"] = "fast"
    change(claim)
    note = {
        "reason": "ProvisioningFailed",
        "note": 'storageclass "fast" not found',
        "eventTime": "2026-01-01",
    }
    world.kube.events_about["PersistentVolumeClaim", name] = [note]
    world.kube.unready.add(kind.pod)
    world.kube.settle()
    await passes(world)
    told_of(world, kind, reason, words)


async def test_one_of_two_name_servers_is_told_of_while_the_cluster_is_ready() -> None:
    world = await settled()
    world.kube.unready.add("main-nameserver-1")
    world.kube.settle()
    await passes(world)
    assert world.condition("Ready", *CLUSTER) == ("True", "Serving")
    assert progress(world, CLUSTER) == (
        "True",
        "MemberNotReady",
        "main-nameserver-1: MemberNotReady: its pod is not ready",
    )


async def test_the_cause_stands_where_nobody_can_write_and_explain_says_what_to_do() -> None:
    world = OperatorWorld({"replicas": 2})
    world.kube.faults = {("orders-0", ""): PodFault.CRASH, ("orders-1", ""): PodFault.CRASH}
    await passes(world)
    (ready,) = [one for one in world.status()["conditions"] if one["type"] == "Ready"]
    assert (ready["status"], ready["reason"]) == ("False", "NoMaster")
    assert "orders-0, orders-1: CrashLoop: container broker ended" in ready["message"]
    assert world.status()["reason"] == "CrashLoop"
    explained = "\n".join(explain_lines(await observe_group(world.kube, NAMESPACE, "orders")))
    assert "cannot open /data: no space left" in explained
    assert ADVICE["CrashLoop"] in explained


async def test_a_cluster_that_keeps_a_group_waiting_is_explained_with_the_group() -> None:
    world = await settled()
    for number in range(3):
        world.kube.break_pods(NAMESPACE, [f"main-controller-{number}"], PodFault.IMAGE)
    await passes(world)
    explained = "\n".join(explain_lines(await observe_group(world.kube, NAMESPACE, "orders")))
    assert "RocketMQCluster main" in explained
    assert "ImageNotPulled" in explained
    assert ADVICE["ImageNotPulled"] in explained


async def test_a_broker_that_refuses_its_companion_is_told_of_in_the_brokers_words() -> None:
    world = await settled()
    words = "request 1006 is refused with code 16: no user"
    address = f"{world.get('Pod', 'orders-1')['status']['podIP']}:9879"
    world.kube.unready.add("orders-1")
    world.kube.settle()
    world.companions.asked.clear()
    await world.one_pass()
    address = next(one for one in world.companions.asked if one.startswith(address.split(":")[0] + ":"))
    world.companions.told[address] = {"metadata_missing": None, "refusal": words}
    await passes(world)
    told_of(world, KINDS["broker"], "CompanionRefused", words)


async def test_a_pod_that_is_replaced_is_no_trouble_whatever_its_process_ended_with() -> None:
    world = await settled()
    world.kube.break_pods(NAMESPACE, ["orders-1"], PodFault.CRASH)
    world.get("Pod", "orders-1")["metadata"]["deletionTimestamp"] = world.controllers.now.isoformat()
    await world.one_pass()
    assert "CrashLoop" not in str(world.status())


async def test_a_paused_group_is_not_settled() -> None:
    world = await settled()
    world.write_group({"replicas": 2, "logReplicas": 1, "paused": True})
    await passes(world)
    assert progress(world, GROUP)[:2] == ("False", "Paused")


async def test_passes_that_look_at_what_is_kept_ask_for_events_twice_a_minute_at_most() -> None:
    world = await settled()
    forbid(world, KINDS["broker"])
    await passes(world)
    clock = iter((0.0, 10.0, 20.0, EVENTS_S + 1))
    kept = Reflections(world.kube, cast("Stream", None), [NAMESPACE], lambda: next(clock, 0.0), kinds=())
    world.kube.asked_events.clear()
    told = [await kept.events("StatefulSet", NAMESPACE, "orders") for _ in range(4)]
    assert len(world.kube.asked_events) == 2
    assert all(one == told[0] for one in told)


async def test_a_member_in_trouble_costs_no_pass_while_nothing_changes() -> None:
    world = await settled()
    for kind in KINDS.values():
        forbid(world, kind)
    await passes(world)
    for resource in (GROUP, CLUSTER):
        assert (
            await plan_without_work(world.pass_context().environment, resource[0], NAMESPACE, resource[1])
            is not None
        )


async def test_without_the_right_to_read_events_all_else_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    world = await settled()

    async def refused(*_: str) -> list[Json]:
        raise RequestRefusedError("Event: 403 Forbidden")

    monkeypatch.setattr(world.kube, "events", refused)
    forbid(world, KINDS["broker"])
    await passes(world)
    assert progress(world, GROUP) == ("True", "MemberNotReady", "orders-1: MemberNotReady: it has no pod")
