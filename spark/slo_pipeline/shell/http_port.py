"""The HTTP port of a long-running command: metrics, liveness, and a few values as JSON.

Never: hold state, or change anything.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest

from controller_core.channel.http_port import HttpPort
from controller_core.remoting.host_port import HostPort, join_host_port, split_host_port

_SHUTDOWN_S = 1.0
_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class ListenAddressError(ValueError):
    """An address is not host:port."""


def parse_address(text: str) -> HostPort:
    """Return host and port of `host:port`; the host of `:port` is every interface.

    Raises:
        ListenAddressError: anything else.
    """
    if (found := split_host_port(text)) is None:
        raise ListenAddressError(f"{text!r} is not host:port")
    host, port = found
    return host or "0.0.0.0", port  # noqa: S104 - a page for a scraper in the same network


@asynccontextmanager
async def served(
    address: str | None, registry: CollectorRegistry, values: Mapping[str, Callable[[], object]] | None = None
) -> AsyncIterator[str | None]:
    """Serve `/metrics` and `/livez` while the context lasts; yields host:port, None if no address was given.

    Args:
        address: host:port to listen at, None for nowhere.
        registry: what `/metrics` shows.
        values: further paths, each with what returns the value that is shown there as JSON.

    Raises:
        ListenAddressError: the address is not host:port.
        OSError: it cannot be bound.
    """
    if address is None:
        yield None
        return
    host, port = parse_address(address)

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": _CONTENT_TYPE})

    async def livez(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    app = web.Application()
    app.add_routes([web.get("/metrics", metrics), web.get("/livez", livez)])
    app.add_routes([web.get(path, _shown(value)) for path, value in (values or {}).items()])
    server = HttpPort(app, shutdown_s=_SHUTDOWN_S)
    try:
        await server.start(host, port)
        yield join_host_port(host, server.port)
    finally:
        await server.stop()


def _shown(value: Callable[[], object]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def show(_: web.Request) -> web.Response:
        return web.json_response(value())

    return show
