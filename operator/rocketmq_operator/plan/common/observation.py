"""Errors in what a peer sent, and the times in it."""

from datetime import UTC, datetime, timedelta


class ObservationError(ValueError):
    """What a peer said has not the shape that it must have."""


def parse_time(text: str | None) -> datetime | None:
    """Return the time of an RFC 3339 text, None for None."""
    return None if text is None else datetime.fromisoformat(text)


def time_of_ns(nanoseconds: int) -> datetime:
    """Return the UTC time so many nanoseconds after 1970."""
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=nanoseconds // 1_000)
