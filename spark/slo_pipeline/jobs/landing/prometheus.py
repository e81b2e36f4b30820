"""`slo-pipeline import prometheus URL`: a stretch of a Prometheus becomes segments, slice by slice.

Problem: a backfill of months is interrupted, and repeated, and must end with every sample once. Shape: slices
are aligned to 1970, and a segment is named by its selector and its slice. A slice that is on the disk is not
asked for again. Ask only for stretches that the store has completely: a slice is never landed twice. Never:
`query_range`.
"""

import argparse
import hashlib
from pathlib import Path
from typing import Final

import pyarrow as pa

from slo_pipeline.schemas.names import SAMPLES_TABLE
from slo_pipeline.schemas.segments import SAMPLES
from slo_pipeline.sources.layout import check
from slo_pipeline.sources.prometheus_raw import Slice, asked
from slo_pipeline.sources.prometheus_wire import PrometheusServer, fetch
from slo_pipeline.sources.selectors import text_of
from slo_pipeline.writing.buffers import day_of
from slo_pipeline.writing.segment_store import SegmentStore

WRITER: Final = "prometheus"
US_PER_MS: Final = 1_000
DIGEST_CHARACTERS: Final = 16


def land(args: argparse.Namespace) -> str:
    """Land what the options ask for; return one line on it.

    Raises:
        PrometheusError: an option is missing or wrong, or the store refused.
        SegmentError: the directory cannot be written, or another import runs there.
        SegmentUnusableError: the segment of a slice that is there already cannot be read.
    """
    options = {
        "url": args.source,
        "match": "\n".join(args.match),
        "slice": f"{args.slice:g}s",
        "protocol": args.protocol,
    }
    options |= {name: value for name, value in (("start", args.start), ("end", args.end)) if value}
    what = asked(options)
    slices = what.slices()
    rows = [_land_slice(what.store, one, args.into) for one in slices]
    landed = [count for count in rows if count is not None]
    return f"{sum(landed)} samples in {len(landed)} of {len(slices)} slices, the others are there already"


def _land_slice(store: PrometheusServer, one: Slice, directory: Path) -> int | None:
    """Write one slice; return its samples, None if it is there already."""
    selector = hashlib.sha256(text_of(one.matchers).encode()).hexdigest()[:DIGEST_CHARACTERS]
    name = f"{selector}-{one.stretch.start_ms}-{one.stretch.end_ms}"
    day = day_of(one.stretch.start_ms * US_PER_MS)
    landed = [*(directory / SAMPLES_TABLE / f"day={day.isoformat()}").glob(f"{WRITER}@{name}-*.parquet")]
    if landed:
        check(landed, SAMPLES)
        return None
    table = pa.Table.from_batches(fetch(store, one.matchers, one.stretch), schema=SAMPLES)
    if table.num_rows:
        with SegmentStore(directory, WRITER, run=name) as segments:
            segments.write(SAMPLES_TABLE, day, [table])
    return int(table.num_rows)
