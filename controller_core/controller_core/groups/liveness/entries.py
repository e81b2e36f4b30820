"""What the table of living members holds: an entry for each member, its bounds, and how a member left it."""

from dataclasses import dataclass
from typing import Final

from controller_core import limits
from controller_core.groups.commands import (
    DEFAULT_ELECTION_PRIORITY,
    DEFAULT_HEARTBEAT_TIMEOUT_MS,
    UNKNOWN_EPOCH,
    UNKNOWN_OFFSET,
    Cause,
    LiveBroker,
)
from controller_core.groups.keys import LogOffset, ReplicaKey
from controller_core.groups.liveness.holders import NO_CHANNEL_ID


@dataclass(frozen=True, slots=True)
class TableBounds:
    """How many members a table takes: in all, of one group, by one connection, by those of one source."""

    total_max: int
    group_max: int
    channel_max: int
    source_max: int


MEMBER_BOUNDS: Final = TableBounds(
    limits.LIVE_MEMBERS_MAX, limits.LIVE_MEMBERS_MAX, limits.CHANNEL_MEMBERS_MAX, limits.LIVE_MEMBERS_MAX
)
"""For registered members, of which the groups' own bounds allow only so many."""
UNREGISTERED_BOUNDS: Final = TableBounds(
    limits.UNREGISTERED_MAX,
    limits.GROUP_UNREGISTERED_MAX,
    limits.CHANNEL_UNREGISTERED_MAX,
    limits.SOURCE_UNREGISTERED_MAX,
)
"""For senders of heartbeats that no group has registered."""


@dataclass(frozen=True, slots=True)
class Death:
    """A member that left the table.

    Attributes:
        at_ms: when this table learned it.
    """

    key: ReplicaKey
    cause: Cause
    last_beat_ms: int
    at_ms: int


@dataclass(slots=True)
class LiveEntry:
    """What the newest heartbeat of a living member said, and when and where it came in."""

    key: ReplicaKey
    channel_id: int
    last_beat_ms: int = 0
    timeout_ms: int = DEFAULT_HEARTBEAT_TIMEOUT_MS
    address: str = ""
    epoch: int = UNKNOWN_EPOCH
    max_offset: LogOffset = UNKNOWN_OFFSET
    confirm_offset: LogOffset = UNKNOWN_OFFSET
    priority: int = DEFAULT_ELECTION_PRIORITY
    starting_until_ms: int = 0
    lease_until_ms: int = 0
    deadline_ms: int = 0
    heap_deadline_ms: int = 0
    heap_token: int = 0
    home_id: int = NO_CHANNEL_ID
    home_beat_ms: int = 0
    rival_id: int = NO_CHANNEL_ID
    rival_beat_ms: int = 0
    has_beaten: bool = False
    """Whether a heartbeat has come.

    A member that only asked for something has not told how far its log goes.
    """

    def as_live_broker(self) -> LiveBroker:
        """Return what an election needs to know."""
        return LiveBroker(self.key.broker_id, self.epoch, self.max_offset, self.priority)


def one_source(_channel_id: int) -> str:
    """Return the same source for all connections."""
    return ""


def forget_link(entry: LiveEntry, channel_id: int) -> None:
    """Forget a closed connection as home and as rival of a member."""
    if entry.home_id == channel_id:
        entry.home_id = NO_CHANNEL_ID
    if entry.rival_id == channel_id:
        entry.rival_id = NO_CHANNEL_ID
