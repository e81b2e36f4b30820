"""What a report needs to know, as plain frozen values.

Problem: a page that reads data frames can only be tested with Spark, and depends on the order in which rows
arrive. Shape: dataclasses of tuples, already sorted. All times are whole microseconds since 1970, UTC. Never:
no computation that changes a number; only sums and look-ups that the page prints.
"""

from dataclasses import dataclass

from slo_pipeline.reports.values.measured import enough


@dataclass(frozen=True, slots=True)
class Phase:
    """One of the seven phases of a change of master; times are null for an unset mark."""

    name: str
    start_us: int | None
    end_us: int | None
    duration_ms: float | None
    skew_ms: float | None
    start_clock: str | None
    end_clock: str | None
    order: str


@dataclass(frozen=True, slots=True)
class Point:
    """One send of the canary; no latency means that no answer came."""

    us: int
    latency_ms: float | None
    result: str


@dataclass(frozen=True, slots=True)
class SyncStateSetStep:
    """The SyncStateSet from this time on."""

    us: int
    members: str
    size: int


@dataclass(frozen=True, slots=True)
class Mark:
    """Something a source reported near a change of master, besides the phases' own marks."""

    us: int
    kind: str
    source: str
    broker_id: int | None
    note: str


@dataclass(frozen=True, slots=True)
class Failover:
    """One change of master: a row of FAILOVERS with the data drawn around it."""

    failover_id: str
    cluster: str
    group: str
    epoch: int
    old_epoch: int | None
    cause: str
    booking: str
    old_master_id: int | None
    new_master_id: int | None
    old_master_address: str | None
    new_master_address: str | None
    sync_state_set_before: str
    sync_state_set_after: str
    fault: str | None
    fault_us: int | None
    fault_healed_us: int | None
    elected_us: int
    first_ack_us: int | None
    redundancy_us: int | None
    gap_start_us: int | None
    write_gap_ms: float | None
    interval_start_us: int
    interval_end_us: int
    order_uncertain: bool
    bad_s: int
    lost_acknowledged: int | None
    phases: tuple[Phase, ...] = ()
    points: tuple[Point, ...] = ()
    steps: tuple[SyncStateSetStep, ...] = ()
    marks: tuple[Mark, ...] = ()

    @property
    def is_planned(self) -> bool:
        """Tell a switchover from a failover."""
        return self.booking == "switchover"

    @property
    def begin_us(self) -> int:
        """Return where its clock starts: the fault, else the first phase, else the election."""
        if self.fault_us is not None:
            return self.fault_us
        starts = [phase.start_us for phase in self.phases if phase.start_us is not None]
        return min(starts, default=self.elected_us)


@dataclass(frozen=True, slots=True)
class Latency:
    """Exact quantiles of acknowledged sends in milliseconds; null without any."""

    acknowledged: int
    failed: int
    p50_ms: float | None
    p90_ms: float | None
    p99_ms: float | None
    p999_ms: float | None
    max_ms: float | None


@dataclass(frozen=True, slots=True)
class LatencyBucket:
    """Sends of one bucket of time."""

    us: int
    p50_ms: float | None
    p99_ms: float | None
    max_ms: float | None
    failed: int


@dataclass(frozen=True, slots=True)
class LagSeries:
    """The worst replication lag of one replica, bucket by bucket: (microsecond, bytes)."""

    name: str
    values: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class StretchSeconds:
    """How many seconds of one stretch of time were good, bad, unknown."""

    us: int
    good_s: int
    bad_s: int
    unknown_s: int


@dataclass(frozen=True, slots=True)
class SendResults:
    """What became of acknowledged and of ambiguous sends."""

    acknowledged: int
    read_back: int
    lost: int
    pending: int
    ambiguous: int
    ambiguous_found: int


@dataclass(frozen=True, slots=True)
class LostMessage:
    """One acknowledged message that was not read back."""

    group: str
    seq: int
    acknowledged_us: int
    broker_addr: str
    queue_id: int | None
    queue_offset: int | None


