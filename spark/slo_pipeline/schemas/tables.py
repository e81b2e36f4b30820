"""The gold tables: what the jobs compute and the reports read, as frozen pyarrow schemas.

Problem: a report must be checkable, so every number on it is a column of a table with a stated grain.
Shape: one schema a table; its first comment is the grain, each column says its unit in its name.
Never: no Spark import, no reading or writing.
"""

from typing import Final

import pyarrow as pa

from slo_pipeline.schemas.segments import LABELS, TIMESTAMP_US

SLICE_STATES: Final = ("good", "bad", "unknown")
BOOKINGS: Final = ("failover", "switchover", "reelection", "rollout", "fault", "unexplained")
PHASES: Final = (
    "P0 fault",
    "P1 detection",
    "P2 election",
    "P3 promotion",
    "P4 publication",
    "P5 first write",
    "P6 redundancy",
)
ORDERS: Final = ("in_order", "overtaken", "uncertain", "absent")


def _schema(*columns: tuple[str, pa.DataType]) -> pa.Schema:
    return pa.schema([pa.field(name, kind) for name, kind in columns])


# Grain: one second of one group, half-open [slice_start, slice_start + 1 s), UTC, by intended time.
SLICES_1S: Final = _schema(
    ("group", pa.string()),
    ("slice_start", TIMESTAMP_US),
    ("attempts", pa.int64()),
    ("failed", pa.int64()),
    ("state", pa.string()),  # one of SLICE_STATES
)

# Grain: one group over the whole input.
SLI_WINDOW: Final = _schema(
    ("group", pa.string()),
    ("window_start", TIMESTAMP_US),
    ("window_end", TIMESTAMP_US),
    ("good_s", pa.int64()),
    ("bad_s", pa.int64()),
    ("unknown_s", pa.int64()),
    ("availability", pa.float64()),  # good / (good + bad); null when both are 0
)

# Grain: one stretch of time of one group.
SLI_STRIP: Final = _schema(
    ("group", pa.string()),
    ("ts", TIMESTAMP_US),
    ("good_s", pa.int64()),
    ("bad_s", pa.int64()),
    ("unknown_s", pa.int64()),
)

# Grain: one change of master, keyed by (cluster, group, epoch).
FAILOVERS: Final = _schema(
    ("failover_id", pa.string()),  # <cluster>/<group>/<epoch>
    ("cluster", pa.string()),
    ("group", pa.string()),
    ("epoch", pa.int64()),
    ("old_epoch", pa.int64()),
    ("cause", pa.string()),
    ("booking", pa.string()),  # failover | switchover
    ("old_master_id", pa.int64()),
    ("new_master_id", pa.int64()),
    ("old_master_address", pa.string()),
    ("new_master_address", pa.string()),
    ("sync_state_set_before", pa.string()),
    ("sync_state_set_after", pa.string()),
    ("fault", pa.string()),  # the nemesis action; null without an injected fault
    ("fault_ts", TIMESTAMP_US),
    ("fault_healed_ts", TIMESTAMP_US),
    ("last_heartbeat_ts", TIMESTAMP_US),
    ("suspected_ts", TIMESTAMP_US),
    ("elected_ts", TIMESTAMP_US),
    ("role_taken_ts", TIMESTAMP_US),
    ("route_seen_ts", TIMESTAMP_US),
    ("first_ack_ts", TIMESTAMP_US),
    ("redundancy_ts", TIMESTAMP_US),
    ("gap_start_ts", TIMESTAMP_US),  # canary's clock, like first_ack_ts
    ("write_gap_ms", pa.float64()),  # null when no canary watched
    ("interval_start", TIMESTAMP_US),  # bad slices that touch [start, end) are booked to this row
    ("interval_end", TIMESTAMP_US),
    ("order_uncertain", pa.bool_()),
    ("bad_s", pa.int64()),
    ("lost_acknowledged", pa.int64()),  # null when nothing was read back in this group
)

# Grain: one phase of one failover.
FAILOVER_PHASES: Final = _schema(
    ("failover_id", pa.string()),
    ("phase", pa.string()),  # one of PHASES
    ("start_ts", TIMESTAMP_US),
    ("end_ts", TIMESTAMP_US),
    ("duration_ms", pa.float64()),  # never negative
    ("skew_ms", pa.float64()),  # how far the mark lay before the phase's start, by foreign clocks
    ("start_clock", pa.string()),
    ("end_clock", pa.string()),
    ("order", pa.string()),  # one of ORDERS
)

# Grain: one bad second of one group.
BOOKED: Final = _schema(
    ("group", pa.string()),
    ("slice_start", TIMESTAMP_US),
    ("failed", pa.int64()),
    ("booking", pa.string()),  # one of BOOKINGS
    ("failover_id", pa.string()),
    ("detail", pa.string()),
)

# Grain: one thing that spent budget in one group.
BUDGET: Final = _schema(
    ("group", pa.string()),
    ("booking", pa.string()),  # one of BOOKINGS
    ("failover_id", pa.string()),  # of a failover, switchover or re-election; else null
    ("detail", pa.string()),  # what the fault or rollout was; else null
    ("bad_s", pa.int64()),
    ("budget_s", pa.float64()),
    ("budget_share", pa.float64()),  # bad_s / budget_s
)

# Grain: one send of the canary.
LATENCY_POINTS: Final = _schema(
    ("group", pa.string()),
    ("seq", pa.int64()),
    ("ts", TIMESTAMP_US),  # intended
    ("latency_ms", pa.float64()),  # end - intended; null when no answer came
    ("result", pa.string()),
)

