"""CPU and memory as people write them: a whole number, one of two keys, a limit that a quota demands."""

from typing import Any

import pytest
from pydantic import ValidationError

from rocketmq_operator.api.broker_group import BrokerGroupSpec
from rocketmq_operator.api.cluster import RocketMQClusterSpec
from rocketmq_operator.api.clusters.controllers import ControllersSpec
from rocketmq_operator.api.common import Resources
from rocketmq_operator.api.definitions.crds import custom_resource_definitions
from rocketmq_operator.api.slo_report import SLOReportSpec
from rocketmq_operator.plan.common import parts
from rocketmq_operator.plan.report.executors import threads
from testkit.worlds.crd_cases import GROUP_SPEC, REPORT_SPEC
from testkit.worlds.operator import GROUP, OperatorWorld

Json = dict[str, Any]
WITHOUT_DEFAULT = ("cpu", "memory", "size")


def _group(resources: Json) -> Resources:
    return BrokerGroupSpec.model_validate(GROUP_SPEC | {"resources": resources}).resources


def _objects(node: Json) -> list[Json]:
    below = [*node.get("properties", {}).values(), node.get("items"), node.get("additionalProperties")]
    return [node, *(one for part in below if isinstance(part, dict) for one in _objects(part))]


def test_a_whole_number_is_an_amount() -> None:
    assert _group({"cpu": 2, "memory": 4294967296}) == Resources(cpu="2", memory="4294967296")


@pytest.mark.parametrize("amount", [True, -1, 0.5, "-1", "1e3", "1 ", None])
def test_what_is_no_amount_is_refused(amount: object) -> None:
    with pytest.raises(ValidationError):
        _group({"cpu": amount})


def test_a_key_that_is_not_given_has_the_default_of_its_field() -> None:
    assert _group({"cpu": 2}) == Resources(cpu="2", memory="4Gi")
    assert _group({"memory": "1Gi"}) == Resources(cpu="1", memory="1Gi")
    spec = RocketMQClusterSpec.model_validate({"controllers": {"storage": {"storageClassName": "fast"}}})
    assert (spec.controllers.storage.size, spec.controllers.storage.storage_class_name) == ("10Gi", "fast")
    assert spec.controllers.resources == ControllersSpec().resources


def test_the_definitions_fill_in_the_same_keys() -> None:
    filled = 0
    for definition in custom_resource_definitions():
        schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        for node in _objects(schema):
            for name, value in (node.get("default") or {}).items() if "properties" in node else ():
                assert "default" in node["properties"][name], name
                assert name not in node.get("required", ())
                filled += name in WITHOUT_DEFAULT
                if name in WITHOUT_DEFAULT:
                    assert node["properties"][name]["default"] == value
    assert filled == 2 * (7 + 6) + 1, "CPU and memory of seven and of six further containers, and one volume"


def test_a_pod_has_no_limit_of_cpus_unless_it_is_asked_for() -> None:
    plain = parts.resources(Resources(cpu="1", memory="2Gi"))
    assert plain == {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"memory": "2Gi"}}
    limited = parts.resources(Resources(cpu="500m", memory="2Gi", cpu_limit="2"))
    assert limited == {"requests": {"cpu": "500m", "memory": "2Gi"}, "limits": {"memory": "2Gi", "cpu": "2"}}


def test_a_request_is_never_above_the_limit() -> None:
    assert parts.resources(_group({"cpuLimit": "500m"}))["requests"]["cpu"] == "500m"
    assert parts.resources(_group({"cpuLimit": 2}))["requests"]["cpu"] == "1"


async def test_a_limit_of_a_broker_is_on_every_container_of_its_pod() -> None:
    world = OperatorWorld({"replicas": 2, "resources": {"cpu": 1, "cpuLimit": "100m"}})
    await world.settle()
    (pod,) = [
        one["spec"]["template"]["spec"]
        for (kind, _, name), one in world.kube.objects.items()
        if (kind, name) == ("StatefulSet", GROUP)
    ]
    limits = [one["resources"]["limits"] for one in pod["containers"] + pod["initContainers"]]
    assert [one["cpu"] for one in limits] == ["100m", "250m", "250m"], "what runs beside keeps its own share"


def test_a_report_has_the_threads_that_it_may_use() -> None:
    spec = SLOReportSpec.model_validate(REPORT_SPEC | {"resources": {"cpu": 4, "cpuLimit": 2}})
    assert threads(spec) == 2
