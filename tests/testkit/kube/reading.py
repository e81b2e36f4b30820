"""Objects of a Kubernetes cluster, read over connections that stay open.

Tests poll for what they await. A kubectl for each look is a new process and a new TLS handshake: it costs
0.1 s of a core, and two in each second took a seventh of the machine from the cluster under test.

Never writes: tests make changes with kubectl and helm, as people do.
"""

import functools
import json
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import urllib3
from kubernetes import client, config

Json = dict[str, Any]
_TIMEOUT: Final = urllib3.Timeout(connect=5.0, read=30.0)
_CORE: Final = "/api"
_GROUPS: Final = "/apis"
_DISCOVERY: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_RETRIES: Final = urllib3.Retry(3, backoff_factor=0.2, redirect=2, status=False)
"""A restarted API server closes the connections that it had. A page behind its proxy may lead to another."""


class ReadError(Exception):
    """The API server did not answer, or refused; the text names the path and the server's reason."""


@dataclass(frozen=True, slots=True)
class Resource:
    """Where objects of one kind are.

    Attributes:
        root: path of the group and version, such as `/apis/apps/v1`.
        plural: the last part of the path.
        is_namespaced: whether the objects lie in namespaces.
    """

    root: str
    plural: str
    is_namespaced: bool

    def path(self, namespace: str, name: str = "") -> str:
        """Return the path of the kind's objects, or of one of them."""
        place = f"/namespaces/{namespace}" if self.is_namespaced else ""
        return f"{self.root}{place}/{self.plural}" + (f"/{name}" if name else "")


class ApiReader:
    """Reads one cluster's objects, by the names of kinds that kubectl takes. All calls block."""

    def __init__(self, kubeconfig: Path) -> None:
        """Take the kubeconfig of the cluster and of the account that reads."""
        settings = client.Configuration()
        settings.retries = _RETRIES
        self._client: Any = config.new_client_from_config(str(kubeconfig), client_configuration=settings)
        self._resources: dict[str, Resource] = {}

    def get(self, kind: str, namespace: str, name: str) -> Json:
        """Return one object.

        Raises:
            ReadError: it does not exist, or cannot be read.
        """
        return _as_shown(json.loads(self.text(self._resource(kind).path(namespace, name))))

    def find(self, kinds: str, namespace: str, selector: str = "") -> list[Json]:
        """Return the objects of a kind, or of several with commas between, those with matching labels.

        Raises:
            ReadError: they cannot be read.
        """
        found = []
        for kind in kinds.split(","):
            path = self._resource(kind).path(namespace)
            listed = json.loads(self.text(path, selector))
            type_ = {"apiVersion": listed["apiVersion"], "kind": listed["kind"].removesuffix("List")}
            found += [_as_shown(type_ | one) for one in listed["items"]]
        return found

    def text(self, path: str, selector: str = "", *, accept: str = "*/*") -> str:
        """Return what the API server answers at a path.

        Raises:
            ReadError: not with a success.
        """
        settings = self._client.configuration
        headers = {one["key"]: one["value"] for one in settings.auth_settings().values()}
        try:
            answer = self._client.rest_client.pool_manager.request(
                "GET",
                f"{settings.host}{path}",
                fields={"labelSelector": selector} if selector else {},
                headers=headers | {"Accept": accept},
                timeout=_TIMEOUT,
            )
        except urllib3.exceptions.HTTPError as error:
            raise ReadError(f"get {path}: {error}") from error
        if answer.status != HTTPStatus.OK:
            raise ReadError(f"get {path}: {answer.status} {_reason(answer.data)}")
        return str(answer.data.decode())

    def _resource(self, kind: str) -> Resource:
        if kind not in self._resources:  # it may be installed since the last look
            for root in (_GROUPS, _CORE):  # the core's names count before those of the groups
                self._resources |= _resources(root, json.loads(self.text(root, accept=_DISCOVERY)))
        if kind not in self._resources:
            raise ReadError(f"get {kind}: the API server does not have this kind")
        return self._resources[kind]


@functools.cache
def reader(kubeconfig: Path) -> ApiReader:
    """Return the reader of a kubeconfig: all calls of a process share its connections."""
    return ApiReader(kubeconfig)


def _resources(root: str, discovered: Json) -> dict[str, Resource]:
    """Return each kind that the API server has, by all its names: plural, singular, short, with the group."""
    found: dict[str, Resource] = {}
    for group in discovered["items"]:
        name = group["metadata"].get("name", "")
        version = group["versions"][0]  # the one that the server prefers
        place = f"{root}/{name}/{version['version']}" if name else f"{root}/{version['version']}"
        for one in version["resources"]:
            resource = Resource(place, one["resource"], one["scope"] == "Namespaced")
            words = [one["resource"], one["singularResource"], *one.get("shortNames", [])]
            for word in words:
                found.setdefault(word, resource)
                found[f"{word}.{name}"] = resource
    return found


def _as_shown(body: Json) -> Json:
    """Return an object as kubectl shows it, without the record of who manages which field."""
    body["metadata"].pop("managedFields", None)
    return body


def _reason(body: bytes) -> str:
    try:
        status = json.loads(body)
        return f"{status['reason']}: {status['message']}"
    except (ValueError, KeyError, TypeError):
        return body.decode(errors="replace")[:500]
