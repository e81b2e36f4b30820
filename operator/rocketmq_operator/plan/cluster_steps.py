"""The plan of a RocketMQCluster: make its children what the spec says. Kubernetes does the rest by itself."""

from rocketmq_operator.plan.actions import Plan, Wait, child_steps
from rocketmq_operator.plan.cluster_children import cluster_children
from rocketmq_operator.plan.objects import Json, Live, key_of
from rocketmq_operator.plan.observed import ObservedCluster

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
    if body["kind"] != "StatefulSet" or live is None:
        return body
    templates = [
        {"metadata": {"name": claim["metadata"]["name"]}, "spec": _claim_spec(claim["spec"])}
        for claim in live["spec"]["volumeClaimTemplates"]
    ]
    return body | {"spec": body["spec"] | {"volumeClaimTemplates": templates}}


def _claim_spec(spec: Live) -> Json:
    """Return a claim without what the API server added."""
    return {key: spec[key] for key in ("accessModes", "resources", "storageClassName") if key in spec}
