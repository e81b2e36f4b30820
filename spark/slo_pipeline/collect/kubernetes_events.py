"""Kubernetes Events, copied before they expire.

Problem: an Event says why a pod went (killed, evicted, unhealthy, restarted by the operator), and the API server forgets it
an hour later. A report is made when somebody asks.
Shape: list, then watch from where the list ends; a watch that ends or breaks goes on from the last version that it told,
and after 410 (the server forgot that version too) from a new list. An Event that happens again is the same object with a
higher count, so a row is known by (uid, count): what a list tells twice, or tells again after a restart, is kept once.
Core/v1 is read because it shows the Events of both API groups, old counts and new series alike.
Never: a deletion is no fact (it is the expiry), and a page of the list is let go before the next one is asked for.

Source: Kubernetes documentation, "API Concepts", on watches, bookmarks, and 410 Gone; API reference, Event v1 core.
"""

import asyncio
import datetime as dt
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp

from slo_pipeline.collect.cluster_api import (
    CONNECT_TIMEOUT_S,
    ClusterApi,
    ClusterError,
    ExpiredError,
    Json,
)
from slo_pipeline.collect.event_rows import INT64_MAX, EventError, checked_row
from slo_pipeline.collect.followers import EventIntake
from slo_pipeline.collect.lines import LineSplitter
from slo_pipeline.collect.members import Members

SOURCE = "kubernetes"
KIND = "KubernetesEvent"
PAGE_EVENTS = 500
MESSAGE_CHARACTERS_MAX = 1_000
WATCH_S = 240
"""The server ends a watch after this; one that is silent for longer is dead without knowing it."""
WATCH_SILENCE_S_MAX = WATCH_S + 30.0
RETRY_S_MIN = 0.5
RETRY_S_MAX = 30.0

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_NS_PER_US = 1_000

_log = logging.getLogger(__name__)


def kubernetes_row(event: Mapping[str, Any], members: Members) -> tuple[object, ...]:
    """Return the row of a core/v1 Event, in the order of the `events` schema.

    Raises:
        EventError: it is no Event.
    """
    try:
        metadata, about = event["metadata"], event["involvedObject"]
        series, source = event.get("series") or {}, event.get("source") or {}
        uid, count = str(metadata["uid"]), max(event.get("count") or 1, series.get("count") or 1)
        namespace = str(about.get("namespace") or metadata.get("namespace") or "")
        belonging = members.of_object(namespace, about.get("kind") or "", about.get("name") or "")
        seen = {
            "reason": event.get("reason"),
            "message": str(event.get("message") or "")[:MESSAGE_CHARACTERS_MAX],
            "type": event.get("type"),
            "object_kind": about.get("kind"),
            "object_name": about.get("name"),
            "object_uid": about.get("uid"),
            "count": str(count),
        }
        component = event.get("reportingComponent") or source.get("component") or ""
        host = source.get("host") or event.get("reportingInstance") or ""
        ts_ns = _happened_ns(event, series, metadata)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise EventError(f"no Kubernetes Event: {error!r:.200}") from error
    return checked_row(
        {
            "sequence": _version(metadata.get("resourceVersion")),
            "event_id": f"{SOURCE}/{uid}/{count}",
            "ts_ns": ts_ns,
            "clock_id": f"{component}/{host}" if host else component,
            "source": SOURCE,
            "kind": KIND,
            "namespace": namespace,
            "cluster": belonging.cluster,
            "group": belonging.group,
            "attrs": {name: value for name, value in seen.items() if value},
        }
    )


def _happened_ns(event: Mapping[str, Any], series: Mapping[str, Any], metadata: Mapping[str, Any]) -> int:
    """Return when it happened last. Old Events have whole seconds, new ones microseconds."""
    times = (
        series.get("lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        event.get("firstTimestamp"),
        metadata.get("creationTimestamp"),
    )
    told = next(filter(None, times), None)
    if told is None:
        raise ValueError("it has no time")
    moment = dt.datetime.fromisoformat(told)
    if moment.tzinfo is None:
        raise ValueError(f"{told!r} has no zone")
    return (moment - _EPOCH) // dt.timedelta(microseconds=1) * _NS_PER_US


def _version(text: object) -> int:
    """Return a resourceVersion for people to order by; 0 where the server's are no numbers, which they need not be."""
    if not isinstance(text, str) or not text.isascii() or not text.isdecimal():
        return 0
    return min(int(text), INT64_MAX)


@dataclass(slots=True)
class EventCopier:
    """Copies the Events of one namespace.

    Attributes:
        version: where the next watch goes on; None: a list is needed.
    """

    api: ClusterApi
    namespace: str
    members: Members
    intake: EventIntake
    version: str | None = None

    @property
    def _path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/events"

    async def run(self, session: aiohttp.ClientSession) -> None:
        """Copy until cancelled."""
        retry_s, result = RETRY_S_MIN, "ok"
        while True:
            before = result
            try:
                if self.version is None:
                    self.version = await self._list(session)
                await self._watch(session)
                retry_s, result = RETRY_S_MIN, "ok"
            except ClusterError as error:
                result = error.result
                if isinstance(error, ExpiredError):
                    self.version = None
                elif result != before:
                    _log.warning("Events of %s: %s", self.namespace, error)
            self.intake.metrics.cluster_requests.labels("events", result).inc()
            await asyncio.sleep(retry_s)
            if result != "ok":
                retry_s = min(2 * retry_s, RETRY_S_MAX)

    async def _list(self, session: aiohttp.ClientSession) -> str:
        """Take every Event there is; return the version at which the list was true."""
        query = {"limit": str(PAGE_EVENTS)}
        while True:
            page = await self.api.read(session, self._path, query)
            metadata, items = page.get("metadata"), page.get("items")
            if not isinstance(metadata, dict) or not isinstance(items, list):
                raise ClusterError("error", f"{self._path}: no list")
            for item in items:
                await self._take(item)
            if not metadata.get("continue"):
                return str(metadata.get("resourceVersion") or "")
            query["continue"] = str(metadata["continue"])

    async def _watch(self, session: aiohttp.ClientSession) -> None:
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_S),
            "resourceVersion": self.version or "",
        }
        timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_TIMEOUT_S, sock_read=WATCH_SILENCE_S_MAX)
        splitter = LineSplitter()
        async with self.api.asked(session, self.api.url + self._path, query, timeout) as response:
            async for part in response.content.iter_any():
                for line, _ in splitter.feed(part):
                    await self._hear(line)

    async def _hear(self, line: bytes) -> None:
        try:
            told = json.loads(line)
            kind, value = told["type"], told["object"]
            version = str((value.get("metadata") or {}).get("resourceVersion") or "")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            # What a watch tells in no form we know may have been anything: only a list says what is true.
            raise ExpiredError(f"{self._path}: {error!r:.200}") from error
        match kind:
            case "ADDED" | "MODIFIED":
                await self._take(value)
            case "ERROR":
                raise _said(value, self._path)
            case _:
                pass
        self.version = version or self.version

    async def _take(self, value: Json) -> None:
        try:
            row = kubernetes_row(value, self.members)
        except EventError as error:
            self.intake.refuse(error)
            return
        await self.intake.take_row(row)


def _said(status: Json, path: str) -> ClusterError:
    if status.get("code") == 410:
        return ExpiredError(f"{path}: {status.get('message')}")
    return ClusterError("error", f"{path}: {status.get('message')}")
