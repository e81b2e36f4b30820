"""The CustomResourceDefinitions, generated from the models.

Printer columns come from the status: a column that shows the spec tells people what they typed; only the
schedule of an `SLOReport` is nowhere else. `kubectl scale` of a `BrokerGroup` changes its brokers, that of a
`RocketMQCluster` its proxies.
"""

from collections.abc import Sequence
from typing import Any, Final

import yaml
from pydantic import BaseModel

from rocketmq_operator.api.access.user import OWN_USER_PREFIX, USERNAME_LENGTH_MAX, UserSpec, UserStatus
from rocketmq_operator.api.broker_group import BrokerGroupSpec, BrokerGroupStatus
from rocketmq_operator.api.cluster import RocketMQClusterSpec, RocketMQClusterStatus
from rocketmq_operator.api.common import CLUSTER_NAME_PATTERN
from rocketmq_operator.api.conditions import NOT_OBSERVED
from rocketmq_operator.api.consumer_group import GROUP_LENGTH_MAX, ConsumerGroupSpec
from rocketmq_operator.api.definitions.schema import structural_schema
from rocketmq_operator.api.failover import FailoverSpec, FailoverStatus
from rocketmq_operator.api.metadata import MetadataStatus
from rocketmq_operator.api.names import (
    CATEGORY,
    CLUSTER_KIND,
    CONSUMER_GROUP_KIND,
    FAILOVER_KIND,
    GROUP,
    GROUP_KIND,
    REPORT_KIND,
    TOPIC_KIND,
    USER_KIND,
    VERSION,
    KindNames,
)
from rocketmq_operator.api.rules import VALIDATIONS_KEY
from rocketmq_operator.api.slo_report import SLOReportSpec, SLOReportStatus
from rocketmq_operator.api.topic import TOPIC_LENGTH_MAX, TopicSpec

Json = dict[str, Any]
OBJECT_NAME_LENGTH_MAX: Final = 40
"""Leaves room for `-controllers-0` and for the hash that a StatefulSet adds to its name in a label of 63
characters."""
_READY: Final = '.status.conditions[?(@.type=="Ready")].status'
_NAME_RULE: Final = {
    "rule": f"size(self.metadata.name) <= {OBJECT_NAME_LENGTH_MAX} && "
    f"self.metadata.name.matches('{CLUSTER_NAME_PATTERN}')",
    "message": f"metadata.name: at most {OBJECT_NAME_LENGTH_MAX} letters, digits and '-', beginning with a "
    "letter",
    "messageExpression": f"'metadata.name is ' + self.metadata.name + ': at most {OBJECT_NAME_LENGTH_MAX} "
    "letters, digits and -, beginning with a letter, because services carry it'",
    "reason": "FieldValueInvalid",
}
_GROUP_NAME_RULE: Final = {
    "rule": "self.metadata.name != self.spec.cluster + '-controller' && self.metadata.name != "
    "self.spec.cluster + '-nameserver' && self.metadata.name != self.spec.cluster + '-proxy' && "
    "!((self.metadata.name.startsWith(self.spec.cluster + '-controller-') || "
    "self.metadata.name.startsWith(self.spec.cluster + '-nameserver-')) && "
    "self.metadata.name.matches('-[0-4]$'))",
    "message": "metadata.name: not that of an object of its cluster, such as <cluster>-controller, "
    "<cluster>-nameserver, <cluster>-proxy",
    "messageExpression": "'metadata.name is ' + self.metadata.name + ': cluster ' + self.spec.cluster + ' "
    "has objects of that name'",
    "reason": "FieldValueInvalid",
}
_OWN_USER_RULE: Final = {
    "rule": f"has(self.spec.username) || !self.metadata.name.startsWith('{OWN_USER_PREFIX}')",
    "message": f"metadata.name: not {OWN_USER_PREFIX}, or spec.username",
    "messageExpression": "'metadata.name is ' + self.metadata.name + ': the operator has users with names "
    "like this for itself; write spec.username'",
    "reason": "FieldValueInvalid",
}


