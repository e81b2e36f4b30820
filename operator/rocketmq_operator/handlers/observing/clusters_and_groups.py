"""Look at everything that a plan needs, once.

Each observation reads the custom resource from the API server, because watch data may be old. Controllers
that do not answer are part of the observation, not an error; an API server that does not answer is an error.
"""

import asyncio
import base64
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from controller_core.access.signing import Credentials
from rocketmq_operator.api.base import SpecModel
from rocketmq_operator.api.broker_group import BrokerGroupSpec, BrokerGroupStatus
from rocketmq_operator.api.cluster import RocketMQClusterSpec, RocketMQClusterStatus
from rocketmq_operator.api.clusters.tls import TlsSpec
from rocketmq_operator.api.names import (
    API_VERSION,
    CLUSTER_KIND,
    CLUSTER_LABEL,
    COMPONENT_LABEL,
    CONTROLLERS_FINALIZER,
    FAILOVER_KIND,
    GROUP_KIND,
    GROUP_LABEL,
    REPORT_SERVER,
)
from rocketmq_operator.clients.api import (
    BrokerApi,
    CanaryApi,
    CompanionApi,
    ControllerApi,
    Json,
    KubeApi,
    RequestRefusedError,
)
from rocketmq_operator.clients.controllers_trust import ControllersTrust
from rocketmq_operator.handlers.observing.certificates import observe_tls, wanted_certificates
from rocketmq_operator.handlers.observing.claims import BrokerNameClaims
from rocketmq_operator.handlers.observing.controllers import (
    ControllersView,
    ask_about_group,
    clusters_that_name,
    observe_controllers,
    observe_shared,
    sharing_cluster,
)
from rocketmq_operator.handlers.observing.credentials import RotationObserver, first_users
from rocketmq_operator.handlers.observing.issuing import with_issuing
from rocketmq_operator.plan.cluster.children import CONTROLLER, NAME_SERVER
from rocketmq_operator.plan.cluster.observed import ClusterSecrets, ObservedCluster
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.endpoints import ControllersHome, controllers_home
from rocketmq_operator.plan.common.objects import BROKER, Children, Live, ObjectKey, Owner, by_key, cluster_ip
from rocketmq_operator.plan.common.report_servers import parse_report_servers
from rocketmq_operator.plan.credentials.inner_users import signer_mark, signer_of
from rocketmq_operator.plan.group.observed import ObservedGroup
from rocketmq_operator.plan.pods.observed import parse_pod
from rocketmq_operator.plan.report.allowed import NOTHING_ALLOWED, AllowedInReports
from rocketmq_operator.plan.tls.clients import group_stage, published_stage
from rocketmq_operator.plan.tls.observed import NO_TLS, ObservedTls

_VALUE_CHARS_MAX: Final = 64
"""Shown of a value that is refused."""

S = TypeVar("S", bound=SpecModel)
CLUSTER_KINDS: Final = ("Service", "PodDisruptionBudget", "ConfigMap", "StatefulSet", "Deployment")
GROUP_KINDS: Final = (
    "Service",
    "EndpointSlice",
    "PodDisruptionBudget",
    "ConfigMap",
    "StatefulSet",
    "PersistentVolumeClaim",
)


class InvalidSpecError(Exception):
    """A custom resource breaks a rule; `reason` is one word for its condition."""

    def __init__(self, reason: str, problem: str) -> None:
        self.reason = reason
        super().__init__(problem)


@dataclass(frozen=True, slots=True)
class Environment:
    """What handlers stand on.

    Attributes:
        controllers_of: the client for a cluster's controllers, for all that there can be: namespace, name,
            token.
        now: the wall clock, UTC.
        new_token: a fresh secret token.
        canaries: the client for canaries.
        companions: the client for companions.
        brokers: the client for brokers and name servers.
        claims: who claims which topic or consumer group, as it was found lately.
        trust: which authorities the clusters' controllers are verified with, as it was found lately.
        note_certificates: called with the certificates of each observed cluster; empty for one that is gone.
        allowed_in_reports: images, claims and accounts that SLOReports may name.
    """

    kube: KubeApi
    controllers_of: Callable[[str, str, str], ControllerApi]
    now: Callable[[], datetime]
    new_token: Callable[[], str]
    canaries: CanaryApi
    companions: CompanionApi
    brokers: BrokerApi
    claims: BrokerNameClaims = field(default_factory=BrokerNameClaims)
    trust: ControllersTrust = field(default_factory=ControllersTrust)
    note_certificates: Callable[[str, str, ObservedTls], None] = lambda *_: None
    allowed_in_reports: AllowedInReports = NOTHING_ALLOWED


