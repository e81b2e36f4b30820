"""The status of a RocketMQCluster."""

from collections.abc import Sequence
from typing import Final

from rocketmq_operator.api.cluster import RocketMQClusterStatus
from rocketmq_operator.api.conditions import Finding, make_finding, merge_findings
from rocketmq_operator.api.proxy import ProxyMode
from rocketmq_operator.plan.cluster import controllers_status
from rocketmq_operator.plan.cluster.client_tls import certificate_secrets, why_not_issued
from rocketmq_operator.plan.cluster.controller_members import CHANGES
from rocketmq_operator.plan.cluster.controller_settings import settings_finding
from rocketmq_operator.plan.cluster.listeners import (
    addresses_column,
    listener_statuses,
    listeners_finding,
)
from rocketmq_operator.plan.cluster.observed import ObservedCluster
from rocketmq_operator.plan.cluster.observed_pods import observed_mode, pod_refusal, rotation
from rocketmq_operator.plan.cluster.proxies import proxy_selector
from rocketmq_operator.plan.cluster.shared_controllers import IN_USE, deletion_finding
from rocketmq_operator.plan.cluster.trouble import cluster_troubles
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.actions import ResourcePlan
from rocketmq_operator.plan.common.shaping.shaped import REFUSED, accepted_finding
from rocketmq_operator.plan.credentials.rotation import rotation_finding
from rocketmq_operator.plan.pods.health import health_findings
from rocketmq_operator.plan.pods.member_trouble import MemberTrouble
from rocketmq_operator.plan.pods.progress import (
    observed_generation,
    paused_finding,
    progressing,
    reason_column,
    with_causes,
)
from rocketmq_operator.plan.tls.controllers import TlsMode
from rocketmq_operator.plan.tls.status import certificates_finding

KNOWN_BROKEN: Final = {
    "5.1.2": "brokers of 5.1.2 do not start with controllers",
    "5.3.2": "slaves of 5.3.2 empty their topic table, so that topics are gone after a failover",
    "5.3.3": "slaves of 5.3.3 empty their topic table, so that topics are gone after a failover",
}


def cluster_status(observed: ObservedCluster, plan: ResourcePlan) -> RocketMQClusterStatus:
    """Return the status of a cluster."""
    name = observed.owner.name
    controllers = _ready(observed, names.controllers(name))
    name_servers = _ready(observed, names.name_servers(name))
    proxies = _ready(observed, names.proxies(name))
    has_proxy_pods = observed.spec.proxy.mode is ProxyMode.CLUSTER
    wanted, external = observed.spec.controllers.replicas, observed.spec.name_servers.external
    has_own_controllers = observed.spec.controllers.ref is None
    troubles = cluster_troubles(observed)
    listeners = listener_statuses(observed)
    works_for = [
        _cluster_ready(observed, plan, (controllers, name_servers), troubles),
        controllers_status.quorum_finding(observed, plan, controllers, troubles),
        _proxy_ready(observed, proxies, troubles),
        listeners_finding(listeners, {one.name for one in observed.spec.listeners if one.serves_grpc}),
    ]
    progress = progressing(plan, troubles, works_for)
    findings = [
        *works_for,
        _certificates(observed),
        *([rotation_finding(rotation(observed).state)] if observed.spec.has_users else []),
        settings_finding(observed),
        progress,
        *health_findings(works_for[0], progress, paused=observed.spec.paused),
        _version_finding(observed.spec.version),
        accepted_finding(pod_refusal(observed)),
        paused_finding(paused=observed.spec.paused),
        *([] if (held := deletion_finding(observed.sharing, observed.users)) is None else [held]),
    ]
    conditions = merge_findings(
        observed.status.conditions, findings, generation=observed.generation, now=observed.now
    )
    return RocketMQClusterStatus(
        observed_generation=observed_generation(
            observed.status.observed_generation, observed.generation, plan
        ),
        conditions=conditions,
        version=observed.spec.version,
        leader=observed.controllers.leader if observed.controllers else "",
        term=observed.controllers.term if observed.controllers else 0,
        controllers=f"{controllers}/{wanted}" if has_own_controllers else "",
        controllers_of="" if has_own_controllers else str(observed.sharing.home),
        controllers_used_by=observed.users,
        members=controllers_status.controller_statuses(observed) if has_own_controllers else (),
        name_servers=f"{len(external)} external"
        if external
        else f"{name_servers}/{observed.spec.name_servers.replicas}",
        proxies=f"{proxies}/{observed.spec.proxy.replicas}" if has_proxy_pods else "",
        proxy_replicas=_count(observed, names.proxies(name), "replicas"),
        proxy_selector=proxy_selector(observed.owner) if has_proxy_pods else "",
        issuer=_issuer(observed),
        listeners=listeners,
        addresses=addresses_column(listeners),
        reason=reason_column(works_for[0], plan, troubles),
    )


