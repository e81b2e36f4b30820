"""Lists and watches of the API server on the event loop: what a reflection is made of.

The `kubernetes` package's own watch holds a thread for each kind. This one takes the package's configuration,
address, certificates and token as they are, and reads JSON lines. It only watches: `clients.kube` reads and
writes.
"""

import ssl
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, Protocol

import aiohttp
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.exceptions import ResourceNotFoundError

from controller_core import bounded_json
from controller_core.channel.http_answers import read_body, read_problem
from rocketmq_operator.api.names import API_VERSION, OUR_KINDS
from rocketmq_operator.clients.api import BusyError, Json, PeerUnavailableError
from rocketmq_operator.clients.kube import BUSY, PAGE_OBJECTS_MAX, VERSIONS, retry_after_s

WATCH_S: Final = 60
"""After this time the API server ends a watch, and it begins again."""
WATCH_SLACK_S: Final = 15.0
"""A watch that is over by so much and has not ended leads nowhere."""
LIST_TIMEOUT: Final = aiohttp.ClientTimeout(total=30.0, sock_connect=3.0)
WATCH_TIMEOUT: Final = aiohttp.ClientTimeout(total=WATCH_S + WATCH_SLACK_S, sock_connect=3.0)
EVENT_BYTES_MAX: Final = 4 << 20
"""More than the API server keeps as one object."""
_GONE: Final = 410
_MISSING: Final = 404
_PLURALS: Final = {one.kind: one.plural for one in OUR_KINDS}


class VersionGoneError(PeerUnavailableError):
    """The API server does not remember that far back: list again."""


class KindMissingError(PeerUnavailableError):
    """The API server answered that the kind does not exist: its definition is not applied, or was deleted."""


class Stream(Protocol):
    """Lists and watches of one API server."""

    async def list(self, kind: str, namespace: str, label: str) -> tuple[list[Json], str]:
        """Return the objects of a kind that have a label, and the version that they are of.

        Args:
            kind: one of `VERSIONS`.
            namespace: empty for all.
            label: its key; empty for all objects.

        Raises:
            VersionGoneError: it took too long.
            KindMissingError: the kind does not exist now.
            BusyError: later.
            PeerUnavailableError: no answer, or no list.
        """
        ...

    def watch(self, kind: str, namespace: str, label: str, version: str) -> AsyncIterator[tuple[str, Json]]:
        """Yield changes since a version, type and object, bookmarks too, until the API server ends the watch.

        Raises as `list`.
        """
        ...


class HttpStream:
    """`Stream` over a dynamic client's configuration and its knowledge of paths."""

    def __init__(self, dynamic: DynamicClient) -> None:
        """Take the client; nothing is opened yet. The event loop must run."""
        self._dynamic: Final = dynamic
        settings: Any = dynamic.client.configuration
        self._token: Final[Callable[[], str | None]] = lambda: settings.get_api_key_with_prefix(
            "BearerToken", alias="authorization"
        )
        self._host: Final[str] = settings.host
        self._session: Final = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=_tls(settings), limit=0)
        )

    async def close(self) -> None:
        """Close the session."""
        await self._session.close()

    async def list(self, kind: str, namespace: str, label: str) -> tuple[list[Json], str]:
        """Return the objects and their version, page by page."""
        items: list[Json] = []
        options = {"limit": str(PAGE_OBJECTS_MAX), "labelSelector": label}
        while True:
            page = await self._page(kind, namespace, options)
            items += page.get("items") or []
            token = page.get("metadata", {}).get("continue")
            if not token:
                return items, str(page["metadata"]["resourceVersion"])
            options["continue"] = token

    async def _page(self, kind: str, namespace: str, options: dict[str, str]) -> Json:
        try:
            async with self._session.get(
                self._url(kind, namespace),
                params=options,
                headers=self._headers(),
                timeout=LIST_TIMEOUT,
                allow_redirects=False,
            ) as response:
                await _checked(kind, response)
                return bounded_json.decode_object(await read_body(response))
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise PeerUnavailableError(f"{kind}: no list: {error!r}") from error

    async def watch(
        self, kind: str, namespace: str, label: str, version: str
    ) -> AsyncIterator[tuple[str, Json]]:
        """Yield changes since a version."""
        options = {
            "watch": "true",
            "labelSelector": label,
            "resourceVersion": version,
            "timeoutSeconds": str(WATCH_S),
            "allowWatchBookmarks": "true",
        }
        try:
            async with self._session.get(
                self._url(kind, namespace),
                params=options,
                headers=self._headers(),
                timeout=WATCH_TIMEOUT,
                allow_redirects=False,
            ) as response:
                await _checked(kind, response)
                async for line in _lines(response.content):
                    event = bounded_json.decode_object(line)
                    if event["type"] == "ERROR":
                        _raise_error(kind, event["object"])
                    yield event["type"], event["object"]
        except (aiohttp.ClientError, TimeoutError, ValueError, KeyError) as error:
            raise PeerUnavailableError(f"{kind}: the watch broke: {error!r}") from error

    def _url(self, kind: str, namespace: str) -> str:
        # Why not by discovery: what it knows may be older than the definitions, which come and go while this
        # process runs.
        if kind in _PLURALS:
            path = f"namespaces/{namespace}/" if namespace else ""
            return f"{self._host}/apis/{API_VERSION}/{path}{_PLURALS[kind]}"
        try:
            resource: Any = self._dynamic.resources.get(api_version=VERSIONS[kind], kind=kind)
        except ResourceNotFoundError as error:
            raise PeerUnavailableError(f"this Kubernetes does not know kind {kind}") from error
        return self._host + str(resource.path(namespace=namespace or None))

    def _headers(self) -> dict[str, str]:
        token = self._token()
        return {"Authorization": token} if token else {}


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Yield lines longer than the stream's own bound, up to ours."""
    rest = bytearray()
    async for chunk in content.iter_any():
        rest += chunk
        *lines, last = bytes(rest).split(b"\n") if b"\n" in chunk else [bytes(rest)]
        if len(last) > EVENT_BYTES_MAX:
            raise ValueError(f"an event of more than {EVENT_BYTES_MAX} bytes")
        if lines:
            rest = bytearray(last)
        for line in lines:
            yield line


async def _checked(kind: str, response: aiohttp.ClientResponse) -> None:
    if response.status == 200:
        return
    problem = f"{kind}: {response.status} {await read_problem(response)}"
    if response.status == _GONE:
        raise VersionGoneError(problem)
    if response.status == _MISSING:
        raise KindMissingError(problem)
    if response.status in BUSY:
        raise BusyError(problem, retry_after_s(response.headers))
    raise PeerUnavailableError(problem)


def _raise_error(kind: str, status: Json) -> None:
    problem = f"{kind}: {status.get('code')} {status.get('message')}"
    raise VersionGoneError(problem) if status.get("code") == _GONE else PeerUnavailableError(problem)


def _tls(settings: Any) -> ssl.SSLContext | bool:  # noqa: ANN401 - the package has no types
    if not settings.verify_ssl:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        context = ssl.create_default_context(cafile=settings.ssl_ca_cert)
    if settings.cert_file:
        context.load_cert_chain(settings.cert_file, settings.key_file)
    return context
