"""Custom resources that must be refused, and the words of the refusal.

They are for the models and for a real API server.
"""

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from testkit.worlds.copies_cases import COPIES_CASES

Json = dict[str, Any]

CLUSTER_SPEC: Json = {}
GROUP_SPEC: Json = {"cluster": "main", "storage": {"size": "1Gi"}}
REPORT_SPEC: Json = {"schedule": "17 * * * *"}
METADATA_SPEC: Json = {"cluster": "main"}
_USERS: Json = {"authentication": {"type": "Signature"}}


@dataclass(frozen=True)
class RefusedChange:
    """One change that must be refused.

    Attributes:
        kind: RocketMQCluster, BrokerGroup, SLOReport, Topic, ConsumerGroup or User.
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
    return {
        "RocketMQCluster": CLUSTER_SPEC,
        "BrokerGroup": GROUP_SPEC,
        "SLOReport": REPORT_SPEC,
        "Topic": METADATA_SPEC,
        "ConsumerGroup": METADATA_SPEC,
        "User": METADATA_SPEC,
    }[kind]


def objective(**change: object) -> Json:
    """Return a spec with one objective on sends, with a change laid over it; None takes a field away."""
    whole = {
        "name": "sends",
        "indicator": "send_latency",
        "budgetingMethod": "Occurrences",
        "targetPercent": 99.5,
        "op": "lte",
        "value": 20,
    } | change
    return {"objectives": [{key: value for key, value in whole.items() if value is not None}]}


REFUSALS = (
    RefusedChange(
        "two controllers", "RocketMQCluster", {"controllers": {"replicas": 2}}, ("controllers.replicas", "2")
    ),
    *(
        RefusedChange(
            f"version {version}", "RocketMQCluster", {"version": version}, (version, "5.1.1 or newer")
        )
        for version in ("5.0.0", "5.0.12", "5.1.0")
    ),
    RefusedChange(
        "a controllers' volume that shrinks",
        "RocketMQCluster",
        {"controllers": {"storage": {"size": "9Gi"}}},
        ("storage.size", "10Gi", "9Gi"),
        update=True,
    ),
    *(
        RefusedChange(name, "RocketMQCluster", {"listeners": [{"name": "outside", **listener}]}, words)
        for name, listener, words in (
            ("an unknown kind of listener", {"type": "Ingress"}, ("type", "Ingress")),
            (
                "a listener with the name of the inside",
                {"name": "internal", "type": "LoadBalancer"},
                ("internal",),
            ),
            ("a listener whose name has a dash", {"name": "a-b", "type": "LoadBalancer"}, ("name", "a-b")),
            ("a listener of node ports without a host", {"type": "NodePort"}, ("outside", "advertisedHost")),
            (
                "an external listener without ports",
                {"type": "External", "advertisedHost": "a"},
                ("outside", "advertisedPort"),
            ),
            (
                "an external broker without a port",
                {
                    "type": "External",
                    "advertisedHost": "a",
                    "routeFront": {"advertisedPort": 1},
                    "brokers": [{"name": "orders-0"}],
                },
                ("outside", "advertisedPort"),
            ),
            (
                "a node port of a load balancer",
                {"type": "LoadBalancer", "brokers": [{"name": "orders-0", "nodePort": 30000}]},
                ("outside", "nodePort", "LoadBalancer"),
            ),
            (
                "source ranges of node ports",
                {"type": "NodePort", "advertisedHost": "a", "sourceRanges": ["192.0.2.0/24"]},
                ("outside", "sourceRanges", "NodePort"),
            ),
            (
                "an annotation of the operator's own",
                {"type": "LoadBalancer", "annotations": {"rocketmq-ha.dev/x": "y"}},
                ("outside", "annotations", "rocketmq-ha.dev"),
            ),
            (
                "a source range of another form",
                {"type": "LoadBalancer", "sourceRanges": ["everywhere"]},
                ("sourceRanges", "everywhere"),
            ),
        )
    ),
    RefusedChange("an unknown version", "RocketMQCluster", {"version": "4.9.4"}, ("version",)),
    RefusedChange(
        "an unknown place for proxies", "RocketMQCluster", {"proxy": {"mode": "Both"}}, ("mode", "Both")
    ),
    RefusedChange(
        "no proxy at all", "RocketMQCluster", {"proxy": {"mode": "Cluster", "replicas": 0}}, ("replicas", "0")
    ),
    RefusedChange(
        "a key of ours for proxies",
        "RocketMQCluster",
        {"proxy": {"config": {"grpcServerPort": "9000"}}},
        ("proxy.config.grpcServerPort",),
    ),
    RefusedChange("rights alone", "RocketMQCluster", {"authorization": {"type": "Simple"}}, ("Simple",)),
    RefusedChange("users before 5.3", "RocketMQCluster", _USERS | {"version": "5.2.0"}, ("5.2.0",)),
    RefusedChange(
        "two copies on one member",
        "BrokerGroup",
        {"replicas": 1},
        ("AllInSync", "replicas 1", "logReplicas 0"),
    ),
    *(RefusedChange(name, "BrokerGroup", change, words) for name, change, words in COPIES_CASES),
    RefusedChange("no broker", "BrokerGroup", {"replicas": 0}, ("replicas",)),
    RefusedChange(
        "a key of ours", "BrokerGroup", {"config": {"brokerRole": "SYNC_MASTER"}}, ("config.brokerRole",)
    ),
    RefusedChange(
        "access control",
        "BrokerGroup",
        {"config": {"aclEnable": "true"}},
        ("config.aclEnable", "access control"),
    ),
    RefusedChange(
        "a key that breaks failovers",
        "BrokerGroup",
        {"config": {"aKey": "1", "asyncLearner": "true"}},
        ("config.asyncLearner", "never elected"),
    ),
    RefusedChange("a cluster that is a path", "BrokerGroup", {"cluster": "../x"}, ("cluster", "../x")),
    RefusedChange("a topic in a cluster with a blank", "Topic", {"cluster": "a b"}, ("cluster", "a b")),
    RefusedChange("a control character", "BrokerGroup", {"config": {"aKey": "1\x7f"}}, ("config", "aKey")),
    RefusedChange("a second line", "BrokerGroup", {"config": {"aKey": "1\nother=2"}}, ("config", "aKey")),
    RefusedChange(
        "a log file of another length",
        "BrokerGroup",
        {"logFileMebibytes": 64},
        ("logFileMebibytes", "1024", "64"),
        update=True,
    ),
    RefusedChange(
        "a timeout of two beats",
        "BrokerGroup",
        {"failover": {"heartbeatIntervalMs": 600}},
        ("failover.heartbeatTimeoutMs", "1500", "1800"),
    ),
    RefusedChange(
        "another cluster", "BrokerGroup", {"cluster": "other"}, ("cluster", "main", "other"), update=True
    ),
    RefusedChange(
        "a volume that shrinks",
        "BrokerGroup",
        {"storage": {"size": "1000Mi"}},
        ("storage.size", "1Gi", "1000Mi"),
        update=True,
    ),
    RefusedChange(
        "another storage class",
        "BrokerGroup",
        {"storage": {"storageClassName": "fast"}},
        ("storageClassName", "the default", "fast"),
        update=True,
    ),
    RefusedChange("an invalid size", "BrokerGroup", {"storage": {"size": "-1Gi"}}, ("size",)),
    RefusedChange(
        "four fields", "SLOReport", {"schedule": "17 * * *"}, ("schedule", '"17 * * *"', "five fields")
    ),
    RefusedChange("a 61st minute", "SLOReport", {"schedule": "61 * * * *"}, ("schedule", "61 * * * *")),
    RefusedChange("a 25th hour", "SLOReport", {"schedule": "0 25 * * *"}, ("schedule", "0 25 * * *")),
    RefusedChange(
        "an eighth day of the week", "SLOReport", {"schedule": "0 0 * * 7"}, ("schedule", "0 0 * * 7")
    ),
    RefusedChange("a word for a schedule", "SLOReport", {"schedule": "@hourly"}, ("schedule", "@hourly")),
    RefusedChange("a window of half a day", "SLOReport", {"window": "36h"}, ("window", "36h", "whole days")),
    RefusedChange("a window without a unit", "SLOReport", {"window": "7"}, ("window is 7:",)),
    RefusedChange("a window of two years", "SLOReport", {"window": "105w"}, ("window", "105w", "366")),
    RefusedChange("no executor at all", "SLOReport", {"executors": 0}, ("executors", "0")),
    RefusedChange(
        "more executors than one volume feeds", "SLOReport", {"executors": 17}, ("executors", "17")
    ),
    RefusedChange("an unknown engine", "SLOReport", {"engine": "steam"}, ("engine", "steam")),
    RefusedChange("days kept by a word", "SLOReport", {"daily": "hourly"}, ("daily", "boolean")),
    RefusedChange("a path out of the volume", "SLOReport", {"source": {"path": "../other"}}, ("path",)),
    RefusedChange(
        "jobs that are gone at once",
        "SLOReport",
        {"successfulJobsHistoryLimit": 0},
        ("successfulJobsHistoryLimit",),
    ),
    RefusedChange("an unknown indicator", "SLOReport", objective(indicator="luck"), ("indicator", "luck")),
    RefusedChange(
        "the other method",
        "SLOReport",
        objective(budgetingMethod="Timeslices"),
        ("sends", "budgetingMethod is Timeslices", "send_latency is judged by Occurrences"),
    ),
    RefusedChange(
        "a threshold that is missing",
        "SLOReport",
        objective(value=None),
        ("sends", "send_latency needs op lte and a value"),
    ),
    RefusedChange(
        "the other side of the threshold",
        "SLOReport",
        objective(op="gte"),
        ("sends", "send_latency needs op lte and a value"),
    ),
    RefusedChange(
        "a threshold too many",
        "SLOReport",
        objective(indicator="durability"),
        ("sends", "durability has no op and no value"),
    ),
    RefusedChange(
        "slices of a counted objective",
        "SLOReport",
        objective(timeSliceWindow="10s"),
        ("sends", "timeSliceWindow is 10s", "only Timeslices"),
    ),
    RefusedChange(
        "a topic of another cluster", "Topic", {"cluster": "b"}, ("cluster", "main", "b"), update=True
    ),
    RefusedChange("a topic with a dot", "Topic", {"topicName": "a.b"}, ("topicName", '"a.b"', "letters")),
    RefusedChange("a topic of 128 characters", "Topic", {"topicName": "a" * 128}, ("topicName", "127")),
    RefusedChange(
        "the topic of new topics", "Topic", {"topicName": "TBW102"}, ("topicName is TBW102", "itself")
    ),
    RefusedChange("a topic of the brokers", "Topic", {"topicName": "rmq_sys_x"}, ("topicName is rmq_sys_x",)),
    RefusedChange("a topic for retries", "Topic", {"topicName": "%RETRY%g"}, ("topicName is %RETRY%g",)),
    RefusedChange("a topic of dead letters", "Topic", {"topicName": "%DLQ%g"}, ("topicName is %DLQ%g",)),
    RefusedChange(
        "a topic that is renamed",
        "Topic",
        {"topicName": "Other"},
        ("topicName cannot change from One to Other",),
        before={"topicName": "One"},
        update=True,
    ),
    RefusedChange(
        "a topic that gets a name of its own later",
        "Topic",
        {"topicName": "Other"},
        ("topicName cannot change from metadata.name to Other",),
        update=True,
    ),
    RefusedChange("no queue to read", "Topic", {"readQueues": 0}, ("readQueues", "0")),
    RefusedChange("too many queues", "Topic", {"writeQueues": 1025}, ("writeQueues", "1025")),
    RefusedChange("unread queues", "Topic", {"readQueues": 4}, ("writeQueues is 8 and readQueues is 4",)),
    RefusedChange("an unknown permission", "Topic", {"permission": "RWX"}, ("permission", "RWX")),
    RefusedChange("an unknown type of messages", "Topic", {"messageType": "MIXED"}, ("messageType", "MIXED")),
    RefusedChange(
        "the type of messages as an attribute",
        "Topic",
        {"attributes": {"message.type": "FIFO"}},
        ("attributes has message.type FIFO", "messageType"),
    ),
    RefusedChange(
        "an attribute that would be two",
        "Topic",
        {"attributes": {"reserve.time": "1,+message.type=FIFO"}},
        ("attributes has reserve.time", "1,+message.type=FIFO", "no comma"),
    ),
    RefusedChange(
        "an attribute with a sign",
        "Topic",
        {"attributes": {"+reserve.time": "1"}},
        ("attributes", "+reserve.time"),
    ),
    RefusedChange(
        "a consumer group of 121 characters", "ConsumerGroup", {"groupName": "g" * 121}, ("groupName", "120")
    ),
    RefusedChange(
        "a consumer group with a blank", "ConsumerGroup", {"groupName": "a b"}, ("groupName", '"a b"')
    ),
    RefusedChange(
        "a consumer group of RocketMQ's own",
        "ConsumerGroup",
        {"groupName": "TOOLS_CONSUMER"},
        ("groupName is TOOLS_CONSUMER", "itself"),
    ),
    RefusedChange(
        "a consumer group that is renamed",
        "ConsumerGroup",
        {"groupName": "other"},
        ("groupName cannot change from one to other",),
        before={"groupName": "one"},
        update=True,
    ),
    RefusedChange("less than no retry", "ConsumerGroup", {"retryMaxTimes": -1}, ("retryMaxTimes", "-1")),
    RefusedChange(
        "no time to consume", "ConsumerGroup", {"consumeTimeoutMinute": 0}, ("consumeTimeoutMinute", "0")
    ),
    RefusedChange(
        "a promise of more than all", "SLOReport", objective(targetPercent=100.5), ("targetPercent",)
    ),
)
ACCEPTED_CHANGES = (
    (
        "proxies of their own, with a setting",
        "RocketMQCluster",
        {"proxy": {"mode": "Cluster", "replicas": 3, "config": {"grpcThreadPoolNums": "8"}}},
    ),
    ("a volume that grows", "BrokerGroup", {"storage": {"size": "1100Mi"}}),
    ("more brokers", "BrokerGroup", {"replicas": 3}),
    ("more controllers", "RocketMQCluster", {"controllers": {"replicas": 5}}),
    (
        "the log file's default spelt out",
        "BrokerGroup",
        {"logFileMebibytes": 1024},
    ),
    (
        "a topic that takes transactions",
        "Topic",
        {"readQueues": 16, "messageType": "TRANSACTION", "attributes": {"reserve.time": "72"}},
    ),
    ("a topic in one broker group", "Topic", {"brokerGroups": ["orders"], "deletionPolicy": "Delete"}),
    ("a consumer group that is stopped", "ConsumerGroup", {"consumeEnable": False}),
    (
        "a schedule of lists, ranges, steps and names",
        "SLOReport",
        {"schedule": "*/15,7 0-6,22 1-15/2 JAN-jun mon-fri"},
    ),
    ("a window of weeks", "SLOReport", {"window": "52w"}),
    ("a window of hours", "SLOReport", {"window": "48h"}),
    ("a promise about sends", "SLOReport", objective()),
    (
        "a promise about writes",
        "SLOReport",
        objective(
            indicator="write_availability",
            budgetingMethod="Timeslices",
            op=None,
            value=None,
            timeSliceWindow="1s",
        ),
    ),
    (
        "a promise about members in sync",
        "SLOReport",
        objective(
            indicator="in_sync_ratio", budgetingMethod="Timeslices", op="gte", value=0.66, targetPercent=100
        ),
    ),
)
