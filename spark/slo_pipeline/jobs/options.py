"""The options that several jobs share, worded once."""

import argparse
from pathlib import Path


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