def _ready(observed: ObservedCluster, name: str) -> int:
    return _count(observed, name, "readyReplicas")


def _count(observed: ObservedCluster, name: str, which: str) -> int:
    """Return a number of the status of a StatefulSet or Deployment, 0 if no such object exists."""
    for key, live in observed.children.items():
        if key.kind in {"StatefulSet", "Deployment"} and key.name == name:
            return int(live.get("status", {}).get(which, 0))
    return 0


def _cluster_ready(
    observed: ObservedCluster, plan: ResourcePlan, ready: tuple[int, int], troubles: Sequence[MemberTrouble]
) -> Finding:
    controllers, name_servers = ready
    if observed.spec.paused and observed.controllers is None:
        return make_finding("Ready", holds=None, reason="Paused", message="spec.paused is true")
    has_leader = observed.controllers is not None and bool(observed.controllers.leader)
    harmless = {"Paused", IN_USE, *CHANGES, *([REFUSED] if has_leader else [])}
    if plan.wait is not None and plan.wait.reason not in harmless:
        return make_finding("Ready", holds=False, reason=plan.wait.reason, message=plan.wait.message)
    if observed.controllers is None or not observed.controllers.leader:
        text = with_causes("no controller knows of a leader", troubles)
        return make_finding("Ready", holds=False, reason="NoQuorum", message=text)
    external = observed.spec.name_servers.external
    if name_servers == 0 and not external:
        text = with_causes("no name server is ready", troubles)
        return make_finding("Ready", holds=False, reason="NoNameServer", message=text)
    whose = f"{controllers} controllers"
    if observed.spec.controllers.ref is not None:
        whose = f"the controllers of {observed.sharing.home}"
    if external:
        text = f"{whose} are ready; {len(external)} name servers are external and not looked at"
        return make_finding("Ready", holds=True, reason="Serving", message=text)
    text = f"{whose} and {name_servers} name servers are ready"
    return make_finding("Ready", holds=True, reason="Serving", message=text)


def _certificates(observed: ObservedCluster) -> Finding:
    if observed.spec.controllers.ref is not None:
        text = f"see RocketMQCluster {observed.sharing.home}, which has the controllers"
        return make_finding("CertificatesValid", holds=None, reason="OfAnotherCluster", message=text)
    secrets = certificate_secrets(observed.owner.name)
    trouble = why_not_issued(observed)
    return certificates_finding(observed.tls, observed_mode(observed), secrets, observed.now, trouble)


def _issuer(observed: ObservedCluster) -> str:
    """Return the issuer whose Certificates exist: while there is one, they are looked for."""
    issuer, issuing = observed.spec.tls.issuer_ref, observed.tls.issuing
    if issuer is not None and observed_mode(observed) is not TlsMode.DISABLED:
        return str(issuer)
    return observed.status.issuer if issuing.live or issuing.problem is not None else ""


def _proxy_ready(observed: ObservedCluster, ready: int, troubles: Sequence[MemberTrouble]) -> Finding:
    proxy = observed.spec.proxy
    if proxy.mode is ProxyMode.NONE:
        return make_finding("ProxyReady", holds=False, reason="NotAsked", message="spec.proxy.mode is None")
    if not observed.brokers_ready and not ready:
        text = "no broker of the cluster is ready: a proxy starts with one, or in one"
        return make_finding("ProxyReady", holds=False, reason="NoBroker", message=text)
    if proxy.mode is ProxyMode.LOCAL:
        text = f"{observed.brokers_ready} brokers are ready, a proxy in each"
        return make_finding("ProxyReady", holds=True, reason="Serving", message=text)
    text = with_causes(
        f"{ready} of {proxy.replicas} proxies are ready", troubles, [names.proxies(observed.owner.name)]
    )
    return make_finding("ProxyReady", holds=ready > 0, reason="Serving" if ready else "NoProxy", message=text)


def known_problem(version: str) -> str | None:
    """Return why a version of RocketMQ must not be used; None if no reason is known."""
    return KNOWN_BROKEN.get(version)


def _version_finding(version: str) -> Finding:
    problem = known_problem(version)
    if problem is not None:
        return make_finding("VersionSound", holds=False, reason="KnownBroken", message=problem)
    return make_finding(
        "VersionSound", holds=True, reason="NothingKnown", message=f"nothing is known against {version}"
    )
