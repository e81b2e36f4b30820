"""The HTTP interface of a node.

Health, metrics, state, the stream of events, and what an administrator may change.

| path | what | served by |
|---|---|---|
| GET /livez | 200 while the process runs its loop and its log works | every node |
| GET /readyz | 200 while this node follows or leads, and has applied all committed entries | every node |
| GET /metrics | Prometheus text | every node |
| GET /v1/status | role, term, leader, indexes, peers | every node |
| GET /v1/groups, /v1/groups/{cluster}/{name} | broker groups | every node, as far as it has applied |
| GET /v1/failovers | the last changes of master, newest first | every node, as far as it has applied |
| GET /v1/events?after=N&follow=false | events as JSON lines; stays open unless `follow=false` | every node |
| GET /v1/events?after=newest | those from now on; `Rmqha-Newest-Event` is the last number | every node |
| GET /v1/log?first=N&limit=M, /v1/log/{index} | entries of the Raft log | every node, its own |
| POST /v1/groups/{cluster}/{name}/elect | `{"brokerId": 2}`: designate a master | the leader |
| POST /v1/import | `{"groups": [...], "check": false}`: take groups over (`group_import`) | the leader |
| POST /v1/leader/transfer | `{"to": "n1"}`: hand Raft's leadership over | the leader |
| POST /v1/snapshot | write a snapshot now | every node |
| GET /v1/members | the controllers: role, store, address, progress | every node; progress from the leader |
| POST /v1/members | `{"add": "n3-host:port"}`, `{"promote": "n3"}` or `{"remove": "n3"}` | the leader |

Requests that change something are in `http_api.changes`. Reads tell in the header `Rmqha-Applied-Index` how
far the node had applied; `?consistent=true` makes a read linearizable. Errors are always JSON `{error, field,
value}` (`http_errors`).

One page is made per turn of the loop, however many are requested.

Never here: a decision. Handlers read the state or hand a request to the controller.
"""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from typing import Protocol

from aiohttp import web

from controller_core import limits
from controller_core.channel.http_answers import NEWEST_EVENT_HEADER
from controller_core.channel.http_port import HttpPort, StreamCounter
from controller_core.groups.history import EventsPage
from controller_core.remoting.errors import shown
from controller_core.remoting.numbers import whole_number
from controller_core.server.common import json_views
from controller_core.server.common.http_errors import HttpError, errors_as_json, json_response
from controller_core.server.http_api.changes import ChangeRoutes, ChangesView
from controller_core.server.http_api.log_pages import LOG_ENTRIES

APPLIED_INDEX_HEADER = "Rmqha-Applied-Index"
EVENTS_PAGE_MAX = 500
FAILOVERS_PAGE_MAX = 1_000
NUMBER_MAX = 2**63 - 1
"""Largest number in a query."""
_NUMBER_DIGITS_MAX = len(str(NUMBER_MAX))
_STREAM_CHECK_S = 5.0
_SHUTDOWN_S = 1.0


