"""Every setting of Raft's core in one place: meaning, unit, range, and what breaks when it is wrong.

Time is counted in ticks; what a tick is in milliseconds is the shell's choice. Rules between settings are
checked once, when the node is made.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from controller_core.raft.errors import RaftConfigError
from controller_core.raft.log.sizes import UNLIMITED_BYTES

ELECTION_TICKS_DEFAULT = 10
HEARTBEAT_TICKS_DEFAULT = 1
MESSAGE_BYTES_MAX_DEFAULT = 1024 * 1024
INFLIGHT_MESSAGES_MAX_DEFAULT = 256
UNCOMMITTED_BYTES_MAX_DEFAULT = 64 * 1024 * 1024
PENDING_READS_MAX_DEFAULT = 4096
LEASE_MARGIN_TICKS_DEFAULT = 3

_MASK_64 = 2**64 - 1


class ReadOnlyOption(IntEnum):
    """How a leader makes sure that it still leads before it answers a read."""

    SAFE = 0
    """Ask a quorum each time: right whatever the clocks do."""
    LEASE_BASED = 1
    """Trust a quorum's answer to a recent heartbeat: right while no clock runs away from another's.

    Needs check-quorum.
    """


@dataclass(frozen=True, slots=True)
class Config:
    """The settings of one node."""

    id: int
    """This node's id, from 1; never reused in a cluster."""

    election_ticks: int = ELECTION_TICKS_DEFAULT
    """Ticks without a leader before a node campaigns; the actual wait is drawn from [n, 2n).

    More than `heartbeat_ticks`, better ten times as much: a lost heartbeat must not cost a leader its
    office."""

    patience_factor_max: int = 1
    """How many times longer than `election_ticks` a node may come to wait that has suspected a living one.

    1 keeps the wait as it is."""

    heartbeat_ticks: int = HEARTBEAT_TICKS_DEFAULT
    """Ticks between a leader's heartbeats; at least 1."""

    pre_vote: bool = False
    """Ask whether an election could be won before raising the term, so that a node coming back from a
    partition does not depose a healthy leader. Source: Raft thesis 9.6."""

    check_quorum: bool = False
    """A leader that has not heard from a quorum for an election timeout steps down, and a node that hears
    from a leader refuses to vote. Source: Raft thesis 6.2, 4.2.3."""

    read_only: ReadOnlyOption = ReadOnlyOption.SAFE
    """How reads are confirmed; LEASE_BASED on all nodes or on none."""

    lease_margin_ticks: int = LEASE_MARGIN_TICKS_DEFAULT
    """How much earlier than a follower's patience a leader's lease ends: two ticks are lost to rounding, the
    rest is for clocks of different speed. Less than `election_ticks`."""

    applied: int = 0
    """Index up to which the caller's state machine has applied the log already: that of the snapshot it
    started from, which may lie behind the first entry that storage still has. 0 begins with that first
    entry."""

    message_bytes_max: int = MESSAGE_BYTES_MAX_DEFAULT
    """Encoded bytes of entries in one append message; one entry always fits. 0 sends entries one by one."""

    applying_bytes_max: int = 0
    """Encoded bytes of committed entries handed out and not yet applied; 0 takes `message_bytes_max`."""

    uncommitted_bytes_max: int = UNCOMMITTED_BYTES_MAX_DEFAULT
    """Payload bytes a leader accepts before a quorum has any of them; over it, proposals are dropped.

    0 for no limit.
    """

    inflight_messages_max: int = INFLIGHT_MESSAGES_MAX_DEFAULT
    """Append messages sent to a follower and not yet acknowledged; at least 1."""

    inflight_bytes_max: int = 0
    """The same in payload bytes; 0 for no limit, else at least `message_bytes_max`.

    With 1 MiB messages, 1 Gbit/s and 100 ms there and back, 12 MiB keep the pipe full."""

    pending_reads_max: int = PENDING_READS_MAX_DEFAULT
    """Reads a leader holds until a quorum confirms it; over it, reads are dropped."""

    disable_proposal_forwarding: bool = False
    """A follower drops proposals instead of passing them to the leader."""

    disable_conf_change_validation: bool = False
    """Accept changes of membership that seem not to fit the configuration active now.

    Only for a caller that serialises and checks them itself; one that does not fit when applied is an error
    then."""

    step_down_on_removal: bool = False
    """A leader that is removed or demoted becomes a follower when it applies that change."""

    async_storage_writes: bool = False
    """Not offered: storage is written between `ready` and `advance`, perhaps on another thread."""

    jitter: Callable[[int], int] | None = None
    """Returns a number of [0, n) for n: the random part of the election timeout.

    None takes a fixed sequence of numbers that differs from id to id: reproducible, and as good while no two
    clusters matter to each other."""

    def validate(self) -> None:
        """Raise RaftConfigError, naming the setting, if any is out of range or two do not fit together."""
        _require(self.id >= 1, "id must be at least 1: 0 means none", self.id)
        _require(self.heartbeat_ticks >= 1, "heartbeat_ticks must be at least 1", self.heartbeat_ticks)
        _require(
            self.election_ticks > self.heartbeat_ticks,
            "election_ticks must exceed heartbeat_ticks",
            self.election_ticks,
        )
        _require(
            self.patience_factor_max >= 1, "patience_factor_max must be at least 1", self.patience_factor_max
        )
        _require(
            self.inflight_messages_max >= 1,
            "inflight_messages_max must be at least 1",
            self.inflight_messages_max,
        )
        _require(
            self.inflight_bytes_max == 0 or self.inflight_bytes_max >= self.message_bytes_max,
            "inflight_bytes_max must be 0 or at least message_bytes_max",
            self.inflight_bytes_max,
        )
        _require(
            min(self.message_bytes_max, self.applying_bytes_max, self.uncommitted_bytes_max, self.applied)
            >= 0,
            "message_bytes_max, applying_bytes_max, uncommitted_bytes_max and applied must not be negative",
            self,
        )
        _require(self.pending_reads_max >= 1, "pending_reads_max must be at least 1", self.pending_reads_max)
        lease = self.read_only == ReadOnlyOption.LEASE_BASED
        _require(
            not lease or self.check_quorum, "read_only LEASE_BASED needs check_quorum", self.check_quorum
        )
        _require(
            not lease or 0 <= self.lease_margin_ticks < self.election_ticks,
            "lease_margin_ticks must be in [0, election_ticks)",
            self.lease_margin_ticks,
        )
        _require(
            not self.async_storage_writes, "async_storage_writes is not offered", self.async_storage_writes
        )

    def applying_limit_bytes(self) -> int:
        """Return the bound of `applying_bytes_max` with its default filled in; at least 1."""
        return max(self.applying_bytes_max or self.message_bytes_max, 1)

    def uncommitted_limit_bytes(self) -> int:
        """Return the bound of `uncommitted_bytes_max` with its default filled in."""
        return self.uncommitted_bytes_max or UNLIMITED_BYTES


def fixed_jitter(seed: int) -> Callable[[int], int]:
    """Return a generator of numbers of [0, n) that depends on `seed` alone (SplitMix64)."""
    state = seed & _MASK_64

    def draw(bound: int) -> int:
        nonlocal state
        state = (state + 0x9E3779B97F4A7C15) & _MASK_64
        mixed = state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK_64
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK_64
        return (mixed ^ (mixed >> 31)) % bound

    return draw


def _require(condition: bool, text: str, value: object) -> None:
    if not condition:
        raise RaftConfigError(f"{text}, not {value!r}")
