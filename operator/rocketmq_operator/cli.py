"""The command line.

`rocketmq-operator run` operates, `rocketmq-operator crds` prints the resource definitions.

Never here: what a command does.
"""

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from controller_core.command_line.completion import add_completion
from controller_core.command_line.log_level import follow_log_level
from controller_core.command_line.program import Parser, program, run
from controller_core.command_line.values import listen_address, names
from rocketmq_operator.api.definitions.crds import custom_resource_definitions, file_name, to_yaml
from rocketmq_operator.plan.report.allowed import AllowedInReports

HTTP_DEFAULT: Final = "0.0.0.0:8080"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code."""
    return run(parser(), arguments)


def parser() -> Parser:
    """Return the parser of all commands."""
    whole = program("rocketmq-operator", "Operates RocketMQ on Kubernetes.", "rocketmq-ha-operator")
    commands = whole.add_subparsers(required=True, metavar="COMMAND")
    operate = commands.add_parser("run", help="operate until a signal")
    operate.set_defaults(carry_out=_run)
    operate.add_argument(
        "--namespace",
        action="extend",
        type=names,
        default=[],
        metavar="NAMESPACE",
        help="watch only this one, or several with commas; may be repeated (default: all)",
    )
    operate.add_argument(
        "--lease-namespace",
        default=os.environ.get("POD_NAMESPACE", "default"),
        metavar="NAMESPACE",
        help="where the Lease is; default: the pod's own ($POD_NAMESPACE)",
    )
    operate.add_argument(
        "--http",
        type=listen_address,
        default=listen_address(HTTP_DEFAULT),
        metavar="HOST:PORT",
        help=f"where health and metrics are served (default: {HTTP_DEFAULT})",
    )
    operate.add_argument(
        "--log-level",
        default="info",
        choices=("debug", "info", "warning", "error"),
        help="lowest level of the log lines (default: info)",
    )
    for what, shown, words in (
        ("image", "IMAGE", "an image"),
        ("claim", "NAME", "a PersistentVolumeClaim"),
        ("account", "NAME", "a ServiceAccount"),
    ):
        operate.add_argument(
            f"--report-{what}",
            action="extend",
            type=names,
            default=[],
            metavar=shown,
            help=f"{words} that SLOReports may name, or several with commas; repeatable",
        )
    crds = commands.add_parser("crds", help="print the resource definitions as YAML")
    crds.add_argument(
        "--directory",
        type=Path,
        metavar="DIR",
        help="write one file a definition there instead of printing them",
    )
    crds.set_defaults(carry_out=_crds)
    add_completion(commands, parser)
    return whole


def _run(options: argparse.Namespace) -> int:
    from rocketmq_operator.handlers import run as handlers

    level = getattr(logging, options.log_level.upper())
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    follow_log_level(options.log_level)
    allowed = AllowedInReports.of(options.report_image, options.report_claim, options.report_account)
    host, port = options.http
    where = handlers.Options(options.namespace, options.lease_namespace, host, port, allowed)
    return asyncio.run(handlers.run(where))


def _crds(options: argparse.Namespace) -> int:
    directory: Path | None = options.directory
    definitions = custom_resource_definitions()
    if directory is None:
        sys.stdout.write("---\n".join(to_yaml(definition) for definition in definitions))
        return 0
    directory.mkdir(parents=True, exist_ok=True)
    for definition in definitions:
        (directory / file_name(definition)).write_text(to_yaml(definition))
    return 0
