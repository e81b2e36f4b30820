"""What kstatus and Argo CD compute for our kinds, from an empty status to a refused spec."""

from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from rocketmq_operator.api.conditions import Finding, make_finding, merge_findings
from rocketmq_operator.api.definitions.crds import custom_resource_definitions
from rocketmq_operator.api.names import SWITCHOVER_ANNOTATION
from rocketmq_operator.clients.api import RequestRefusedError
from rocketmq_operator.plan.pods.health import health_findings
from testkit.check.argo_health import CONFIG_MAP, computed_health, health_scripts
from testkit.check.kstatus import KStatus, computed_kstatus
from testkit.check.statuses import KINDS_WITH_READY
from testkit.memory.membership import NAMESPACE
from testkit.tree.files import ROOT
from testkit.worlds.metadata import PAY, TOPIC, MetadataWorld, made_topic
from testkit.worlds.operator import GROUP, OperatorWorld

CURRENT, IN_PROGRESS, FAILED = KStatus.CURRENT, KStatus.IN_PROGRESS, KStatus.FAILED


def group_kstatus(world: OperatorWorld) -> KStatus:
    """Return what kstatus computes for the group."""
    return computed_kstatus(world.get("BrokerGroup", GROUP))


def group_health(world: OperatorWorld) -> str:
    """Return what Argo CD computes for the group."""
    return computed_health(health_scripts()["BrokerGroup"], world.get("BrokerGroup", GROUP))[0]


@pytest.mark.parametrize("kind", KINDS_WITH_READY)
def test_a_new_object_is_in_progress_before_the_operator_saw_it(kind: str) -> None:
    (definition,) = [one for one in custom_resource_definitions() if one["spec"]["names"]["kind"] == kind]
    (version,) = definition["spec"]["versions"]
    status = version["schema"]["openAPIV3Schema"]["properties"]["status"]
    assert status["properties"]["observedGeneration"]["minimum"] <= status["default"]["observedGeneration"]
    value = {"kind": kind, "metadata": {"generation": 1}, "status": status["default"]}
    assert computed_kstatus(value) is IN_PROGRESS
    assert computed_health(health_scripts()[kind], value)[0] == "Progressing"


def test_every_kind_has_a_script() -> None:
    kinds = {one["spec"]["names"]["kind"] for one in custom_resource_definitions()}
    assert set(health_scripts()) == kinds
    assert yaml.safe_load(CONFIG_MAP.read_text())["metadata"]["name"] == "argocd-cm"


def test_a_record_of_a_failover_is_healthy_at_once() -> None:
    value = {"kind": "Failover", "metadata": {"generation": 1}, "spec": {}}
    assert computed_kstatus(value) is CURRENT
    assert computed_health(health_scripts()["Failover"], value)[0] == "Healthy"


async def test_a_group_is_current_when_it_serves_as_asked_and_in_progress_until_then() -> None:
    world = OperatorWorld(group={"replicas": 2})
    seen = [group_kstatus(world)]
    while seen[-1] is not CURRENT or len(seen) < 3:
        await world.one_pass()
        world.advance(seconds=1)
        seen.append(group_kstatus(world))
        assert len(seen) < 60
    assert set(seen[1:-2]) <= {IN_PROGRESS, CURRENT}
    assert world.condition("Ready") == ("True", "Serving")
    assert (group_kstatus(world), group_health(world)) == (CURRENT, "Healthy")
    assert computed_kstatus(world.get("RocketMQCluster", "main")) is CURRENT


async def test_a_new_spec_is_in_progress_until_the_operator_has_acted_on_it() -> None:
    world = OperatorWorld(group={"replicas": 2})
    await world.settle()
    world.write_group({"replicas": 3})
    assert (group_kstatus(world), group_health(world)) == (IN_PROGRESS, "Progressing")
    await world.settle()
    assert (group_kstatus(world), group_health(world)) == (CURRENT, "Healthy")


async def test_a_member_that_is_away_is_in_progress_while_clients_are_served() -> None:
    world = OperatorWorld(group={"replicas": 3})
    await world.settle()
    world.kube.unready.add(f"{GROUP}-2")
    world.kube.settle()
    await world.one_pass()
    assert world.condition("Ready") == ("True", "Serving")
    assert (group_kstatus(world), group_health(world)) == (IN_PROGRESS, "Progressing")


async def test_refused_pods_fail_although_the_group_serves_on() -> None:
    world = OperatorWorld(group={"replicas": 2})
    await world.settle()
    world.write_group(
        {"replicas": 2, "podOverride": {"spec": {"containers": [{"name": "broker", "command": ["x"]}]}}}
    )
    await world.one_pass()
    assert world.condition("Ready") == ("True", "Serving")
    assert world.condition("Stalled") == ("True", "PodRefused")
    assert (group_kstatus(world), group_health(world)) == (FAILED, "Degraded")
    world.write_group({"replicas": 2})
    await world.settle()
    assert (group_kstatus(world), group_health(world)) == (CURRENT, "Healthy")


async def test_a_refused_write_fails_for_the_generation_that_asks_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = OperatorWorld(group={"replicas": 2})
    await world.settle()
    apply = world.kube.apply

    async def refuse(body: dict[str, Any]) -> dict[str, Any]:
        if body["kind"] == "StatefulSet":
            raise RequestRefusedError("exceeded quota")
        return await apply(body)

    monkeypatch.setattr(world.kube, "apply", refuse)
    world.write_group({"replicas": 3})
    await world.one_pass()
    assert world.condition("Stalled") == ("True", "StepRefused")
    assert (group_kstatus(world), group_health(world)) == (FAILED, "Degraded")
    monkeypatch.undo()
    await world.settle()
    assert (group_kstatus(world), group_health(world)) == (CURRENT, "Healthy")


