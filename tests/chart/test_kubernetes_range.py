"""Every object of the chart and of the operator, against the schemas of each supported Kubernetes.

The schemas are strict: a field that a version does not know is an error. They come from a package of the
registry; no API server is asked.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import kubernetes_validate
import pytest
from kubernetes_validate import utils

from project_tools.chart_files import CHART
from testkit.kube.kubectl import program
from testkit.products.helm import rendered
from testkit.tree.files import ROOT
from testkit.worlds.operator import OperatorWorld
from testkit.worlds.pod_cases import EVERY_SETTING
from testkit.worlds.pod_templates import workloads

Json = dict[str, Any]
OLDEST, NEWEST = 29, 34
VERSIONS: Final = [f"1.{minor}" for minor in range(OLDEST, NEWEST + 1)]
OF_OTHERS: Final = ("rocketmq-ha.dev/", "monitoring.coreos.com/")
"""Groups of kinds that Kubernetes itself does not have."""
LISTENERS: Final = [
    {"name": "outside", "type": "NodePort", "advertisedHost": "mq", "protocols": ["Remoting", "GRPC"]},
    {"name": "public", "type": "LoadBalancer", "loadBalancerClass": "x/y", "sourceRanges": ["192.0.2.0/24"]},
]
CLUSTER: Final = {"proxy": {"mode": "Cluster"}, "listeners": LISTENERS}
GROUP: Final = {
    "logReplicas": 1,
    "learners": {"count": 1},
    "storage": {"size": "1Gi", "storageClassName": "fast", "volumeAttributesClassName": "quick"},
}
CHART_VALUES: Final = (
    "networkPolicies.enabled=true",
    'networkPolicies.nodes=[{"ipBlock":{"cidr":"192.0.2.0/24"}}]',
    "measure.enabled=true",
    "nodeAgent.enabled=true",
    'measure.groups=[{"name":"orders"}]',
)


@pytest.fixture(autouse=True, scope="module")
def _read_schemas_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(utils, "schema_contents", cache(utils.schema_contents))
        yield


def _problems(objects: list[Json], version: str) -> Iterator[str]:
    """Yield why a version of Kubernetes would refuse some objects."""
    for one in objects:
        if one.get("apiVersion", "").startswith(OF_OTHERS):
            continue
        try:
            kubernetes_validate.validate(one, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            where = ".".join(map(str, error.path))
            yield f"{one['kind']} {one['metadata']['name']}: {where}: {error.message[:200]}"


async def _made_by_the_operator() -> list[Json]:
    world = OperatorWorld(GROUP, CLUSTER)
    for _ in range(3):
        await world.settle()
    kept = [
        {key: part for key, part in value.items() if key != "status"}
        for (kind, _, _), value in world.kube.objects.items()
        if kind not in {"Pod", "PersistentVolumeClaim"}  # made by Kubernetes, from templates
    ]
    settings = {"pod": EVERY_SETTING}
    parts = dict.fromkeys(("controllers", "nameServers", "proxy", "routeFronts"), settings)
    return [*kept, *workloads(parts, {**settings, "logPod": EVERY_SETTING}).values()]


@pytest.mark.parametrize("version", VERSIONS)
async def test_each_version_takes_what_the_operator_makes(version: str) -> None:
    objects = await _made_by_the_operator()
    assert {"Deployment", "StatefulSet", "EndpointSlice", "Service"} <= {one["kind"] for one in objects}
    assert list(_problems(objects, version)) == []


@pytest.mark.skipif(program("helm") is None, reason="helm is not installed")
@pytest.mark.parametrize("version", VERSIONS)
def test_each_version_takes_the_chart(version: str) -> None:
    assert list(_problems(rendered(*CHART_VALUES), version)) == []


def test_a_field_that_a_version_does_not_know_is_found() -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "a"},
        "spec": {"trafficDistribution": "PreferClose"},
    }
    assert list(_problems([service], "1.30")) == []
    assert "trafficDistribution" in "".join(_problems([service], "1.29"))


def test_the_range_is_the_one_that_documents_and_chart_state() -> None:
    assert f'kubeVersion: ">=1.{OLDEST}.0-0"' in (CHART / "Chart.yaml").read_text()
    support = (ROOT / "SUPPORT.md").read_text()
    assert f"| Kubernetes | 1.{OLDEST} and later" in support
    assert f"schemas of 1.{OLDEST} to 1.{NEWEST}" in support
