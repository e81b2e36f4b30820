"""The command `route-front`: serve routes to clients outside, with the addresses of one listener."""

import argparse
import asyncio
from pathlib import Path
from typing import Any

from controller_core.command_line.attribute_help import attribute_help
from controller_core.command_line.log_level import follow_log_level
from controller_core.command_line.values import HOSTS, SEMICOLONS, hosts, listen_address
from controller_core.route_front.addresses import AddressesError
from controller_core.route_front.settings import (
    EVERY_INTERFACE,
    HTTP_PORT,
    REMOTING_PORT,
    RouteFrontSettings,
    SettingsError,
    name_servers,
)
from controller_core.tls.certificates import UnusableCertificatesError
from controller_core.tls.files import PERMISSIVE, TLS_MODES

MISUSES: tuple[type[Exception], ...] = (AddressesError, SettingsError, UnusableCertificatesError)
"""Errors that mean wrong settings."""


def add_route_front(commands: Any) -> None:  # noqa: ANN401 - argparse names this type privately
    """Add the command to the parser of the program."""
    texts = attribute_help(RouteFrontSettings)
    front = commands.add_parser("route-front", help="serve routes with the addresses of one listener")
    front.add_argument(
        "--name-servers",
        required=True,
        action="extend",
        type=hosts,
        metavar=HOSTS,
        help=f"{texts['name_servers']}; {SEMICOLONS}",
    )
    front.add_argument("--addresses", required=True, type=Path, metavar="FILE", help=texts["addresses"])
    for name, port in (("listen", REMOTING_PORT), ("http", HTTP_PORT)):
        front.add_argument(
            f"--{name}",
            type=listen_address,
            default=(EVERY_INTERFACE, port),
            metavar="HOST:PORT",
            help=texts[name],
        )
    front.add_argument("--tls", type=Path, metavar="DIR", help=texts["tls"])
    front.add_argument(
        "--tls-mode",
        choices=TLS_MODES,
        default=PERMISSIVE,
        metavar="|".join(TLS_MODES),
        help=texts["tls_mode"],
    )
    front.set_defaults(carry_out=_route_front)


def _route_front(parsed: argparse.Namespace) -> int:
    import uvloop

    from controller_core.route_front.process import serve_until_signalled
    from controller_core.server import logs

    settings = RouteFrontSettings(
        name_servers("--name-servers", parsed.name_servers),
        parsed.addresses,
        parsed.listen,
        parsed.http,
        parsed.tls,
        parsed.tls_mode,
    )
    logs.configure("info", part="route-front")
    follow_log_level()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve_until_signalled(settings))
    return 0