async def get_unless_deleted(environment: Environment, kind: str, namespace: str, name: str) -> Json | None:
    """Return a resource, None if it is gone or going; one whose deletion is held is there.

    Raises:
        PeerUnavailableError: the API server does not answer.
    """
    resource = await environment.kube.get(kind, namespace, name)
    if resource is None:
        return None
    metadata = resource["metadata"]
    is_held = CONTROLLERS_FINALIZER in metadata.get("finalizers", [])
    return None if "deletionTimestamp" in metadata and not is_held else resource


async def observe_cluster(environment: Environment, namespace: str, name: str) -> ObservedCluster | None:
    """Return the observed state of a cluster, None if it is gone or going.

    Raises:
        InvalidSpecError: its spec breaks a rule.
        PeerUnavailableError: the API server does not answer.
    """
    resource = await get_unless_deleted(environment, CLUSTER_KIND.kind, namespace, name)
    if resource is None:
        environment.note_certificates(namespace, name, NO_TLS)
        return None
    spec, own = cluster_spec(resource), sharing_cluster(resource)
    shared, home = None, own.home
    if spec.controllers.ref is not None:
        read_secret = partial(_secret, environment)
        shared = await observe_shared(environment.kube, read_secret, namespace, name, spec)
    # Why by name: permission to list Secrets is permission to read all of them.
    (secret, credentials), (pods, name_server_pods, claims, *lists) = await asyncio.gather(
        asyncio.gather(
            _no_secret() if shared else _token_secret(environment, namespace, name),
            _credentials_secret(environment, namespace, name, spec),
        ),
        asyncio.gather(
            environment.kube.find("Pod", namespace, {CLUSTER_LABEL: name, COMPONENT_LABEL: CONTROLLER}),
            environment.kube.find("Pod", namespace, {CLUSTER_LABEL: name, COMPONENT_LABEL: NAME_SERVER}),
            environment.kube.find("PersistentVolumeClaim", namespace, {CLUSTER_LABEL: name}),
            *(environment.kube.find(kind, namespace, {CLUSTER_LABEL: name}) for kind in CLUSTER_KINDS),
        ),
    )
    found = [item for items in lists for item in items]
    found += [one for one in (secret, credentials) if one is not None]
    children = by_key(item for item in found if GROUP_LABEL not in _labels(item))
    token = token_of(shared.token if shared else secret) or environment.new_token()
    users = first_users(spec, credentials, shared.credentials if shared else None, environment.new_token)
    trust = shared.trust if shared else children.get(ObjectKey("ConfigMap", names.trust(name)))
    may_ask = shared is None or shared.may_use
    if may_ask:  # What another cluster may not use, it must not change either.
        environment.trust.note(*home, trust)
    parsed_pods = {pod.name: pod for pod in map(parse_pod, pods)}
    group_sets = _of_groups(found, "StatefulSet")
    live = children.get(ObjectKey("StatefulSet", names.controllers(name)))
    stage = published_stage(trust, group_sets.values())
    which = (False, False) if shared else wanted_certificates(spec.tls, live, parsed_pods.values(), stage)
    status = RocketMQClusterStatus.model_validate(resource.get("status") or {})
    tls = await _tls(environment, ControllersHome(namespace, name), spec.tls, which, status.issuer)
    children |= by_key((*tls.secrets.values(), *tls.issuing.live.values()))
    environment.note_certificates(namespace, name, tls)
    controllers, services = environment.controllers_of(*home, token), _of_groups(found, "Service")
    observer = RotationObserver(environment.kube, controllers, environment.brokers, services)
    return ObservedCluster(
        now=environment.now(),
        owner=owner_of(resource, CLUSTER_KIND.kind),
        generation=resource["metadata"].get("generation", 0),
        spec=spec,
        status=status,
        children=children,
        group_services=services,
        group_sets=group_sets,
        secrets=ClusterSecrets(token, users),
        rotation=await observer.observe(resource, credentials, users, environment.new_token),
        sharing=own,
        provider=None if shared is None else shared.provider,
        candidates=await clusters_that_name(environment.kube, own),
        controllers=await observe_controllers(controllers) if may_ask else None,
        pods=parsed_pods,
        tls=tls,
        name_server_pods={pod.name: pod for pod in map(parse_pod, name_server_pods)},
        claims={claim["metadata"]["name"]: claim for claim in claims if GROUP_LABEL not in _labels(claim)},
        brokers_ready=_ready_brokers(group_sets.values()),
    )


