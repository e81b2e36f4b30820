"""Plain RocketMQ in the benchmark requests as much CPU as a release of ours."""

import yaml

from rocketmq_operator.api.broker_group import BrokerGroupSpec
from rocketmq_operator.api.cluster import RocketMQClusterSpec
from rocketmq_operator.plan.group.companion import RESOURCES
from testkit.kube.plain import manifests
from testkit.tree.files import ROOT

ROUNDING_MILLIS = 5


def _millis(cpu: object) -> int:
    text = str(cpu)
    return int(text.removesuffix("m")) if text.endswith("m") else int(text) * 1_000


def _ours() -> int:
    group = BrokerGroupSpec.model_validate(_spec("examples/brokergroup.yaml"))
    cluster = RocketMQClusterSpec.model_validate(_spec("examples/cluster.yaml"))
    operator = yaml.safe_load((ROOT / "charts/rocketmq-ha/values.yaml").read_text())["operator"]
    brokers = group.replicas * (_millis(group.resources.cpu) + _millis(RESOURCES.cpu))
    replicas = group.log_replicas * _millis(group.log_resources.cpu)
    controllers = cluster.controllers.replicas * _millis(cluster.controllers.resources.cpu)
    name_servers = cluster.name_servers.replicas * _millis(cluster.name_servers.resources.cpu)
    operators = int(operator["replicas"]) * _millis(operator["resources"]["requests"]["cpu"])
    return brokers + replicas + controllers + name_servers + operators


def _spec(path: str) -> object:
    return yaml.safe_load((ROOT / path).read_text())["spec"]


def test_it_requests_as_much_cpu_as_ours() -> None:
    sets = [one for one in manifests() if one["kind"] == "StatefulSet"]
    plain = sum(
        one["spec"]["replicas"] * _millis(container["resources"]["requests"]["cpu"])
        for one in sets
        for container in one["spec"]["template"]["spec"]["containers"]
    )
    assert abs(plain - _ours()) < ROUNDING_MILLIS