def custom_resource_definitions() -> tuple[Json, ...]:
    """Return all definitions, ready to be applied."""
    return (
        _definition(
            CLUSTER_KIND,
            (RocketMQClusterSpec, RocketMQClusterStatus),
            columns=(
                _column("Ready", _READY),
                _column("Leader", ".status.leader"),
                _column("Controllers", ".status.controllers"),
                _column("Name-Servers", ".status.nameServers"),
                _column("Version", ".status.version"),
                _column("Reason", ".status.reason"),
                _column("Term", ".status.term", "integer", priority=1),
                _column("Proxies", ".status.proxies", priority=1),
                _column("Listeners", ".status.addresses", priority=1),
                _AGE,
            ),
            rules=(_NAME_RULE,),
            scale={
                "specReplicasPath": ".spec.proxy.replicas",
                "statusReplicasPath": ".status.proxyReplicas",
                "labelSelectorPath": ".status.proxySelector",
            },
        ),
        _definition(
            GROUP_KIND,
            (BrokerGroupSpec, BrokerGroupStatus),
            columns=(
                _column("Ready", _READY),
                _column("Master", ".status.master.name"),
                _column("In-Sync", ".status.inSync"),
                _column("Epoch", ".status.master.epoch", "integer"),
                _column("Version", ".status.version"),
                _column("Reason", ".status.reason"),
                _column("Waiting-For", ".status.plan.waitingFor", priority=1),
                _column("Last-Failover", ".status.lastFailover", priority=1),
                _AGE,
            ),
            rules=(_NAME_RULE, _GROUP_NAME_RULE),
            scale={
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        ),
        _failover_definition(),
        _report_definition(),
        _metadata_definition(TOPIC_KIND, (TopicSpec, MetadataStatus), "topicName", TOPIC_LENGTH_MAX),
        _metadata_definition(
            CONSUMER_GROUP_KIND, (ConsumerGroupSpec, MetadataStatus), "groupName", GROUP_LENGTH_MAX
        ),
        _metadata_definition(
            USER_KIND,
            (UserSpec, UserStatus),
            "username",
            USERNAME_LENGTH_MAX,
            columns=(_column("Secret", ".status.binding.name"),),
            rules=(_OWN_USER_RULE,),
        ),
    )


def _failover_definition() -> Json:
    return _definition(
        FAILOVER_KIND,
        (FailoverSpec, FailoverStatus),
        columns=(
            _column("Group", ".spec.group"),
            _column("Cause", ".spec.cause"),
            _column("From", ".spec.from"),
            _column("To", ".spec.to"),
            _column("Gap", ".status.writeGap"),
            _column("Lost", ".status.lostMessages", "integer"),
            _column("Took", ".status.took", priority=1),
            _column("Re-Election", ".spec.reelection", "boolean", priority=1),
            _AGE,
        ),
    )


def to_yaml(definition: Json) -> str:
    """Return one definition as the text of a file: the same bytes each time."""
    text: str = yaml.safe_dump(definition, sort_keys=False, width=120, allow_unicode=True)
    return "# Generated by `rocketmq-operator crds`; change the models instead.\n" + text


def file_name(definition: Json) -> str:
    """Return the name of a definition's file below crds/."""
    return f"{definition['metadata']['name']}.yaml"


def _report_definition() -> Json:
    return _definition(
        REPORT_KIND,
        (SLOReportSpec, SLOReportStatus),
        columns=(
            _column("Schedule", ".spec.schedule"),
            _column("Attained", ".status.attained"),
            _column("Budget", ".status.budgetLeft"),
            _column("Last-Run", ".status.lastRun", "date"),
            _column("Page", ".status.address"),
            _column("Reason", ".status.reason"),
            _column("Result", ".status.lastResult", priority=1),
            _AGE,
        ),
        rules=(_NAME_RULE,),
    )


def _metadata_definition(
    names: KindNames,
    models: tuple[type[BaseModel], type[BaseModel]],
    field: str,
    length_max: int,
    *,
    columns: Sequence[Json] = (),
    rules: Sequence[Json] = (),
) -> Json:
    """Return the definition of a kind whose objects stand for entries of brokers' tables.

    An object's own name or a field of it names the entry.
    """
    rule = {
        "rule": f"has(self.spec.{field}) || (size(self.metadata.name) <= {length_max} && "
        "!self.metadata.name.contains('.'))",
        "message": f"metadata.name: at most {length_max} characters and no dot, or spec.{field}",
        "messageExpression": "'metadata.name is ' + self.metadata.name + ': RocketMQ takes at most "
        f"{length_max} characters and no dot; write spec.{field}'",
        "reason": "FieldValueInvalid",
    }
    return _definition(
        names,
        models,
        columns=(
            _column("Ready", _READY),
            _column("Name-In-Brokers", ".status.name"),
            _column("In-Sync", ".status.inSync"),
            *columns,
            _column("Reason", ".status.reason"),
            _column("Last-Corrected", ".status.lastCorrected", "date"),
            _column("Correction", ".status.lastCorrection", priority=1),
            _AGE,
        ),
        rules=(rule, *rules),
    )


def _definition(
    names: KindNames,
    models: tuple[type[BaseModel], type[BaseModel]],
    *,
    columns: Sequence[Json],
    rules: Sequence[Json] = (),
    scale: Json | None = None,
) -> Json:
    spec, status = models
    schema: Json = {
        "type": "object",
        "description": _summary(names.kind),
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": structural_schema(spec, defaults=True),
            "status": _status_schema(status),
        },
    }
    if rules:
        schema[VALIDATIONS_KEY] = [dict(rule) for rule in rules]
    version: Json = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [dict(column) for column in columns],
        "subresources": {"status": {}} | ({"scale": scale} if scale else {}),
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": names.kind,
                "listKind": f"{names.kind}List",
                "plural": names.plural,
                "singular": names.singular,
                "shortNames": [names.short],
                "categories": [CATEGORY],
            },
            "versions": [version],
        },
    }


def _status_schema(status: type[BaseModel]) -> Json:
    """Return the schema of a status, which new objects have with an observed generation of -1.

    Tools would take an object without a status for one that is ready (kstatus: no condition is Current).
    """
    schema = structural_schema(status, defaults=False)
    if "observedGeneration" in schema["properties"]:
        schema["default"] = {"observedGeneration": NOT_OBSERVED}
    return schema


def _summary(kind: str) -> str:
    return {
        CLUSTER_KIND.kind: "Name servers and controllers that the broker groups of a namespace share.",
        GROUP_KIND.kind: "Brokers with the same log, one of them the master, and log replicas beside them.",
        FAILOVER_KIND.kind: "The record of one change of master, made by the operator.",
        TOPIC_KIND.kind: "A topic, kept as written here in the brokers of a cluster.",
        CONSUMER_GROUP_KIND.kind: "A consumer group, kept as written here in the brokers of a cluster.",
        USER_KIND.kind: "A user with its rights, kept as written here in the brokers of a cluster.",
        REPORT_KIND.kind: "A report of objectives and failovers, made again and again from what the "
        "collector measured.",
    }[kind]


def _column(name: str, path: str, type_: str = "string", *, priority: int = 0) -> Json:
    column: Json = {"name": name, "type": type_, "jsonPath": path}
    return column | ({"priority": priority} if priority else {})


_AGE: Final = _column("Age", ".metadata.creationTimestamp", "date")
