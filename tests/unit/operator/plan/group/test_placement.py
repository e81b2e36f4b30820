"""Where members run: each pod of a group has the nodes, taints and distances that the spec asks for."""

from typing import Any

import pytest

from rocketmq_operator.plan.common import names
from testkit.worlds.operator import GROUP, OperatorWorld

Json = dict[str, Any]
MEMBERS = (GROUP, names.log_set(GROUP))


async def _pods(placement: Json) -> list[Json]:
    """Return the pods' specs of brokers and log replicas."""
    world = OperatorWorld({"logReplicas": 1, "placement": placement})
    await world.settle()
    return [world.get("StatefulSet", name)["spec"]["template"]["spec"] for name in MEMBERS]


async def test_members_run_on_nodes_with_the_labels_and_put_up_with_the_taints() -> None:
    taint = {"key": "mq", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}
    for pod in await _pods({"nodeSelector": {"pool": "mq"}, "tolerations": [taint]}):
        assert (pod["nodeSelector"], pod["tolerations"]) == ({"pool": "mq"}, [taint])


async def test_without_a_wish_a_pod_names_no_nodes_and_no_taints() -> None:
    for pod in await _pods({}):
        assert pod.keys() & {"nodeSelector", "tolerations"} == set()


@pytest.mark.parametrize(
    ("spread", "strictness"),
    [
        ("Required", "requiredDuringSchedulingIgnoredDuringExecution"),
        ("Preferred", "preferredDuringSchedulingIgnoredDuringExecution"),
    ],
)
async def test_members_keep_apart_as_strictly_as_the_spec_says(spread: str, strictness: str) -> None:
    for pod in await _pods({"spread": spread, "topologyKey": "topology.kubernetes.io/zone"}):
        rules = pod["affinity"]["podAntiAffinity"]
        (rule,) = rules[strictness]
        term = rule.get("podAffinityTerm", rule)
        assert rules.keys() == {strictness}
        assert term["topologyKey"] == "topology.kubernetes.io/zone"
