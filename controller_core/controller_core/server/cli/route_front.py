"""The command `route-front`: serve routes to clients outside, with the addresses of one listener."""

import argparse
import asyncio
from pathlib import Path
from typing import Any

from controller_core.command_line.attribute_help import attribute_help
from controller_core.route_front.addresses import AddressesError
from controller_core.route_front.settings import RouteFrontSettings, SettingsError, host_port, name_servers

MISUSES: tuple[type[Exception], ...] = (AddressesError, SettingsError)
"""Errors that mean wrong settings."""
_LISTEN = "0.0.0.0:9876"
_HTTP = "0.0.0.0:9883"


def add_route_front(commands: Any) -> None:  # noqa: ANN401 - argparse names this type privately
    """Add the command to the parser of the program."""
    texts = attribute_help(RouteFrontSettings)
    front = commands.add_parser("route-front", help="serve routes with the addresses of one listener")
    front.add_argument("--name-servers", required=True, metavar="LIST", help=texts["name_servers"])
    front.add_argument("--addresses", required=True, type=Path, metavar="FILE", help=texts["addresses"])
    front.add_argument("--listen", default=_LISTEN, help=texts["listen"])
    front.add_argument("--http", default=_HTTP, metavar="HOST:PORT", help=texts["http"])
    front.set_defaults(carry_out=_route_front)


def _route_front(parsed: argparse.Namespace) -> int:
    import uvloop

    from controller_core.route_front.process import serve_until_signalled
    from controller_core.server import logs

    settings = RouteFrontSettings(
        name_servers("--name-servers", parsed.name_servers),
        parsed.addresses,
        host_port("--listen", parsed.listen),
        host_port("--http", parsed.http),
    )
    logs.configure("info", part="route-front")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve_until_signalled(settings))
    return 0
