"""The report server's addresses.

    /                                     reports and failovers, the newest first
    /reports/<name>/                      one report
    /reports/<name>/failovers/<page>      one failover
    /reports/<name>/lists/<page>          one page of a long table of it
    /failovers/<cluster>/<group>/<epoch>  to the page of that failover in the newest report that tells of it
    /livez

Problem: links to a failover are written into tickets and into the cluster before and long after a report is
made. Shape: reports are finished pages, served as they are with an ETag of their bytes; a browser that has
them gets 304. They are compressed for clients that accept gzip. Redirects are relative, so they also work
below a path prefix that a proxy takes away. Never: it lists no directory, runs no script and sends nothing
that is not a page.

Source: RFC 9110, sections 8.8.3 (ETag), 10.2.2 (Location), 12.5.3 (Accept-Encoding) and 13.1.2
(If-None-Match).
"""

import asyncio
import gzip
import hashlib
from collections.abc import Callable
from typing import Final
from urllib.parse import quote

from aiohttp import ETag, hdrs, web
from yarl import URL

from controller_core.remoting.numbers import whole_number
from slo_pipeline.reports.files.listing import ListedFailover, ListedReport, Listing, render_list
from slo_pipeline.serve.shelf import Shelf, Shelved

SHELF: Final = web.AppKey("shelf", Shelf)
HEADERS: Final = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'",
    "Referrer-Policy": "no-referrer",
    "Vary": "Accept-Encoding",
    "X-Content-Type-Options": "nosniff",
}
ETAG_CHARACTERS: Final = 32
# Shorter pages are sent as they are.
PAGE_DIGITS_MAX: Final = 6
COMPRESSED_BYTES_MIN: Final = 1_024
GZIP_LEVEL: Final = 6
# How many changes of master the list knows of; older ones are on the pages of their reports.
CHANGES_MAX: Final = 10_000


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
    app.router.add_get("/reports/{name}/lists/{page}", _list_page)
    app.router.add_get("/failovers/{cluster}/{group}/{epoch}", _newest)
    app.router.add_get("/livez", _alive)
    return app


async def _alive(_request: web.Request) -> web.Response:
    return web.Response(text="ok\n")


async def _list(request: web.Request) -> web.Response:
    asked = {name: _page_number(request.query.get(name)) for name in ("reports", "failovers")}
    made = await asyncio.to_thread(
        list_page, request.app[SHELF], asked["reports"], asked["failovers"], request.query.get("of", "")
    )
    return await _page(request, made.encode())


def _page_number(text: str | None) -> int:
    """Return a page's number from an address; the first page for an invalid number."""
    number = whole_number(text or "", PAGE_DIGITS_MAX)
    return 1 if number is None else number


async def _with_slash(request: web.Request) -> web.Response:
    raise web.HTTPMovedPermanently(URL(f"./{_quoted(request.match_info['name'])}/", encoded=True))


async def _report(request: web.Request) -> web.Response:
    return await _page_of_report(request, request.app[SHELF].page)


async def _failover(request: web.Request) -> web.Response:
    page = request.match_info["page"]
    return await _page_of_report(request, lambda report: request.app[SHELF].failover_page(report, page))


async def _list_page(request: web.Request) -> web.Response:
    page = request.match_info["page"]
    return await _page_of_report(request, lambda report: request.app[SHELF].list_page(report, page))


async def _page_of_report(request: web.Request, page: Callable[[Shelved], bytes | None]) -> web.Response:
    """Answer with a file of the report that the address names; `page` reads it, in another thread."""
    report = await asyncio.to_thread(request.app[SHELF].report, request.match_info["name"])
    return await _page(request, None if report is None else await asyncio.to_thread(page, report))


async def _newest(request: web.Request) -> web.Response:
    wanted = "/".join(request.match_info[part] for part in ("cluster", "group", "epoch"))
    found = await asyncio.to_thread(request.app[SHELF].newest_with, wanted)
    if found is None:
        raise web.HTTPNotFound(text="no report tells of this failover yet\n")
    report, page = found
    # Relative to the requested address, which has three segments below `failovers`.
    address = f"../../../reports/{_quoted(report.name)}/failovers/{_quoted(page)}"
    raise web.HTTPFound(URL(address, encoded=True))


def _quoted(segment: str) -> str:
    return quote(segment, safe="")


async def _page(request: web.Request, body: bytes | None) -> web.Response:
    if body is None:
        raise web.HTTPNotFound(text="no such report\n")
    # Weak: the compressed page and the plain one are the same page, and not the same bytes.
    etag = ETag(hashlib.sha256(body).hexdigest()[:ETAG_CHARACTERS], is_weak=True)
    known = {one.value for one in request.if_none_match or ()}
    unchanged = bool(known & {etag.value, "*"})
    headers = dict(HEADERS)
    if not unchanged and len(body) >= COMPRESSED_BYTES_MIN and _accepts_gzip(request):
        body = await asyncio.to_thread(gzip.compress, body, GZIP_LEVEL, mtime=0)
        headers[hdrs.CONTENT_ENCODING] = "gzip"
    answer = web.Response(
        status=304 if unchanged else 200,
        body=None if unchanged else body,
        content_type="text/html",
        charset="utf-8",
        headers=headers,
    )
    answer.etag = etag
    return answer


def _accepts_gzip(request: web.Request) -> bool:
    """Tell whether the client takes gzip: named, or met by `*`, with a weight that is not 0."""
    weights: dict[str, float] = {}
    for one in ",".join(request.headers.getall(hdrs.ACCEPT_ENCODING, [])).split(","):
        coding, _, parameters = one.partition(";")
        name, _, value = parameters.partition("=")
        try:
            weight = float(value) if name.strip().lower() == "q" else 1.0
        except ValueError:
            weight = 0.0
        weights[coding.strip().lower()] = weight
    return weights.get("gzip", weights.get("*", 0.0)) > 0.0


def list_page(shelf: Shelf, reports_page: int = 1, failovers_page: int = 1, of: str = "") -> str:
    """Return one page of all reports, and of each failover as the newest report tells it.

    Args:
        shelf: where the reports are.
        reports_page: which page of the reports, from 1.
        failovers_page: which page of the failovers, from 1.
        of: `<cluster>/<group>` to list the failovers of that group alone.
    """
    reports, hidden = shelf.look()
    changes = [
        ListedFailover(
            f"reports/{_quoted(report.name)}/failovers/{_quoted(one.page)}",
            one.failover_id.rpartition("/")[0],
            one.heading,
            one.planned,
            one.elected_us,
            one.write_gap_ms,
            one.bad_s,
            one.lost,
        )
        for report, one in shelf.changes(CHANGES_MAX)
    ]
    listed = [
        ListedReport(
            f"reports/{_quoted(one.name)}/",
            one.summary.title,
            one.name,
            one.summary.start_us,
            one.summary.end_us,
            one.summary.verdict,
            one.summary.good,
            one.summary.state,
            one.summary.measured,
            one.summary.budget_left,
            one.summary.budget_of,
        )
        for one in reports
    ]
    return render_list(Listing(tuple(listed), tuple(changes), hidden, of), reports_page, failovers_page)
