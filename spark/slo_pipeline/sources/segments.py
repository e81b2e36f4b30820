"""Read segments from a data directory.

Problem: a directory may lack a kind, hold a half-written file, or repeat an event that two collectors
fetched. Shape: one function a kind returns a frame of exactly the segment's schema; a kind with no file is an
empty frame; events are one row an event_id. Never: no schema inference (a file of another layout fails by
name), and nothing is written.
"""

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from slo_pipeline.schemas.frames import conform, struct_type
from slo_pipeline.schemas.names import KINDS, SUFFIX
from slo_pipeline.schemas.segments import EVENTS, PROBE_OPS, SAMPLES
from slo_pipeline.sources.extracts import Extracts
from slo_pipeline.sources.layout import check, day_folders, segment_files, segments

# A report of so many bytes, 300,000 operations, takes as long either way; a day of 200 series a third less
# without `quick`.
SMALL_INPUT_BYTES_MAX: Final = 5_000_000


__all__ = [
    "KINDS",
    "InputError",
    "Inputs",
    "check_directory",
    "check_table",
    "has_segments",
    "is_small",
    "one_per_event",
    "read_inputs",
    "read_segments",
]


class InputError(Exception):
    """The data directory cannot be used; the message names the path and says why."""


class Inputs(NamedTuple):
    """The three kinds of segments of one data directory."""

    samples: DataFrame
    events: DataFrame
    probe_ops: DataFrame


def has_segments(directory: Path, kind: str) -> bool:
    """Tell whether a data directory holds any finished segment of a kind."""
    return next(segments(directory, kind), None) is not None


def check_directory(directory: Path, *kinds: str) -> None:
    """Refuse a directory in which none of the kinds has a segment.

    Raises:
        InputError: one line, with the path.
    """
    if not directory.is_dir():
        raise InputError(f"{directory}: no such directory")
    if not any(has_segments(directory, kind) for kind in kinds):
        wanted = " or ".join(f"{kind}/day=*/*.parquet" for kind in kinds)
        raise InputError(f"{directory}: holds no {wanted}")


def is_small(directory: Path, *kinds: str) -> bool:
    """Tell whether the segments of these kinds are so few that starting up is most of a job's work."""
    size_bytes = 0
    for kind in kinds:
        for path in segments(directory, kind):
            size_bytes += path.stat().st_size
            if size_bytes > SMALL_INPUT_BYTES_MAX:
                return False
    return True


def _read(
    spark: SparkSession,
    directory: Path,
    kind: str,
    schema: pa.Schema,
    without: Collection[str],
    extracts: Extracts | None,
) -> DataFrame:
    fields = struct_type(schema)
    paths = _places(directory, kind, extracts)
    if not paths:
        return spark.createDataFrame([], fields)
    frame = _parquet(spark, fields, paths)
    names = [Path(one).name for one in without if one.startswith(f"{kind}/")]
    if names:
        # A file's name is its writer's, run's and number's: no two segments of a kind have the same. Spark
        # tells it as an URL does, but for "+", which stays and would be read as a space.
        escaped = F.regexp_replace("_metadata.file_name", r"\+", "%2B")
        frame = frame.where(~F.url_decode(escaped).isin(names))
    return conform(frame, schema, table=str(directory / kind))


def _places(directory: Path, kind: str, extracts: Extracts | None) -> list[Path]:
    """Return the paths to read of a kind.

    These are extracts, and the segments of the other days; by folder where that says the same.
    """
    places = extracts.files(kind) if extracts is not None else []
    for folder in day_folders(directory, kind):
        if extracts is not None and extracts.hold(folder):
            continue
        files = segment_files(folder)
        # Spark would look into a folder of a folder.
        is_flat = not any(path.is_dir() for path in folder.iterdir())
        places += [folder] if files and is_flat else files
    return places


def _parquet(spark: SparkSession, fields: StructType, paths: Iterable[Path]) -> DataFrame:
    """Read Parquet files, and those of folders; a path is what it says and never a pattern."""
    # The first option is Spark's own for it (DataSource.GLOB_PATHS_KEY), which only Spark's code names.
    reader = spark.read.schema(fields).option("__globPaths__", "false").option("pathGlobFilter", f"*{SUFFIX}")
    return reader.parquet(*[str(path.absolute()) for path in paths])


def check_table(directory: Path, table: str, schema: pa.Schema) -> None:
    """Refuse a table that `daily` keeps if one of its files cannot be read: before Spark starts.

    Raises:
        SegmentUnusableError: one line.
    """
    check(segments(directory, table), schema)


def read_segments(spark: SparkSession, paths: Sequence[Path]) -> Inputs:
    """Read some segments, each named by its path below .../<kind>/day=.../."""

    def some(kind: str, schema: pa.Schema) -> DataFrame:
        chosen = [path for path in paths if path.parent.parent.name == kind]
        fields = struct_type(schema)
        if not chosen:
            return spark.createDataFrame([], fields)
        return conform(_parquet(spark, fields, chosen), schema, table=kind)

    return Inputs(
        some("samples", SAMPLES), one_per_event(some("events", EVENTS)), some("probe_ops", PROBE_OPS)
    )


def one_per_event(events: DataFrame) -> DataFrame:
    """Keep one row an event_id; which one does not matter, as the same fact has the same id and content."""
    copies = Window.partitionBy("event_id").orderBy("ts_ns", "clock_id", "sequence")
    numbered = events.withColumn("copy", F.row_number().over(copies))
    return numbered.where(F.col("copy") == 1).drop("copy")


def read_inputs(
    spark: SparkSession, directory: Path, without: Collection[str] = (), extracts: Extracts | None = None
) -> Inputs:
    """Read all segments of a data directory.

    Args:
        spark: the session.
        directory: the data directory.
        without: segments to leave out, paths relative to the directory.
        extracts: read instead of the segments of their days; they hold what a report needs, and not every
            sample.

    Raises:
        InputError: the directory is missing or holds no segment of any kind.
    """
    check_directory(directory, *KINDS)
    return Inputs(
        samples=_read(spark, directory, "samples", SAMPLES, without, extracts),
        events=one_per_event(_read(spark, directory, "events", EVENTS, without, extracts)),
        probe_ops=_read(spark, directory, "probe_ops", PROBE_OPS, without, extracts),
    )