async def test_a_switchover_that_cannot_be_read_fails() -> None:
    world = OperatorWorld(group={"replicas": 2})
    await world.settle()
    world.get("BrokerGroup", GROUP)["metadata"]["annotations"] = {SWITCHOVER_ANNOTATION: "now"}
    await world.one_pass()
    assert world.condition("Stalled") == ("True", "SwitchoverRefused")
    assert (group_kstatus(world), group_health(world)) == (FAILED, "Degraded")


async def test_an_invalid_spec_fails() -> None:
    world = OperatorWorld(group={"replicas": 1, "durability": "AllInSync"})
    await world.one_pass()
    assert (group_kstatus(world), group_health(world)) == (FAILED, "Degraded")
    world.write_group({"replicas": 2})
    await world.settle()
    assert (group_kstatus(world), group_health(world)) == (CURRENT, "Healthy")


async def test_a_group_that_comes_before_its_cluster_waits() -> None:
    world = OperatorWorld(group={"replicas": 2})
    cluster = world.kube.objects.pop(("RocketMQCluster", NAMESPACE, "main"))
    await world.one_pass()
    assert world.condition("Ready") == ("False", "NoCluster")
    assert (group_kstatus(world), group_health(world)) == (IN_PROGRESS, "Progressing")
    world.kube.objects["RocketMQCluster", NAMESPACE, "main"] = cluster
    await world.settle()
    assert group_kstatus(world) is CURRENT


async def test_a_paused_group_is_current_as_long_as_it_serves_and_suspended_in_argo_cd() -> None:
    world = OperatorWorld(group={"replicas": 2})
    await world.settle()
    world.write_group({"replicas": 3, "paused": True})
    await world.one_pass()
    assert (group_kstatus(world), group_health(world)) == (CURRENT, "Suspended")


async def test_a_cluster_with_proxies_is_current_before_its_first_group() -> None:
    world = OperatorWorld(group={"cluster": "other"}, cluster={"proxy": {"mode": "Cluster"}})
    for _ in range(8):
        await world.one_pass()
    assert world.condition("Progressing", "RocketMQCluster", "main") == ("True", "NoBroker")
    assert computed_kstatus(world.get("RocketMQCluster", "main")) is CURRENT


async def test_a_topic_waits_for_masters_and_fails_where_it_is_only_reported() -> None:
    world = MetadataWorld()
    world.brokers.silent = {PAY}
    world.put("Topic", "prices", TOPIC)
    await world.one_pass()
    assert computed_kstatus(world.kube.objects["Topic", NAMESPACE, "prices"]) is IN_PROGRESS
    world = await made_topic(driftPolicy="Report")
    assert computed_kstatus(world.kube.objects["Topic", NAMESPACE, "prices"]) is CURRENT
    world.config(PAY)["readQueueNums"] = 2
    await world.one_pass()
    assert computed_kstatus(world.kube.objects["Topic", NAMESPACE, "prices"]) is FAILED


async def test_a_refused_topic_fails_and_is_still_brought_to_every_group_later() -> None:
    world = MetadataWorld()
    world.put("Topic", "prices", TOPIC | {"driftPolicy": "Report"})
    world.brokers.refused = {"prices"}
    await world.one_pass()
    assert world.condition("Stalled") == ("True", "StepRefused")
    assert computed_kstatus(world.kube.objects["Topic", NAMESPACE, "prices"]) is FAILED
    world.brokers.refused = set()
    await world.one_pass()
    assert world.knows(PAY)
    assert computed_kstatus(world.kube.objects["Topic", NAMESPACE, "prices"]) is CURRENT


@pytest.mark.parametrize("ready", [True, False, None])
@pytest.mark.parametrize("reason", ["Settled", "PodRefused", "RollingOut", "FieldRewritten"])
@pytest.mark.parametrize("paused", [True, False])
def test_at_most_one_of_both_holds_and_current_means_ready(
    ready: bool | None, reason: str, paused: bool
) -> None:
    is_ready = make_finding("Ready", holds=ready, reason="Serving" if ready else "NoMaster")
    progress = make_finding("Progressing", holds=reason != "Settled", reason=reason)
    findings: list[Finding] = [is_ready, progress, *health_findings(is_ready, progress, paused=paused)]
    conditions = merge_findings((), findings, generation=1, now=datetime(2026, 1, 1, tzinfo=UTC))
    written = [one.model_dump(mode="json", by_alias=True) for one in conditions]
    value = {"metadata": {"generation": 1}, "status": {"observedGeneration": 1, "conditions": written}}
    expected = FAILED if reason == "PodRefused" else CURRENT
    if expected is CURRENT and (not ready or (reason == "RollingOut" and not paused)):
        expected = IN_PROGRESS
    assert computed_kstatus(value) is expected
    assert [one.status for one in conditions[2:]].count("True") <= 1


def test_the_page_about_these_tools_names_the_file() -> None:
    assert str(CONFIG_MAP.relative_to(ROOT)) in (ROOT / "docs" / "operations" / "gitops.md").read_text()
