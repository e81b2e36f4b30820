"""`slo-pipeline increase METRIC`: how much a counter grew, window by window, as CSV.

Exit status: 0 written, 2 the input cannot be used or holds no such metric.
"""

import argparse
import csv
import re
import sys
from pathlib import Path
from typing import Final

from pyspark.sql import functions as F

from slo_pipeline.jobs import gather
from slo_pipeline.jobs.session import session
from slo_pipeline.sources.segments import InputError, check_directory, is_small, read_inputs
from slo_pipeline.transforms.counters import births, increase, increments
from slo_pipeline.transforms.timing import US_PER_S

UNITS_S: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def window(text: str) -> int:
    """Return the seconds of `30s`, `5m`, `1h` or `1d` (an argparse type)."""
    match = re.fullmatch(r"([1-9][0-9]{0,5})([smhd])", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no window: write 30s, 5m, 1h or 1d")
    return int(match[1]) * UNITS_S[match[2]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `increase`."""
    parser.add_argument("metric", metavar="METRIC", help="a counter's sample name, for instance x_total")
    parser.add_argument(
        "--by", action="append", default=[], metavar="LABEL", help="keep this label; repeatable"
    )
    parser.add_argument("--window", type=window, default=300, metavar="TIME", help="30s, 5m, 1h; default 5m")
    parser.add_argument(
        "--input", type=Path, required=True, metavar="DIR", help="data directory with segments"
    )
    parser.add_argument("--master", default="local[*]", help="Spark master, default local[*]")


def run(args: argparse.Namespace) -> int:
    """Write the CSV to standard output and return the exit status.

    Raises:
        InputError: no segments, or none of this metric.
    """
    check_directory(args.input, "samples")
    spark = session(master=args.master, quick=is_small(args.input, "samples"))
    samples = read_inputs(spark, args.input).samples
    counter = samples.where(F.col("metric") == args.metric)
    pairs = increments(counter, births(samples))
    found = gather.rows(increase(pairs, window_us=args.window * US_PER_S, by=tuple(args.by)))
    if not found:
        raise InputError(f"{args.input}: no sample of {args.metric} follows another one")
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["window_start", *args.by, "increase", "interpolated"])
    for row in sorted(
        found, key=lambda row: (row["window_start"], [row["labels"][name] for name in args.by])
    ):
        labels = [row["labels"][name] for name in args.by]
        start = gather.iso_utc(row["window_start"])
        writer.writerow([start, *labels, f"{row['increase']:.10g}", str(row["interpolated"]).lower()])
    return 0
