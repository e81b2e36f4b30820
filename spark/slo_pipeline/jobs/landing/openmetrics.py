"""`slo-pipeline import openmetrics FILE --into DIR`: somebody else's history becomes segments.

(`import prometheus URL` is the same for a running store: `land_prometheus`.)

Problem: an import is repeated after an interruption, or by mistake, and must not count anything twice. Shape:
the file's digest is part of the segments' names, and the rows of each are a function of the file. A second
run finds its segments there and writes nothing; one that was killed half-way leaves whole segments, and the
next run adds the rest. The text is read once to be checked before anything is written, so that a bad line
lands nothing. Neither reading holds more of it than one segment's rows, and the last time of each series.
Never: no Spark here.

Exit status: 0 landed (or there already), 2 the file or the directory cannot be used.
"""

import argparse
import hashlib
import io
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from controller_core.command_line.values import DURATION, positive_duration
from slo_pipeline.formats.exposition import Sample
from slo_pipeline.formats.openmetrics import (
    LINE_CHARACTERS_MAX,
    OpenMetricsError,
    RepeatedStamps,
    TimedSample,
    timed_samples,
)
from slo_pipeline.schemas.names import SAMPLES_TABLE
from slo_pipeline.writing.buffers import SampleBuffer
from slo_pipeline.writing.segment_store import SegmentStore

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
        "--match", action="append", default=[], metavar="SELECTOR", help="what to take; may be repeated"
    )
    asked.add_argument("--start", metavar="TIME", help="RFC 3339 or seconds since 1970")
    asked.add_argument("--end", metavar="TIME", help="the first moment no longer taken")
    asked.add_argument(
        "--slice",
        type=positive_duration,
        default=7_200.0,
        metavar=DURATION,
        help="width of one request (default: 2h)",
    )
    asked.add_argument("--protocol", default="auto", metavar="NAME", help="auto, remote_read or query")


def run(args: argparse.Namespace) -> int:
    """Land a file or a stretch of a Prometheus and say in one line what it held."""
    if args.format == "prometheus":
        from slo_pipeline.jobs.landing import prometheus

        sys.stdout.write(prometheus.land(args) + "\n")
        return 0
    sys.stdout.write(f"{land(Path(args.source), args.into)}\n")
    return 0


@dataclass
class Landed:
    """What a text held.

    Attributes:
        samples: that are in segments now.
        series: they belong to.
        segments: that hold them.
        repeated: samples left out because their series has one of the same time before them.
        cut: samples whose time was finer than a microsecond.
    """

    samples: int = 0
    series: int = 0
    segments: int = 0
    repeated: int = 0
    cut: int = 0

    def __str__(self) -> str:
        said = [f"{self.samples} samples of {self.series} series in {self.segments} segments"]
        if self.repeated:
            said.append(
                f"{self.repeated} samples left out (an earlier one of their series has the same timestamp)"
            )
        if self.cut:
            said.append(f"{self.cut} timestamps cut to microseconds")
        return ", ".join(said)


def land(file: Path, directory: Path) -> Landed:
    """Write the samples of an OpenMetrics text as segments; a second time changes nothing.

    Args:
        file: with the text; a pipe is copied to a temporary file first, as the text is read twice.
        directory: data directory for segments.

    Raises:
        OpenMetricsError: the text breaks a rule; nothing is written.
        SegmentError: the directory cannot be written, or another import runs there.
        SegmentUnusableError: a segment that an earlier run wrote of this text cannot be read.
        OSError: the file cannot be read.
    """
    landed = Landed()
    with _rereadable(file) as text:
        checked = RepeatedStamps()
        for sample in _read(file, text):
            checked.is_first(sample)
        landed.series = checked.series
        text.seek(0)
        digest = hashlib.file_digest(text, "sha256").hexdigest()[:DIGEST_CHARACTERS]  # type: ignore[arg-type]
        with SegmentStore(directory, WRITER, run=digest) as store:
            buffer, stamps = SampleBuffer(), RepeatedStamps(checked.disordered)
            for sample in _read(file, text):
                if not stamps.is_first(sample):
                    landed.repeated += 1
                    continue
                landed.samples += 1
                landed.cut += sample.is_cut
                instance = dict(sample.series.labels).get(INSTANCE_LABEL, "")
                buffer.add(sample.ts_us, instance, "", [Sample(sample.series, sample.value, None)])
                if len(buffer) >= SEGMENT_ROWS_MAX:
                    landed.segments += _flush(buffer, store)
            landed.segments += _flush(buffer, store)
    return landed


@contextmanager
def _rereadable(file: Path) -> Iterator[BinaryIO]:
    """Open a file that may be read again from its beginning.

    For a pipe it opens a copy in the directory of TMPDIR.
    """
    with file.open("rb") as source:
        if stat.S_ISREG(os.fstat(source.fileno()).st_mode):
            yield source
            return
        with tempfile.TemporaryFile() as copy:
            shutil.copyfileobj(source, copy)
            yield copy


def _read(file: Path, source: BinaryIO) -> Iterator[TimedSample]:
    """Yield the samples of a text from its beginning, a line in memory at a time."""
    source.seek(0)
    text = io.TextIOWrapper(source, encoding="utf-8", newline="\n")
    try:
        yield from timed_samples(iter(lambda: text.readline(LINE_CHARACTERS_MAX + 1), ""))
    except (OpenMetricsError, UnicodeDecodeError) as error:
        raise OpenMetricsError(f"{file}: {error}") from None
    finally:
        text.detach()


def _flush(buffer: SampleBuffer, store: SegmentStore) -> int:
    if not len(buffer):
        return 0
    tables = buffer.take().tables()
    for day, rows in tables:
        store.write(SAMPLES_TABLE, day, rows)
    return len(tables)
