"""The objects of some kinds as they are now, kept by one list and one watch each.

So looking costs the API server nothing.

    list -> watch -> (the API server ends it) -> watch ...
      ^       |
      +-------+  410, or after `RELIST_S`: list again
              |  404: the kind does not exist; forget all, list again every `MISSING_POLL_S`
              |  anything else: not fresh, wait longer each time, list again

A reflection answers only while it is fresh: it has been listed, its watch is open, and the API server gave a
sign lately, if only by ending the watch in time. Otherwise it raises `StaleError`, and the caller asks the
API server itself. Reflections never follow Secrets or Events. Permission to list Secrets is permission to
read all; `SECRET_S` is the cache time of the one known by name, and of Certificates while all are issued: a
Kubernetes may lack that kind. Events are many, and needed only for an object in trouble; `EVENTS_S` is their
cache time.
"""

import asyncio
import logging
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from rocketmq_operator.api.names import CERTIFICATE_KIND, CLUSTER_LABEL, OUR_KINDS, REPORT_LABEL
from rocketmq_operator.clients.api import BusyError, Json, KubeApi, PeerUnavailableError
from rocketmq_operator.clients.kube import VERSIONS
from rocketmq_operator.clients.stream import (
    WATCH_S,
    WATCH_SLACK_S,
    KindMissingError,
    Stream,
    VersionGoneError,
)
from rocketmq_operator.plan.tls.issuing import is_issued

SILENT_MAX_S: Final = WATCH_S + 2 * WATCH_SLACK_S
"""A watch that gave no sign for so long is dead, whatever its connection says."""
RELIST_S: Final = 600.0
SECRET_S: Final = 60.0
EVENTS_S: Final = 30.0
BACKOFF_FIRST_S: Final = 0.5
BACKOFF_MAX_S: Final = 30.0
MISSING_POLL_S: Final = 5.0
"""Time in seconds until a kind is found again after its definition is reapplied."""
OURS: Final = frozenset(one.kind for one in OUR_KINDS)
"""Cached completely; of other kinds only objects with one of our labels, because foreign objects are
unbounded in number."""
_LABELS: Final[Mapping[str, str]] = {"Job": REPORT_LABEL}
"""The label of the followed objects, for kinds that do not belong to a cluster."""
KINDS: Final = (
    *sorted(OURS),
    *("ConfigMap", "Deployment", "EndpointSlice", "Job", "PersistentVolumeClaim", "Pod"),
    *("PodDisruptionBudget", "Service", "StatefulSet"),
)
_LOG: Final = logging.getLogger(__name__)
_ObjectName = tuple[str, str]
OnChange = Callable[[str, Json, bool], None]
"""Receives the kind, the added, changed or deleted object, and whether it is gone; the cache already contains
the change. A list reports each difference from the former cache in the same way, so a change during a gap of
the watch arrives once."""


class ReadOnlyError(Exception):
    """A caller tried to write on the basis of the cache.

    Writes require an observation of the API server itself.
    """


class StaleError(PeerUnavailableError):
    """The cache may be old: ask the API server."""


