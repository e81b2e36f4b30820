"""The options that several jobs share, worded once."""

import argparse
import datetime as dt
from pathlib import Path
from typing import Final

from controller_core.command_line.values import names

PROGRAM: Final = "slo-pipeline"
INPUT_HELP: Final = "data directory with segments, or s3://bucket/prefix"


def days(text: str) -> int:
    """Return a window in whole days (an argparse type)."""
    if not text.isdecimal() or not 1 <= int(text) <= 366:
        raise argparse.ArgumentTypeError(f"invalid window {text!r} (expected 1 to 366 days)")
    return int(text)


def day(text: str) -> dt.date:
    """Return a day (an argparse type)."""
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"invalid date {text!r} (expected YYYY-MM-DD)") from None


def day_list(text: str) -> list[dt.date]:
    """Return days that are separated by commas (an argparse type)."""
    return [day(one) for one in names(text)]


def add_input(parser: argparse.ArgumentParser) -> None:
    """Declare where the segments are, which must be named."""
    parser.add_argument("--input", required=True, metavar="DIR", help=INPUT_HELP)
    add_bucket(parser)


def add_bucket(parser: argparse.ArgumentParser) -> None:
    """Declare how a bucket is read."""
    add_endpoint(parser)
    parser.add_argument(
        "--scratch",
        type=Path,
        metavar="DIR",
        help="where the days of a bucket are copied to, and kept for the next run; default: a temporary "
        "directory",
    )


def add_endpoint(parser: argparse.ArgumentParser) -> None:
    """Declare the options of a bucket's server."""
    parser.add_argument("--endpoint", metavar="URL", help="server of a bucket, default: Amazon's")


def add_objectives(parser: argparse.ArgumentParser) -> None:
    """Declare the file of objectives."""
    parser.add_argument(
        "--slo", type=Path, metavar="FILE", help="objectives, default: the ones that come with the program"
    )


def add_master(parser: argparse.ArgumentParser) -> None:
    """Declare where Spark runs."""
    parser.add_argument(
        "--master", default="local[*]", metavar="MASTER", help="Spark master (default: local[*])"
    )


def add_profile(parser: argparse.ArgumentParser) -> None:
    """Declare whether a job says where its time went."""
    parser.add_argument("--profile", action="store_true", help="print where the time went to standard error")
