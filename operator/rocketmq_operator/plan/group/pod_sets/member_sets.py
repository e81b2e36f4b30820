"""The StatefulSets of a group: what brokers, log replicas and learners have in common."""

from collections.abc import Mapping
from dataclasses import dataclass

from rocketmq_operator.api.broker_group import BrokerGroupSpec
from rocketmq_operator.api.common import DeletionPolicy, Placement
from rocketmq_operator.api.pods.storage import GroupStorage
from rocketmq_operator.plan.common import parts
from rocketmq_operator.plan.common.objects import Json, Owner, belonging_labels, child, selector_labels
from rocketmq_operator.plan.common.shaping.shaped import PodShape, shaped
from rocketmq_operator.plan.group.pod_sets.containers import LOG_REPLICA
from rocketmq_operator.plan.pods.volumes import claim_templates, with_volumes
from rocketmq_operator.plan.tls.clients import (
    ClientsStage,
    annotated,
    group_entry,
    with_certificate,
    without_dialling,
)


@dataclass(frozen=True, slots=True)
class PodSet:
    """One StatefulSet of a group.

    Attributes:
        name: its name.
        component: what its pods are.
        instance: tells its pods from those of the group's other sets of the same component.
        storage: the volumes of each pod.
        placement: where its pods run.
        shape: a person's wishes for its pods.
    """

    name: str
    component: str
    instance: str
    storage: GroupStorage
    placement: Placement
    shape: PodShape

    def labels(self, owner: Owner, spec: BrokerGroupSpec) -> dict[str, str]:
        """Return the labels of the set and its pods."""
        return selector_labels(self.component, self.instance) | belonging_labels(spec.cluster, owner.name)

    @property
    def are_brokers(self) -> bool:
        """Whether the pods are brokers, and not log replicas."""
        return self.component != LOG_REPLICA


def member_pod(owner: Owner, container: Json, user: int, hosts: Mapping[str, str]) -> Json:
    """Return the spec of a pod around its main container; `hosts` are ClusterIPs by DNS name."""
    return {
        "automountServiceAccountToken": False,
        "securityContext": parts.pod_security(user),
        "terminationGracePeriodSeconds": parts.GRACE_S,
        "dnsConfig": parts.QUICK_DNS,
        "hostAliases": parts.host_aliases(hosts),
        "containers": [container],
        "volumes": parts.volumes(owner.name),
    }


def stateful_set(
    owner: Owner,
    spec: BrokerGroupSpec,
    pod_set: PodSet,
    replicas: int,
    pod: Json,
    configuration: str,
    stage: ClientsStage = ClientsStage.DISABLED,
) -> Json:
    """Return a StatefulSet whose pods only the operator restarts.

    Args:
        owner: the BrokerGroup.
        spec: its spec.
        pod_set: the set.
        replicas: how many pods.
        pod: their spec.
        configuration: digest of what they read when they start.
        stage: how far TLS with clients is.
    """
    pod = with_certificate(pod, spec.cluster, group_entry(owner.name), stage)
    labels = pod_set.labels(owner, spec)
    apart_from = belonging_labels(spec.cluster, owner.name)
    brokers, storage = pod_set.are_brokers, pod_set.storage
    pod = with_volumes(pod, storage, brokers=brokers)
    claims = claim_templates(storage, apart_from, brokers=brokers)
    placed = parts.with_placement(pod, pod_set.placement, apart_from)
    template = parts.pod_template(labels, configuration, placed)
    seen = stage if brokers else without_dialling(stage)
    when_deleted = "Delete" if spec.deletion_policy is DeletionPolicy.DELETE else "Retain"
    return child(
        owner,
        "StatefulSet",
        pod_set.name,
        labels=labels,
        spec={
            "serviceName": owner.name,
            "replicas": replicas,
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "OnDelete"},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": when_deleted, "whenScaled": "Retain"},
            "selector": {"matchLabels": selector_labels(pod_set.component, pod_set.instance)},
            "template": shaped(annotated(template, seen), pod_set.shape),
            **({"volumeClaimTemplates": claims} if claims else {}),
        },
    )
