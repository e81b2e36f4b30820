"""The pods of clusters and their groups, as the API server tells of them.

Problem: the scrape targets, the owner of an Event and the kubelets to ask all follow from pods; pods come,
go, move and are replaced under the same name, and often the API server does not answer at that time. Shape:
`pod_of` takes the few fields of a Pod that anybody here needs, and checks each. `NamespacePods` hears a list
and a watch (`watching`): a complete list replaces the known pods, so that nothing is missing between two of
its pages. Never: a pod is not guessed. One that makes no sense is left out of a list and named in the log; in
a watch it leads to a list, since the known pod that it describes cannot be identified.

Source: Kubernetes documentation, API reference, Pod v1 core; "Labels and Selectors".
"""

import asyncio
import ipaddress
import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from slo_pipeline.collect.kubernetes.api import ExpiredError, Json
from slo_pipeline.collect.kubernetes.members import Belonging, Members

CLUSTER_LABEL = "rocketmq-ha.dev/cluster"
GROUP_LABEL = "rocketmq-ha.dev/group"
COMPONENT_LABEL = "app.kubernetes.io/component"
PODS_MAX = 20_000
"""Of one namespace; further ones are left out."""
PAGE_PODS = 100
"""A pod is some 10 kB of JSON, and a page is read while everything else waits."""

_FINISHED = ("Succeeded", "Failed")
# Longer ones exist in no API object; and segments must hold text that every reader can read.
_WORD = re.compile(r"[!-~]{0,253}")

_log = logging.getLogger(__name__)


class PodError(ValueError):
    """The API server sent an object that is not a pod; the text names the field."""


@dataclass(frozen=True, slots=True)
class Pod:
    """The known fields of a pod; "" for an absent field.

    Attributes:
        uid: another one for a pod that took the place of this one.
        cluster: its RocketMQCluster.
        group: its broker group.
        component: what it is: controller, broker, log-replica and others.
        address: where it answers; "" before it has an address, and when all of its containers have ended for
            good.
        node: on which node it is.
        node_address: where that node's kubelet answers.
    """

    namespace: str
    name: str
    uid: str
    cluster: str
    group: str
    component: str
    address: str
    node: str
    node_address: str


def pod_of(value: Mapping[str, Any]) -> Pod:
    """Return what a v1 Pod says.

    Raises:
        PodError: a field is not valid for a pod.
    """
    metadata, spec, status = (_part(value, name) for name in ("metadata", "spec", "status"))
    labels = _part(metadata, "labels")
    name, namespace = _word(metadata, "name"), _word(metadata, "namespace")
    if not name or not namespace:
        raise PodError("it has no name")
    finished = _word(status, "phase") in _FINISHED
    return Pod(
        namespace,
        name,
        _word(metadata, "uid"),
        _word(labels, CLUSTER_LABEL),
        _word(labels, GROUP_LABEL),
        _word(labels, COMPONENT_LABEL),
        "" if finished else _address(status, "podIP"),
        _word(spec, "nodeName"),
        _address(status, "hostIP"),
    )


def _part(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = value.get(name) if isinstance(value, Mapping) else None
    if part is None:
        return {}
    if not isinstance(part, Mapping):
        raise PodError(f"{name} must be an object, not {part!r:.80}")
    return part


def _word(part: Mapping[str, Any], name: str) -> str:
    value = part.get(name)
    if value is None:
        return ""
    if not isinstance(value, str) or not _WORD.fullmatch(value):
        raise PodError(f"{name} must be a word, not {value!r:.80}")
    return value


def _address(part: Mapping[str, Any], name: str) -> str:
    value = _word(part, name)
    try:
        return str(ipaddress.ip_address(value)) if value else ""
    except ValueError as error:
        raise PodError(f"{name} must be an address, not {value!r:.80}") from error


class NamespacePods:
    """The pods of one namespace; a listener of the list and of the watch of them.

    Attributes:
        known: by name.
    """

    def __init__(self, namespace: str, members: Members, changed: asyncio.Event) -> None:
        """Begin with no pods.

        Args:
            namespace: whose.
            members: hears of each member of a broker group.
            changed: set when there is another pod, or something else is known of one.
        """
        self.known: dict[str, Pod] = {}
        self._namespace = namespace
        self._members = members
        self._changed = changed
        self._listed: dict[str, Pod] | None = None
        self._full = False

    async def begin(self) -> None:
        """Collect a new list beside the known pods."""
        self._listed = {}

    async def end(self) -> None:
        """Replace the known pods with the list."""
        if self._listed is not None and self._listed != self.known:
            self.known = self._listed
            self._changed.set()
        self._listed = None

    async def take(self, value: Json) -> None:
        """Take a pod.

        Raises:
            ExpiredError: the watch sent an object that is not a pod.
        """
        try:
            pod = self._checked(value)
        except PodError as error:
            if self._listed is None:
                raise ExpiredError(f"pods of {self._namespace}: {error}") from error
            _log.warning("a pod of %s is left out: %s", self._namespace, error)
            return
        self._remember(pod)
        pods = self.known if self._listed is None else self._listed
        if len(pods) >= PODS_MAX and pod.name not in pods:
            if not self._full:
                _log.warning("more than %d pods in %s: the others are left out", PODS_MAX, self._namespace)
            self._full = True
        elif pods.get(pod.name) != pod:
            pods[pod.name] = pod
            if self._listed is None:
                self._changed.set()

    async def drop(self, value: Json) -> None:
        """Forget a pod, unless another one has its name.

        Raises:
            ExpiredError: the watch sent an object that is not a pod.
        """
        try:
            pod = self._checked(value)
        except PodError as error:
            raise ExpiredError(f"pods of {self._namespace}: {error}") from error
        known = self.known.get(pod.name)
        if known is not None and known.uid == pod.uid:
            del self.known[pod.name]
            self._changed.set()

    def _checked(self, value: Json) -> Pod:
        pod = pod_of(value)
        if pod.namespace != self._namespace:
            raise PodError(f"{pod.name} is of {pod.namespace}")
        return pod

    def _remember(self, pod: Pod) -> None:
        if pod.group:
            self._members.remember(pod.namespace, pod.name, Belonging(pod.cluster, pod.group))


class PodBook:
    """The pods of several namespaces.

    Attributes:
        changed: set when there is another pod, or something else is known of one; whoever looks clears it
            first.
        members: whose pods are members of broker groups.
    """

    def __init__(self, namespaces: Iterable[str]) -> None:
        self.changed = asyncio.Event()
        self.members = Members()
        self.namespaces = {name: NamespacePods(name, self.members, self.changed) for name in namespaces}

    def of(self, namespaces: Iterable[str]) -> list[Pod]:
        """Return the pods of some namespaces, in the order of these and of the pods' names."""
        return [pod for name in namespaces for _, pod in sorted(self.namespaces[name].known.items())]