class Reflection:
    """One kind in one namespace, or in all.

    Invariant: `_by_label` holds exactly the labels of `_objects`.
    """

    def __init__(
        self,
        stream: Stream,
        kind: str,
        namespace: str,
        monotonic_s: Callable[[], float],
        on_change: OnChange = lambda _kind, _found, _gone: None,
    ) -> None:
        """Store the source, the kind and namespace (empty: all), the clock, and the receiver of changes."""
        self._on_change: Final = on_change
        self.label: Final = "" if kind in OURS else _LABELS.get(kind, CLUSTER_LABEL)
        self._stream: Final = stream
        self._kind: Final = kind
        self._namespace: Final = namespace
        self._monotonic_s: Final = monotonic_s
        self._objects: Final[dict[_ObjectName, Json]] = {}
        self._by_label: Final[defaultdict[tuple[str, str, str], set[_ObjectName]]] = defaultdict(set)
        self._listed_s: float | None = None
        self._heard_s = monotonic_s()
        self.missing = False
        """Whether the API server reports the kind as missing."""

    @property
    def silence_s(self) -> float:
        """Seconds since the API server last gave a sign."""
        return self._monotonic_s() - self._heard_s

    @property
    def fresh(self) -> bool:
        """Whether the cache is current, except for events in transit."""
        return self._listed_s is not None and self.silence_s < SILENT_MAX_S

    def get(self, namespace: str, name: str) -> Json | None:
        """Return an object, to be read only; None if it does not exist."""
        return self._objects.get((namespace, name))

    def find(self, namespace: str, labels: Mapping[str, str]) -> list[Json]:
        """Return the objects that carry all these labels, to be read only."""
        if not labels:
            return [value for (where, _), value in self._objects.items() if where == namespace]
        names = [self._by_label.get((namespace, *label), set()) for label in labels.items()]
        return [self._objects[name] for name in sorted(set.intersection(*names))]

    async def run(self) -> None:
        """Keep it until cancelled."""
        failures = 0
        while True:
            begun_s = self._monotonic_s()
            try:
                await self._follow(await self._list())
                failures = 0
                continue
            except KindMissingError as error:
                self._forget(error)
                failures = 0
                await asyncio.sleep(MISSING_POLL_S)
                continue
            except VersionGoneError as error:
                _LOG.info("%s; listing anew", error)
                wait_s = 0.0
            except BusyError as error:
                wait_s = error.retry_after_s
                _LOG.warning("%s", error)
            except PeerUnavailableError as error:
                wait_s = 0.0
                _LOG.warning("%s", error)
            # Why here: from now on the cache receives no changes.
            self._listed_s = None
            # A list that succeeds and a watch that is refused at once are a failure each time.
            failures = 1 if self._monotonic_s() - begun_s > BACKOFF_MAX_S else failures + 1
            await asyncio.sleep(max(wait_s, _backoff_s(failures)))

    async def _list(self) -> str:
        items, version = await self._stream.list(self._kind, self._namespace, self.label)
        previous = self._replace(items)
        self._listed_s = self._heard_s = self._monotonic_s()
        if self.missing:
            _LOG.info("there is a kind %s again", self._kind)
        self.missing = False
        self._report_differences(previous)
        return version

    def _replace(self, items: Sequence[Json]) -> dict[_ObjectName, Json]:
        """Replace the cached objects with these; return the previous ones."""
        previous = dict(self._objects)
        self._objects.clear()
        self._by_label.clear()
        for item in items:
            self._put(item)
        return previous

    def _report_differences(self, previous: Mapping[_ObjectName, Json]) -> None:
        for name, former in previous.items():
            if name not in self._objects:
                self._report(former, gone=True)
        for name, found in list(self._objects.items()):
            if name not in previous or _version(previous[name]) != _version(found):
                self._report(found, gone=False)

    def _report(self, found: Json, *, gone: bool) -> None:
        """Tell the receiver at once; what it raises must not end the watch."""
        try:
            self._on_change(self._kind, found, gone)
        except Exception:
            # Why all: one object that breaks our code must not stop the others.
            _LOG.exception("%s %s: a change could not be told", self._kind, "/".join(_object_name(found)))

    def _forget(self, error: KindMissingError) -> None:
        """Keep nothing: the kind is gone, and every object of it with it.

        The API server answers, so this is not silence.
        """
        if not self.missing:
            _LOG.warning("kind %s does not exist now: %s", self._kind, error)
        self.missing = True
        self._listed_s = None
        self._heard_s = self._monotonic_s()
        self._report_differences(self._replace(()))

    async def _follow(self, version: str) -> None:
        """Watch repeatedly until the next list is due."""
        listed_s = self._monotonic_s()
        while self._monotonic_s() - listed_s < RELIST_S:
            changes = self._stream.watch(self._kind, self._namespace, self.label, version)
            async for type_, found in changes:
                self._heard_s = self._monotonic_s()
                version = str(found["metadata"]["resourceVersion"])
                if type_ != "BOOKMARK":
                    self._drop(_object_name(found))
                if type_ in {"ADDED", "MODIFIED"}:
                    self._put(found)
                if type_ != "BOOKMARK":
                    self._report(found, gone=type_ == "DELETED")
            self._heard_s = self._monotonic_s()

    def _put(self, found: Json) -> None:
        metadata = {key: value for key, value in found["metadata"].items() if key != "managedFields"}
        cached = {"kind": self._kind, "apiVersion": VERSIONS[self._kind]} | found | {"metadata": metadata}
        name = _object_name(found)
        self._objects[name] = cached
        for label in metadata.get("labels", {}).items():
            self._by_label[name[0], *label].add(name)

    def _drop(self, name: _ObjectName) -> None:
        former = self._objects.pop(name, None)
        for label in former["metadata"].get("labels", {}).items() if former is not None else ():
            key = (name[0], *label)
            self._by_label[key].discard(name)
            if not self._by_label[key]:
                del self._by_label[key]


