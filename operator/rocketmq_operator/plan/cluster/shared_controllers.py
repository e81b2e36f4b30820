"""Clusters that share controllers: which cluster may use them, and why another one must wait.

The cluster that has the controllers decides. Its status names each cluster that uses them, and a finalizer
holds its deletion while there is one. Another cluster makes nothing before its name is noted there, so that
no deletion overlooks it. A noted cluster stays noted for as long as it exists and names these controllers.

    refused                                              why
    a cluster of another namespace that                  the owner of the controllers decides
      `controllers.allowedNamespaces` lacks
    two clusters of one name, in different namespaces    controllers tell groups apart by both names
    controllers of a cluster that uses a third's         one look must tell whose they are
    brokers with users, controllers without, or the      controllers sign with the user of their cluster
      reverse
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rocketmq_operator.api.cluster import RocketMQClusterSpec
from rocketmq_operator.api.clusters.controllers import USERS_MAX
from rocketmq_operator.api.conditions import Finding, make_finding
from rocketmq_operator.api.names import CONTROLLERS_FINALIZER
from rocketmq_operator.plan.common.actions import Apply, Wait
from rocketmq_operator.plan.common.endpoints import ControllersHome, controllers_home
from rocketmq_operator.plan.common.objects import Json, Owner

IN_USE: Final = "ControllersInUse"
"""Reason of the wait, the condition and the Event of a cluster whose deletion is held."""
REFUSED: Final = "ControllersRefused"
"""Reason of the wait of a cluster that may not use the controllers that it names."""


@dataclass(frozen=True, slots=True)
class SharingCluster:
    """A RocketMQCluster that has controllers for others, or uses those of another.

    Attributes:
        place: its namespace and name.
        spec: its spec.
        noted: NAMESPACE/NAME of each cluster that its status names as a user of its controllers.
        is_held: whether our finalizer is on it.
        is_deleted: whether its deletion was requested.
    """

    place: ControllersHome
    spec: RocketMQClusterSpec
    noted: tuple[str, ...] = ()
    is_held: bool = False
    is_deleted: bool = False

    @property
    def home(self) -> ControllersHome:
        """Whose controllers it uses."""
        return controllers_home(self.place.cluster, self.place.namespace, self.spec)


def users_of(provider: SharingCluster, candidates: Sequence[SharingCluster]) -> tuple[str, ...]:
    """Return NAMESPACE/NAME of each cluster that uses a cluster's controllers, those noted before first.

    `candidates` are the clusters that name these controllers.
    """
    present = {str(one.place): one for one in candidates}
    users = [name for name in provider.noted if name in present]
    for name, candidate in sorted(present.items()):
        if name not in users and len(users) < USERS_MAX and not _refusal(provider, candidate, users):
            users.append(name)
    return tuple(users)


def why_not_yet(provider: SharingCluster | None, user: SharingCluster) -> Wait | None:
    """Say why a cluster must not use the controllers that it names; None if it may."""
    if provider is None:
        return Wait(REFUSED, f"RocketMQCluster {user.home} of spec.controllers.ref does not exist")
    if str(user.place) in provider.noted and provider.is_held:
        return None
    if problem := _refusal(provider, user, provider.noted):
        return Wait(REFUSED, problem)
    return Wait("ControllersPending", f"RocketMQCluster {user.home} has not noted this cluster yet")


def _refusal(provider: SharingCluster, user: SharingCluster, noted: Sequence[str]) -> str:
    place, home = user.place, provider.place
    if provider.is_deleted:
        return f"RocketMQCluster {home} is being deleted"
    if provider.spec.controllers.ref is not None:
        return f"RocketMQCluster {home} has no controllers of its own: name {provider.home} instead"
    if place.namespace not in {home.namespace, *provider.spec.controllers.allowed_namespaces}:
        return f"spec.controllers.allowedNamespaces of RocketMQCluster {home} lacks {place.namespace}"
    names = {one.partition("/")[2]: one for one in noted if one != str(place)} | {home.cluster: str(home)}
    if place.cluster in names:
        return f"{names[place.cluster]} has the name {place.cluster} at these controllers: take another name"
    if user.spec.has_users != provider.spec.has_users:
        theirs, ours = provider.spec.authentication.type, user.spec.authentication.type
        return f"authentication.type is {ours}, and {theirs} in {home}, with whose user controllers sign"
    return ""


def hold(owner: Owner, *, is_held: bool) -> Apply:
    """Return what puts our finalizer on a cluster or takes it away; other managers' finalizers stay."""
    metadata: Json = {"name": owner.name, "namespace": owner.namespace, "uid": owner.uid}
    finalizers = {"finalizers": [CONTROLLERS_FINALIZER]} if is_held else {}
    body = {"apiVersion": owner.api_version, "kind": owner.kind, "metadata": metadata | finalizers}
    return Apply(body, "others use its controllers" if is_held else "no other uses its controllers")


def held_deletion(users: Sequence[str]) -> Wait:
    """Say why the deletion of a cluster is held."""
    return Wait(IN_USE, f"{', '.join(users)} use these controllers: delete them first")


def deletion_finding(provider: SharingCluster, users: Sequence[str]) -> Finding | None:
    """Return the condition of a cluster whose deletion is held; None without a deletion."""
    if not provider.is_deleted or not users:
        return None
    wait = held_deletion(users)
    return make_finding("DeletionHeld", holds=True, reason=wait.reason, message=wait.message)