def _of_groups(found: Iterable[Json], kind: str) -> Children:
    return by_key(item for item in found if item["kind"] == kind and GROUP_LABEL in _labels(item))


def _ready_brokers(sets: Iterable[Live]) -> int:
    """Return how many brokers of all groups are ready."""
    brokers = [one for one in sets if _labels(one).get(COMPONENT_LABEL) == BROKER]
    return sum((one.get("status") or {}).get("readyReplicas", 0) for one in brokers)


async def observe_group(environment: Environment, namespace: str, name: str) -> ObservedGroup | None:
    """Return the observed state of a group, None if it is gone or going.

    Raises:
        InvalidSpecError: its spec or its cluster's breaks a rule.
        PeerUnavailableError: the API server does not answer.
    """
    resource = await get_unless_deleted(environment, GROUP_KIND.kind, namespace, name)
    if resource is None:
        return None
    spec = parse_spec(BrokerGroupSpec, resource)
    status = BrokerGroupStatus.model_validate(resource.get("status") or {})
    labels = {CLUSTER_LABEL: spec.cluster, GROUP_LABEL: name}
    kinds = (*GROUP_KINDS, "Pod", FAILOVER_KIND.kind)
    (cluster, trust), (*services, report_servers), (*children, pods, records) = await asyncio.gather(
        asyncio.gather(
            environment.kube.get(CLUSTER_KIND.kind, namespace, spec.cluster),
            environment.kube.get("ConfigMap", namespace, names.trust(spec.cluster)),
        ),
        # Why by component: by the cluster's label alone come the Services of all its groups too. Why by
        # cluster, the chart's report server too: the reflections hold only objects with its label, and each
        # observation would cost a dozen API calls.
        asyncio.gather(
            *(
                environment.kube.find(
                    "Service", namespace, {CLUSTER_LABEL: spec.cluster, COMPONENT_LABEL: component}
                )
                for component in (CONTROLLER, NAME_SERVER, REPORT_SERVER)
            )
        ),
        asyncio.gather(*(environment.kube.find(kind, namespace, labels) for kind in kinds)),
    )
    cluster_ = None if cluster is None else cluster_spec(cluster)
    stage, is_certified = group_stage(trust, children, name)
    home, may_ask = ControllersHome(namespace, spec.cluster), cluster_ is not None
    shared_services: tuple[Json, ...] = ()
    if cluster_ is not None and cluster_.controllers.ref is not None:
        read_secret = partial(_secret, environment)
        shared = await observe_shared(environment.kube, read_secret, namespace, spec.cluster, cluster_)
        home = controllers_home(spec.cluster, namespace, cluster_)
        cluster_, trust, secret, shared_services = shared.spec, shared.trust, shared.token, shared.services
        may_ask = shared.may_use
    else:
        secret = None if cluster_ is None else await _token_secret(environment, *home)
    answer: ControllersView = (False, None, ())
    if may_ask:
        environment.trust.note(*home, trust)
        controllers = environment.controllers_of(*home, token_of(secret))
        answer = await ask_about_group(controllers, spec.cluster, name)
    controllers_answered, group, failovers = answer
    return ObservedGroup(
        now=environment.now(),
        owner=owner_of(resource, GROUP_KIND.kind),
        generation=resource["metadata"].get("generation", 0),
        spec=spec,
        status=status,
        cluster=cluster_,
        cluster_addresses=_addresses((*services, shared_services)),
        children=by_key(item for items in children for item in items),
        pods={pod.name: pod for pod in map(parse_pod, pods)},
        controllers_answered=controllers_answered,
        group=group,
        failovers=failovers,
        records={record["metadata"]["name"]: record for record in records},
        annotations=resource["metadata"].get("annotations", {}),
        report_servers=parse_report_servers(report_servers),
        clients_stage=stage,
        certified=is_certified,
        signer_mark=signer_mark(await broker_credentials(environment, namespace, spec.cluster, cluster_)),
    )


def _addresses(services: Iterable[Iterable[Json]]) -> dict[str, str]:
    return {one["metadata"]["name"]: cluster_ip(one) for found in services for one in found}


