"""`slo-pipeline serve-reports DIR`: show finished reports over HTTP.

Exit status: 0 ended by a signal, 2 wrong options.
"""

import argparse
import asyncio
import logging
import sys
from pathlib import Path
from typing import Final

from controller_core.channel.http_port import HttpPort
from controller_core.command_line.program import MisuseError
from slo_pipeline.serve.app import application
from slo_pipeline.serve.shelf import Shelf
from slo_pipeline.shell.http_port import ListenAddressError, parse_address
from slo_pipeline.shell.running import until_signalled

_SHUTDOWN_S: Final = 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `serve-reports`."""
    parser.add_argument(
        "directory",
        type=Path,
        metavar="DIR",
        help="each report is a folder in it, as `report --out` wrote it",
    )
    parser.add_argument(
        "--http",
        default="127.0.0.1:8080",
        metavar="HOST:PORT",
        help="where to listen, default 127.0.0.1:8080",
    )


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT."""
    logging.basicConfig(
        stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s", level="INFO"
    )
    if not args.directory.is_dir():
        raise MisuseError(f"{args.directory}: no such directory")
    try:
        host, port = parse_address(args.http)
    except ListenAddressError as error:
        raise MisuseError(str(error)) from error
    asyncio.run(_serve(args.directory, host, port))
    return 0


async def _serve(directory: Path, host: str, port: int) -> None:
    server = HttpPort(application(Shelf(directory)), shutdown_s=_SHUTDOWN_S)
    try:
        await server.start(host, port)
        logging.getLogger(__name__).info("ready, http %s", (host, server.port))
        await until_signalled(asyncio.sleep(float("inf")))
    finally:
        await server.stop()
