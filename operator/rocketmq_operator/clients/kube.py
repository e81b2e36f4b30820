"""Kubernetes through the `kubernetes` package's dynamic client, off the event loop.

The package blocks, so each call runs in a thread of a bounded pool. Address takeovers have a pool of their
own: they must not stand in line behind a reconcile that waits for a slow API server.
"""

import asyncio
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import urllib3
import yaml
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.exceptions import ConflictError, NotFoundError, ResourceNotFoundError

from controller_core import bounded_json
from rocketmq_operator.api.names import API_VERSION, CERTIFICATE_KIND, FIELD_MANAGER, OUR_KINDS
from rocketmq_operator.clients.api import (
    EVENTS_MAX,
    BusyError,
    Json,
    KindUnknownError,
    KubeConflictError,
    PeerUnavailableError,
    RequestRefusedError,
)
from rocketmq_operator.plan.common.objects import API_VERSIONS

CONNECT_TIMEOUT_S: Final = 3.0
ANSWER_TIMEOUT_S: Final = 10.0
_TIMEOUT_S: Final = (CONNECT_TIMEOUT_S, ANSWER_TIMEOUT_S)
THREADS_MAX: Final = 8
PAGE_OBJECTS_MAX: Final = 500
RETRY_AFTER_MAX_S: Final = 60.0
TEXT_LENGTH_MAX: Final = 500
_UNREADABLE: Final = (
    config.ConfigException,
    OSError,
    yaml.YAMLError,
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
)
"""What the package raises for a kubeconfig: it looks up keys of whatever YAML there is."""
_NO_ANSWER: Final = (urllib3.exceptions.HTTPError, OSError, ValueError)
"""ValueError: an answer that is not JSON, from a server other than the API server."""
_NO_CACHE: Final = str(Path(os.devnull) / "none")
"""Where no file can be. A cache of which kinds there are outlives this process on its volume, and definitions
that were deleted since."""
BUSY: Final = frozenset({429, 503})
_REFUSED: Final = frozenset({400, 403, 405, 413, 422})
VERSIONS: Final[Mapping[str, str]] = {
    **API_VERSIONS,
    **{one.kind: API_VERSION for one in OUR_KINDS},
    "Event": "events.k8s.io/v1",
    "Lease": "coordination.k8s.io/v1",
    "Namespace": "v1",
    "PersistentVolume": "v1",
}


def connect() -> DynamicClient:
    """Return a client for the cluster that we run in, or else for the current kubeconfig. Blocks.

    Raises:
        PeerUnavailableError: no configuration exists, or the API server does not answer.
    """
    try:
        config.load_incluster_config()
    except config.ConfigException:
        return connect_as_person(None, None)
    return _client()


def connect_as_person(kubeconfig: str | None, context: str | None) -> DynamicClient:
    """Return a client for a kubeconfig, as kubectl finds it when None, and one of its contexts. Blocks.

    Raises:
        PeerUnavailableError: no configuration exists, or the API server does not answer.
    """
    try:
        config.load_kube_config(kubeconfig, context)
    except _UNREADABLE as error:
        raise PeerUnavailableError(f"no configuration for Kubernetes: {one_line(str(error))}") from error
    return _client()


def namespace_of_person(kubeconfig: str | None, context: str | None) -> str:
    """Return the namespace that kubectl would use. Blocks.

    Raises:
        PeerUnavailableError: no configuration exists, or it lacks the context.
    """
    try:
        found: Any = config.list_kube_config_contexts(kubeconfig)
    except _UNREADABLE as error:
        raise PeerUnavailableError(f"no configuration for Kubernetes: {one_line(str(error))}") from error
    contexts, current = found
    wanted = context or current["name"]
    chosen = next((one for one in contexts if one["name"] == wanted), None)
    if chosen is None:
        raise PeerUnavailableError(f"no configuration for Kubernetes: context {wanted} does not exist")
    return str(chosen["context"].get("namespace") or "default")


