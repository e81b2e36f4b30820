"""The report server's addresses.

    /                                     reports and failovers, the newest first
    /reports/<name>/                      one report
    /reports/<name>/failovers/<page>      one failover
    /failovers/<cluster>/<group>/<epoch>  to the page of that failover in the newest report that tells of it
    /livez

Problem: links to a failover are written into tickets and into the cluster before and long after a report is made.
Shape: reports are finished pages, served as they are with an ETag of their bytes; a browser that has them is told so (304).
Never: it lists no directory, runs no script and sends nothing that is not a page.

Source: RFC 9110, sections 8.8.3 (ETag) and 13.1.2 (If-None-Match).
"""

import asyncio
import hashlib
from typing import Final

from aiohttp import web

from slo_pipeline.reports.listing import ListedFailover, ListedReport, render_list
from slo_pipeline.serve.shelf import Shelf

SHELF: Final = web.AppKey("shelf", Shelf)
HEADERS: Final = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
ETAG_CHARACTERS: Final = 32


def application(shelf: Shelf) -> web.Application:
    """Return the server's application."""
    app = web.Application()
    app[SHELF] = shelf
    app.router.add_get("/", _list)
    app.router.add_get("/reports/{name}", _with_slash)
    app.router.add_get("/reports/{name}/", _report)
    # A page's own links name the file, as they must where no server is.
    app.router.add_get("/reports/{name}/index.html", _report)
    app.router.add_get("/reports/{name}/failovers/{page}", _failover)
    app.router.add_get("/failovers/{cluster}/{group}/{epoch}", _newest)
    app.router.add_get("/livez", _alive)
    return app


async def _alive(_request: web.Request) -> web.Response:
    return web.Response(text="ok\n")


async def _list(request: web.Request) -> web.Response:
    page = await asyncio.to_thread(list_page, request.app[SHELF])
    return _page(request, page.encode())


async def _with_slash(request: web.Request) -> web.Response:
    raise web.HTTPMovedPermanently(f"{request.path}/")


async def _report(request: web.Request) -> web.Response:
    shelf = request.app[SHELF]
    report = await asyncio.to_thread(shelf.report, request.match_info["name"])
    found = None if report is None else await asyncio.to_thread(shelf.page, report)
    return _page(request, found)


async def _failover(request: web.Request) -> web.Response:
    shelf = request.app[SHELF]
    report = await asyncio.to_thread(shelf.report, request.match_info["name"])
    page = request.match_info["page"]
    found = None if report is None else await asyncio.to_thread(shelf.failover_page, report, page)
    return _page(request, found)


async def _newest(request: web.Request) -> web.Response:
    wanted = "/".join(request.match_info[part] for part in ("cluster", "group", "epoch"))
    found = await asyncio.to_thread(request.app[SHELF].newest_with, wanted)
    if found is None:
        raise web.HTTPNotFound(text="no report tells of this failover yet\n")
    report, page = found
    raise web.HTTPFound(f"/reports/{report.name}/failovers/{page}")


def _page(request: web.Request, body: bytes | None) -> web.Response:
    if body is None:
        raise web.HTTPNotFound(text="no such report\n")
    etag = hashlib.sha256(body).hexdigest()[:ETAG_CHARACTERS]
    known = {one.value for one in request.if_none_match or ()}
    unchanged = bool(known & {etag, "*"})
    answer = web.Response(
        status=304 if unchanged else 200,
        body=None if unchanged else body,
        content_type="text/html",
        charset="utf-8",
        headers=HEADERS,
    )
    answer.etag = etag
    return answer


def list_page(shelf: Shelf) -> str:
    """Return the page of all reports, and of each failover as the newest report tells it."""
    reports = shelf.reports()
    failovers: dict[str, ListedFailover] = {}
    for report in reports:
        for one in report.failovers:
            failovers.setdefault(
                str(one["failover_id"]),
                ListedFailover(
                    f"reports/{report.name}/failovers/{one['page']}",
                    one["heading"],
                    one["elected_us"],
                    one["write_gap_ms"],
                    one["bad_s"],
                    one["lost_acknowledged"],
                ),
            )
    latest = sorted(failovers.values(), key=lambda one: (-one.elected_us, one.address))
    listed = [
        ListedReport(
            one.name,
            one.summary["title"],
            one.summary["start_us"],
            one.summary["end_us"],
            one.summary["verdict"],
            one.summary["good"],
        )
        for one in reports
    ]
    return render_list(listed, latest)
