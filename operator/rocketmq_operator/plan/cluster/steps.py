"""The plan of a RocketMQCluster: make its children what the spec says, and remove what it no longer asks for.

That is the Services of pods that are gone, and all that belongs to proxies when there are none any more. Pods that an earlier spec broke are
replaced before anything that may have to wait (`controller_rolling.mend`). Who the controllers are comes last
(`controller_members`, then `controller_rolling`): it may wait for long, and nothing else has to wait with it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from rocketmq_operator.api.names import COMPONENT_LABEL
from rocketmq_operator.api.proxy import ProxyMode
from rocketmq_operator.plan.cluster.children import cluster_children, controller_set
from rocketmq_operator.plan.cluster.controller_members import course, peers_listed, why_needed
from rocketmq_operator.plan.cluster.controller_rolling import mend, roll
from rocketmq_operator.plan.cluster.proxies import PROXY, hosts_needed, proxy_children, proxy_deployment
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.actions import NOTHING, Delete, Plan, Wait, child_steps, first_of
from rocketmq_operator.plan.common.claimed_names import cluster_claim
from rocketmq_operator.plan.common.objects import Json, Live, ObjectKey, belongs_to, key_of
from rocketmq_operator.plan.common.ownership import taken
from rocketmq_operator.plan.group.observed import ObservedCluster, cluster_ip
from rocketmq_operator.plan.group.rolling import of_older_revision
from rocketmq_operator.plan.pods.lost_members import free_lost

_CLAIM_KEYS: Final = ("accessModes", "resources", "storageClassName")
PAUSED = Wait("Paused", "spec.paused is true: nothing is changed")


def cluster_plan(observed: ObservedCluster) -> Plan:
    """Return what is to be done for a cluster."""
    if observed.spec.paused:
        return Plan((), PAUSED)
    owner, spec = observed.owner, observed.spec
    claims = {ObjectKey("PersistentVolumeClaim", name): live for name, live in observed.claims.items()}
    known = {**observed.children, **claims}
    if (wait := taken(owner, cluster_claim(owner.name, spec), known, observed.looked_up)) is not None:
        return Plan((), wait)
    members = course(observed)
    peers = peers_listed(observed, members.replicas)
    wanted = (*cluster_children(owner, spec, observed.token, peers), *proxy_children(owner, spec))
    return first_of(
        (
            child_steps(owner, wanted, observed.children),
            _controller_set(observed, members.replicas),
            _proxies(observed),
            _leftovers(observed, wanted),
            mend(observed),
            _mend_name_servers(observed),
            _lost(observed),
            members.plan,
            roll(observed),
        )
    )


def _controller_set(observed: ObservedCluster, replicas: int) -> Plan:
    """Make the controllers' StatefulSet once all addresses are known: pods made without them would be replaced at once."""
    owner = observed.owner
    hosts = _known(observed, names.controller_hosts(owner.name, owner.namespace))
    if (wait := unknown_address(hosts)) is not None:
        return Plan((), wait)
    body = controller_set(owner, observed.spec, replicas, hosts)
    return child_steps(owner, [keeping_claims(body, observed.children.get(key_of(body)))], observed.children)


def _mend_name_servers(observed: ObservedCluster) -> Plan:
    """Replace name servers of an older revision that do not serve.

    Why not leave it to their StatefulSet: it goes from the last to the first, and stops at one that is not ready for whatever reason.
    Proxies are left to their Deployment, which removes pods of an older revision that are not ready first.
    """
    live = observed.children.get(ObjectKey("StatefulSet", names.name_servers(observed.owner.name)))
    outdated = of_older_revision(live, observed.name_server_pods.values())
    idle = [pod for pod in outdated if not pod.ready and not pod.deleting]
    return Plan(tuple(Delete(ObjectKey("Pod", pod.name), pod.uid, "older revision") for pod in idle))


def _lost(observed: ObservedCluster) -> Plan:
    """Free controllers from nodes that are gone for good; one that comes back empty is added anew."""

    def needed(name: str) -> str:
        return why_needed(observed, name)

    asked = observed.spec.controllers.lost_members
    return free_lost(observed.pods, observed.claims, asked, observed.now, needed)


def _proxies(observed: ObservedCluster) -> Plan:
    """Make the proxies' Deployment, the first time when a broker is there that they can start with."""
    owner, spec = observed.owner, observed.spec
    if spec.proxy.mode is not ProxyMode.CLUSTER:
        return NOTHING
    key = ObjectKey("Deployment", names.proxies(owner.name))
    if key not in observed.children and not observed.brokers_ready:
        return NOTHING
    hosts = _known(observed, hosts_needed(owner, spec))
    if (wait := unknown_address(hosts)) is not None:
        return Plan((), wait)
    return child_steps(owner, [proxy_deployment(owner, spec, hosts)], observed.children)


def unknown_address(hosts: Mapping[str, str]) -> Wait | None:
    """Say which Service is waited for, None if the address of every host is known.

    Args:
        hosts: address by DNS name of a pod; empty where it is not known.
    """
    unknown = [names.pod_of(host) for host, address in hosts.items() if not address]
    return no_address(unknown[0]) if unknown else None


def no_address(service: str) -> Wait:
    """Say that a Service is waited for."""
    return Wait("NoAddress", f"Service {service} has no ClusterIP yet")


def _known(observed: ObservedCluster, hosts: Iterable[str]) -> dict[str, str]:
    """Return ClusterIP by DNS name of a pod; empty where there is none yet."""
    services = {host: observed.children.get(ObjectKey("Service", names.pod_of(host))) for host in hosts}
    return {host: "" if live is None else cluster_ip(live) for host, live in services.items()}


def _leftovers(observed: ObservedCluster, wanted: Sequence[Json]) -> Plan:
    kept = set(map(key_of, wanted))
    if observed.spec.proxy.mode is ProxyMode.CLUSTER:
        kept.add(ObjectKey("Deployment", names.proxies(observed.owner.name)))
    gone = []
    for key, live in sorted(observed.children.items()):
        is_proxys = live["metadata"].get("labels", {}).get(COMPONENT_LABEL) == PROXY
        if key not in kept and (key.kind == "Service" or is_proxys) and belongs_to(live, observed.owner):
            why = "no proxy needs it" if is_proxys else "member is gone"
            gone.append(Delete(key, live["metadata"].get("uid", ""), why))
    return Plan(tuple(gone))


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
