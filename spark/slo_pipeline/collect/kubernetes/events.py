"""Kubernetes Events, copied before they expire.

Problem: an Event says why a pod went (killed, evicted, unhealthy, restarted by the operator), and the API
server forgets it an hour later. A report is made when somebody asks. Shape: they are followed as `watching`
does it. An Event that happens again is the same object with a higher count, so a row is known by (uid,
count): an Event that a list repeats, or repeats after a restart, is stored once. Core/v1 is read because it
shows the Events of both API groups, old counts and new series alike. Never: treat a deletion as an event (it
means expiry).

Source: Kubernetes documentation, API reference, Event v1 core.
"""

import datetime as dt
from collections.abc import Mapping
from typing import Any

from controller_core.remoting.numbers import whole_number
from slo_pipeline.collect.kubernetes.api import Json
from slo_pipeline.collect.kubernetes.members import Members
from slo_pipeline.collect.scraping.event_rows import INT64_MAX, EventError, checked_row
from slo_pipeline.collect.scraping.followers import EventIntake

SOURCE = "kubernetes"
KIND = "KubernetesEvent"
PAGE_EVENTS = 500
MESSAGE_CHARACTERS_MAX = 1_000
VERSION_DIGITS_MAX = 20
"""Of a resourceVersion, a number of 64 bits without a sign."""

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_NS_PER_US = 1_000


def kubernetes_row(event: Mapping[str, Any], members: Members) -> tuple[object, ...]:
    """Return the row of a core/v1 Event, in the order of the `events` schema.

    Raises:
        EventError: it is not an Event.
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
    """Return a resourceVersion for people to order by; 0 if it is not a number (the API allows that)."""
    number = whole_number(text, VERSION_DIGITS_MAX) if isinstance(text, str) else None
    return min(number or 0, INT64_MAX)


class EventCopier:
    """Copies the Events of one namespace; a listener of the list and of the watch of its Events."""

    def __init__(self, members: Members, intake: EventIntake) -> None:
        self._members = members
        self._intake = intake

    async def begin(self) -> None:
        """Do nothing: copied Events stay."""

    async def end(self) -> None:
        """Do nothing: an Event absent from the list has expired."""

    async def take(self, value: Json) -> None:
        """Copy an Event, unless it was copied before."""
        try:
            row = kubernetes_row(value, self._members)
        except EventError as error:
            self._intake.refuse(error)
            return
        await self._intake.take_row(row)

    async def drop(self, value: Json) -> None:
        """Do nothing: a deletion is the end of an Event's hour."""
