"""The places of a port: how many connections it holds, by source address, and who gives way.

    a connection comes       ->  it gets a place
    its source has too many  ->  the oldest idle connection of that source gives way
    the port is full         ->  the oldest idle connection of all gives way
    none of these is idle    ->  the new one is turned away

A connection is idle until its owner keeps it: it carries a living member, or a request is running. So a flood
cannot take the place of a member, and a new member always gets a place: it is younger than the flood that
came before. RocketMQ's brokers dial once, and send a heartbeat each second.

Why not simply turn away late connections: a stranger who opens connections and waits would keep everyone
out for as long as it likes.

Places are taken when a connection is accepted, before any handshake. Every call costs O(1).
"""

from collections.abc import Callable
from typing import Final


class PortPlace:
    """One connection's place.

    Attributes:
        host: the source address.
        is_kept: whether idle ones give way first.
    """

    __slots__ = ("close", "host", "is_kept", "is_over")

    def __init__(self, host: str) -> None:
        self.host = host
        self.is_kept = False
        self.is_over = False
        self.close: Callable[[], object] = _nothing
        """Ends the connection; its owner sets it."""


class Places:
    """Gives places to connections.

    Attributes:
        turned_away: how many connections got no place, or lost theirs to a younger one.
    """

    def __init__(self, total_max: int, source_max: int) -> None:
        """Take the bounds: connections at a time, and those of one source that are idle."""
        self.total_max = total_max
        self.source_max = source_max
        self.turned_away = 0
        self._open = 0
        self._waiting: Final[dict[PortPlace, None]] = {}
        self._by_source: Final[dict[str, dict[PortPlace, None]]] = {}

    @property
    def taken(self) -> int:
        """How many connections have a place."""
        return self._open

    def take(self, host: str) -> PortPlace | None:
        """Return a place for a new connection; None if no other is idle."""
        if len(self._by_source.get(host, ())) >= self.source_max:
            self._oldest_gives_way(self._by_source[host])
        elif self._open >= self.total_max:
            if not self._waiting:
                self.turned_away += 1
                return None
            self._oldest_gives_way(self._waiting)
        place = PortPlace(host)
        self._open += 1
        self._enter(place)
        return place

    def keep(self, place: PortPlace, *, kept: bool) -> None:
        """Change whether others give way before this connection.

        One that may give way again counts as new.
        """
        if place.is_over or place.is_kept == kept:
            return
        place.is_kept = kept
        if kept:
            self._leave(place)
        else:
            self._enter(place)

    def give_back(self, place: PortPlace) -> None:
        """Learn that a connection has ended."""
        if place.is_over:
            return
        place.is_over = True
        self._open -= 1
        if not place.is_kept:
            self._leave(place)

    def _oldest_gives_way(self, places: dict[PortPlace, None]) -> None:
        oldest = next(iter(places))
        self.turned_away += 1
        self.give_back(oldest)
        oldest.close()

    def _enter(self, place: PortPlace) -> None:
        self._waiting[place] = None
        self._by_source.setdefault(place.host, {})[place] = None

    def _leave(self, place: PortPlace) -> None:
        del self._waiting[place]
        of_source = self._by_source[place.host]
        del of_source[place]
        if not of_source:
            del self._by_source[place.host]


def _nothing() -> None:
    """Do nothing: a connection that is not made yet."""
