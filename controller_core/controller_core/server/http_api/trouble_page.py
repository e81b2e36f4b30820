"""The HTTP port of a process whose log cannot be opened: it reports the error and does not serve.

`/livez` is well: the process waits for its disk and needs no restart. Everything else is 503 with the reason.
"""

import contextlib
from typing import Final

from aiohttp import web

from controller_core.channel.http_port import HttpPort
from controller_core.server.common.http_errors import HttpError, errors_as_json
from controller_core.server.settings.config import Settings

_SHUTDOWN_S: Final = 0.2


class TroublePage:
    """The HTTP port of a node that does not run; opened when there is something to show."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._problem = ""
        self._port: HttpPort | None = None

    async def show(self, problem: str) -> None:
        """Say from now on that this is wrong; a port that cannot be had is done without."""
        self._problem = problem
        if self._port is not None:
            return
        application = web.Application(middlewares=[errors_as_json])
        application.add_routes([web.get("/livez", self._livez), web.route("*", "/{path:.*}", self._other)])
        self._port = HttpPort(application, shutdown_s=_SHUTDOWN_S)
        settings = self._settings
        with contextlib.suppress(OSError):
            await self._port.start(settings.listen_host, settings.http_port(settings.self_peer))

    async def close(self) -> None:
        """Free the port."""
        if self._port is not None:
            await self._port.stop()
            self._port = None

    async def _livez(self, _request: web.Request) -> web.StreamResponse:
        return web.Response(text="ok\n")

    async def _other(self, _request: web.Request) -> web.StreamResponse:
        raise HttpError(503, f"the log cannot be opened: {self._problem}", field="log")
