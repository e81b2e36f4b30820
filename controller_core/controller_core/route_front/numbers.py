"""Counts of a route front's requests by result, for its metrics."""

from collections.abc import Mapping
from enum import StrEnum


class RequestResult(StrEnum):
    """How a request ended."""

    ANSWERED = "answered"
    REFUSED = "refused"
    """It is not a request that reads."""
    BUSY = "busy"
    """Too many requests waited for a name server."""
    UNANSWERED = "unanswered"
    """No name server answered in time."""
    UNREACHABLE = "unreachable"
    """The listener lacks the address of every broker of the route."""
    UNREADABLE = "unreadable"
    """The name server's answer was not what the request is answered with."""


class RequestNumbers:
    """Counts requests; each result is shown at 0 before the first one."""

    def __init__(self) -> None:
        self._counts = dict.fromkeys(RequestResult, 0)

    def count(self, result: RequestResult) -> None:
        """Count one request."""
        self._counts[result] += 1

    @property
    def counts(self) -> Mapping[RequestResult, int]:
        """Requests since the start, by result."""
        return dict(self._counts)
