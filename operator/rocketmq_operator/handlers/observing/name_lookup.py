"""Look up names before the first write of each.

A foreign object lacks our labels, and a list by labels does not show it.

That costs a call for each name and three lists, and only before a pass makes something: not while nothing
changes. Between the lookup and the write another client may take the name within milliseconds; server-side
apply has no "create only" mode.
"""

import asyncio
from collections.abc import Iterable

from rocketmq_operator.api.broker_group import BrokerGroupSpec
from rocketmq_operator.api.cluster import RocketMQClusterSpec
from rocketmq_operator.api.names import CERTIFICATE_KIND, CLUSTER_KIND, FAILOVER_KIND, GROUP_KIND, REPORT_KIND
from rocketmq_operator.clients.api import Json, KubeApi
from rocketmq_operator.handlers.observing.clusters_and_groups import InvalidSpecError, parse_spec
from rocketmq_operator.plan.cluster.observed import ObservedCluster
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.actions import ResourcePlan
from rocketmq_operator.plan.common.claimed_names import names_of_cluster, names_of_group, names_of_report
from rocketmq_operator.plan.common.listeners import with_services
from rocketmq_operator.plan.common.objects import ObjectKey, Owner, key_of
from rocketmq_operator.plan.common.ownership import OF_STATEFUL_SET, ClaimedNames, NameLookup, unknown_names
from rocketmq_operator.plan.group.observed import ObservedGroup
from rocketmq_operator.plan.report.observed import ObservedReport

ResourceWithChildren = ObservedCluster | ObservedGroup | ObservedReport


async def look_up_names(
    kube: KubeApi, observed: ResourceWithChildren, plan: ResourcePlan
) -> NameLookup | None:
    """Return the known objects plus those that already have the names the plan will write first.

    Return None if it writes no new name.

    Raises:
        PeerUnavailableError: the API server does not answer.
    """
    keys = _names_to_look_up(observed, plan)
    if not keys:
        return None
    namespace = observed.owner.namespace
    found, reserved = await asyncio.gather(
        asyncio.gather(*(kube.get(kind, namespace, name) for kind, name in sorted(keys))),
        _reserved(kube, observed.owner, keys),
    )
    live = {
        key: {"kind": key.kind} | one for key, one in zip(sorted(keys), found, strict=True) if one is not None
    }
    previous = observed.name_lookup
    return NameLookup(previous.asked | keys, {**previous.live, **live}, {**previous.reserved, **reserved})


def _names_to_look_up(observed: ResourceWithChildren, plan: ResourcePlan) -> frozenset[ObjectKey]:
    owner = observed.owner
    known = dict(observed.children)
    match observed:
        case ObservedGroup():
            listeners = [listener.name for listener in with_services(observed.cluster)]
            claim = names_of_group(owner.name, observed.spec, listeners)
            known |= _existing_pods(observed.pods)
            known |= {ObjectKey(FAILOVER_KIND.kind, name): {} for name in observed.records}
        case ObservedCluster():
            claim = names_of_cluster(owner.name, observed.spec)
            known |= _existing_pods(observed.pods)
            known |= {ObjectKey("PersistentVolumeClaim", name): {} for name in observed.claims}
            if observed.tls.issuing.problem is not None:
                # Kubernetes lacks this kind, or the operator may not read it.
                known |= {key: {} for key in claim.keys if key.kind == CERTIFICATE_KIND}
        case ObservedReport():
            claim = names_of_report(owner.name)
    return unknown_names(claim, plan, known, observed.name_lookup)


def _existing_pods(pods: Iterable[str]) -> dict[ObjectKey, Json]:
    """Return the existing pods and their volumes; a volume that a person restored may have no label."""
    found: dict[ObjectKey, Json] = {}
    for pod in pods:
        found |= {ObjectKey("Pod", pod): {}, ObjectKey("PersistentVolumeClaim", names.claim(pod)): {}}
    return found


async def _reserved(kube: KubeApi, owner: Owner, keys: frozenset[ObjectKey]) -> dict[ObjectKey, str]:
    """Return those of the names that an older resource of ours claims."""
    if all(kind in {FAILOVER_KIND.kind, *OF_STATEFUL_SET} for kind, _ in keys):
        return {}
    kinds = (CLUSTER_KIND.kind, GROUP_KIND.kind, REPORT_KIND.kind)
    lists = await asyncio.gather(*(kube.find(kind, owner.namespace, {}) for kind in kinds))
    every: list[Json] = [
        {"kind": kind} | one for kind, found in zip(kinds, lists, strict=True) for one in found
    ]
    own_age = next((_age(one) for one in every if one["metadata"]["uid"] == owner.uid), None)
    reserved: dict[ObjectKey, str] = {}
    for one in every:
        if own_age is None or _age(one) >= own_age or "deletionTimestamp" in one["metadata"]:
            continue
        theirs = _names_of_resource(one).keys & keys
        reserved |= dict.fromkeys(theirs, " ".join(key_of(one)))
    return reserved


def _age(resource: Json) -> tuple[str, str]:
    """Return what orders resources by age; of two that were made within a second, their UIDs decide."""
    metadata = resource["metadata"]
    return metadata.get("creationTimestamp") or "", metadata["uid"]


def _names_of_resource(resource: Json) -> ClaimedNames:
    """Return what a resource claims; nothing where its spec is invalid, as nothing is made for it."""
    name = resource["metadata"]["name"]
    try:
        if resource["kind"] == CLUSTER_KIND.kind:
            return names_of_cluster(name, parse_spec(RocketMQClusterSpec, resource))
        if resource["kind"] == GROUP_KIND.kind:
            return names_of_group(name, parse_spec(BrokerGroupSpec, resource))
    except InvalidSpecError:
        return ClaimedNames(frozenset(), {})
    return names_of_report(name)
