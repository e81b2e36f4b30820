"""What the operator gives node agents and controllers: the token of the agents, and the node timeout."""

import base64

import pytest

from controller_core.remoting.nodes.token import node_token
from controller_core.server.settings.config import Settings, load
from rocketmq_operator.api.broker_group import BrokerGroupSpec
from rocketmq_operator.api.cluster import RocketMQClusterSpec
from rocketmq_operator.api.clusters.controllers import NODE_TIMEOUT_MS_DEFAULT
from rocketmq_operator.plan.cluster.children import cluster_children, controller_conf
from rocketmq_operator.plan.cluster.observed import ClusterSecrets
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.objects import Owner
from rocketmq_operator.plan.group.companion import lease_binds
from testkit.worlds.crd_cases import GROUP_SPEC, merged
from testkit.worlds.pod_templates import workloads

OWNER = Owner("v1", "RocketMQCluster", "main", "demo", "uid")


def _settings(cluster: dict[str, object]) -> Settings:
    """Return the settings of a controller with the operator's file."""
    text = controller_conf(OWNER, RocketMQClusterSpec.model_validate(cluster))
    lines = (line.partition("=") for line in text.splitlines() if "=" in line)
    values = {key: value for key, _, value in lines}
    return load(values | {"controllerDLegerPeers": "n0-host:9878"})[0]


def test_the_secret_has_the_token_of_the_agents_beside_the_clusters() -> None:
    bodies = cluster_children(OWNER, RocketMQClusterSpec(), ClusterSecrets("token"), 3)
    (secret,) = [body for body in bodies if body["kind"] == "Secret"]
    assert secret["metadata"]["name"] == names.token_secret("main")
    texts = {key: base64.b64decode(text).decode() for key, text in secret["data"].items()}
    assert texts == {names.TOKEN_KEY: "token", names.AGENT_TOKEN_KEY: node_token("token")}
    assert "token" not in node_token("token")


@pytest.mark.parametrize("timeout_ms", [0, 300, 60_000])
def test_the_node_timeout_of_the_cluster_reaches_the_controllers(timeout_ms: int) -> None:
    assert _settings({"failover": {"nodeTimeoutMs": timeout_ms}}).node_timeout_ms == timeout_ms


@pytest.mark.parametrize(
    ("durability", "log_replicas", "binds"),
    [("AllInSync", 1, False), ("AllInSync", 0, True), ("Async", 1, True), ("Quorum", 0, True)],
)
def test_a_lease_binds_where_a_master_that_is_cut_off_could_acknowledge_writes(
    durability: str, log_replicas: int, binds: bool
) -> None:
    changes = {"durability": durability, "replicas": 3, "logReplicas": log_replicas}
    assert lease_binds(BrokerGroupSpec.model_validate(merged(GROUP_SPEC, changes))) is binds


def test_the_default_is_that_of_the_controllers_and_restarts_none_of_them() -> None:
    assert _settings({}).node_timeout_ms == NODE_TIMEOUT_MS_DEFAULT
    same = {"failover": {"nodeTimeoutMs": NODE_TIMEOUT_MS_DEFAULT}}
    assert workloads(same)["controller"] == workloads()["controller"]
    other = {"failover": {"nodeTimeoutMs": 700}}
    assert workloads(other)["controller"] != workloads()["controller"]
