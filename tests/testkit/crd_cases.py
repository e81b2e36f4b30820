"""Custom resources that must be refused, and what the refusal must say: for the models and for a real API server."""

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

CLUSTER_SPEC: Json = {}
GROUP_SPEC: Json = {"cluster": "main", "storage": {"size": "1Gi"}}


@dataclass(frozen=True)
class Refusal:
    """One change that must be refused.

    Attributes:
        kind: RocketMQCluster or BrokerGroup.
        change: merged into a valid spec of the kind; for `update`, after that spec exists.
        words: what the answer must name: field and value.
        before: merged into the valid spec first.
        update: whether only a change of an existing object is refused.
    """

    name: str
    kind: str
    change: Json
    words: tuple[str, ...]
    before: Json = field(default_factory=dict)
    update: bool = False


def merged(base: Json, change: Json) -> Json:
    """Return `base` with `change` laid over it, object by object."""
    result = deepcopy(base)
    for key, value in change.items():
        inner = result.get(key)
        result[key] = merged(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return result


def base_spec(kind: str) -> Json:
    """Return a valid spec of the kind."""
    return CLUSTER_SPEC if kind == "RocketMQCluster" else GROUP_SPEC


REFUSALS = (
    Refusal(
        "two controllers", "RocketMQCluster", {"controllers": {"replicas": 2}}, ("controllers.replicas", "2")
    ),
    Refusal(
        "controllers that grow",
        "RocketMQCluster",
        {"controllers": {"replicas": 5}},
        ("controllers.replicas", "3", "5"),
        update=True,
    ),
    Refusal(
        "a controllers' volume that shrinks",
        "RocketMQCluster",
        {"controllers": {"storage": {"size": "9Gi"}}},
        ("storage.size", "10Gi", "9Gi"),
        update=True,
    ),
    Refusal("an unknown version", "RocketMQCluster", {"version": "4.9.4"}, ("version",)),
    Refusal(
        "two copies on one member",
        "BrokerGroup",
        {"replicas": 1},
        ("AllInSync", "replicas 1", "logReplicas 0"),
    ),
    Refusal("no broker", "BrokerGroup", {"replicas": 0}, ("replicas",)),
    Refusal(
        "a key of ours", "BrokerGroup", {"config": {"brokerRole": "SYNC_MASTER"}}, ("config.brokerRole",)
    ),
    Refusal(
        "a log file of another length",
        "BrokerGroup",
        {"logFileMebibytes": 64},
        ("logFileMebibytes", "1024", "64"),
        update=True,
    ),
    Refusal(
        "a timeout of two beats",
        "BrokerGroup",
        {"failover": {"heartbeatIntervalMs": 600}},
        ("failover.heartbeatTimeoutMs", "1500", "1800"),
    ),
    Refusal(
        "another cluster", "BrokerGroup", {"cluster": "other"}, ("cluster", "main", "other"), update=True
    ),
    Refusal(
        "a volume that shrinks",
        "BrokerGroup",
        {"storage": {"size": "1000Mi"}},
        ("storage.size", "1Gi", "1000Mi"),
        update=True,
    ),
    Refusal(
        "another storage class",
        "BrokerGroup",
        {"storage": {"storageClassName": "fast"}},
        ("storageClassName", "the default", "fast"),
        update=True,
    ),
    Refusal("a size that is none", "BrokerGroup", {"storage": {"size": "-1Gi"}}, ("size",)),
)
ACCEPTED_CHANGES = (
    ("a volume that grows", "BrokerGroup", {"storage": {"size": "1100Mi"}}),
    ("more brokers", "BrokerGroup", {"replicas": 3}),
    (
        "the log file's default spelt out",
        "BrokerGroup",
        {"logFileMebibytes": 1024},
    ),
)
