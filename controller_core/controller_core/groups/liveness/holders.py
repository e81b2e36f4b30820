"""Which connection holds a member: whose heartbeats count for it, and whose end is its death.

A heartbeat names its sender, and anybody can write any name into it. So a heartbeat alone never takes a
member from a connection over which it lives. A broker that lost its connection without a sign, and dials
again, must be taken up all the same.

| a heartbeat comes over | and | then |
|---|---|---|
| the holder | | it counts |
| the home, while another connection holds the member | | it counts, and the home holds the member again |
| another connection | the holder is silent for `silence_ms` | it counts; the old holder becomes the home |
| another connection | the holder has the same source and has only sent requests | the same |
| another connection | neither | it does not count; the connection is the member's rival |

| a connection closes | and | then |
|---|---|---|
| the holder | the member has a home | the home holds it, and its silence there counts |
| the holder | a rival of the same source has just sent a heartbeat | the rival holds it |
| the holder | neither | the member is dead at once |
| the home, or the rival | | the member stays with its holder |

A request such as 1002 counts like a heartbeat, but takes no member home. A broker that reaches its leading
controller under two addresses asks over one connection and sends heartbeats over the other.

`silence_ms` is `MOVE_AFTER_MS`, or half of the timeout that the member announced if that is shorter. Brokers
send a heartbeat each second, so a living holder has missed three. It is over before the member would be dead
of silence.

Because of the home, a stranger cannot take a member during a long pause of its process and then kill it:
the next heartbeat of the process takes it back, and the end of the stranger's connection sends it home.

The rival is the reason that a late close of a broken connection does not kill a broker that has dialled
again. It must come from the same source address: else a stranger could keep a dead master alive.

A stranger at the same address as a broker is not told apart from it.
"""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final, Protocol

from controller_core.groups.keys import ReplicaKey

NO_CHANNEL_ID: Final = 0
"""HeldMember by no connection: a controller has forwarded a sign of life."""
MOVE_AFTER_MS: Final = 3_000


class HeldMember(Protocol):
    """What the rules need to know of a member."""

    key: ReplicaKey
    channel_id: int
    last_beat_ms: int
    timeout_ms: int
    home_id: int
    home_beat_ms: int
    rival_id: int
    rival_beat_ms: int
    has_beaten: bool