# Grain: one group. Exact quantiles of acknowledged sends, measured from the intended time.
LATENCY: Final = _schema(
    ("group", pa.string()),
    ("acknowledged", pa.int64()),
    ("failed", pa.int64()),
    ("p50_ms", pa.float64()),
    ("p90_ms", pa.float64()),
    ("p99_ms", pa.float64()),
    ("p999_ms", pa.float64()),
    ("max_ms", pa.float64()),
)

# Grain: one bucket of one group; not cumulative.
LATENCY_HISTOGRAM: Final = _schema(
    ("group", pa.string()),
    ("le_ms", pa.float64()),  # upper bound, inclusive; infinity for the last
    ("sends", pa.int64()),
)

# Grain: one bucket of time of one group; quantiles of acknowledged sends only.
LATENCY_SERIES: Final = _schema(
    ("group", pa.string()),
    ("ts", TIMESTAMP_US),
    ("p50_ms", pa.float64()),
    ("p99_ms", pa.float64()),
    ("max_ms", pa.float64()),
    ("failed", pa.int64()),
)

# Grain: one bucket of time of one replica; the worst value of the gauge.
LAG_POINTS: Final = _schema(
    ("group", pa.string()),
    ("broker_id", pa.string()),
    ("instance", pa.string()),
    ("ts", TIMESTAMP_US),
    ("lag_bytes_max", pa.float64()),
)

# Grain: one change of a group's SyncStateSet.
IN_SYNC_STEPS: Final = _schema(
    ("cluster", pa.string()),
    ("group", pa.string()),
    ("ts", TIMESTAMP_US),
    ("epoch", pa.int64()),
    ("members", pa.string()),
    ("size", pa.int32()),
)

# Grain: one acknowledged message that was not read back.
LOST: Final = _schema(
    ("group", pa.string()),
    ("seq", pa.int64()),
    ("acknowledged_ts", TIMESTAMP_US),
    ("broker_addr", pa.string()),
    ("queue_id", pa.int32()),
    ("queue_offset", pa.int64()),
)

# Grain: one group.
DURABILITY: Final = _schema(
    ("group", pa.string()),
    ("acknowledged", pa.int64()),
    ("read_back", pa.int64()),
    ("lost", pa.int64()),
    ("pending", pa.int64()),  # too young at the end of the input to be called lost
    ("ambiguous", pa.int64()),  # sends without a verdict
    ("ambiguous_found", pa.int64()),  # of those, read back later
)

# Grain: one scraped instance.
COVERAGE: Final = _schema(
    ("instance", pa.string()),
    ("first_ts", TIMESTAMP_US),
    ("last_ts", TIMESTAMP_US),
    ("scrapes", pa.int64()),
    ("expected", pa.int64()),
    ("coverage", pa.float64()),
    ("gaps", pa.int64()),
    ("longest_gap_s", pa.float64()),
    ("restarts", pa.int64()),
)

# Grain: one clock that wrote of one group times that cannot be true, on one side. No other table holds these
# rows.
APART: Final = _schema(
    ("kind", pa.string()),  # of segment
    ("writer", pa.string()),  # clock_id, or the scraped instance
    ("group", pa.string()),  # "" where the rows name none
    ("ahead", pa.bool_()),  # later than the report's making; else earlier than any clock of ours
    ("rows", pa.int64()),
    ("first_ts", TIMESTAMP_US),
    ("last_ts", TIMESTAMP_US),
)

# Grain: one broker group that any row of the input names, in the period or not.
KNOWN_GROUPS: Final = _schema(
    ("group", pa.string()),
    ("last_ts", TIMESTAMP_US),  # newest send or event; null where only rows set apart, or samples, name it
)

# Grain: the increase of a counter in one window of one series or label value.
INCREASES: Final = _schema(
    ("metric", pa.string()),
    ("labels", LABELS),
    ("window_start", TIMESTAMP_US),
    ("increase", pa.float64()),
    ("interpolated", pa.bool_()),
)

# Grain: one slice (Timeslices) or one stretch in which events are added up (Occurrences), of one objective
# and group.
SLI_COUNTS: Final = _schema(
    ("slo", pa.string()),
    ("group", pa.string()),
    ("ts", TIMESTAMP_US),
    ("good", pa.int64()),
    ("bad", pa.int64()),
    ("unknown", pa.int64()),
)

# Grain: one objective of one group over the whole input.
SLO_STATUS: Final = _schema(
    ("slo", pa.string()),
    ("group", pa.string()),
    ("good", pa.int64()),
    ("bad", pa.int64()),
    ("unknown", pa.int64()),
    ("attained", pa.float64()),  # good / (good + bad); null when both are 0
    ("burn_1h", pa.float64()),  # at the end of the input; 1 spends exactly the budget; null without a budget
    ("burn_6h", pa.float64()),
    ("burn_1d", pa.float64()),
    ("burn_3d", pa.float64()),
)

# Grain: one time that a burn alert would have fired.
PAGES: Final = _schema(
    ("slo", pa.string()),
    ("group", pa.string()),
    ("severity", pa.string()),
    ("burn_rate", pa.float64()),
    ("long_window", pa.string()),
    ("short_window", pa.string()),
    ("start_ts", TIMESTAMP_US),
    ("end_ts", TIMESTAMP_US),  # first minute in which it no longer fired, or the end of the input
)
