"""The HTTP pages of a controller that a node agent reads: its groups and its event stream, as a test says."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any, Final

from aiohttp import web

from controller_core.channel.http_answers import NEWEST_EVENT_HEADER
from testkit.fakes.scripted_controllers import GROUP, HOST


class EventPages:
    """One controller's pages.

    Attributes:
        port: where they are served.
        opened: set when a reader follows the stream.
    """

    def __init__(self) -> None:
        """Begin without events."""
        self.port = 0
        self.opened: Final = asyncio.Event()
        self._lines: Final[list[tuple[int, str]]] = []
        self._news: asyncio.Event = asyncio.Event()
        app = web.Application()
        app.router.add_get("/v1/groups", self._serve_groups)
        app.router.add_get("/v1/events", self._serve_events)
        self._runner: Final = web.AppRunner(app, shutdown_timeout=0.1)

    def tell(self, event: dict[str, Any]) -> None:
        """Add an event, with the next sequence number."""
        number = len(self._lines) + 1
        self.tell_line(json.dumps({"sequence": number} | event))

    def tell_line(self, line: str) -> None:
        """Add a line, whatever it is."""
        self._lines.append((len(self._lines) + 1, line))
        self._news.set()
        self._news = asyncio.Event()

    async def start(self) -> None:
        """Listen on a free port."""
        await self._runner.setup()
        site = web.TCPSite(self._runner, HOST, 0)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Stop listening."""
        await self._runner.cleanup()

    async def _serve_groups(self, _: web.Request) -> web.Response:
        return web.json_response({"groups": [{"cluster": "main", "name": GROUP}]})

    async def _serve_events(self, request: web.Request) -> web.StreamResponse:
        newest = len(self._lines)
        after = newest if request.query["after"] == "newest" else int(request.query["after"])
        response = web.StreamResponse(headers={NEWEST_EVENT_HEADER: str(newest)})
        await response.prepare(request)
        while True:
            for number, line in [told for told in self._lines if told[0] > after]:
                await response.write(line.encode() + b"\n")
                after = number
            if request.query.get("follow") == "false":
                return response
            self.opened.set()
            await self._news.wait()


@contextlib.asynccontextmanager
async def event_pages(count: int) -> AsyncIterator[list[EventPages]]:
    """Serve the pages of so many controllers."""
    made = [EventPages() for _ in range(count)]
    try:
        for pages in made:
            await pages.start()
        yield made
    finally:
        for pages in made:
            await pages.stop()