class _TimedApiClient(client.ApiClient):  # type: ignore[misc]  # the package has no types
    """Gives every request a time-out, also those with which the package itself looks for kinds."""

    def call_api(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the package has no types
        kwargs["_request_timeout"] = _TIMEOUT_S
        return super().call_api(*args, **kwargs)


def _client() -> DynamicClient:
    settings = client.Configuration.get_default_copy()
    settings.connection_pool_maxsize = 2 * THREADS_MAX
    settings.retries = False
    try:
        return DynamicClient(_TimedApiClient(settings), cache_file=_NO_CACHE)
    except ApiException as error:
        raise PeerUnavailableError(
            f"the API server {settings.host} refused: {error.status} {_text(error)}"
        ) from error
    except _NO_ANSWER as error:
        raise PeerUnavailableError(
            f"the API server {settings.host} does not answer: {error_cause(error)}"
        ) from error


def missing_kinds(dynamic: DynamicClient) -> list[str]:
    """Return the kinds that we need and this Kubernetes has not.

    Ours are among them before their definitions are installed. The call blocks.

    Raises:
        PeerUnavailableError: the API server does not answer.
    """

    def is_missing(kind: str) -> bool:
        try:
            dynamic.resources.get(api_version=VERSIONS[kind], kind=kind)
        except ResourceNotFoundError:
            return True
        except ApiException as error:
            raise PeerUnavailableError(f"the API server refused: {error.status} {_text(error)}") from error
        except _NO_ANSWER as error:
            raise PeerUnavailableError(f"the API server does not answer: {error_cause(error)}") from error
        return False

    return [kind for kind in VERSIONS if kind != CERTIFICATE_KIND and is_missing(kind)]


class KubeClient:
    """`KubeApi` over a dynamic client; every call takes at most `CONNECT_TIMEOUT_S` + `ANSWER_TIMEOUT_S`."""

    def __init__(self, dynamic: DynamicClient, threads_max: int = THREADS_MAX) -> None:
        """Take a client that may be shared, and start a pool of threads."""
        self._dynamic: Final = dynamic
        self._pool: Final = ThreadPoolExecutor(threads_max, thread_name_prefix="kube")

    def close(self) -> None:
        """Let the threads go."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def get(self, kind: str, namespace: str, name: str) -> Json | None:
        """Return an object, None if it does not exist."""
        try:
            return await self._run(kind, lambda api: api.get(name=name, namespace=namespace or None))
        except _MissingError:
            return None

    async def find(self, kind: str, namespace: str, labels: Mapping[str, str]) -> list[Json]:
        """Return the objects of a kind that carry all these labels, each with kind and apiVersion."""
        try:
            return await self._find(kind, namespace, labels)
        except _MissingError as error:
            raise KindUnknownError(f"this Kubernetes does not know kind {kind} any more") from error

    async def _find(self, kind: str, namespace: str, labels: Mapping[str, str]) -> list[Json]:
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        items: list[Json] = []
        token: str | None = None
        while True:
            page = await self._run(
                kind,
                lambda api, token=token: api.get(
                    namespace=namespace or None,
                    label_selector=selector,
                    limit=PAGE_OBJECTS_MAX,
                    _continue=token,
                ),
            )
            items += [{"kind": kind, "apiVersion": VERSIONS[kind]} | item for item in page.get("items") or []]
            token = page.get("metadata", {}).get("continue")
            if not token:
                return items

    async def events(self, kind: str, namespace: str, name: str) -> list[Json]:
        """Return the Events about an object, at most `EVENTS_MAX`."""
        selector = f"regarding.kind={kind},regarding.name={name}"
        page = await self._run(
            "Event",
            lambda api: api.get(namespace=namespace, field_selector=selector, limit=EVENTS_MAX),
        )
        return list(page.get("items") or [])

    async def apply(self, body: Json) -> Json:
        """Write an object by server-side apply as our field manager."""
        return await self._run(body["kind"], lambda api: self._apply(api, body))

    async def apply_status(self, body: Json) -> Json:
        """Write an object's status by server-side apply."""
        return await self._run(body["kind"], lambda api: self._apply(api.status, body))

    async def create(self, body: Json) -> Json:
        """Create an object; raise `KubeConflictError` if it exists."""
        namespace = body["metadata"]["namespace"]
        return await self._run(body["kind"], lambda api: api.create(body=body, namespace=namespace))

    async def replace(self, body: Json) -> Json:
        """Write an object over the version that it carries."""
        namespace = body["metadata"]["namespace"]
        return await self._run(body["kind"], lambda api: api.replace(body=body, namespace=namespace))

    async def annotate(
        self, kind: str, namespace: str, name: str, annotations: Mapping[str, str | None]
    ) -> Json:
        """Write these annotations and no other field; None removes one."""
        return await self.patch(kind, namespace, name, {"metadata": {"annotations": dict(annotations)}})

    async def patch(self, kind: str, namespace: str, name: str, body: Json) -> Json:
        """Write these fields and no other; None removes one.

        Without a namespace, of an object that is in none.
        """
        return await self._run(
            kind,
            lambda api: api.patch(
                body=body,
                name=name,
                namespace=namespace or None,
                content_type="application/merge-patch+json",
            ),
        )

    async def delete(self, kind: str, namespace: str, name: str, uid: str, *, by_force: bool = False) -> None:
        """Delete that very object; nothing happens if it is gone or another one has its name."""
        options: Json = {"preconditions": {"uid": uid}} if uid else {}
        if by_force:
            options["gracePeriodSeconds"] = 0
        try:
            await self._run(kind, lambda api: api.delete(name=name, namespace=namespace, body=options))
        except (_MissingError, KubeConflictError):
            return

    def _apply(self, api: Any, body: Json) -> Any:  # noqa: ANN401 - the package has no types
        return self._dynamic.server_side_apply(
            api,
            body=body,
            name=body["metadata"]["name"],
            namespace=body["metadata"]["namespace"],
            field_manager=FIELD_MANAGER,
            force_conflicts=True,
        )

    async def _run(self, kind: str, call: Callable[..., Any]) -> Json:
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._blocking, kind, call)

    def _blocking(self, kind: str, call: Callable[..., Any]) -> Json:
        try:
            api = self._dynamic.resources.get(api_version=VERSIONS[kind], kind=kind)
            value: Json = call(api).to_dict()
        except ResourceNotFoundError as error:
            raise KindUnknownError(
                f"this Kubernetes does not know kind {kind} of {VERSIONS[kind]}"
            ) from error
        except NotFoundError as error:
            raise _MissingError(f"{kind}: {error.summary()}") from error
        except ConflictError as error:
            raise KubeConflictError(f"{kind}: {error.summary()}") from error
        except ApiException as error:
            if error.status in BUSY:
                problem = f"{kind}: {error.status} {error.reason}: {_text(error)}"
                raise BusyError(problem, retry_after_s(error.headers or {})) from error
            kind_of_error = RequestRefusedError if error.status in _REFUSED else PeerUnavailableError
            raise kind_of_error(f"{kind}: {error.status} {error.reason}: {_text(error)}") from error
        except _NO_ANSWER as error:
            raise PeerUnavailableError(
                f"{kind}: the API server does not answer: {error_cause(error)}"
            ) from error
        return value


