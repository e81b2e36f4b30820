"""What there is of one kind in one namespace: a list, then a watch that keeps it true.

Problem: Events and pods are both followed, and everything that can go wrong with a watch goes wrong with
both: it ends, it breaks, it is silent, the server forgets its position, it sends an object that cannot be
parsed. Shape: list, then watch from where the list ends. A watch that ends or breaks goes on from the last
version that it told. After 410 (the server forgot that version too), and after a line that is too long or in
no form we know, comes a new list: only a list says what is true then. Objects go to a `WatchListener`; a page
of the list is released before the next request. Never: give up, or report an object as gone because the
server does not answer.

Source: Kubernetes documentation, "API Concepts", on watches, bookmarks, and 410 Gone.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import aiohttp

from controller_core import bounded_json
from slo_pipeline.collect.kubernetes.api import (
    CONNECT_TIMEOUT_S,
    ClusterApi,
    ClusterError,
    ExpiredError,
    Json,
)
from slo_pipeline.collect.scraping.metrics import CollectorMetrics
from slo_pipeline.formats.lines import LineSplitter

WATCH_S = 240
"""The server ends a watch after this; one that is silent for longer is dead without knowing it."""
WATCH_SILENCE_S_MAX = WATCH_S + 30.0
RETRY_S_MIN = 0.5
RETRY_S_MAX = 5.0
"""How late a pod may become known that came while the API server was away."""

_log = logging.getLogger(__name__)


class WatchListener(Protocol):
    """Who hears what there is, in the server's order."""

    async def begin(self) -> None:
        """Begin a list: the objects up to its end are the complete set."""

    async def end(self) -> None:
        """Hear that the list is whole."""

    async def take(self, value: Json) -> None:
        """Take an object of the list, or a new state of one.

        Raises:
            ExpiredError: only a new list can restore the current state.
        """

    async def drop(self, value: Json) -> None:
        """Note that an object is gone, or does not match the selector any more.

        Raises:
            ExpiredError: only a new list can restore the current state.
        """


@dataclass(slots=True)
class ListWatch:
    """Follows one path of the API server.

    Attributes:
        what: the word for it in the counter of requests.
        path: of the list.
        page_items: objects on a page of the list.
        query: what both list and watch ask for.
        version: where the next watch goes on; None: a list is needed.
        tried: set once there was a list, or a try that failed.
    """

    api: ClusterApi
    what: str
    path: str
    listener: WatchListener
    metrics: CollectorMetrics
    page_items: int
    query: Mapping[str, str] = field(default_factory=dict)
    version: str | None = None
    tried: asyncio.Event = field(default_factory=asyncio.Event)
    _retry_s: float = 0.0

    async def run(self, session: aiohttp.ClientSession) -> None:
        """Follow until cancelled."""
        self._retry_s, before = RETRY_S_MIN, "ok"
        while True:
            result = "ok"
            try:
                if self.version is None:
                    self.version = await self._list(session)
                    self._count("ok")
                    self.tried.set()
                await self._watch(session)
                self._retry_s = RETRY_S_MIN
            except ClusterError as error:
                result = error.result
                if isinstance(error, ExpiredError):
                    self.version = None
                elif result != before:
                    _log.warning("%s: %s", self.what, error)
            self._count(result)
            self.tried.set()
            before = result
            await asyncio.sleep(self._retry_s)
            if result != "ok":
                self._retry_s = min(2 * self._retry_s, RETRY_S_MAX)

    def _count(self, result: str) -> None:
        self.metrics.cluster_requests.labels(self.what, result).inc()

    async def _list(self, session: aiohttp.ClientSession) -> str:
        """Take every object there is; return the version at which the list was true."""
        query = {**self.query, "limit": str(self.page_items)}
        await self.listener.begin()
        while True:
            page = await self.api.read(session, self.path, query)
            metadata, items = page.get("metadata"), page.get("items")
            if not isinstance(metadata, dict) or not isinstance(items, list):
                raise ClusterError("error", f"{self.path}: no list")
            for item in items:
                await self.listener.take(item)
            if not metadata.get("continue"):
                await self.listener.end()
                return str(metadata.get("resourceVersion") or "")
            query["continue"] = str(metadata["continue"])

    async def _watch(self, session: aiohttp.ClientSession) -> None:
        query = {
            **self.query,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_S),
            "resourceVersion": self.version or "",
        }
        timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_TIMEOUT_S, sock_read=WATCH_SILENCE_S_MAX)
        splitter = LineSplitter()
        async with self.api.asked(session, self.api.url + self.path, query, timeout) as response:
            async for part in response.content.iter_any():
                for line, _ in splitter.feed(part):
                    await self._hear(line)
                if splitter.dropped:
                    raise ExpiredError(f"{self.path}: a line that is too long")

    async def _hear(self, line: bytes) -> None:
        try:
            told = bounded_json.decode(line)
            kind, value = told["type"], told["object"]
            version = str((value.get("metadata") or {}).get("resourceVersion") or "")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ExpiredError(f"{self.path}: {error!r:.200}") from error
        match kind:
            case "ADDED" | "MODIFIED":
                await self.listener.take(value)
            case "DELETED":
                await self.listener.drop(value)
            case "ERROR":
                raise _said(value, self.path)
            case _:
                pass
        self.version = version or self.version
        self._retry_s = RETRY_S_MIN


def _said(status: Json, path: str) -> ClusterError:
    if status.get("code") == 410:
        return ExpiredError(f"{path}: {status.get('message')}")
    return ClusterError("error", f"{path}: {status.get('message')}")
