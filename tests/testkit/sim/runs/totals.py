"""What many schedules led to, added up, and the one verdict about them.

invalid     some schedule violated something
unknown     nothing was violated, and yet the run proves little: a kind of fault that was injected often never
            had an effect, too few messages were acknowledged, hardly any read was answered by a follower, or
            a seed gave another run the second time
valid       else
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from testkit.check.linearizability import SearchVerdict
from testkit.sim.runs.controller_schedules import ScheduleReport
from testkit.sim.runs.nemesis import Fault
from testkit.sim.runs.node_faults import NodeFault

INJECTED_MIN = 10
"""So often a kind must have been injected before its having no effect says something."""
ACKNOWLEDGED_MIN = 20
"""Acknowledged messages a schedule, on average, below which nothing was at stake."""
LOST_NODES_OF = 100
"""So many schedules must have declared a member lost with its node."""
_EXIT = {SearchVerdict.VALID: 0, SearchVerdict.INVALID: 1, SearchVerdict.UNKNOWN: 2}


@dataclass(slots=True)
class Totals:
    """Sums over schedules."""

    schedules: int = 0
    simulated_s: float = 0.0
    elections: int = 0
    leaders: int = 0
    calls: int = 0
    follower_reads: int = 0
    acknowledged: int = 0
    ambiguous: int = 0
    refused: int = 0
    lost_nodes: int = 0
    repeated: int = 0
    failed: list[int] = field(default_factory=list)
    differing: list[int] = field(default_factory=list)
    injected: Counter[Fault | NodeFault] = field(default_factory=Counter)
    effects: Counter[Fault | NodeFault] = field(default_factory=Counter)
    traces: dict[int, str] = field(default_factory=dict)

    def add(self, report: ScheduleReport) -> None:
        """Add a schedule."""
        self.schedules += 1
        self.simulated_s += report.simulated_s
        self.elections += report.elections
        self.leaders += report.leaders
        self.calls += report.calls
        self.follower_reads += report.follower_reads
        self.acknowledged += report.acknowledged
        self.ambiguous += report.ambiguous
        self.refused += report.refused
        self.lost_nodes += report.lost_nodes
        self.injected.update(report.injected)
        self.effects.update(report.effects)
        self.traces[report.seed] = report.trace
        if report.violations:
            self.failed.append(report.seed)

    def repeat(self, report: ScheduleReport) -> None:
        """Take the second run of a seed."""
        self.repeated += 1
        if self.traces[report.seed] != report.trace:
            self.differing.append(report.seed)

    @property
    def silent(self) -> list[Fault | NodeFault]:
        """Return the kinds of faults that never had an effect."""
        return [
            kind for kind, count in self.injected.items() if count >= INJECTED_MIN and not self.effects[kind]
        ]

    @property
    def verdict(self) -> SearchVerdict:
        """Return what the schedules say together."""
        if self.failed:
            return SearchVerdict.INVALID
        proves_little = self.schedules >= LOST_NODES_OF and not self.lost_nodes
        if proves_little or self.silent or self.differing:
            return SearchVerdict.UNKNOWN
        if self.acknowledged < ACKNOWLEDGED_MIN * self.schedules or self.follower_reads < self.schedules:
            return SearchVerdict.UNKNOWN
        return SearchVerdict.VALID

    @property
    def exit_status(self) -> int:
        """Return the verdict as a process tells it."""
        return _EXIT[self.verdict]

    def lines(self) -> Iterator[str]:
        """Yield the report for people."""
        schedules = f"{self.schedules} schedules, {self.simulated_s:,.0f} simulated seconds"
        yield f"{schedules}, {self.leaders} terms with a leader"
        elected = f"{self.elections} masters elected"
        yield f"{self.lost_nodes} members declared lost with their nodes"
        yield f"{elected}, {self.calls:,} calls in the histories checked for linearizability"
        yield f"{self.follower_reads:,} reads answered by followers"
        sends = f"{self.acknowledged:,} acknowledged, {self.ambiguous:,} ambiguous, {self.refused:,} refused"
        yield f"messages: {sends}"
        yield f"faults: {sum(self.injected.values()):,} injected"
        for kind in (*Fault, *NodeFault):
            silent = "   NO EFFECT SEEN" if kind in self.silent else ""
            yield f"  {kind:<32}{self.injected[kind]:>7} injected{self.effects[kind]:>9} effects{silent}"
        differing = f"{len(self.differing)} ran differently {self.differing[:5] or ''}"
        yield f"{self.repeated} seeds run twice, {differing}"
        bound = (
            f" (at most {3 / self.schedules:.2g} a schedule at 95 %)"
            if self.schedules and not self.failed
            else ""
        )
        yield f"{self.schedules - len(self.failed)} passed, {len(self.failed)} failed{bound}"
        yield f"VERDICT {self.verdict}"