async def controllers_for(environment: Environment, observed: ObservedGroup) -> ControllerApi:
    """Return the client for the controllers of a group's cluster, with the token that changes need."""
    home = ControllersHome(observed.owner.namespace, observed.spec.cluster)
    if observed.cluster is not None:
        home = controllers_home(home.cluster, home.namespace, observed.cluster)
    secret = await _token_secret(environment, *home)
    return environment.controllers_of(*home, token_of(secret))


async def _no_secret() -> None:
    """Read nothing: the controllers of another cluster have their Secret there."""


async def _token_secret(environment: Environment, namespace: str, cluster: str) -> Json | None:
    """Return the Secret with a cluster's token; raise `InvalidSpecError` if the operator may not read it."""
    return await _secret(environment, namespace, cluster, names.token_secret(cluster))


async def _secret(environment: Environment, namespace: str, cluster: str, name: str) -> Json | None:
    """Return a Secret of a cluster; raise `InvalidSpecError` if the operator may not read it."""
    try:
        return await environment.kube.get("Secret", namespace, name)
    except RequestRefusedError as error:
        problem = f"the operator may not read Secret {name}: list {cluster} in the chart's operator.clusters"
        raise InvalidSpecError("SecretNotAllowed", problem) from error


async def _tls(
    environment: Environment, place: ControllersHome, spec: TlsSpec, which: tuple[bool, bool], former: str
) -> ObservedTls:
    """Return the certificates of a cluster: `which` it has; `former` is an issuer that it had.

    Raises:
        InvalidSpecError: the operator has no right to read one of their Secrets.
    """
    (has_tls, with_members), (namespace, cluster), tls = which, place, NO_TLS
    kube, has_issuer = environment.kube, has_tls and spec.issuer_ref is not None
    try:
        if has_tls:
            tls = await observe_tls(kube, namespace, cluster, spec, with_members=with_members)
        if has_issuer or former:
            tls = await with_issuing(kube, namespace, cluster, tls, with_secrets=has_issuer)
    except RequestRefusedError as error:
        given = spec.authority.secret_name
        listed = f"list {cluster} in the chart's operator.clusters"
        if given is not None:
            listed += f" and {given} in operator.authoritySecrets"
        problem = f"the operator may not read the Secrets with certificates: {listed}"
        raise InvalidSpecError("SecretNotAllowed", problem) from error
    return tls


def cluster_spec(resource: Json) -> RocketMQClusterSpec:
    """Return a cluster's spec; raise `InvalidSpecError`."""
    return parse_spec(RocketMQClusterSpec, resource)


def parse_spec(model: type[S], resource: Json) -> S:
    """Return a resource's spec; raise `InvalidSpecError`."""
    try:
        return model.model_validate(resource.get("spec") or {})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        cause = first.get("ctx", {}).get("error")
        # The text of a rule names the value itself.
        is_shown = cause is None and isinstance(first["input"], str | int | float)
        value = f" (it is {str(first['input'])[:_VALUE_CHARS_MAX]!r})" if is_shown else ""
        raise InvalidSpecError(
            getattr(cause, "name", "InvalidSpec"),
            f"spec.{where}: {first['msg']}{value}".replace("spec.: ", "spec: "),
        ) from error


def _labels(item: Live) -> Mapping[str, str]:
    labels: Mapping[str, str] = item["metadata"].get("labels", {})
    return labels


def owner_of(resource: Json, kind: str) -> Owner:
    """Return a resource as the owner of its children."""
    metadata = resource["metadata"]
    return Owner(API_VERSION, kind, metadata["name"], metadata["namespace"], metadata["uid"])


def token_of(secret: Mapping[str, Any] | None) -> str:
    """Return the token of a Secret, empty if none exists."""
    encoded = "" if secret is None else secret.get("data", {}).get(names.TOKEN_KEY, "")
    return base64.b64decode(encoded).decode()


async def broker_credentials(
    environment: Environment, namespace: str, cluster: str, spec: RocketMQClusterSpec | None
) -> Credentials | None:
    """Return the user that signs our requests to a cluster's brokers, None for brokers without users."""
    return signer_of(await _credentials_secret(environment, namespace, cluster, spec))


async def _credentials_secret(
    environment: Environment, namespace: str, cluster: str, spec: RocketMQClusterSpec | None
) -> Json | None:
    if spec is None or not spec.has_users:
        return None
    return await _secret(environment, namespace, cluster, names.credentials_secret(cluster))
