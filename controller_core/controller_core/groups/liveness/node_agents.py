"""Node agents as second witnesses: when a silent member counts as lost with its node.

One process can pause for a second: a broker for a full collection, an agent for want of CPU. A lost node
stops all its processes at once. So the agent of each node sends a heartbeat to every controller, with the
names of the members on its node. When the agent and a member that it named are silent together, the node is
lost, and the controllers need not wait for the longer time that the broker announced.

| the member | the agents that named it | verdict |
|---|---|---|
| any | one is not silent | `HEARD` |
| has a binding write lease that has not run out | all silent | `HEARD` |
| is starting, or has sent fewer than two heartbeats since it was named | all silent | `UNKNOWN` |
| is not silent | all silent | `HEARD` |
| silent | none, or none that is reliable | `UNKNOWN` |
| silent | all silent, but not yet for long enough together | `HEARD` |
| silent | all silent, at least one of them reliable | `LOST` |

`HEARD` and `UNKNOWN` change nothing: the member is judged by its own timeout, as without agents. So the word
of an agent can only shorten the wait, only for members that it named, and only if all agents that
name them are silent.

*Silent* is a sender after `timeout_ms` without a heartbeat, or later: it must be silent for longer than its
longest pause of late, times the number below. Of late is the last `PACE_WINDOW_MS` to twice that.

| who | number | reason |
|---|---|---|
| an agent | `AGENT_PAUSES` | one that often pauses alone has the member for a witness |
| a member | `MEMBER_PAUSES` | it may send a heartbeat per second, or collect garbage for long |
| the member and its agents together | `NODE_PAUSES` | a starved node delays all its processes at once |

A pause of all together ends as soon as one of them is heard. So an agent or a member that pauses
alone delays the verdict by little, and a starved node is judged later.

*Reliable* is an agent that has named the member for `TRUST_MS`. An agent loses that, and must name its
members for `TRUST_MS` again, when a member that it named is heard while the agent itself is silent for
`DOUBT_MS`, and for longer than any pause of late: then its node lives, and the agent alone has stopped. An
agent whose connection closes is forgotten: the kernel of its node has closed it. So a fresh agent, a
restarted agent and a rollout of agents say nothing about any node.

A *write lease* (`lease_until_ms`) is how long this controller has told a member that it will wait. It binds
if the member could acknowledge writes alone until then, because of its group's durability. A lease needs the
word of a majority, and so does `LOST`: no other master is elected before a binding lease has run out.

A connection is one agent, whatever name it gives: two agents of one node, during a rollout, are two
witnesses, and both must be silent.

A controller that was stopped itself cannot judge silence. The caller gives the time at least every
`LATE_MS_MAX` (`tick`); after a longer pause between two calls of any method, silence before that moment does
not count, neither for a verdict nor for a pause between two heartbeats. A `timeout_ms` of 0 turns the rule
off.

Times are milliseconds of one monotonic clock, given by the caller. No clock is read here.
"""

from collections.abc import Iterable
from enum import Enum
from typing import Final

from controller_core import limits
from controller_core.groups.keys import ReplicaKey
from controller_core.groups.liveness.entries import LiveEntry

TRUST_MS: Final = 3_000
"""For how long an agent must have named a member before its silence counts."""
DOUBT_MS: Final = 250
"""After how much silence of an agent a heartbeat of a member shows that the agent alone is silent."""
PACE_WINDOW_MS: Final = 30_000
AGENT_PAUSES: Final = 1.0
MEMBER_PAUSES: Final = 1.5
NODE_PAUSES: Final = 2.0
LATE_MS_MAX: Final = 150
"""The longest pause between two calls after which this controller was not stopped."""
FORGET_MS: Final = 60_000
"""After how much silence an agent is forgotten although its connection is open."""
CONFIRM_EARLY_MS: Final = 100
"""How much earlier a controller confirms the verdict of another one: heartbeats reach them at other times."""


class Verdict(Enum):
    """What the heartbeats say about a member and its node."""

    HEARD = "heard"
    UNKNOWN = "unknown"
    LOST = "lost"


