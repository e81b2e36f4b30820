"""What the collector and the canary write, as three frozen pyarrow schemas.

Problem: one process scrapes, another probes, a third one asks the controllers for events, and jobs written in
Spark read what they left behind. All of them must agree on names, types and order of columns. Shape: one
`pyarrow.Schema` a segment kind. A required column is declared non-nullable, so a writer that forgets it fails
when it writes, not a month later when somebody reads. `slo_pipeline.schemas.frames` derives Spark's types.
Never: this module imports no Spark, so the collector's image needs none.

Where the files lie and how they are named: docs/reference/segments.md.
"""

from typing import Final

import pyarrow as pa

from slo_pipeline.schemas.names import EVENTS_TABLE, OPERATIONS_TABLE, SAMPLES_TABLE

SEGMENT_VERSION: Final = 2
# A row may be this much later than the job that reads it: the clocks of two nodes that synchronise them
# differ less.
AHEAD_MAX_S: Final = 300

# Spark reads microseconds; a timestamp without a zone would be read in the reader's zone.
TIMESTAMP_US: Final = pa.timestamp("us", tz="UTC")
LABELS: Final = pa.map_(pa.string(), pa.string())

OPS: Final = ("send", "read")
RESULTS: Final = (
    "ok",
    "timeout",
    "refused",
    "no_route",
    "flush_slave_timeout",
    "in_sync_replicas_not_enough",
    "writes_stopped",
    "not_master",
    "missing",
    "other",
)
READ_RESULTS: Final = ("ok", "missing")
SEND_RESULTS: Final = tuple(result for result in RESULTS if result != "missing")


def _required(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


SAMPLES: Final = pa.schema(
    [
        _required("ts", TIMESTAMP_US),  # when the scrape began, by the collector's clock
        _required("metric", pa.string()),
        _required("labels", LABELS),
        _required("value", pa.float64()),
        _required("instance", pa.string()),  # the scraped target: host:port or pod
        _required(
            "instance_uid", pa.string()
        ),  # changes when the process or pod is another one; "" if unknown
        pa.field("embedded_ts", TIMESTAMP_US),  # the timestamp in the exposition, where there was one
        pa.field("series", pa.int64()),  # of metric and labels; missing in segments of version 1
    ]
)
ADDED_COLUMNS: Final = frozenset({"series"})
"""Columns that older segments lack; they read as null."""

EVENTS: Final = pa.schema(
    [
        _required("sequence", pa.int64()),  # position in the source's stream
        _required("event_id", pa.string()),  # deterministic: the same fact has the same id from every node
        _required("ts", TIMESTAMP_US),  # ts_ns, cut to microseconds
        _required("ts_ns", pa.int64()),  # UTC
        _required("monotonic_ns", pa.int64()),  # comparable only within one clock_id
        _required("clock_id", pa.string()),  # the process that read the clock
        _required("source", pa.string()),
        _required("kind", pa.string()),
        _required("namespace", pa.string()),
        _required("cluster", pa.string()),
        _required("group", pa.string()),  # brokerName
        pa.field("broker_id", pa.int64()),
        pa.field("epoch", pa.int64()),  # master epoch
        pa.field("term", pa.int64()),
        pa.field("index", pa.int64()),
        pa.field("correlation_id", pa.string()),  # <cluster>/<group>/<new master epoch>
        _required("attrs", LABELS),
    ]
)

PROBE_OPS: Final = pa.schema(
    [
        _required("op", pa.string()),  # one of OPS
        _required("group", pa.string()),
        _required("seq", pa.int64()),  # unique within a group
        _required("intended_ts", TIMESTAMP_US),  # when the open-loop schedule wanted it
        _required("start_ts", TIMESTAMP_US),
        pa.field("end_ts", TIMESTAMP_US),  # null: no answer came
        _required("result", pa.string()),  # one of RESULTS
        _required("broker_addr", pa.string()),  # "" without a route
        pa.field("queue_id", pa.int32()),
        pa.field("queue_offset", pa.int64()),
        pa.field("remark", pa.string()),
        _required("clock_id", pa.string()),
    ]
)

SEGMENTS: Final = {SAMPLES_TABLE: SAMPLES, EVENTS_TABLE: EVENTS, OPERATIONS_TABLE: PROBE_OPS}
