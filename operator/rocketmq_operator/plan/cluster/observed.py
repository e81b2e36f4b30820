"""A RocketMQCluster and all that belongs to it, as one look found it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from rocketmq_operator.api.cluster import RocketMQClusterSpec, RocketMQClusterStatus
from rocketmq_operator.plan.cluster.observed_controllers import ObservedControllers
from rocketmq_operator.plan.cluster.shared_controllers import SharingCluster, users_of
from rocketmq_operator.plan.common.objects import Children, Live, ObjectKey, Owner
from rocketmq_operator.plan.common.ownership import NO_LOOKUP, NameLookup
from rocketmq_operator.plan.credentials.inner_users import NO_USERS, InnerUsers
from rocketmq_operator.plan.credentials.rotation import NO_ROTATION, ObservedRotation
from rocketmq_operator.plan.pods.events import ObservedEvent
from rocketmq_operator.plan.pods.observed import ObservedPod
from rocketmq_operator.plan.tls.observed import NO_TLS, ObservedTls


@dataclass(frozen=True, slots=True)
class ClusterSecrets:
    """The contents of a cluster's Secrets, existing or new.

    Attributes:
        token: for changes of the controllers' state.
        users: the super users; the current one signs the requests of operator and members.
    """

    token: str = field(repr=False)
    users: InnerUsers = NO_USERS


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedCluster:
    """A RocketMQCluster and all that belongs to it.

    Attributes:
        pods: of its controllers, by name.
        name_server_pods: of its name servers, by name.
        claims: its controllers' PersistentVolumeClaims, by name.
        secrets: what its Secrets hold.
        brokers_ready: ready brokers of all its groups.
        name_lookup: existing objects with the names of its future children.
        group_services: Services of all its groups, by kind and name.
        group_sets: StatefulSets of all its groups, by kind and name.
        proxy_pods: of its proxies, by name; read only if some are not ready.
        tls: certificates; empty if the controllers speak plain TCP.
        sharing: the cluster itself, as clusters need it that share controllers with it.
        rotation: what the rotation of its super user depends on.
        provider: the cluster of `controllers.ref`; None without one.
        candidates: clusters that name the controllers of this one.
        events: about StatefulSets and claims that lack a pod or a volume, as `member_trouble.event_queries`
            asks.
    """

    now: datetime
    owner: Owner
    generation: int
    spec: RocketMQClusterSpec
    status: RocketMQClusterStatus
    children: Children
    secrets: ClusterSecrets
    controllers: ObservedControllers | None
    sharing: SharingCluster
    pods: Mapping[str, ObservedPod]
    claims: Mapping[str, Live]
    brokers_ready: int
    name_server_pods: Mapping[str, ObservedPod] = field(default_factory=dict)
    name_lookup: NameLookup = NO_LOOKUP
    group_services: Children = field(default_factory=dict)
    group_sets: Children = field(default_factory=dict)
    proxy_pods: Mapping[str, ObservedPod] = field(default_factory=dict)
    tls: ObservedTls = NO_TLS
    rotation: ObservedRotation = NO_ROTATION
    provider: SharingCluster | None = None
    candidates: tuple[SharingCluster, ...] = ()
    events: Mapping[ObjectKey, tuple[ObservedEvent, ...]] = field(default_factory=dict)

    @property
    def users(self) -> tuple[str, ...]:
        """NAMESPACE/NAME of each other cluster that uses the controllers of this one."""
        return users_of(self.sharing, self.candidates)
