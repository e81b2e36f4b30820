"""The plan of a RocketMQCluster: make its children what the spec says. Kubernetes does the rest by itself."""

from typing import Final

from rocketmq_operator.plan.actions import Plan, Wait, child_steps
from rocketmq_operator.plan.cluster_children import cluster_children
from rocketmq_operator.plan.objects import Json, Live, key_of
from rocketmq_operator.plan.observed import ObservedCluster

_CLAIM_KEYS: Final = ("accessModes", "resources", "storageClassName")
PAUSED = Wait("Paused", "spec.paused is true: nothing is changed")


def cluster_plan(observed: ObservedCluster) -> Plan:
    """Return what is to be done for a cluster."""
    if observed.spec.paused:
        return Plan((), PAUSED)
    wanted = [
        keeping_claims(body, observed.children.get(key_of(body)))
        for body in cluster_children(observed.owner, observed.spec, observed.token)
    ]
    return child_steps(observed.owner, wanted, observed.children)


def keeping_claims(body: Json, live: Live | None) -> Json:
    """Return a StatefulSet with the claims that it was made with, which Kubernetes does not let change.

    Volumes grow by their own claims; only claims of later members follow the first template.
    """
    if live is None or "volumeClaimTemplates" not in body.get("spec", {}):
        return body
    templates = [
        {
            "metadata": _picked(claim["metadata"], "name", "labels"),
            "spec": _picked(claim["spec"], *_CLAIM_KEYS),
        }
        for claim in live["spec"]["volumeClaimTemplates"]
    ]
    return body | {"spec": body["spec"] | {"volumeClaimTemplates": templates}}


def _picked(value: Live, *keys: str) -> Json:
    """Return these keys only, without what the API server added."""
    return {key: value[key] for key in keys if key in value}