class Pace:
    """When a sender was last heard, and its longest pause lately."""

    __slots__ = ("_longest_ms", "_older_ms", "_window_end_ms", "last_ms")

    def __init__(self, now_ms: int) -> None:
        self.last_ms = now_ms
        self._longest_ms = 0
        self._older_ms = 0
        self._window_end_ms = now_ms + PACE_WINDOW_MS

    def heard(self, now_ms: int, awake_since_ms: int) -> None:
        """Take a heartbeat; what the sender missed while this controller was stopped does not count."""
        pause_ms = now_ms - max(self.last_ms, awake_since_ms)
        if now_ms >= self._window_end_ms:
            is_next = now_ms < self._window_end_ms + PACE_WINDOW_MS
            self._older_ms = self._longest_ms if is_next else 0
            self._longest_ms = 0
            self._window_end_ms = now_ms + PACE_WINDOW_MS
        self._longest_ms = max(self._longest_ms, pause_ms, 1)
        self.last_ms = now_ms

    @property
    def longest_ms(self) -> int:
        """The longest pause lately; 0 before the second heartbeat."""
        return max(self._longest_ms, self._older_ms)

    def patience_ms(self, timeout_ms: int, pauses: float) -> float:
        """Return how long the sender may be silent: `timeout_ms`, or so many of its longest pauses."""
        return max(timeout_ms, pauses * self.longest_ms)


class _Agent:
    """One agent: its pace, and since when it has named each member."""

    __slots__ = ("is_doubted", "named_since_ms", "pace")

    def __init__(self, now_ms: int) -> None:
        self.pace = Pace(now_ms)
        self.named_since_ms: dict[ReplicaKey, int] = {}
        self.is_doubted = False

    def is_reliable(self, key: ReplicaKey) -> bool:
        """Return whether its silence about a member counts: it has named it for `TRUST_MS`, without doubt."""
        return not self.is_doubted and self.pace.last_ms - self.named_since_ms[key] >= TRUST_MS


class _Named:
    """A member that agents name: its own pace, and that of the member and its agents together."""

    __slots__ = ("agents", "node_pace", "pace")

    def __init__(self, now_ms: int) -> None:
        self.agents: dict[int, _Agent] = {}
        self.pace: Pace | None = None
        self.node_pace = Pace(now_ms)