@dataclass(frozen=True, slots=True)
class BadSecond:
    """One bad slice and what it was booked to."""

    us: int
    booking: str
    failover_id: str | None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class GroupReport:
    """One broker group over the report's period.

    Attributes:
        start_us, end_us: of its measured time; the period's if nothing was measured.
        last_us: its newest send or event; None if no credible row tells.
        is_judged: False for a group whose newest row is older than the period.
    """

    name: str
    start_us: int
    end_us: int
    good_s: int
    bad_s: int
    unknown_s: int
    availability: float | None
    latency: Latency | None = None
    histogram: tuple[tuple[float, int], ...] = ()
    series: tuple[LatencyBucket, ...] = ()
    lag: tuple[LagSeries, ...] = ()
    bad_seconds: tuple[BadSecond, ...] = ()
    strip: tuple[StretchSeconds, ...] = ()
    durability: SendResults | None = None
    last_us: int | None = None
    is_judged: bool = True

    @property
    def measured_s(self) -> int:
        """Return the seconds in which a send was intended."""
        return self.good_s + self.bad_s

    @property
    def is_measured(self) -> bool:
        """Tell whether enough of its seconds were measured to judge it."""
        return enough(self.good_s, self.bad_s, self.unknown_s)


@dataclass(frozen=True, slots=True)
class Coverage:
    """How completely one instance was scraped."""

    instance: str
    scrapes: int
    expected: int
    coverage: float
    gaps: int
    longest_gap_s: float | None
    restarts: int


@dataclass(frozen=True, slots=True)
class ObjectiveResult:
    """One objective of one group: its target and its result.

    Attributes:
        budget: how many slices or events may be bad; 0 for an objective of 100 %.
        burn_1h, burn_3d: burn rates at the end; None without a budget or without data.
        slice_s: width of a slice of Timeslices; None for Occurrences.
    """

    slo: str
    says: str
    threshold: str
    group: str
    target_percent: float
    good: int
    bad: int
    unknown: int
    attained: float | None
    budget: float
    burn_1h: float | None
    burn_3d: float | None
    slice_s: int | None = None

    @property
    def is_measured(self) -> bool:
        """Tell whether enough was measured to call the objective successful."""
        return enough(self.good, self.bad, self.unknown, self.slice_s)

    @property
    def holds(self) -> bool:
        """Tell whether the budget is not overspent."""
        return self.bad <= self.budget


@dataclass(frozen=True, slots=True)
class FiredBurnAlert:
    """One time that a burn alert would have fired."""

    severity: str
    slo: str
    group: str
    burn_rate: float
    long_window: str
    short_window: str
    start_us: int
    end_us: int


@dataclass(frozen=True, slots=True)
class ImpossibleTimes:
    """Rows of one clock and group whose times cannot be true: they are in no number of the page but these.

    Attributes:
        kind: of segment.
        writer: the clock, or the scraped instance.
        ahead: whether they are later than the report's making; else they are earlier than any clock of ours.
    """

    kind: str
    writer: str
    group: str
    ahead: bool
    rows: int
    first_us: int
    last_us: int


@dataclass(frozen=True, slots=True)
class Report:
    """Everything on the page.

    Attributes:
        start_us, end_us: the period, which is also the page's only notion of "now".
        budget_s: bad seconds a group may have in the window.
        booked_s, counted_s: the check line; equal, or the pipeline is wrong.
        late_rows: rows that came after their day was closed; None where no daily run keeps book.
        apart: rows whose times cannot be true.
        absent: kinds of segments without any row.
        lost_listed: the first lost messages; `SendResults.lost` has the full count.
    """

    title: str
    start_us: int
    end_us: int
    target_percent: float
    window_days: int
    budget_s: float
    groups: tuple[GroupReport, ...]
    failovers: tuple[Failover, ...]
    booked_s: int
    counted_s: int
    coverage: tuple[Coverage, ...] = ()
    lost_listed: tuple[LostMessage, ...] = ()
    bucket_s: float = 1.0
    objectives: tuple[ObjectiveResult, ...] = ()
    pages: tuple[FiredBurnAlert, ...] = ()
    late_rows: int | None = None
    apart: tuple[ImpossibleTimes, ...] = ()
    absent: tuple[str, ...] = ()

    @property
    def worst(self) -> GroupReport | None:
        """Return the group that spent most of its budget; the first by name among equals."""
        return max(self.groups, key=lambda group: group.bad_s, default=None)