class ControllerView(ChangesView, Protocol):
    """What the HTTP interface asks of the controller."""

    def alive_problem(self) -> str | None:
        """Say why this process must be restarted; None while it is well."""
        ...

    def ready_problem(self) -> str | None:
        """Return why this node should not get traffic now; None if it should."""
        ...

    def status_json(self) -> json_views.Json:
        """Return the node's own state."""
        ...

    def members_json(self) -> json_views.Json:
        """Return the controllers."""
        ...

    def groups_json(self) -> list[json_views.Json]:
        """Return all broker groups in order of their names."""
        ...

    def group_json(self, cluster: str, name: str) -> json_views.Json | None:
        """Return one broker group, None if it is not known."""
        ...

    def failovers_json(self) -> list[json_views.Json]:
        """Return the kept changes of master, oldest first."""
        ...

    def log_json(self, first: int | None, limit: int) -> json_views.Json:
        """Return entries of this node's log."""
        ...

    def entry_json(self, index: int) -> json_views.Json:
        """Return one entry of this node's log; raise HttpError without one."""
        ...

    def events_after(self, sequence: int, count_max: int) -> EventsPage:
        """Return kept events that follow `sequence`."""
        ...

    @property
    def newest_event(self) -> int:
        """Sequence number of the last event, 0 without one."""
        ...

    async def news(self) -> None:
        """Wait until there are new events."""
        ...

    async def read_barrier(self) -> None:
        """Wait until this node has applied all entries committed by now."""
        ...

    def metrics_text(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        ...

    @property
    def applied_index(self) -> int:
        """Index of the last applied entry."""
        ...

    @property
    def namespace(self) -> str:
        """What events say in `namespace`."""
        ...


class NodeHttpServer:
    """Serves the paths above on one port."""

    def __init__(self, controller: ControllerView) -> None:
        self.server_ssl: ssl.SSLContext | None = None
        """TLS of the port; set before `start`."""
        self.plain_allowed = False
        """Whether the port also serves plain HTTP if it has TLS; set before `start`."""
        self._controller = controller
        self._changes = ChangeRoutes(controller)
        self._port: HttpPort | None = None
        self._streams = StreamCounter(limits.EVENT_STREAMS_MAX, limits.SOURCE_EVENT_STREAMS_MAX)
        self._stopping = asyncio.Event()
        self._pages = asyncio.Lock()

    async def start(self, host: str, port: int) -> None:
        """Listen; a port in use raises OSError."""
        self._port = HttpPort(
            self._application(),
            shutdown_s=_SHUTDOWN_S,
            unsent_bytes_max=limits.CONTROLLER_UNSENT_BYTES_MAX,
        )
        await self._port.start(host, port, self.server_ssl, plain_allowed=self.plain_allowed)

    async def stop(self) -> None:
        """End event streams and close."""
        self._stopping.set()
        if self._port is not None:
            await self._port.stop()

    def _application(self) -> web.Application:
        application = web.Application(
            middlewares=[errors_as_json], client_max_size=limits.HTTP_BODY_BYTES_MAX
        )
        application.add_routes(
            [
                web.get("/livez", self._livez),
                web.get("/readyz", self._readyz),
                web.get("/metrics", self._metrics),
                web.get("/v1/status", self._status),
                web.get("/v1/groups", self._groups),
                web.get("/v1/groups/{cluster}/{name}", self._group),
                web.get("/v1/failovers", self._failovers),
                web.get("/v1/events", self._events),
                web.get("/v1/members", self._members),
                web.get("/v1/log", self._log),
                web.get("/v1/log/{index}", self._entry),
                *self._changes.routes(),
            ]
        )
        return application

    async def _livez(self, _request: web.Request) -> web.StreamResponse:
        return _health(self._controller.alive_problem())

    async def _readyz(self, _request: web.Request) -> web.StreamResponse:
        return _health(self._controller.alive_problem() or self._controller.ready_problem())

    async def _metrics(self, _request: web.Request) -> web.StreamResponse:
        headers = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        await self._wait_turn()
        return web.Response(body=self._controller.metrics_text(), headers=headers)

    async def _status(self, _request: web.Request) -> web.StreamResponse:
        return json_response(self._controller.status_json())

    async def _members(self, _request: web.Request) -> web.StreamResponse:
        return self._read(self._controller.members_json())

    async def _groups(self, request: web.Request) -> web.StreamResponse:
        await self._wait_if_consistent(request)
        cluster = request.query.get("cluster")
        await self._wait_turn()
        groups = self._controller.groups_json()
        return self._read({"groups": [group for group in groups if cluster in (None, group["cluster"])]})

    async def _group(self, request: web.Request) -> web.StreamResponse:
        await self._wait_if_consistent(request)
        cluster, name = request.match_info["cluster"], request.match_info["name"]
        group = self._controller.group_json(cluster, name)
        if group is None:
            raise HttpError(404, "no such broker group", field="group", value=f"{cluster}/{name}")
        return self._read(group)

    async def _failovers(self, request: web.Request) -> web.StreamResponse:
        await self._wait_if_consistent(request)
        limit = _query_int(request, "limit", FAILOVERS_PAGE_MAX)
        cluster, group = request.query.get("cluster"), request.query.get("group")
        await self._wait_turn()
        records = [
            record
            for record in reversed(self._controller.failovers_json())
            if cluster in (None, record["cluster"]) and group in (None, record["group"])
        ]
        return self._read({"failovers": records[:limit]})

    async def _log(self, request: web.Request) -> web.StreamResponse:
        first = _query_int(request, "first", 0) if "first" in request.query else None
        limit = _query_int(request, "limit", LOG_ENTRIES)
        await self._wait_turn()
        return self._read(self._controller.log_json(first, limit))

    async def _entry(self, request: web.Request) -> web.StreamResponse:
        index = _whole_number("index", request.match_info["index"])
        await self._wait_turn()
        return self._read(self._controller.entry_json(index))

    async def _events(self, request: web.Request) -> web.StreamResponse:
        newest = self._controller.newest_event
        after = newest if request.query.get("after") == "newest" else _query_int(request, "after", 0)
        follow = _query_bool(request, "follow", default=True)
        source = request.remote
        if self._streams.is_full:
            raise HttpError(503, f"{limits.EVENT_STREAMS_MAX} event streams are open, which is the most")
        if self._streams.is_full_for(source):
            problem = (
                f"{limits.SOURCE_EVENT_STREAMS_MAX} event streams of {source} are open, which is the most"
            )
            raise HttpError(503, problem)
        headers = {"Content-Type": "application/x-ndjson", NEWEST_EVENT_HEADER: str(newest)}
        response = web.StreamResponse(headers=headers)
        # A reader that is gone is how streams end.
        with self._streams.counted(source), contextlib.suppress(ConnectionResetError):
            await response.prepare(request)
            async for lines in self._event_lines(request, after, follow=follow):
                await response.write(lines)
        return response

    async def _event_lines(self, request: web.Request, after: int, *, follow: bool) -> AsyncIterator[bytes]:
        while not self._stopping.is_set():
            await self._wait_turn()
            page = self._controller.events_after(after, EVENTS_PAGE_MAX)
            if page.events:
                after = page.events[-1].sequence
                yield _lines(page, self._controller.namespace)
                continue
            if not follow:
                return
            await self._wait_news()
            if request.transport is None or request.transport.is_closing():
                return

    async def _wait_turn(self) -> None:
        """Wait until no other page is made in this turn of the loop.

        A flood of requests for large pages must not keep Raft, brokers and probes waiting.
        """
        async with self._pages:
            await asyncio.sleep(0)

    async def _wait_news(self) -> None:
        news = asyncio.ensure_future(self._controller.news())
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait((news, stopping), timeout=_STREAM_CHECK_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            news.cancel()
            stopping.cancel()

    async def _wait_if_consistent(self, request: web.Request) -> None:
        if _query_bool(request, "consistent", default=False):
            await self._controller.read_barrier()

    def _read(self, value: json_views.Json) -> web.Response:
        return json_response(value, headers={APPLIED_INDEX_HEADER: str(self._controller.applied_index)})


def _health(problem: str | None) -> web.Response:
    if problem is None:
        return web.Response(text="ok\n")
    return HttpError(503, problem).response()


def _lines(page: EventsPage, namespace: str) -> bytes:
    values = [json_views.event_json(event, namespace) for event in page.events]
    if page.missed:
        values.insert(0, json_views.missed_json(page, values[0]))
    return "".join(json.dumps(value) + "\n" for value in values).encode()


def _query_int(request: web.Request, name: str, default: int) -> int:
    return _whole_number(name, request.query.get(name, str(default)))


def _whole_number(name: str, text: str) -> int:
    number = whole_number(text, _NUMBER_DIGITS_MAX)
    if number is None or number > NUMBER_MAX:
        raise HttpError(400, f"must be a whole number from 0 to {NUMBER_MAX}", field=name, value=shown(text))
    return number


def _query_bool(request: web.Request, name: str, *, default: bool) -> bool:
    text = request.query.get(name, str(default).lower())
    if text not in {"true", "false"}:
        raise HttpError(400, "must be true or false", field=name, value=shown(text))
    return text == "true"
