"""Ask controllers about themselves and about groups, and find the clusters that share them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from pydantic import ValidationError

from rocketmq_operator.api.cluster import RocketMQClusterSpec, RocketMQClusterStatus
from rocketmq_operator.api.clusters.controllers import ControllersRef, ControllersSpec
from rocketmq_operator.api.names import (
    CLUSTER_KIND,
    CLUSTER_LABEL,
    COMPONENT_LABEL,
    CONTROLLERS_FINALIZER,
)
from rocketmq_operator.clients.api import (
    ControllerApi,
    Json,
    KubeApi,
    PeerUnavailableError,
    RequestRefusedError,
)
from rocketmq_operator.plan.cluster.children import CONTROLLER
from rocketmq_operator.plan.cluster.observed_controllers import (
    ObservedControllers,
    leader_ordinal,
    parse_controllers,
)
from rocketmq_operator.plan.cluster.shared_controllers import SharingCluster, why_not_yet
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.endpoints import ControllersHome, home_of
from rocketmq_operator.plan.common.observation import ObservationError
from rocketmq_operator.plan.group.observed import (
    ReportedFailover,
    ReportedGroup,
    parse_failover,
    parse_group,
)

_LOG: Final = logging.getLogger(__name__)
ReadSecret = Callable[[str, str, str], Awaitable[Json | None]]
ControllersView = tuple[bool, ReportedGroup | None, tuple[ReportedFailover, ...]]


@dataclass(frozen=True, slots=True)
class SharedControllers:
    """Another cluster's controllers, as one look found them.

    Attributes:
        spec: that of the cluster that uses them, with the settings of the controllers that it uses.
        provider: the cluster that has them; None without one.
        may_use: whether the cluster may use them.
        trust: the ConfigMap with the authorities of the controllers.
        token: the Secret with their token.
        credentials: the Secret with the user that they sign with.
        services: their Services.
    """

    spec: RocketMQClusterSpec
    provider: SharingCluster | None = None
    may_use: bool = False
    trust: Json | None = None
    token: Json | None = field(default=None, repr=False)
    credentials: Json | None = field(default=None, repr=False)
    services: tuple[Json, ...] = ()


async def observe_shared(
    kube: KubeApi, read_secret: ReadSecret, namespace: str, name: str, spec: RocketMQClusterSpec
) -> SharedControllers:
    """Return the controllers that a cluster's `controllers.ref` names, with nothing in it if it must wait.

    `read_secret` reads a Secret by namespace, cluster and name.

    Raises:
        InvalidSpecError: the operator may not read one of their Secrets.
        PeerUnavailableError: the API server does not answer.
    """
    user = SharingCluster(ControllersHome(namespace, name), spec)
    home = user.home
    found = await kube.get(CLUSTER_KIND.kind, *home)
    provider = None if found is None else sharing_cluster(found)
    if provider is None or why_not_yet(provider, user) is not None:
        return SharedControllers(spec, provider)
    labels = {CLUSTER_LABEL: home.cluster, COMPONENT_LABEL: CONTROLLER}
    trust, token, credentials, services = await asyncio.gather(
        kube.get("ConfigMap", home.namespace, names.trust(home.cluster)),
        read_secret(*home, names.token_secret(home.cluster)),
        _credentials(read_secret, home, provider.spec),
        kube.find("Service", home.namespace, labels),
    )
    settings = provider.spec.controllers.model_copy(update={"ref": spec.controllers.ref})
    spec = spec.model_copy(update={"controllers": settings})
    return SharedControllers(spec, provider, True, trust, token, credentials, tuple(services))


async def _credentials(
    read_secret: ReadSecret, home: ControllersHome, spec: RocketMQClusterSpec
) -> Json | None:
    return await read_secret(*home, names.credentials_secret(home.cluster)) if spec.has_users else None


async def clusters_that_name(kube: KubeApi, provider: SharingCluster) -> tuple[SharingCluster, ...]:
    """Return the clusters that name a cluster's controllers.

    It looks in the namespaces that may, and for those that are noted.

    Raises:
        PeerUnavailableError: the API server does not answer.
    """
    place = provider.place
    namespaces = sorted({place.namespace, *provider.spec.controllers.allowed_namespaces})
    noted = [one.partition("/")[::2] for one in provider.noted]
    lists, singles = await asyncio.gather(
        asyncio.gather(*(_clusters_in(kube, namespace) for namespace in namespaces)),
        asyncio.gather(*(kube.get(CLUSTER_KIND.kind, *one) for one in noted if one[0] not in namespaces)),
    )
    found = [one for clusters in lists for one in clusters] + [one for one in singles if one is not None]
    return tuple(one for one in map(sharing_cluster, found) if one.place != place and one.home == place)


async def _clusters_in(kube: KubeApi, namespace: str) -> list[Json]:
    try:
        return await kube.find(CLUSTER_KIND.kind, namespace, {})
    except RequestRefusedError as error:
        _LOG.info("clusters of namespace %s: %s", namespace, error)
        return []


def sharing_cluster(resource: Json) -> SharingCluster:
    """Read what others need of a cluster; of a spec that breaks a rule whose controllers it names."""
    metadata, status = resource["metadata"], resource.get("status") or {}
    try:
        spec = RocketMQClusterSpec.model_validate(resource.get("spec") or {})
    except ValidationError:
        ref = ((resource.get("spec") or {}).get("controllers") or {}).get("ref") or {}
        named = ControllersRef.model_construct(name=ref.get("name", ""), namespace=ref.get("namespace"))
        spec = RocketMQClusterSpec(controllers=ControllersSpec(ref=named if ref else None))
    return SharingCluster(
        place=home_of(metadata["namespace"], metadata["name"], metadata["namespace"]),
        spec=spec,
        noted=RocketMQClusterStatus.model_validate(status).controllers_used_by,
        is_held=CONTROLLERS_FINALIZER in metadata.get("finalizers", []),
        is_deleted="deletionTimestamp" in metadata,
    )


async def observe_controllers(controllers: ControllerApi) -> ObservedControllers | None:
    """Return what controllers say of themselves; None if none answers."""
    try:
        nodes = await controllers.nodes()
        leader = leader_ordinal(nodes)
        return parse_controllers(nodes, None if leader is None else await controllers.members(leader))
    except (PeerUnavailableError, KeyError, TypeError, ValueError) as error:
        _LOG.debug("controllers: %r", error)
        return None


async def ask_about_group(controllers: ControllerApi, cluster: str, group: str) -> ControllersView:
    """Return whether a controller answered, the group and its failovers."""
    try:
        reported, failovers = await asyncio.gather(
            controllers.group(cluster, group), controllers.failovers(cluster, group)
        )
        return True, None if reported is None else parse_group(reported), _failovers(failovers)
    except (PeerUnavailableError, ObservationError):
        return False, None, ()


def _failovers(values: Sequence[Json]) -> tuple[ReportedFailover, ...]:
    return tuple(sorted(map(parse_failover, values), key=lambda one: -one.new_epoch))
