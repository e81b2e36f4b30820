"""`slo-pipeline import openmetrics FILE --into DIR`: somebody else's history becomes segments.

(`import prometheus URL` is the same for a running store: `land_prometheus`.)

Problem: an import is repeated after an interruption, or by mistake, and must not count anything twice.
Shape: the file's digest is part of the segments' names, and the rows of each are a function of the file. A second run finds
its segments there and writes nothing; one that was killed half-way leaves whole segments, and the next run adds the rest. The
file is read once to be checked before anything is written, so that a bad line lands nothing.
Never: no Spark here.

Exit status: 0 landed (or there already), 2 the file or the directory cannot be used.
"""

import argparse
import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from slo_pipeline.collect.buffers import SampleBuffer
from slo_pipeline.collect.exposition import Sample
from slo_pipeline.collect.segments import SegmentStore
from slo_pipeline.sources.openmetrics import OpenMetricsError, TimedSample, timed_samples

WRITER: Final = "openmetrics"
INSTANCE_LABEL: Final = "instance"
SEGMENT_ROWS_MAX: Final = 500_000
DIGEST_CHARACTERS: Final = 16


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `import`."""
    parser.add_argument("format", choices=["openmetrics", "prometheus"], help="what is imported")
    parser.add_argument(
        "source",
        metavar="FILE|URL",
        help="text in which every sample has a timestamp, or a Prometheus' address",
    )
    parser.add_argument("--into", type=Path, required=True, metavar="DIR", help="data directory for segments")
    asked = parser.add_argument_group("prometheus only")
    asked.add_argument(
        "--match", action="append", default=[], metavar="SELECTOR", help="what to take; repeatable"
    )
    asked.add_argument("--start", metavar="TIME", help="RFC 3339 or seconds since 1970")
    asked.add_argument("--end", metavar="TIME", help="the first moment no longer taken")
    asked.add_argument("--slice", default="2h", metavar="TIME", help="width of one request, default 2h")
    asked.add_argument("--protocol", default="auto", metavar="NAME", help="auto, remote_read or query")


def run(args: argparse.Namespace) -> int:
    """Land a file or a stretch of a Prometheus and say in one line what it held."""
    if args.format == "prometheus":
        from slo_pipeline.jobs import land_prometheus

        sys.stdout.write(land_prometheus.land(args) + "\n")
        return 0
    landed = land(Path(args.source), args.into)
    sys.stdout.write(f"{landed.samples} samples of {landed.series} series in {landed.segments} segments\n")
    return 0


class Landed:
    """What a file held: samples, series, and the segments that hold them now."""

    def __init__(self) -> None:
        self.samples = 0
        self.series = 0
        self.segments = 0


def land(file: Path, directory: Path) -> Landed:
    """Write the samples of an OpenMetrics text as segments; a second time changes nothing.

    Raises:
        OpenMetricsError: the text breaks a rule; nothing is written.
        SegmentError: the directory cannot be written, or another import runs there.
        OSError: the file cannot be read.
    """
    landed = Landed()
    seen = set()
    for sample in _read(file):
        landed.samples += 1
        seen.add(sample.series)
    landed.series = len(seen)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()[:DIGEST_CHARACTERS]
    with SegmentStore(directory, WRITER, run=digest) as store:
        buffer = SampleBuffer()
        for sample in _read(file):
            instance = dict(sample.series.labels).get(INSTANCE_LABEL, "")
            buffer.add(sample.ts_us, instance, "", [Sample(sample.series, sample.value, None)])
            if len(buffer) >= SEGMENT_ROWS_MAX:
                landed.segments += _flush(buffer, store)
        landed.segments += _flush(buffer, store)
    return landed


def _read(file: Path) -> Iterator[TimedSample]:
    try:
        with file.open(encoding="utf-8", newline="\n") as lines:
            yield from timed_samples(lines)
    except (OpenMetricsError, UnicodeDecodeError) as error:
        raise OpenMetricsError(f"{file}: {error}") from None


def _flush(buffer: SampleBuffer, store: SegmentStore) -> int:
    if not len(buffer):
        return 0
    tables = buffer.take().tables()
    for day, rows in tables:
        store.write("samples", day, rows)
    return len(tables)
