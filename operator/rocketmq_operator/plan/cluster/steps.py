"""The plan of a RocketMQCluster: make its children what the spec says, and remove what it no longer asks for.

If the operator refuses the pods of the spec (`observed_pods`), it changes none of that: it applies no part of
a spec without the others.

That covers the Services of deleted pods, and all objects of proxies and route fronts without use. Pods
that an earlier spec broke are replaced before anything that may have to wait
(`controller_rolling.replace_broken`). Membership of the controllers comes last (`controller_members`, then
`controller_rolling`): it may wait for long, and nothing else has to wait with it.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from rocketmq_operator.api.names import COMPONENT_LABEL
from rocketmq_operator.api.proxy import ProxyMode
from rocketmq_operator.plan.cluster.children import cluster_children, controller_set
from rocketmq_operator.plan.cluster.client_tls import (
    certificate_steps,
    client_authorities,
    wanted_stage,
)
from rocketmq_operator.plan.cluster.controller_members import (
    NO_CONTROLLERS,
    listed_peer_count,
    next_change,
    why_volume_is_needed,
)
from rocketmq_operator.plan.cluster.controller_rolling import replace_broken, roll
from rocketmq_operator.plan.cluster.listeners import (
    ROUTE_FRONT,
    bootstrap,
    grpc_services,
    route_front_children,
    route_front_deployment,
)
from rocketmq_operator.plan.cluster.observed import ObservedCluster
from rocketmq_operator.plan.cluster.observed_pods import (
    known_addresses,
    observed_mode,
    pod_refusal,
    rotation,
)
from rocketmq_operator.plan.cluster.proxies import PROXY, hosts_needed, proxy_children, proxy_deployment
from rocketmq_operator.plan.cluster.shared_controllers import held_deletion, hold, why_not_yet
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.actions import (
    NO_STEPS,
    Delete,
    ResourcePlan,
    child_steps,
    first_until_wait,
)
from rocketmq_operator.plan.common.claimed_names import names_of_cluster
from rocketmq_operator.plan.common.listeners import with_route_fronts
from rocketmq_operator.plan.common.objects import Json, ObjectKey, belongs_to, key_of
from rocketmq_operator.plan.common.ownership import why_name_is_taken
from rocketmq_operator.plan.common.parts import in_families, with_live_claim_templates
from rocketmq_operator.plan.common.waits import PAUSED, unknown_address
from rocketmq_operator.plan.credentials.inner_users import marked, signer_mark
from rocketmq_operator.plan.pods.logs import log_target
from rocketmq_operator.plan.pods.lost_members import free_lost
from rocketmq_operator.plan.pods.observed import of_older_revision
from rocketmq_operator.plan.tls.clients import CERTIFIED_KEY, STAGE_KEY, ClientsStage
from rocketmq_operator.plan.tls.controllers import TlsMode, trust_config_map
from rocketmq_operator.plan.tls.issuing import leftover_certificates

_NOT_NEEDED: Final = {PROXY: "no proxy needs it", ROUTE_FRONT: "no listener needs it"}
"""Why objects of these components go that the spec does not ask for."""


def cluster_plan(observed: ObservedCluster) -> ResourcePlan:
    """Return the plan for a cluster.

    A cluster that is being deleted while others use its controllers is worked on until they are gone.
    """
    sharing, users = observed.sharing, observed.users
    if sharing.is_deleted and not users:
        return ResourcePlan((hold(observed.owner, is_held=False),))
    if observed.spec.paused:
        return ResourcePlan((), PAUSED)
    held = (hold(observed.owner, is_held=bool(users)),) if sharing.is_held != bool(users) else ()
    wait = held_deletion(users) if sharing.is_deleted else None
    return first_until_wait((ResourcePlan(held), _work(observed), ResourcePlan((), wait)))


def _with_log_target(observed: ObservedCluster) -> ObservedCluster:
    key = ObjectKey("StatefulSet", names.name_servers(observed.owner.name))
    if observed.spec.name_servers.external:
        key = ObjectKey("Deployment", names.proxies(observed.owner.name))
    target = log_target(observed.spec, observed.children.get(key))
    return replace(observed, spec=observed.spec.model_copy(update={"log_to": target}))


def _work(observed: ObservedCluster) -> ResourcePlan:
    observed = _with_log_target(observed)
    owner, spec = observed.owner, observed.spec
    if spec.controllers.ref is not None and (wait := why_not_yet(observed.provider, observed.sharing)):
        return ResourcePlan((), wait)
    claims = {ObjectKey("PersistentVolumeClaim", name): live for name, live in observed.claims.items()}
    known = {**observed.children, **claims}
    if (
        wait := why_name_is_taken(owner, names_of_cluster(owner.name, spec), known, observed.name_lookup)
    ) is not None:
        return ResourcePlan((), wait)
    if (refused := pod_refusal(observed)) is not None:
        return first_until_wait(
            (
                _renewals(observed),
                replace_broken(observed),
                _replace_broken_name_servers(observed),
                _free_lost_controllers(observed),
                ResourcePlan((), refused),
            )
        )
    has_own = spec.controllers.ref is None
    members = next_change(observed) if has_own else NO_CONTROLLERS
    peers = listed_peer_count(observed, members.replicas) if has_own else 0
    mode = observed_mode(observed)
    stage = wanted_stage(observed, mode)
    wanted = _wanted_children(observed, peers, mode, stage)
    return first_until_wait(
        (
            _certificates(observed, mode),
            child_steps(owner, wanted, observed.children),
            rotation(observed).plan if spec.has_users else NO_STEPS,
            _controller_set(observed, members.replicas, mode, stage) if has_own else NO_STEPS,
            _proxies(observed, stage),
            _route_fronts(observed, stage),
            _leftovers(observed, wanted),
            replace_broken(observed),
            _replace_broken_name_servers(observed),
            _free_lost_controllers(observed),
            members.plan,
            roll(observed) if has_own else NO_STEPS,
        )
    )


def _wanted_children(
    observed: ObservedCluster, peers: int, mode: TlsMode, stage: ClientsStage
) -> tuple[Json, ...]:
    owner, spec = observed.owner, observed.spec
    made = (
        *_trust(observed, mode, stage),
        *cluster_children(owner, spec, observed.secrets, peers, mode, stage),
        *proxy_children(owner, spec, stage),
        *route_front_children(observed),
        *grpc_services(owner, spec),
        bootstrap(observed, client_authorities(observed, stage)),
    )
    return tuple(in_families(body, spec) if body["kind"] == "Service" else body for body in made)


def _certificates(observed: ObservedCluster, mode: TlsMode) -> ResourcePlan:
    """Make and renew certificates, before any pod that needs them."""
    if mode is TlsMode.DISABLED:
        return leftover_certificates(observed.owner, observed.tls.issuing, {})
    return certificate_steps(observed)


def _renewals(observed: ObservedCluster) -> ResourcePlan:
    """Renew existing certificates, whatever the spec says of the pods that use them."""
    return _certificates(observed, observed_mode(observed)) if observed.tls.controllers else NO_STEPS


def _trust(observed: ObservedCluster, mode: TlsMode, stage: ClientsStage) -> tuple[Json, ...]:
    if mode is TlsMode.DISABLED or not observed.tls.bundle:
        return ()
    clients = {STAGE_KEY: str(stage)}
    if stage.has_certificates:
        clients[CERTIFIED_KEY] = ",".join(sorted(observed.tls.members))
    return (trust_config_map(observed.owner, observed.tls.bundle, mode, clients),)


def _controller_set(
    observed: ObservedCluster, replicas: int, mode: TlsMode, stage: ClientsStage
) -> ResourcePlan:
    """Make the controllers' StatefulSet once all addresses are known.

    Pods made without them would be replaced at once.
    """
    owner = observed.owner
    hosts = known_addresses(observed, names.controller_hosts(owner.name, owner.namespace))
    if (wait := unknown_address(hosts)) is not None:
        return ResourcePlan((), wait)
    body = controller_set(owner, observed.spec, replicas, hosts, mode, stage)
    return child_steps(
        owner, [with_live_claim_templates(body, observed.children.get(key_of(body)))], observed.children
    )


def _replace_broken_name_servers(observed: ObservedCluster) -> ResourcePlan:
    """Replace name servers of an older revision that do not serve.

    Why not leave it to their StatefulSet: it goes from the last to the first, and stops at one that is not
    ready for whatever reason. Proxies are left to their Deployment, which removes pods of an older revision
    that are not ready first.
    """
    live = observed.children.get(ObjectKey("StatefulSet", names.name_servers(observed.owner.name)))
    outdated = of_older_revision(live, observed.name_server_pods.values())
    idle = [pod for pod in outdated if not pod.ready and not pod.deleting]
    return ResourcePlan(tuple(Delete(ObjectKey("Pod", pod.name), pod.uid, "older revision") for pod in idle))


def _free_lost_controllers(observed: ObservedCluster) -> ResourcePlan:
    """Free controllers from permanently lost nodes; the operator adds one that returns empty again."""

    def needed(name: str) -> str:
        return why_volume_is_needed(observed, name)

    lost_members = observed.spec.controllers.lost_members
    return free_lost(observed.pods, observed.claims, lost_members, observed.now, needed)


def _proxies(observed: ObservedCluster, stage: ClientsStage) -> ResourcePlan:
    """Make the proxies' Deployment, the first time when a broker is there that they can start with."""
    owner, spec = observed.owner, observed.spec
    if spec.proxy.mode is not ProxyMode.CLUSTER:
        return NO_STEPS
    key = ObjectKey("Deployment", names.proxies(owner.name))
    if key not in observed.children and not observed.brokers_ready:
        return NO_STEPS
    hosts = known_addresses(observed, hosts_needed(owner, spec))
    if (wait := unknown_address(hosts)) is not None:
        return ResourcePlan((), wait)
    mark = signer_mark(observed.secrets.users.current)
    body = marked(proxy_deployment(owner, spec, hosts, stage), mark if spec.has_users else "")
    return child_steps(owner, [body], observed.children)


