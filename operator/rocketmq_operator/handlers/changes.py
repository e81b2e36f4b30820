"""Forward each change that a reflection receives.

The receivers are the fast takeover, the work queue, the followers of controllers and the metrics.

    kind                                    receiver, and what it does
    RocketMQCluster                         `ClusterListener` follows its controllers; a pass over it, and
                                            over the cluster whose controllers it uses
    BrokerGroup, SLOReport, Topic,
      ConsumerGroup, User                   a pass over it, if its spec or a request changed; the takeover
                                            forgets a deleted group; the metrics note a hibernated group
    Pod with a group label                  the takeover, then a pass over its group
    Job with a report label                 a pass over its SLOReport
    Service of a group                      a pass over its group, and over its cluster
    any other child                         a pass over its group or cluster
    Failover                                none: the operator itself writes it

A reflection calls `ChangeRouter.route` in the same step of the event loop in which the event arrives. No
queue and no delay stands between a pod's event and the takeover. The work queue only remembers that a pass is
needed. The regular pass finds changes that a watch missed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from rocketmq_operator.api.names import (
    CLUSTER_KIND,
    CLUSTER_LABEL,
    FAILOVER_KIND,
    GROUP_KIND,
    GROUP_LABEL,
    REPORT_KIND,
    REPORT_LABEL,
    SWITCHOVER_ANNOTATION,
)
from rocketmq_operator.clients.reflection import OURS
from rocketmq_operator.handlers.scheduler import PassScheduler, ResourceName
from rocketmq_operator.handlers.takeover import Takeover
from rocketmq_operator.plan.common.endpoints import home_of
from rocketmq_operator.plan.pods.observed import parse_pod


class ClusterListener(Protocol):
    """Told which clusters there are, so that their controllers are followed."""

    def cluster_exists(self, namespace: str, name: str, body: Mapping[str, Any]) -> None:
        """Note that a cluster exists, or changed."""
        ...

    def cluster_gone(self, namespace: str, name: str) -> None:
        """Note that a cluster is gone."""
        ...


GroupListener = Callable[[Mapping[str, Any], bool], None]
"""Called with each BrokerGroup that appears or changes, and whether it is gone."""


def _ignore_group(_body: Mapping[str, Any], _gone: bool) -> None:
    return


@dataclass(frozen=True, slots=True)
class ChangeReceivers:
    """The receivers of watch events."""

    work: PassScheduler
    takeover: Takeover
    on_cluster: ClusterListener
    on_group: GroupListener = _ignore_group


LastWakeUps = dict[ResourceName, tuple[str, int, str, bool]]
"""UID, generation, requested switchover and pending deletion of each resource at its last wake-up."""
_OWNERS: Final = (
    (GROUP_LABEL, GROUP_KIND.kind),
    (CLUSTER_LABEL, CLUSTER_KIND.kind),
    (REPORT_LABEL, REPORT_KIND.kind),
)
"""The labels that name a child's owner, and the owner's kind; the first label that a child has counts."""


class ChangeRouter:
    """Forwards changes in the reflections to their receivers; each call returns without waiting."""

    def __init__(self, receivers: ChangeReceivers) -> None:
        """Store the receivers."""
        self._receivers: Final = receivers
        self._last_wake_ups: Final[LastWakeUps] = {}

    def route(self, kind: str, body: Mapping[str, Any], gone: bool) -> None:
        """Wake a changed resource of ours, or the owner of a changed child.

        The reflections already contain the change.
        """
        if kind == FAILOVER_KIND.kind:
            return
        if kind in OURS:
            self._route_own(_resource(kind, body), body, gone=gone)
            return
        if kind == "Pod":
            # Why first: the takeover may hold the group, and no pass must begin before.
            self._route_pod(body, gone=gone)
        self._wake_owner(kind, body)

    def _route_own(self, resource: ResourceName, body: Mapping[str, Any], *, gone: bool) -> None:
        """Wake for a new spec or a person's wish, not for the status that we write ourselves."""
        cluster = (resource.namespace, resource.name)
        if resource.kind == CLUSTER_KIND.kind:
            clusters = self._receivers.on_cluster
            clusters.cluster_gone(*cluster) if gone else clusters.cluster_exists(*cluster, body)
            self._wake_provider(body)
        if resource.kind == GROUP_KIND.kind:
            self._receivers.on_group(body, gone)
            if gone:
                self._receivers.takeover.forget(*cluster)
        metadata = body["metadata"]
        requested_switchover = (metadata.get("annotations") or {}).get(SWITCHOVER_ANNOTATION, "")
        deleting = "deletionTimestamp" in metadata
        wake_up = (metadata.get("uid", ""), metadata.get("generation", 0), requested_switchover, deleting)
        if gone:
            self._last_wake_ups.pop(resource, None)
        elif self._last_wake_ups.get(resource) == wake_up:
            return
        else:
            self._last_wake_ups[resource] = wake_up
        self._receivers.work.wake(resource)

    def _route_pod(self, body: Mapping[str, Any], *, gone: bool) -> None:
        metadata = body["metadata"]
        if group := (metadata.get("labels") or {}).get(GROUP_LABEL):
            self._receivers.takeover.note_pod(metadata["namespace"], group, parse_pod(body), gone=gone)

    def _wake_owner(self, kind: str, body: Mapping[str, Any]) -> None:
        """Wake the owner of a child, if it exists.

        The first list of a kind may come before that of its owners.
        """
        metadata = body["metadata"]
        labels = metadata.get("labels") or {}
        owner = next(
            (
                ResourceName(owner_kind, metadata["namespace"], labels[label])
                for label, owner_kind in _OWNERS
                if labels.get(label)
            ),
            None,
        )
        if owner is not None and owner in self._last_wake_ups:
            self._receivers.work.wake(owner, changed=False)
        if kind == "Service" and labels.get(GROUP_LABEL) and labels.get(CLUSTER_LABEL):
            self._wake_cluster(ResourceName(CLUSTER_KIND.kind, metadata["namespace"], labels[CLUSTER_LABEL]))

    def _wake_provider(self, body: Mapping[str, Any]) -> None:
        """Wake the cluster whose controllers a cluster uses: it notes its users."""
        ref = ((body.get("spec") or {}).get("controllers") or {}).get("ref")
        if ref is not None:
            home = home_of(ref.get("namespace"), ref.get("name", ""), body["metadata"]["namespace"])
            self._wake_cluster(ResourceName(CLUSTER_KIND.kind, *home))

    def _wake_cluster(self, cluster: ResourceName) -> None:
        """Wake a cluster for a change outside its own objects."""
        if cluster in self._last_wake_ups:
            self._receivers.work.wake(cluster, changed=False)


def _resource(kind: str, body: Mapping[str, Any]) -> ResourceName:
    return ResourceName(kind, body["metadata"]["namespace"], body["metadata"]["name"])
