"""For how long may a master take writes? A lease, by the controllers' own tables of heartbeats. No I/O.

Theory of operation. A leading controller elects another master after it has not heard this one for the
timeout that the broker announced. So the companion asks each controller, again and again, how long it will
wait (`leaseMs` in the answer to 1005). An answer to a question of time T with L ms holds until T + L: it was
given after T. The broker may take writes until the earlier of two times, less `MARGIN_MS`:

- the time up to which a majority of the controllers will wait;
- the time up to which the leader will wait, because the leader alone decides.

The lease follows the broker's heartbeats, and not the questions: a broker that is frozen, short of CPU or cut
off loses it in time, even if the companion hears the controllers well. Conversely a broker whose companion is
frozen loses it too.

| a controller | its part of the lease |
|---|---|
| answers with `leaseMs` | until the question plus that |
| answers with `leaseMs`, and has just started | the same; it tells for how long it only listens |
| answers without it (it lost its store, is Java's or older) | until the question plus `fallback_ms` |
| its port is closed, and its part has not run out | until the attempt plus `CLOSED_MS` |
| its port is closed, and its part has run out | unchanged |
| is silent | unchanged |

A closed port counts because a process that has ended elects no master, and one that has just started judges
no silence for longer than `CLOSED_MS`, whether it has heard the member or not. It does not bring back a part
that has run out: the controller may have elected before its end. On Kubernetes a port is closed as well at
the address of a living process on a node that is cut off, but only after a minute of silence.

So controllers that have ended do not stop a master, and controllers that fell silent do: silence looks the
same from here whether they or this broker are cut off. Where Kubernetes replaces the pods of all controllers,
their addresses are closed, then silent for 1 to 5 s while they lead nowhere, and closed again.

A lease that has run out comes back only with a newer word of the controllers that names this broker as
master. If the leader has given the broker up (`leaseMs` of 0), or another is master, the broker must end: it
has sends in its memory that it would acknowledge.

Not covered: a death by a closed connection, which the controllers take for one at once; and a controller that
alone does not hear the broker and becomes leader, for as long as its own name reaches the companion.

Source: groups.liveness.table, server.elections.leader_elections.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from controller_core.remoting.numbers import whole_number
from ha_sidecar.decisions.majority import ControllerAnswer, ControllerCount, address_of, named_leader

MARGIN_MS: Final = 120
"""How much earlier the broker stops: the guard looks every 50 ms, and needs the rest to get a CPU."""
CLOSED_MS: Final = 9_500
"""How long a closed port counts; below `DEFAULT_HEARTBEAT_TIMEOUT_MS`, for which a controller that has just
started judges no silence."""
FRESH_MS: Final = 1_000
"""How long an answer tells who leads."""
LEASE_MS_MAX: Final = 60_000
"""No answer counts for longer; the longest timeout of a BrokerGroup."""


@dataclass(slots=True)
class _Part:
    """One controller's part; times are ms of the companion's clock."""

    asked_ms: int
    until_ms: int
    view: ControllerAnswer

    @property
    def is_given_up(self) -> bool:
        """Whether this controller has granted no time at all."""
        return self.until_ms <= self.asked_ms


class WriteLease:
    """The lease of one broker, from what each controller said last."""

    def __init__(self, controllers: int, fallback_ms: int) -> None:
        """Take how many controllers are configured, and the lease of those that do not tell one."""
        self._parts: Final[dict[str, _Part]] = {}
        self._count: Final = ControllerCount(controllers)
        self._of = controllers
        self._fallback_ms: Final = fallback_ms
        self._leader: str | None = None

    def answered(self, controller: str, asked_ms: int, view: ControllerAnswer, lease_ms: int | None) -> None:
        """Take a controller's answer to a question of `asked_ms`; `lease_ms` is None if it does not tell."""
        length_ms = self._fallback_ms if lease_ms is None else max(0, min(lease_ms, LEASE_MS_MAX))
        self._parts[controller] = _Part(asked_ms, asked_ms + length_ms, view)
        views = self._fresh(asked_ms)
        self._of = self._count.learn([view.count for view in views.values()], asked_ms / 1_000)
        leader = named_leader(views, self._of)
        if leader is not None:
            self._leader = address_of(leader, views, self._parts)

    def port_closed(self, controller: str, tried_ms: int) -> None:
        """Learn that no process listened at a controller's address when it was tried."""
        part = self._parts.get(controller)
        if part is not None and part.until_ms > tried_ms:
            part.until_ms = max(part.until_ms, tried_ms + CLOSED_MS)

    def until_ms(self) -> int | None:
        """Return when the broker must stop; None if too few controllers have told, or the leader has not."""
        ends = sorted((part.until_ms for part in self._parts.values()), reverse=True)
        needed = self._of // 2 + 1
        leader = self._parts.get(self._leader or "")
        if len(ends) < needed or leader is None:
            return None
        return min(ends[needed - 1], leader.until_ms) - MARGIN_MS

    def is_given_up(self, now_ms: int) -> bool:
        """Say whether the leader that a majority names takes the broker for dead, by a fresh answer."""
        views = self._fresh(now_ms)
        leader = self._parts.get(self._leader or "")
        return (
            2 * len(views) > self._of and leader is not None and self._leader in views and leader.is_given_up
        )

    def _fresh(self, now_ms: int) -> Mapping[str, ControllerAnswer]:
        return {
            address: part.view for address, part in self._parts.items() if now_ms - part.asked_ms < FRESH_MS
        }


@dataclass(frozen=True, slots=True)
class MasterMark:
    """Which mastership a broker believes in: its id and the newest epoch of its log."""

    broker_id: int
    epoch: int

    def __str__(self) -> str:
        return f"{self.broker_id}.{self.epoch}"


def read_mark(text: str) -> MasterMark | None:
    """Return the mark that a text names; None if it names none."""
    broker_id, epoch = map(whole_number, text.partition(".")[::2])
    return None if broker_id is None or epoch is None else MasterMark(broker_id, epoch)
