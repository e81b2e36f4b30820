"""TLS of an observed cluster with its clients: its stage, and the certificates that its pods need."""

from rocketmq_operator.api.names import COMPONENT_LABEL
from rocketmq_operator.api.proxy import ProxyMode
from rocketmq_operator.plan.cluster.children import NAME_SERVER
from rocketmq_operator.plan.cluster.listeners import ROUTE_FRONT
from rocketmq_operator.plan.cluster.observed import ObservedCluster
from rocketmq_operator.plan.cluster.proxies import PROXY
from rocketmq_operator.plan.common import endpoints, names
from rocketmq_operator.plan.common.actions import ResourcePlan, Wait, first_until_wait
from rocketmq_operator.plan.common.objects import Live, ObjectKey
from rocketmq_operator.plan.tls.clients import (
    ClientsStage,
    group_certificates,
    is_at,
    is_in_tls,
    next_stage,
    published_stage,
    shared_certificate,
    template_stage,
    without_dialling,
)
from rocketmq_operator.plan.tls.controllers import TlsMode, all_in_template, wanted_hosts
from rocketmq_operator.plan.tls.issuing import (
    issued_plan,
    issuing_trouble,
    leftover_certificates,
    request_steps,
    requested_hosts,
)
from rocketmq_operator.plan.tls.steps import CertificateSecrets, certificates_plan

_NEVER_DIALLING = frozenset({NAME_SERVER, "log-replica", ROUTE_FRONT})
"""Components without a JVM that dials."""


def certificate_secrets(cluster: str) -> CertificateSecrets:
    """Return the names of a cluster's Secrets with certificates."""
    return CertificateSecrets(
        names.authority_secret(cluster),
        names.controller_certificates(cluster),
        names.member_certificates(cluster),
    )


def live_stage(observed: ObservedCluster) -> ClientsStage:
    """Return the stage of TLS with clients that groups were told."""
    trust = observed.children.get(ObjectKey("ConfigMap", names.trust(observed.owner.name)))
    return published_stage(trust, _sets_of_clients(observed))


def certificate_steps(observed: ObservedCluster) -> ResourcePlan:
    """Return the next change of a cluster's certificates."""
    owner, tls, secrets = observed.owner, observed.tls, certificate_secrets(observed.owner.name)
    spec, hosts, members = observed.spec.tls, wanted_hosts(owner), member_hosts(observed)
    if spec.issuer_ref is None:
        gone = leftover_certificates(owner, tls.issuing, {})
        plan = certificates_plan(tls, spec, secrets, hosts, observed.now, members)
        return first_until_wait((gone, plan))
    requested = requested_hosts(hosts, members)
    gone = leftover_certificates(owner, tls.issuing, requested)
    asked = request_steps(owner, spec, tls.issuing, requested, observed.children)
    return first_until_wait((gone, asked, issued_plan(tls, secrets, hosts, members, observed.now)))


def why_not_issued(observed: ObservedCluster) -> Wait | None:
    """Return why cert-manager does not issue certificates as asked; None without trouble or issuer."""
    if observed.spec.tls.issuer_ref is None:
        return None
    requested = requested_hosts(wanted_hosts(observed.owner), member_hosts(observed))
    trouble = issuing_trouble(observed.tls, requested, observed.now)
    return None if trouble is None else trouble.why


def wanted_stage(observed: ObservedCluster, mode: TlsMode) -> ClientsStage:
    """Return the stage of TLS with clients that the cluster should have now; `mode` is the controllers'."""
    now, sets = live_stage(observed), _sets_of_clients(observed)
    return next_stage(
        observed.spec.tls,
        now,
        is_new=not sets,
        is_certified=mode is not TlsMode.DISABLED
        and member_hosts(observed).keys() <= observed.tls.members.keys(),
        is_everywhere=_controllers_are_at(observed, now) and all(_is_at(live, now) for live in sets),
    )


def client_authorities(observed: ObservedCluster, stage: ClientsStage) -> str:
    """Return the authorities that clients need, PEM: all that are trusted; empty without TLS for clients."""
    return observed.tls.bundle if is_in_tls(observed.spec.tls, stage) else ""


def member_hosts(observed: ObservedCluster) -> dict[str, frozenset[str]]:
    """Return the hosts of the certificates for clients, by entry; empty without TLS for them."""
    owner, spec = observed.owner, observed.spec
    if not is_in_tls(spec.tls, live_stage(observed)):
        return {}
    found = group_certificates(observed.group_services.values(), owner.namespace)
    services = [live for key, live in observed.children.items() if key.kind == "Service"]
    if not spec.name_servers.external:
        own = [one for one in services if _component(one) == NAME_SERVER]
        hosts = endpoints.name_server_hosts(owner.name, owner.namespace, spec)
        found[names.NAME_SERVER_ENTRY] = shared_certificate(own, owner.namespace, hosts)
    if spec.proxy.mode is ProxyMode.CLUSTER:
        own = [one for one in services if _component(one) == PROXY]
        found[names.PROXY_ENTRY] = shared_certificate(own, owner.namespace)
    if spec.listeners:
        own = [one for one in services if _component(one) == ROUTE_FRONT]
        advertised = (one.advertised_host for one in spec.listeners if one.advertised_host)
        found[names.ROUTE_FRONT_ENTRY] = shared_certificate(own, owner.namespace, advertised)
    return found


def _component(live: Live) -> str:
    return str((live["metadata"].get("labels") or {}).get(COMPONENT_LABEL, ""))


def _sets_of_clients(observed: ObservedCluster) -> list[Live]:
    """Return the StatefulSets and Deployments whose pods serve clients."""
    owner = observed.owner.name
    own = (
        ObjectKey("StatefulSet", names.name_servers(owner)),
        ObjectKey("Deployment", names.proxies(owner)),
    )
    fronts = (names.route_front(owner, listener.name) for listener in observed.spec.listeners)
    keys = (*own, *(ObjectKey("Deployment", name) for name in fronts))
    found = [observed.children[key] for key in keys if key in observed.children]
    return [*found, *observed.group_sets.values()]


def _is_at(live: Live, stage: ClientsStage) -> bool:
    return is_at(live, without_dialling(stage) if _component(live) in _NEVER_DIALLING else stage)


def _controllers_are_at(observed: ObservedCluster, stage: ClientsStage) -> bool:
    live = observed.children.get(ObjectKey("StatefulSet", names.controllers(observed.owner.name)))
    if live is None:
        return True
    has_template = template_stage(live).has_certificates == stage.has_certificates
    return has_template and all_in_template(live, observed.pods.values())
