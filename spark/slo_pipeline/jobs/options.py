"""The options that several jobs share, worded once."""

import argparse
from pathlib import Path


def days(text: str) -> int:
    """Return a window in whole days (an argparse type)."""
    if not text.isdecimal() or not 1 <= int(text) <= 366:
        raise argparse.ArgumentTypeError(f"{text!r} is no window: write 1 to 366 days")
    return int(text)


def add_input(parser: argparse.ArgumentParser) -> None:
    """Declare the data directory that must be named."""
    parser.add_argument(
        "--input", type=Path, required=True, metavar="DIR", help="data directory with segments"
    )


def add_objectives(parser: argparse.ArgumentParser) -> None:
    """Declare the file of objectives."""
    parser.add_argument(
        "--slo", type=Path, metavar="FILE", help="objectives, default: the ones that come with the program"
    )


def add_master(parser: argparse.ArgumentParser) -> None:
    """Declare where Spark runs."""
    parser.add_argument("--master", default="local[*]", help="Spark master, default local[*]")
