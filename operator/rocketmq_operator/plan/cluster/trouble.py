"""Why members of a RocketMQCluster are not as asked: controllers, name servers and proxies."""

from rocketmq_operator.api.proxy import ProxyMode
from rocketmq_operator.plan.cluster.observed import ObservedCluster
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.objects import Live, ObjectKey
from rocketmq_operator.plan.pods.events import without_use
from rocketmq_operator.plan.pods.member_trouble import (
    MemberSet,
    MemberTrouble,
    NeededMembers,
    shortened,
    troubles_of,
)
from rocketmq_operator.plan.pods.trouble import PodTrouble


def cluster_troubles(observed: ObservedCluster) -> tuple[MemberTrouble, ...]:
    """Return the troubles of a cluster's members, in the order of their names; proxies come last, as one."""
    proxies = _proxies_trouble(observed)
    return (*troubles_of(cluster_members(observed)), *(() if proxies is None else (proxies,)))


def cluster_members(observed: ObservedCluster) -> NeededMembers:
    """Return the controllers and name servers that the spec asks for, with their pods and claims."""
    controllers, name_servers = (
        names.controllers(observed.owner.name),
        names.name_servers(observed.owner.name),
    )
    spec = observed.spec
    controller_count = 0 if spec.controllers.ref else spec.controllers.replicas
    name_server_count = 0 if spec.name_servers.external else spec.name_servers.replicas
    sets = (
        MemberSet(
            observed.children.get(ObjectKey("StatefulSet", controllers)),
            [names.member(controllers, number) for number in range(controller_count)],
            observed.pods,
            observed.claims,
        ),
        MemberSet(
            observed.children.get(ObjectKey("StatefulSet", name_servers)),
            [names.member(name_servers, number) for number in range(name_server_count)],
            observed.name_server_pods,
            {},
            rolled_by_kubernetes=True,
        ),
    )
    return NeededMembers(observed.now, sets, observed.events)


def proxies_lack_pods(observed: ObservedCluster) -> bool:
    """Tell whether the proxies' Deployment lacks pods that are ready and of the newest spec."""
    live = _deployment(observed)
    if observed.spec.proxy.mode is not ProxyMode.CLUSTER or live is None:
        return False
    status, wanted = live.get("status", {}), observed.spec.proxy.replicas
    # The API server leaves a count of 0 out.
    updated = status.get("updatedReplicas", 0 if "observedGeneration" in status else wanted)
    lacks = (
        status.get("readyReplicas", 0) < wanted or updated < wanted or bool(status.get("unavailableReplicas"))
    )
    return lacks or any(map(_is_failure, status.get("conditions", [])))


def _proxies_trouble(observed: ObservedCluster) -> MemberTrouble | None:
    if not proxies_lack_pods(observed):
        return None
    name, status = names.proxies(observed.owner.name), (_deployment(observed) or {}).get("status", {})
    failure = next((one for one in status.get("conditions", []) if _is_failure(one)), None)
    if failure is not None:
        why = without_use(str(failure.get("message", ""))).partition(" is forbidden: ")
        return MemberTrouble(name, shortened("FailedCreate", f"forbidden: {why[2]}" if why[2] else why[0]))
    pods = [observed.proxy_pods[pod] for pod in sorted(observed.proxy_pods)]
    known = sorted({pod.trouble for pod in pods if pod.trouble is not None}, key=str)
    if known:
        return MemberTrouble(name, known[0])
    ready, wanted = status.get("readyReplicas", 0), observed.spec.proxy.replicas
    if ready >= wanted:
        return MemberTrouble(name, PodTrouble("RollingOut", "some pods are of an older revision"))
    return MemberTrouble(name, PodTrouble("MemberNotReady", f"{ready} of {wanted} pods are ready"))


def _is_failure(condition: Live) -> bool:
    return condition.get("type") == "ReplicaFailure" and condition.get("status") == "True"


def _deployment(observed: ObservedCluster) -> Live | None:
    return observed.children.get(ObjectKey("Deployment", names.proxies(observed.owner.name)))
