"""A replica, or a broker's companion, over HTTP: metrics, probes, events. These only read.

/metrics        Prometheus text
/livez          200 while the process works
/readyz         200 while the replica (the companion's broker) is in the SyncStateSet, else 503
/v1/status      what a companion knows, as one JSON object
/v1/events      one JSON object a line, as they come; `?after=N` skips older ones, `?follow=false` ends at the
                last one, as on a controller

A process may add actions, which are POSTs that answer JSON. The server takes them from loopback only, that is
from the containers of the same pod.
"""

import asyncio
import ipaddress
import json
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

from aiohttp import web

from controller_core.channel.http_port import HttpPort, StreamCounter
from ha_sidecar import limits
from ha_sidecar.common.events import EventLog

SHUTDOWN_S: Final = 0.5
FOLLOW_IDLE_S: Final = 15.0
"""An open event stream gets an empty line this often, so that a reader that is gone is noticed."""

HttpAction = Callable[[], Awaitable[tuple[int, dict[str, Any]]]]
"""Does something and returns an HTTP status and what to answer."""


class HttpServer:
    """The server and its routes."""

    def __init__(
        self,
        metrics: Callable[[], bytes],
        ready: Callable[[], tuple[bool, str]],
        events: EventLog,
        actions: Mapping[str, HttpAction] | None = None,
        status: Callable[[], dict[str, Any]] | None = None,
    ) -> None:
        """Take what the routes show, further actions by path, and what /v1/status answers."""
        self._metrics: Final = metrics
        self._ready: Final = ready
        self._events: Final = events
        app = web.Application()
        app.router.add_get("/metrics", self._serve_metrics)
        app.router.add_get("/livez", self._serve_livez)
        app.router.add_get("/readyz", self._serve_readyz)
        app.router.add_get("/v1/events", self._serve_events)
        if status is not None:
            app.router.add_get("/v1/status", partial(self._serve_status, status))
        for path, action in (actions or {}).items():
            app.router.add_post(path, partial(self._serve_action, action))
        self._streams: Final = StreamCounter(limits.EVENT_STREAMS_MAX, limits.SOURCE_EVENT_STREAMS_MAX)
        self._port: Final = HttpPort(
            app, shutdown_s=SHUTDOWN_S, unsent_bytes_max=limits.HTTP_UNSENT_BYTES_MAX
        )

    async def start(self, host: str, port: int) -> None:
        """Listen; raise `OSError` if the port cannot be had."""
        await self._port.start(host, port)

    async def stop(self) -> None:
        """Stop listening."""
        await self._port.stop()

    async def _serve_metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=self._metrics(), content_type="text/plain", charset="utf-8")

    async def _serve_livez(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _serve_readyz(self, _: web.Request) -> web.Response:
        ready, text = self._ready()
        return web.Response(status=200 if ready else 503, text=text + "\n")

    async def _serve_status(self, status: Callable[[], dict[str, Any]], _: web.Request) -> web.Response:
        return web.json_response(status())

    async def _serve_action(self, action: HttpAction, request: web.Request) -> web.Response:
        if not _is_loopback(request.remote):
            return web.json_response({"error": "only loopback may change something here"}, status=403)
        status, value = await action()
        return web.json_response(value, status=status)

    async def _serve_events(self, request: web.Request) -> web.StreamResponse:
        try:
            after = int(request.query.get("after", "0"))
        except ValueError:
            return web.Response(status=400, text="after: a number is expected\n")
        follow = request.query.get("follow", "true")
        if follow not in ("true", "false"):
            return web.Response(status=400, text=f"follow: true or false is expected, not {follow!r}\n")
        if self._streams.is_full or self._streams.is_full_for(request.remote):
            return web.Response(status=503, text="too many event streams are open\n")
        with self._streams.counted(request.remote):
            return await self._stream(request, after, follow=follow == "true")

    async def _stream(self, request: web.Request, after: int, *, follow: bool) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        await response.prepare(request)
        while True:
            events = self._events.after(after, limits.EVENTS_PAGE_MAX)
            if events:
                await response.write("".join(json.dumps(event) + "\n" for event in events).encode())
                after = events[-1]["sequence"]
            elif not follow:
                return response
            else:
                try:
                    async with asyncio.timeout(FOLLOW_IDLE_S):
                        await self._events.wait_change()
                except TimeoutError:
                    await response.write(b"\n")


def _is_loopback(remote: str | None) -> bool:
    try:
        return remote is not None and ipaddress.ip_address(remote).is_loopback
    except ValueError:
        return False
