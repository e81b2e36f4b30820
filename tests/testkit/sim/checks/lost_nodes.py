"""A second, naive judgement of each member that a controller declares lost with its node.

It keeps every heartbeat that came in, at every controller, and looks back when a member is declared lost:

    N1  the member was silent for nearly `NODE_TIMEOUT_S`, and so were all agents whose newest word names it
    N2  one of these agents had named it for nearly `TRUST_S`, and missed no heartbeat before the last one of
        the members that it names
    N3  the controller itself was awake all the time
    N4  a majority of the controllers had heard neither, give or take the time of a question

"Nearly" allows for clocks that are up to a tenth apart, and for the network.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from controller_core.groups.keys import ReplicaKey
from controller_core.server.controller import Controller
from testkit.sim.checks.invariants import Invariants
from testkit.sim.loop.virtual_loop import Process, VirtualLoop

NODE_TIMEOUT_S = 0.45
TRUST_S = 2.6
CONFIRM_S = 0.34
"""The shortest silence at another controller, whose answer may be `ASKED_S` old."""
ASKED_S = 0.25
DOUBT_S = 0.3


@dataclass(slots=True)
class HeardAgent:
    """One connection of an agent: when its heartbeats came in, and since when it names each member."""

    beats_s: list[float] = field(default_factory=list)
    named_since_s: dict[ReplicaKey, float] = field(default_factory=dict)

    def longest_s(self) -> float:
        """Return the longest pause between two heartbeats."""
        pairs = zip(self.beats_s, self.beats_s[1:], strict=False)
        return max((later - earlier for earlier, later in pairs), default=0.0)


@dataclass(slots=True)
class Heard:
    """What one process of a controller has heard."""

    process: Process
    members: dict[ReplicaKey, list[float]] = field(default_factory=dict)
    agents: dict[int, HeardAgent] = field(default_factory=dict)

    def naming(self, key: ReplicaKey) -> list[HeardAgent]:
        """Return the connected agents whose last heartbeat names a member."""
        return [agent for agent in self.agents.values() if key in agent.named_since_s]

    def times_s(self, key: ReplicaKey) -> list[float]:
        """Return the times of all heartbeats of a member and of the agents that name it."""
        agents = (time_s for agent in self.naming(key) for time_s in agent.beats_s)
        return sorted((*self.members.get(key, ()), *agents))


class LostNodes:
    """Watches all controllers.

    Attributes:
        declared: how many members were declared lost.
    """

    def __init__(self, loop: VirtualLoop, invariants: Invariants, controllers: int) -> None:
        self.declared = 0
        self._loop = loop
        self._invariants = invariants
        self._majority = controllers // 2 + 1
        self._heard: dict[str, Heard] = {}

    def watch(self, name: str, process: Process, controller: Controller) -> None:
        """Listen to a new process of a controller."""
        heard = self._heard[name] = Heard(process)
        heartbeats = controller.heartbeats
        take, close = heartbeats.agents.beat, heartbeats.agents.channel_closed
        listen, lose = heartbeats.agents.member_heard, heartbeats.lose

        def beat(channel_id: int, named: Iterable[ReplicaKey], now_ms: int) -> bool:
            keys = tuple(named)
            agent = heard.agents.setdefault(channel_id, HeardAgent())
            now_s = self._loop.now_s
            agent.beats_s.append(now_s)
            agent.named_since_s = {key: agent.named_since_s.get(key, now_s) for key in keys}
            return take(channel_id, keys, now_ms)

        def channel_closed(channel_id: int) -> None:
            heard.agents.pop(channel_id, None)
            close(channel_id)

        def member_heard(key: ReplicaKey, now_ms: int) -> None:
            heard.members.setdefault(key, []).append(self._loop.now_s)
            listen(key, now_ms)

        def declare(keys: Iterable[ReplicaKey]) -> None:
            lost = tuple(keys)
            for key in lost:
                self.declared += 1
                self._judge(name, heard, key)
            lose(lost)

        _replace(heartbeats.agents, "beat", beat)
        _replace(heartbeats.agents, "channel_closed", channel_closed)
        _replace(heartbeats.agents, "member_heard", member_heard)
        _replace(heartbeats, "lose", declare)

    def _judge(self, name: str, heard: Heard, key: ReplicaKey) -> None:
        now_s = self._loop.now_s
        where = f"{key} is lost for {name} at {now_s:.3f}"
        times_s = heard.times_s(key)
        self._invariants.require(
            bool(times_s) and times_s[-1] <= now_s - NODE_TIMEOUT_S, f"N1: {where}, heard at {times_s[-3:]}"
        )
        self._invariants.require(
            any(self._is_reliable(heard, agent, key) for agent in heard.naming(key)),
            f"N2: {where}, no agent can be relied on",
        )
        self._invariants.require(
            heard.process.thawed_s <= now_s - NODE_TIMEOUT_S,
            f"N3: {where}, thawed at {heard.process.thawed_s}",
        )
        silent = [other for other in self._heard.values() if self._is_silent(other, key)]
        self._invariants.require(
            len(silent) >= self._majority, f"N4: {where}, silent at {len(silent)} controllers"
        )

    def _is_reliable(self, heard: Heard, agent: HeardAgent, key: ReplicaKey) -> bool:
        last_s = agent.beats_s[-1]
        doubt_s = last_s + max(DOUBT_S, 1.1 * agent.longest_s())
        # Why not while the controller was stopped: it then reads older heartbeats.
        began_s = max(doubt_s, heard.process.thawed_s + DOUBT_S)
        heard_since = any(
            time_s > began_s for other in agent.named_since_s for time_s in heard.members.get(other, ())
        )
        return last_s - agent.named_since_s[key] >= TRUST_S and not heard_since

    def _is_silent(self, heard: Heard, key: ReplicaKey) -> bool:
        """Whether both were silent for a while that ended within the last question."""
        now_s = self._loop.now_s
        if not heard.process.alive:
            return False
        times_s = [time_s for time_s in heard.times_s(key) if time_s > now_s - ASKED_S - CONFIRM_S]
        ends_s = [*times_s, now_s]
        starts_s = [now_s - ASKED_S - CONFIRM_S, *times_s]
        return any(
            end_s - start_s >= CONFIRM_S and end_s >= now_s - ASKED_S
            for start_s, end_s in zip(starts_s, ends_s, strict=True)
        )


def _replace(owner: object, name: str, method: Callable[..., object]) -> None:
    """Put a method in front of that of one object."""
    setattr(owner, name, method)
