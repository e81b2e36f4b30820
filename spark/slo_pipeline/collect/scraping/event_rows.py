"""One event of JSON to one row of the `events` table, and the position in a stream it came from.

Problem: events come from several programs, over connections that break; a reader counts a failover twice if
an event is there twice, and a job fails whole if one value does not fit its column. Shape: `event_row` checks
every field and says which one is wrong; `TakenEvents` remembers ids already taken (bounded) and how far each
stream was read, as text that a segment carries in its metadata. Never: repair an event. An event that cannot
be parsed is refused and counted, since a guessed epoch joins two failovers into one.

Source: docs/reference/segments.md, section "events".
"""

import json
from collections.abc import Iterable, Mapping

from controller_core import bounded_json

EVENT_IDS_MAX = 500_000
"""About 60 MB; a stream is read again from its beginning at most within one controller's kept history."""
ATTRS_MAX = 200

INT64_MAX = 2**63 - 1

_REQUIRED_INTS = ("sequence", "ts_ns")
_REQUIRED_TEXTS = ("event_id", "source", "kind")
_OPTIONAL_TEXTS = ("clock_id", "namespace", "cluster", "group")
_OPTIONAL_INTS = ("broker_id", "epoch", "term", "index")
_NS_PER_US = 1_000


class EventError(ValueError):
    """A line from a peer is not an event; the text names the field."""


def event_row(line: bytes) -> tuple[object, ...]:
    """Return the row of one JSON line, in the order of the `events` schema.

    Raises:
        EventError: no JSON object, or a field that does not fit.
    """
    try:
        event = bounded_json.decode(line)
    except ValueError as error:
        raise EventError(f"no JSON: {error}") from error
    if not isinstance(event, dict):
        raise EventError("no JSON object")
    return checked_row(event)


def checked_row(event: Mapping[str, object]) -> tuple[object, ...]:
    """Return the row of an event, in the order of the `events` schema.

    Raises:
        EventError: a field that does not fit.
    """
    sequence, ts_ns = (_integer(event, name, required=True) for name in _REQUIRED_INTS)
    event_id, source, kind = (_text(event, name, required=True) for name in _REQUIRED_TEXTS)
    clock_id, namespace, cluster, group = (_text(event, name) or "" for name in _OPTIONAL_TEXTS)
    broker_id, epoch, term, index = (_integer(event, name) for name in _OPTIONAL_INTS)
    return (
        sequence,
        event_id,
        (ts_ns or 0) // _NS_PER_US,
        ts_ns,
        _integer(event, "monotonic_ns") or 0,
        clock_id,
        source,
        kind,
        namespace,
        cluster,
        group,
        broker_id,
        epoch,
        term,
        index,
        _text(event, "correlation_id"),
        _attrs(event.get("attrs")),
    )


def _integer(event: Mapping[str, object], name: str, *, required: bool = False) -> int | None:
    value = event.get(name)
    if value is None and not required:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > INT64_MAX:
        raise EventError(f"{name} must be an integer of 64 bits, not {value!r:.80}")
    return value


def _text(event: Mapping[str, object], name: str, *, required: bool = False) -> str | None:
    value = event.get(name)
    if value is None and not required:
        return None
    return _checked(name, value, required=required)


def _checked(name: str, value: object, *, required: bool = False) -> str:
    if not isinstance(value, str) or (required and not value):
        raise EventError(f"{name} must be a string, not {value!r:.80}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise EventError(f"{name} is not valid text (half a surrogate pair)") from error
    return value


def _attrs(value: object) -> list[tuple[str, str]]:
    if value is None:
        return []
    if not isinstance(value, dict) or len(value) > ATTRS_MAX:
        raise EventError(f"attrs must be an object of at most {ATTRS_MAX} strings, not {value!r:.80}")
    return [(_checked("attrs", key), _checked(f"attrs.{key}", text)) for key, text in value.items()]


class TakenEvents:
    """Which events were taken, and how far each stream was read."""

    def __init__(self, ids_max: int = EVENT_IDS_MAX) -> None:
        self._ids_max = ids_max
        self._ids: dict[str, None] = {}
        self._positions: dict[str, int] = {}

    def take(self, event_id: str) -> bool:
        """Remember an id; return whether it is new. The oldest is forgotten when there are too many."""
        if event_id in self._ids:
            return False
        self._ids[event_id] = None
        if len(self._ids) > self._ids_max:
            del self._ids[next(iter(self._ids))]
        return True

    def recall(self, event_ids: Iterable[str]) -> None:
        """Remember ids found in segments that were written before."""
        for event_id in event_ids:
            self.take(event_id)

    def position(self, stream: str) -> int:
        """Return how far a stream was read: a sequence number, or bytes of a file; 0 at the beginning."""
        return self._positions.get(stream, 0)

    def advance(self, stream: str, position: int) -> None:
        """Move a stream's position forward; it never goes back, since several followers share a stream."""
        self._positions[stream] = max(position, self.position(stream))

    def rewind(self, stream: str) -> None:
        """Read a stream from its beginning again: it is another one than before."""
        self._positions[stream] = 0

    def positions_text(self) -> str:
        """Return all positions as text for a segment's metadata."""
        return json.dumps(self._positions, sort_keys=True)

    def recall_positions(self, text: str) -> None:
        """Take positions from a segment's metadata; call it oldest segment first, the last one counts.

        Raises:
            ValueError: the text was not written by `positions_text`.
        """
        self._positions.update({str(stream): int(at) for stream, at in bounded_json.decode(text).items()})