class Reflections:
    """A read-only `KubeApi`.

    The cache may be a moment old, and the operator must not delete on the basis of old data.
    """

    def __init__(
        self,
        kube: KubeApi,
        stream: Stream,
        namespaces: Sequence[str],
        monotonic_s: Callable[[], float],
        kinds: Iterable[str] = KINDS,
        on_change: OnChange = lambda _kind, _found, _gone: None,
    ) -> None:
        """Store the API server, the watch client, the clock, and the receiver of changes.

        Without namespaces, the reflections cover all.
        """
        self._kube: Final = kube
        self._monotonic_s: Final = monotonic_s
        self._reflections: Final = {
            (kind, namespace): Reflection(stream, kind, namespace, monotonic_s, on_change)
            for kind in kinds
            for namespace in namespaces or ("",)
        }
        self._secrets: Final[dict[_ObjectName, tuple[float, Json | None]]] = {}
        self._certificates: Final[dict[tuple[str, str], tuple[float, list[Json]]]] = {}
        self._events: Final[dict[tuple[str, str, str], tuple[float, list[Json]]]] = {}

    async def run(self) -> None:
        """Keep all until cancelled."""
        await asyncio.gather(*(one.run() for one in self._reflections.values()))

    @property
    def silence_s(self) -> float:
        """Seconds since the most silent watch gave a sign."""
        return max((one.silence_s for one in self._reflections.values()), default=0.0)

    @property
    def missing(self) -> list[str]:
        """Kinds that the API server says it has not."""
        return sorted({kind for (kind, _), one in self._reflections.items() if one.missing})

    async def get(self, kind: str, namespace: str, name: str) -> Json | None:
        """Return an object, None if it does not exist; raise `StaleError` if unknown."""
        if kind == "Secret":
            return await self._secret(namespace, name)
        return self._fresh(kind, namespace).get(namespace, name)

    async def find(self, kind: str, namespace: str, labels: Mapping[str, str]) -> list[Json]:
        """Return the objects that carry all these labels; raise `StaleError` if they are not known."""
        if kind == CERTIFICATE_KIND:
            return await self._find_certificates(namespace, labels)
        reflection = self._fresh(kind, namespace)
        if reflection.label and reflection.label not in labels:
            raise StaleError(f"{kind} without {reflection.label}: not followed")
        return reflection.find(namespace, labels)

    async def events(self, kind: str, namespace: str, name: str) -> list[Json]:
        """Return the Events about an object, as the API server told them in the last `EVENTS_S`."""
        now_s, key = self._monotonic_s(), (kind, namespace, name)
        for old in [one for one, (until_s, _) in self._events.items() if until_s <= now_s]:
            del self._events[old]
        if key not in self._events:
            self._events[key] = (now_s + EVENTS_S, await self._kube.events(kind, namespace, name))
        return self._events[key][1]

    def _fresh(self, kind: str, namespace: str) -> Reflection:
        reflection = self._reflections.get((kind, namespace)) or self._reflections.get((kind, ""))
        if reflection is None or not reflection.fresh:
            raise StaleError(f"{kind} in {namespace}: not followed now")
        return reflection

    async def _secret(self, namespace: str, name: str) -> Json | None:
        until_s, known = self._secrets.get((namespace, name), (0.0, None))
        if known is not None and self._monotonic_s() < until_s:
            return known
        found = await self._kube.get("Secret", namespace, name)
        self._secrets[namespace, name] = (self._monotonic_s() + SECRET_S, found)
        return found

    async def _find_certificates(self, namespace: str, labels: Mapping[str, str]) -> list[Json]:
        key = namespace, labels[CLUSTER_LABEL]
        until_s, known = self._certificates.get(key, (0.0, []))
        if self._monotonic_s() < until_s:
            return known
        found = await self._kube.find(CERTIFICATE_KIND, namespace, labels)
        kept_s = SECRET_S if found and all(map(is_issued, found)) else 0.0
        self._certificates[key] = (self._monotonic_s() + kept_s, found)
        for one in found:  # Their Secrets change with them.
            self._secrets.pop((namespace, one["spec"]["secretName"]), None)
        return found

    async def apply(self, body: Json) -> Json:
        """Raise `ReadOnlyError`, as all that follow."""
        raise ReadOnlyError(f"apply {body['kind']}")

    async def apply_status(self, body: Json) -> Json:
        """Raise `ReadOnlyError`."""
        raise ReadOnlyError(f"apply status of {body['kind']}")

    async def create(self, body: Json) -> Json:
        """Raise `ReadOnlyError`."""
        raise ReadOnlyError(f"create {body['kind']}")

    async def replace(self, body: Json) -> Json:
        """Raise `ReadOnlyError`."""
        raise ReadOnlyError(f"replace {body['kind']}")

    async def delete(self, kind: str, namespace: str, name: str, uid: str, *, by_force: bool = False) -> None:
        """Raise `ReadOnlyError`."""
        raise ReadOnlyError(f"delete {kind} {namespace}/{name} {uid}{' by force' if by_force else ''}")


def _object_name(found: Json) -> _ObjectName:
    return found["metadata"].get("namespace", ""), found["metadata"]["name"]


def _version(found: Json) -> tuple[str, str]:
    metadata = found["metadata"]
    return metadata.get("uid", ""), metadata.get("resourceVersion", "")


def _backoff_s(failures: int) -> float:
    """Return how long to wait after so many failures in a row, never the same for all kinds.

    They failed together.
    """
    longest_s = min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2.0 ** min(failures - 1, 30))
    return longest_s * (0.5 + random.random() / 2)  # noqa: S311 - no secret
