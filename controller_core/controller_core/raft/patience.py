"""How long a node waits for others: longer after it suspected one that lives. No I/O; time comes as ticks.

A short election timeout finds a lost node soon. It is too short for nodes that lack CPU: each pause of the
leader's process costs an election, the election costs CPU, and the next pause comes sooner. So a node whose
suspicion was wrong waits twice as long from then on, at most `factor_max` times as long as configured.

    suspected               a follower's leader, when its wait is over; a leader's voters that did not answer
                            when it steps down
    the suspicion was wrong a message of the suspected node within `WINDOW` election timeouts
    nothing is learned      the connection to it broke: its process may have ended, and be another by now
    calm                    half the wait again after `CALM` election timeouts without a wrong suspicion

Never here: what others rely on. A node that has answered a leader withholds its vote for the configured
timeout, and a leader's lease ends by it, however long either waits (`roles.election`, `reads`).

Source: T. Chandra and S. Toueg, Unreliable failure detectors for reliable distributed systems (1996), 9.1.
"""

from collections.abc import Iterable
from typing import Final

WINDOW: Final = 10
"""Election timeouts, 3 s by default: a process that paused for longer was suspected rightly."""
CALM: Final = 200
"""Election timeouts, a minute by default."""


class Patience:
    """One node's wait.

    Attributes:
        ticks: how long it is; the random part comes on top for a follower.
    """

    __slots__ = ("_changed_tick", "_configured_ticks", "_gone", "_suspected", "_ticks_max", "ticks")

    def __init__(self, election_ticks: int, factor_max: int) -> None:
        self.ticks = election_ticks
        self._configured_ticks = election_ticks
        self._ticks_max = election_ticks * factor_max
        self._changed_tick = 0
        self._suspected: dict[int, int] = {}
        self._gone: dict[int, int] = {}

    @property
    def is_longer(self) -> bool:
        """Whether the wait is longer than configured."""
        return self.ticks > self._configured_ticks

    @property
    def has_suspects(self) -> bool:
        """Whether a message may show that a suspicion was wrong."""
        return bool(self._suspected)

    def suspect(self, nodes: Iterable[int], tick: int) -> None:
        """Note that nodes were silent for too long, except where the connection broke in that time."""
        since = tick - 2 * self.ticks
        self._suspected = {node: tick for node in nodes if self._gone.get(node, since) <= since}
        self._gone.clear()

    def gone(self, node: int, tick: int) -> None:
        """Note that the connection to a node broke."""
        self._suspected.pop(node, None)
        self._gone[node] = tick

    def heard(self, node: int, tick: int) -> None:
        """Take a message of a node as the sign of life that it is."""
        suspected_tick = self._suspected.pop(node, None)
        if suspected_tick is None or tick - suspected_tick > WINDOW * self._configured_ticks:
            return
        self._suspected.clear()  # one lesson for all that were suspected together
        self.ticks = min(2 * self.ticks, self._ticks_max)
        self._changed_tick = tick

    def calm(self, tick: int) -> bool:
        """Shorten the wait if all was calm for long; return whether it is shorter now."""
        if not self.is_longer or tick - self._changed_tick < CALM * self._configured_ticks:
            return False
        self.ticks = max(self.ticks // 2, self._configured_ticks)
        self._changed_tick = tick
        return True