class NodeAgents:
    """The agents that one controller hears, and the members that they name."""

    def __init__(self) -> None:
        self._agents: Final[dict[int, _Agent]] = {}
        self._named: Final[dict[ReplicaKey, _Named]] = {}
        self._awake_since_ms = 0
        self._called_ms = 0

    def __len__(self) -> int:
        return len(self._agents)

    @property
    def named_count(self) -> int:
        """How many members at least one agent names."""
        return len(self._named)

    def beat(self, channel_id: int, named: Iterable[ReplicaKey], now_ms: int) -> bool:
        """Take a heartbeat of an agent with all members of its node; return False if the table is full."""
        self.tick(now_ms)
        agent = self._agents.get(channel_id)
        if agent is None:
            if len(self._agents) >= limits.NODE_AGENTS_MAX:
                return False
            agent = self._agents[channel_id] = _Agent(now_ms)
        else:
            agent.pace.heard(now_ms, self._awake_since_ms)
        before = {} if agent.is_doubted else agent.named_since_ms
        agent.is_doubted = False
        keys = dict.fromkeys(named)
        for key in [key for key in agent.named_since_ms if key not in keys]:
            self._unname(channel_id, key)
        agent.named_since_ms = {key: before.get(key, now_ms) for key in keys}
        for key in keys:
            member = self._named.get(key)
            if member is None:
                member = self._named[key] = _Named(now_ms)
            member.agents[channel_id] = agent
            member.node_pace.heard(now_ms, self._awake_since_ms)
        return True

    def member_heard(self, key: ReplicaKey, now_ms: int) -> None:
        """Take a heartbeat of a member: an agent that is silent while it comes is silent alone."""
        member = self._named.get(key)
        if member is None:
            return
        self.tick(now_ms)
        member.node_pace.heard(now_ms, self._awake_since_ms)
        if member.pace is None:
            member.pace = Pace(now_ms)
        else:
            member.pace.heard(now_ms, self._awake_since_ms)
        for agent in member.agents.values():
            if self._silence_ms(agent.pace.last_ms, now_ms) > max(DOUBT_MS, agent.pace.longest_ms):
                agent.is_doubted = True

    def channel_closed(self, channel_id: int) -> None:
        """Forget the agent of a connection that closed."""
        agent = self._agents.pop(channel_id, None)
        if agent is not None:
            for key in agent.named_since_ms:
                self._unname(channel_id, key)

    def tick(self, now_ms: int) -> None:
        """Learn the time: a long pause between two calls shows that this controller was stopped."""
        if now_ms - self._called_ms > LATE_MS_MAX:
            self._awake_since_ms = now_ms
        self._called_ms = now_ms

    def silent_members(self, now_ms: int, timeout_ms: int) -> list[ReplicaKey]:
        """Return the members that an agent named which is silent now; forget agents that are so for long."""
        self.tick(now_ms)
        for channel_id in [
            channel_id
            for channel_id, agent in self._agents.items()
            if self._silence_ms(agent.pace.last_ms, now_ms) > FORGET_MS
        ]:
            self.channel_closed(channel_id)
        silent = (
            agent
            for agent in self._agents.values()
            if self._is_silent(agent.pace, AGENT_PAUSES, now_ms, timeout_ms)
        )
        return list(dict.fromkeys(key for agent in silent for key in agent.named_since_ms))

    def verdict(
        self, key: ReplicaKey, entry: LiveEntry | None, now_ms: int, timeout_ms: int, early_ms: int = 0
    ) -> Verdict:
        """Judge a member by the table above.

        Args:
            key: the member.
            entry: its entry in the table of living members; None if it is not alive.
            now_ms: the time.
            timeout_ms: after how much silence of both a node is lost.
            early_ms: how much less silence is enough.
        """
        self.tick(now_ms)
        member = self._named.get(key)
        if member is None or entry is None or not timeout_ms:
            return Verdict.UNKNOWN
        agents = member.agents.values()
        if any(
            not self._is_silent(agent.pace, AGENT_PAUSES, now_ms, timeout_ms, early_ms) for agent in agents
        ):
            return Verdict.HEARD
        if now_ms < entry.lease_until_ms:
            return Verdict.HEARD
        if member.pace is None or not member.pace.longest_ms or now_ms < entry.starting_until_ms:
            return Verdict.UNKNOWN
        patience_ms = member.pace.patience_ms(timeout_ms, MEMBER_PAUSES) - early_ms
        if self._silence_ms(entry.last_beat_ms, now_ms) <= patience_ms:
            return Verdict.HEARD
        if not self._is_silent(member.node_pace, NODE_PAUSES, now_ms, timeout_ms, early_ms):
            return Verdict.HEARD
        is_witnessed = any(agent.is_reliable(key) for agent in agents)
        return Verdict.LOST if is_witnessed else Verdict.UNKNOWN

    def longest_pauses_ms(self, key: ReplicaKey) -> tuple[int, int, int]:
        """Return the longest pauses lately of a member, of its agents, and of all together; 0 if unknown."""
        member = self._named.get(key)
        if member is None:
            return (0, 0, 0)
        return (
            0 if member.pace is None else member.pace.longest_ms,
            max(agent.pace.longest_ms for agent in member.agents.values()),
            member.node_pace.longest_ms,
        )

    def _silence_ms(self, last_ms: int, now_ms: int) -> int:
        return now_ms - max(last_ms, self._awake_since_ms)

    def _is_silent(self, pace: Pace, pauses: float, now_ms: int, timeout_ms: int, early_ms: int = 0) -> bool:
        return self._silence_ms(pace.last_ms, now_ms) > pace.patience_ms(timeout_ms, pauses) - early_ms

    def _unname(self, channel_id: int, key: ReplicaKey) -> None:
        member = self._named[key]
        del member.agents[channel_id]
        if not member.agents:
            del self._named[key]