class Holders:
    """The connections that hold members, and those that are their homes and rivals.

    Attributes:
        on_channel: called when a connection begins to hold members, or holds none any more.
    """

    def __init__(self, source_of: Callable[[int], str]) -> None:
        """Take what returns the source address of a connection."""
        self.on_channel: Callable[[int, bool], None] = _ignore
        self._source_of: Final = source_of
        self._held: Final[dict[int, dict[str, dict[ReplicaKey, None]]]] = {}
        self._counts: Final[dict[int, int]] = {}
        self._source_counts: Final[dict[str, int]] = {}
        self._linked: Final[dict[int, dict[ReplicaKey, None]]] = {}

    def count(self, channel_id: int) -> int:
        """Return how many members a connection holds."""
        return self._counts.get(channel_id, 0)

    def source_count(self, channel_id: int) -> int:
        """Return how many members the connections of the same source hold."""
        return self._source_counts.get(self._source_of(channel_id), 0)

    def keys(self, channel_id: int, count_max: int | None = None) -> tuple[ReplicaKey, ...]:
        """Return `count_max` of the members that a connection holds, or all, in order of their keys."""
        names = self._held.get(channel_id, {})
        return tuple(sorted(islice((key for keys in names.values() for key in keys), count_max)))

    def keys_named(self, channel_id: int, broker_name: str) -> Iterable[ReplicaKey]:
        """Return the members of groups of this name that a connection holds."""
        return self._held.get(channel_id, {}).get(broker_name, ())

    def hold(self, member: HeldMember, channel_id: int) -> None:
        """Let a connection hold a member that no connection holds."""
        member.channel_id = channel_id
        names = self._held.get(channel_id)
        is_first = names is None
        if names is None:
            names = self._held[channel_id] = {}
        names.setdefault(member.key.broker_name, {})[member.key] = None
        self._counts[channel_id] = self._counts.get(channel_id, 0) + 1
        source = self._source_of(channel_id)
        self._source_counts[source] = self._source_counts.get(source, 0) + 1
        if is_first:
            self.on_channel(channel_id, True)

    def release(self, member: HeldMember) -> None:
        """Let the holder of a member go, and its home and rival too, if it has them."""
        self._let_go(member)
        self._unlink(member.home_id, member.key)
        self._unlink(member.rival_id, member.key)
        member.home_id = member.rival_id = NO_CHANNEL_ID

    def take(self, member: HeldMember, channel_id: int, now_ms: int, *, by_request: bool = False) -> bool:
        """Return whether a heartbeat, or a request, over a connection counts.

        If so, that connection holds the member now.
        """
        if channel_id == member.channel_id:
            return True
        goes_home = channel_id == member.home_id and not by_request
        silence_ms = min(MOVE_AFTER_MS, member.timeout_ms // 2)
        is_silent = now_ms - member.last_beat_ms >= silence_ms
        has_only_asked = not member.has_beaten and self._same_source(channel_id, member.channel_id)
        if not (goes_home or is_silent or has_only_asked or member.channel_id == NO_CHANNEL_ID):
            self._unlink(member.rival_id, member.key)
            member.rival_id, member.rival_beat_ms = channel_id, now_ms
            self._link(channel_id, member.key)
            return False
        home_id, home_beat_ms = member.home_id or member.channel_id, member.home_beat_ms
        if not member.home_id:
            home_beat_ms = member.last_beat_ms
        self.release(member)
        self.hold(member, channel_id)
        if not goes_home and home_id not in {NO_CHANNEL_ID, channel_id}:
            member.home_id, member.home_beat_ms = home_id, home_beat_ms
            self._link(home_id, member.key)
        return True

    def move_on(self, member: HeldMember, now_ms: int) -> bool:
        """Find another holder for a member whose holder has closed; return False without one."""
        closed_id = member.channel_id
        if member.home_id:
            next_id, beat_ms = member.home_id, member.home_beat_ms
        elif (
            member.rival_id
            and now_ms - member.rival_beat_ms <= MOVE_AFTER_MS
            and self._same_source(member.rival_id, closed_id)
        ):
            next_id, beat_ms = member.rival_id, member.rival_beat_ms
        else:
            return False
        self.release(member)
        self.hold(member, next_id)
        member.last_beat_ms = beat_ms
        return True

    def _same_source(self, one_id: int, other_id: int) -> bool:
        return self._source_of(one_id) == self._source_of(other_id)

    def linked(self, channel_id: int) -> tuple[ReplicaKey, ...]:
        """Forget a closed connection as home and rival; return the members of which it was one."""
        return tuple(self._linked.pop(channel_id, ()))

    def _let_go(self, member: HeldMember) -> None:
        channel_id, key = member.channel_id, member.key
        names = self._held[channel_id]
        keys = names[key.broker_name]
        del keys[key]
        self._counts[channel_id] -= 1
        source = self._source_of(channel_id)
        self._source_counts[source] -= 1
        if not self._source_counts[source]:
            del self._source_counts[source]
        if not keys:
            del names[key.broker_name]
        if not names:
            del self._held[channel_id], self._counts[channel_id]
            self.on_channel(channel_id, False)

    def _link(self, channel_id: int, key: ReplicaKey) -> None:
        self._linked.setdefault(channel_id, {})[key] = None

    def _unlink(self, channel_id: int, key: ReplicaKey) -> None:
        keys = self._linked.get(channel_id)
        if keys is not None:
            keys.pop(key, None)
            if not keys:
                del self._linked[channel_id]


def _ignore(_channel_id: int, _holds_members: bool) -> None:
    """Do nothing: the callback before somebody sets it."""