def _route_fronts(observed: ObservedCluster, stage: ClientsStage) -> ResourcePlan:
    """Make the route fronts' Deployments once the addresses of all name servers are known."""
    owner, spec = observed.owner, observed.spec
    fronted = with_route_fronts(spec)
    if not fronted:
        return NO_STEPS
    hosts = known_addresses(observed, hosts_needed(owner, spec))
    if (wait := unknown_address(hosts)) is not None:
        return ResourcePlan((), wait)
    wanted = [route_front_deployment(owner, spec, listener, hosts, stage) for listener in fronted]
    return child_steps(owner, wanted, observed.children)


def _leftovers(observed: ObservedCluster, wanted: Sequence[Json]) -> ResourcePlan:
    kept = set(map(key_of, wanted))
    if observed.spec.proxy.mode is ProxyMode.CLUSTER:
        kept.add(ObjectKey("Deployment", names.proxies(observed.owner.name)))
    for listener in with_route_fronts(observed.spec):
        kept.add(ObjectKey("Deployment", names.route_front(observed.owner.name, listener.name)))
    gone = []
    trust = ObjectKey("ConfigMap", names.trust(observed.owner.name))
    for key, live in sorted(observed.children.items()):
        component = live["metadata"].get("labels", {}).get(COMPONENT_LABEL)
        why = _NOT_NEEDED.get(component, "member is gone" if key.kind == "Service" else "")
        why = "the controllers speak plain TCP" if key == trust else why
        if key not in kept and why and belongs_to(live, observed.owner):
            gone.append(Delete(key, live["metadata"].get("uid", ""), why))
    return ResourcePlan(tuple(gone))
