"""The command line: `rocketmq-operator crds` prints the resource definitions.

Never here: what a command does.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rocketmq_operator.api.crds import custom_resource_definitions, file_name, to_yaml


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    return _crds(options.directory)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="rocketmq-operator", description="Operates RocketMQ on Kubernetes.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    crds = commands.add_parser("crds", help="print the resource definitions as YAML")
    crds.add_argument(
        "--directory", type=Path, help="write one file a definition there instead of printing them"
    )
    return parser


def _crds(directory: Path | None) -> int:
    definitions = custom_resource_definitions()
    if directory is None:
        sys.stdout.write("---\n".join(to_yaml(definition) for definition in definitions))
        return 0
    directory.mkdir(parents=True, exist_ok=True)
    for definition in definitions:
        (directory / file_name(definition)).write_text(to_yaml(definition))
    return 0
