"""The command line: `rocketmq-operator run` operates, `rocketmq-operator crds` prints the resource definitions.

Never here: what a command does.
"""

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from rocketmq_operator.api.crds import custom_resource_definitions, file_name, to_yaml


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code."""
    options = _parser().parse_args(arguments)
    return _crds(options.directory) if options.command == "crds" else _run(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="rocketmq-operator", description="Operates RocketMQ on Kubernetes.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="operate until a signal")
    run.add_argument("--namespace", action="append", default=[], help="watch this one only; may be repeated")
    run.add_argument(
        "--lease-namespace",
        default=os.environ.get("POD_NAMESPACE", "default"),
        help="where the Lease is; default: the pod's own ($POD_NAMESPACE)",
    )
    run.add_argument("--http-host", default="0.0.0.0", help="where health and metrics listen")  # noqa: S104 - a pod's
    run.add_argument("--http-port", type=int, default=8080, help="port of health and metrics")
    run.add_argument("--log-level", default="info", choices=("debug", "info", "warning", "error"))
    crds = commands.add_parser("crds", help="print the resource definitions as YAML")
    crds.add_argument(
        "--directory", type=Path, help="write one file a definition there instead of printing them"
    )
    return parser


def _run(options: argparse.Namespace) -> int:
    from rocketmq_operator.handlers.run import Options, run

    level = getattr(logging, options.log_level.upper())
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    where = Options(options.namespace, options.lease_namespace, options.http_host, options.http_port)
    return asyncio.run(run(where))


def _crds(directory: Path | None) -> int:
    definitions = custom_resource_definitions()
    if directory is None:
        sys.stdout.write("---\n".join(to_yaml(definition) for definition in definitions))
        return 0
    directory.mkdir(parents=True, exist_ok=True)
    for definition in definitions:
        (directory / file_name(definition)).write_text(to_yaml(definition))
    return 0
