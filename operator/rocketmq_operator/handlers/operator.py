"""The running operator: the parts put together, and what a watch brings handed to them.

Our own kinds come by the reflections (`clients.reflection`): they go on when a definition is deleted and applied again, and find a kind
that comes later. kopf settles at its start which kinds it watches and ends when one is gone, so it watches only pods and Jobs, which every
Kubernetes has. Its handlers are `on.event` only: they need no finalizer, write no annotation, and only request a pass. The regular pass
finds the changes that happened while a watch was down.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import kopf

from rocketmq_operator.api.names import (
    CLUSTER_KIND,
    CLUSTER_LABEL,
    FAILOVER_KIND,
    GROUP,
    GROUP_KIND,
    GROUP_LABEL,
    REPORT_KIND,
    REPORT_LABEL,
    SWITCHOVER_ANNOTATION,
)
from rocketmq_operator.clients.reflection import OURS
from rocketmq_operator.handlers.takeover import Takeover
from rocketmq_operator.handlers.work import Resource, Work
from rocketmq_operator.plan.pods.observed import pod_seen

WATCH_SERVER_TIMEOUT_S: Final = 60
WATCH_CLIENT_TIMEOUT_S: Final = 90
"""A watch that brings nothing is renewed: a dead one is found after this time at the latest."""
RETRY_DELAYS_S: Final = (1.0, 1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0, 30.0)


class ClusterWatch(Protocol):
    """Told which clusters there are, so that their controllers are followed."""

    def there(self, namespace: str, name: str, body: Mapping[str, Any]) -> None:
        """Note that a cluster exists, or changed."""
        ...

    def gone(self, namespace: str, name: str) -> None:
        """Note that a cluster is gone."""
        ...


@dataclass(frozen=True, slots=True)
class Watched:
    """The receivers of watch events."""

    work: Work
    takeover: Takeover
    on_cluster: ClusterWatch


Known = dict[Resource, tuple[str, int, str, bool]]
"""UID, generation, requested switchover and pending deletion of each resource at its last wake-up."""


class EndlessDelays:
    """kopf's delays between tries of a call: growing, then the same for ever. Without a length, kopf never gives up."""

    def __iter__(self) -> Iterator[float]:
        """Yield the delays; there is always another."""
        yield from RETRY_DELAYS_S
        while True:
            yield RETRY_DELAYS_S[-1]


def registry_for(watched: Watched) -> kopf.OperatorRegistry:
    """Return kopf's registry with our handlers."""
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    async def login(**arguments: Any) -> Any:  # noqa: ANN401 - kopf's own types
        return kopf.login_via_client(**arguments)

    @kopf.on.startup(registry=registry)
    async def configure(settings: kopf.OperatorSettings, **_: Any) -> None:  # noqa: ANN401 - kopf's own types
        apply_settings(settings)

    @kopf.on.event("pods", labels={CLUSTER_LABEL: kopf.PRESENT}, registry=registry)
    async def on_pod(type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002, ANN401 - kopf's names
        note_pod(watched, dict(body), gone=type == "DELETED")

    @kopf.on.event("batch", "v1", "jobs", labels={REPORT_LABEL: kopf.PRESENT}, registry=registry)
    async def on_run(body: kopf.Body, **_: Any) -> None:  # noqa: ANN401 - kopf's own types
        metadata = body["metadata"]
        name = metadata["labels"][REPORT_LABEL]
        watched.work.wake(Resource(REPORT_KIND.kind, metadata["namespace"], name))

    return registry


class Changes:
    """Forwards changes in the reflections to the passes that must look."""

    def __init__(self, watched: Watched) -> None:
        """Take who is told."""
        self._watched: Final = watched
        self._known: Final[Known] = {}

    def note(self, kind: str, body: Mapping[str, Any], gone: bool) -> None:
        """Wake a changed resource of ours, or the owner of a changed child; the reflections already contain the change."""
        if kind not in OURS:
            _wake_owner(self._watched.work, body)
        elif kind != FAILOVER_KIND.kind:
            self._note_own(_resource(kind, body), body, gone=gone)

    def _note_own(self, resource: Resource, body: Mapping[str, Any], *, gone: bool) -> None:
        """Wake for a new spec or a person's wish, not for the status that we write ourselves."""
        where = (resource.namespace, resource.name)
        if resource.kind == CLUSTER_KIND.kind:
            clusters = self._watched.on_cluster
            clusters.gone(*where) if gone else clusters.there(*where, body)
        if resource.kind == GROUP_KIND.kind and gone:
            self._watched.takeover.forget(*where)
        metadata = body["metadata"]
        asked = (metadata.get("annotations") or {}).get(SWITCHOVER_ANNOTATION, "")
        going = "deletionTimestamp" in metadata
        news = (metadata.get("uid", ""), metadata.get("generation", 0), asked, going)
        if gone:
            self._known.pop(resource, None)
        elif self._known.get(resource) == news:
            return
        else:
            self._known[resource] = news
        self._watched.work.wake(resource)


def apply_settings(settings: kopf.OperatorSettings) -> None:
    """Set what kopf must know: no peering (the Lease decides), our own prefixes, no Events of its own."""
    settings.peering.standalone = True
    # Else it lists and watches the definitions and namespaces of the whole cluster, which the operator does not need.
    settings.scanning.disabled = True
    settings.posting.enabled = False
    settings.persistence.finalizer = f"{GROUP}/operator"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=GROUP)
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=GROUP)
    settings.watching.server_timeout = WATCH_SERVER_TIMEOUT_S
    settings.watching.client_timeout = WATCH_CLIENT_TIMEOUT_S
    settings.networking.error_backoffs = EndlessDelays()
    logging.getLogger("kopf").setLevel(logging.WARNING)


def note_pod(watched: Watched, body: dict[str, Any], *, gone: bool) -> None:
    """Forward a pod to the receivers for its group; `Changes` wakes its owner once the reflections contain the pod."""
    group = body["metadata"].get("labels", {}).get(GROUP_LABEL)
    if group is not None:
        watched.takeover.note_pod(body["metadata"]["namespace"], group, pod_seen(body), gone=gone)


def _wake_owner(work: Work, body: Mapping[str, Any]) -> None:
    metadata = body["metadata"]
    labels = metadata.get("labels", {})
    if group := labels.get(GROUP_LABEL):
        work.wake(Resource(GROUP_KIND.kind, metadata["namespace"], group), told=False)
    elif cluster := labels.get(CLUSTER_LABEL):
        work.wake(Resource(CLUSTER_KIND.kind, metadata["namespace"], cluster), told=False)


def _resource(kind: str, body: Mapping[str, Any]) -> Resource:
    return Resource(kind, body["metadata"]["namespace"], body["metadata"]["name"])