class _MissingError(PeerUnavailableError):
    """The object does not exist."""


def retry_after_s(headers: Mapping[str, str]) -> float:
    """Return how long an answer asks to be left alone, at most `RETRY_AFTER_MAX_S`.

    The result is 0 where it does not say.
    """
    text = headers.get("Retry-After", "")
    return min(RETRY_AFTER_MAX_S, float(text)) if text.isascii() and text.isdigit() else 0.0


def error_cause(error: Exception) -> str:
    """Return in one line the root cause of a failed request, below the package's retries and connections."""
    while isinstance(error, urllib3.exceptions.MaxRetryError) and error.reason is not None:
        error = error.reason
    return one_line(str(error).rpartition(": Failed to establish a new connection: ")[2])


def one_line(text: str) -> str:
    """Return a text in one line of at most `TEXT_LENGTH_MAX` characters."""
    return " ".join(text.split())[:TEXT_LENGTH_MAX]


def _text(error: ApiException) -> str:
    """Return what the API server says.

    That is the message of its Status, or else the answer as it is, or the reason.
    """
    body = error.body.decode(errors="replace") if isinstance(error.body, bytes) else str(error.body or "")
    try:
        message = bounded_json.decode_object(body).get("message")
    except ValueError:
        message = ""
    return one_line(str(message or body or error.reason))
