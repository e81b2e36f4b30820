"""What rows take on the disk, written by the collector's and the canary's own buffers and stores.

Pages are as large as those of a 5.4 broker that serves one topic (209 series, of which a quarter changes from
second to second, as most are buckets of histograms) and of its companion. What real pages take depends on how
busy a broker is; these are for a plan.
"""

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from slo_pipeline.canary.rows import Operation, probe_row
from slo_pipeline.formats.exposition import ExpositionParser, Sample, Series
from slo_pipeline.shell.clock import AnchoredClock
from slo_pipeline.sources import extracts
from slo_pipeline.transforms.lag import LAG_METRIC
from slo_pipeline.transforms.sli import IN_SYNC_METRIC, METRICS
from slo_pipeline.writing.buffers import RowBuffer, SampleBuffer
from slo_pipeline.writing.segment_store import SegmentStore
from testkit.fakes import broker_pages
from testkit.fakes.broker_pages import CHANGING, SERIES_OF_A_BROKER, SERIES_OF_A_COMPANION

PODS: Final = 30
BEGIN_US: Final = 1_795_176_000_000_000
SECONDS: Final = 60
SENDS_A_SECOND: Final = 10
_NAMES: Final = (
    "rocketmq_rpc_latency_milliseconds_bucket",
    "rocketmq_messages_in_total",
    "rocketmq_processor_watermark",
)


def sizes_on_disk(scratch: Path) -> dict[str, float]:
    """Return the sizes that a plan needs: bytes of rows in segments and in extracts, by kind of row."""
    found = {}
    for segment_s in (10, SECONDS):
        data = scratch / f"segments of {segment_s} s"
        samples, operations = _write(data, segment_s)
        found[f"bytes a sample, segments of {segment_s} s"] = _bytes(data / "samples") / samples
        found[f"bytes a probe operation, segments of {segment_s} s"] = _bytes(data / "probe_ops") / operations
    directory = scratch / "extract"
    directory.mkdir()
    names = sorted(str(path.relative_to(data)) for path in data.glob("*/day=*/*.parquet"))
    began_s = time.process_time()
    extracts.write(data, names, METRICS, directory)
    looked_at_s = time.process_time() - began_s
    scrapes = 2 * PODS * SECONDS
    kept = directory / "extract_samples.parquet"
    found["rows a scrape in an extract"] = pq.read_metadata(kept).num_rows / scrapes
    found["bytes a scrape in an extract"] = kept.stat().st_size / scrapes
    found["bytes a probe operation in an extract"] = (
        directory / "extract_probe_ops.parquet"
    ).stat().st_size / operations
    found["µs of a processor for a sample that is looked at for an extract"] = looked_at_s / samples * 1e6
    found["bytes a sample in memory while its segment is written"] = _in_memory()
    return found


def _in_memory() -> float:
    """Return a sample's size when columns of numbers are a table, with labels as long as a broker's."""
    buffer = SampleBuffer()
    for pod in range(PODS):
        for name, lines in ((f"{pod}-broker", SERIES_OF_A_BROKER), (str(pod), SERIES_OF_A_COMPANION)):
            text = broker_pages.page(name, f"group-{pod // 3}", lines).text().decode()
            read = ExpositionParser().parse(text)
            buffer.add(BEGIN_US, name, f"{name}-uid", read.samples)
    samples = len(buffer)
    return float(sum(part.nbytes for _, parts in buffer.take().tables() for part in parts) / samples)


def _write(data: Path, segment_s: int) -> tuple[int, int]:
    """Write a minute of PODS brokers, companions and a canary; return how many samples and operations."""
    chance = random.Random(7)  # noqa: S311 - sizes, no secrets
    samples = operations = 0
    with SegmentStore(data, "collector") as collector, SegmentStore(data, "canary") as canary:
        for begin in range(0, SECONDS, segment_s):
            buffer = SampleBuffer()
            probes = RowBuffer("probe_ops", "intended_ts")
            for second in range(begin, begin + segment_s):
                for instance, page in _pages(second, chance):
                    samples += len(page)
                    # Each at its own moment of the second, a little late now and then.
                    late_us = samples % 1_000_000 // 2 + chance.randrange(2_000)
                    buffer.add(BEGIN_US + second * 1_000_000 + late_us, instance, f"{instance}-uid", page)
                for row in _operations(second, chance):
                    operations += probes.add(row)
            for kind, taken, store in (("samples", buffer, collector), ("probe_ops", probes, canary)):
                for day, rows in taken.take().tables():
                    store.write(kind, day, rows)
    return samples, operations


def _pages(second: int, chance: random.Random) -> Iterator[tuple[str, list[Sample]]]:
    """Yield each scraped pod with its text, in the order of the scrapes."""
    for pod in range(PODS):
        group = f"group-{pod // 3}"
        labels = (("cluster", "main"), ("node_id", group))
        yield f"{group}-{pod}-broker", [*_values(_NAMES, labels, SERIES_OF_A_BROKER, second, chance), _up()]
        own = (("broker_id", str(pod % 3 + 1)), ("cluster", "main"), ("group", group))
        gauges = [
            Sample(Series(name, own), float(chance.randrange(3) * 512), None)
            for name in (LAG_METRIC, IN_SYNC_METRIC)
        ]
        rest = _values(("rmqha_companion_events_total",), own, SERIES_OF_A_COMPANION, second, chance)
        yield f"{group}-{pod}", [*gauges, *rest, _up()]


def _values(
    names: tuple[str, ...],
    labels: tuple[tuple[str, str], ...],
    count: int,
    second: int,
    chance: random.Random,
) -> Iterator[Sample]:
    for number in range(count):
        series = Series(names[number % len(names)], (*labels, ("le", str(number // len(names)))))
        steady = float(1_000 * number)
        grown = steady + 97 * second + chance.randrange(20) if number % CHANGING == 0 else steady
        yield Sample(series, grown, None)


def _up() -> Sample:
    return Sample(Series("up", ()), 1.0, None)


def _operations(second: int, chance: random.Random) -> Iterator[tuple[object, ...]]:
    """Yield a second of sends, each with its way back."""
    clock = AnchoredClock(lambda: 0, lambda: BEGIN_US * 1_000)
    for place in range(SENDS_A_SECOND):
        number = second * SENDS_A_SECOND + place
        intended_ns = number * 1_000_000_000 // SENDS_A_SECOND
        start_ns = intended_ns + chance.randrange(40_000, 90_000)
        stored_ns = start_ns + chance.randrange(400_000, 3_000_000)
        found_ns = stored_ns + chance.randrange(2_000_000, 30_000_000)
        where = ("10.96.12.7:10911", number % 4, number // 4)
        yield probe_row(
            Operation("send", number, intended_ns, start_ns, stored_ns, "ok", *where), "orders", clock
        )
        yield probe_row(
            Operation("read", number, stored_ns, stored_ns, found_ns, "ok", *where), "orders", clock
        )


def _bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*.parquet"))
