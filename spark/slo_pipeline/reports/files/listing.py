"""The page that lists reports and failovers: what a server shows at its root.

Shape: plain rows in, one HTML page out, in the reports' own looks. Reports and failovers are paged. The
failovers are grouped by cluster and group, each with its latest ones and a link to all of them. Never: it
opens no file; addresses are relative to the server's root.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeVar
from urllib.parse import quote

from slo_pipeline.reports.drawing.markup import Markup, join, tag
from slo_pipeline.reports.page import parts
from slo_pipeline.reports.page.document import document
from slo_pipeline.reports.page.states import chip
from slo_pipeline.reports.values import words

REPORTS_LISTED_MAX: Final = 100
GROUPS_LISTED_MAX: Final = 40
FAILOVERS_LISTED_MAX: Final = 200
# Of each group, as long as the page is not about one group alone.
LATEST_MAX: Final = 5
Row = TypeVar("Row")


class ListedReport(NamedTuple):
    """One report of the list; `address` leads to it."""

    address: str
    title: str
    name: str
    start_us: int
    end_us: int
    verdict: str
    good: bool
    state: str
    measured: str
    budget_left: float | None
    budget_of: str


class ListedFailover(NamedTuple):
    """One change of master of the list; `address` leads to its page, `of` is `<cluster>/<group>`."""

    address: str
    of: str
    heading: str
    planned: bool
    elected_us: int
    write_gap_ms: float | None
    bad_s: int
    lost: int | None


class Listing(NamedTuple):
    """What a server knows: all reports, the newest first; all failovers, the latest first.

    Attributes:
        hidden: folders whose summary cannot be used.
        of: the group whose failovers are shown alone, as `<cluster>/<group>`; empty for all groups.
    """

    reports: tuple[ListedReport, ...]
    failovers: tuple[ListedFailover, ...]
    hidden: int = 0
    of: str = ""


def render_list(listing: Listing, reports_page: int = 1, failovers_page: int = 1) -> str:
    """Return one page of the list.

    Args:
        listing: the known reports.
        reports_page: which page of the reports, from 1; the last one if there are not so many.
        failovers_page: which page of the failovers, likewise.
    """
    body = tag(
        "body",
        tag("header", tag("h1", "RocketMQ reports")),
        tag(
            "main",
            None if listing.of else _reports(listing, reports_page, failovers_page),
            _of_group(listing, failovers_page)
            if listing.of
            else _failovers(listing, reports_page, failovers_page),
        ),
    )
    return document("RocketMQ reports", body)


def _paged(rows: Sequence[Row], page: int, most: int) -> tuple[Sequence[Row], int, int]:
    """Return the rows of a page, the page's number and the number of pages."""
    pages = max(1, -(-len(rows) // most))
    page = min(max(page, 1), pages)
    return rows[(page - 1) * most : page * most], page, pages


def _turn(page: int, pages: int, address: str, what: str) -> Markup | None:
    """Return links to the page before and the page after; `address` has `{page}` for its number."""
    if pages == 1:
        return None
    ways = [(page - 1, f"Newer {what}"), (page + 1, f"Older {what}")]
    links = [
        tag("a", label, href=address.replace("{page}", str(number)))
        for number, label in ways
        if 1 <= number <= pages
    ]
    return tag("p", f"Page {page} of {pages}. ", join(links, " · "), class_="note")


def _reports(listing: Listing, page: int, failovers_page: int) -> Markup:
    unusable = (
        tag("p", f"{words.count(listing.hidden, 'folder')} not shown: see the server's log.", class_="note")
        if listing.hidden
        else None
    )
    if not listing.reports:
        return parts.section("reports", "Reports", tag("p", "No reports yet."), unusable)
    shown, page, pages = _paged(listing.reports, page, REPORTS_LISTED_MAX)
    rows = [
        (
            join((tag("a", one.title, href=one.address), tag("small", one.name, class_="sub under"))),
            words.period(one.start_us, one.end_us),
            one.measured or words.NONE,
            join((chip(one.state), " ", one.verdict))
            if one.state
            else (one.verdict if one.good else parts.chip(one.verdict, "failover")),
            _left(one),
        )
        for one in shown
    ]
    heads = ("Report", "Period", "Measured", "State", ">Least budget left")
    return parts.section(
        "reports",
        "Reports",
        parts.table(heads, rows, stacked=True),
        _turn(page, pages, f"?reports={{page}}&failovers={failovers_page}#reports", "reports"),
        unusable,
    )


def _left(one: ListedReport) -> Markup | str:
    if one.budget_left is None:
        return words.NONE
    return join((words.percent(one.budget_left, decimals=1), tag("small", one.budget_of, class_="sub under")))


def _by_group(failovers: Iterable[ListedFailover]) -> dict[str, list[ListedFailover]]:
    """Return the failovers of each group in their order, the groups by name."""
    groups: dict[str, list[ListedFailover]] = {}
    for one in failovers:
        groups.setdefault(one.of, []).append(one)
    return dict(sorted(groups.items()))


def _failovers(listing: Listing, reports_page: int, page: int) -> Markup:
    if not listing.failovers:
        return parts.section("failovers", "Failovers", tag("p", "No report tells of a change of master."))
    groups = list(_by_group(listing.failovers).items())
    shown, page, pages = _paged(groups, page, GROUPS_LISTED_MAX)
    return parts.section(
        "failovers",
        "Failovers",
        *[part for of, found in shown for part in _group(of, found)],
        _turn(page, pages, f"?reports={reports_page}&failovers={{page}}#failovers", "groups"),
    )


def _group(of: str, found: Sequence[ListedFailover]) -> tuple[Markup | None, ...]:
    """Show one group: what all its changes came to, and its latest ones."""
    every = tag("a", f"All {len(found)} of them", href=f"?of={quote(of, safe='')}")
    return (
        tag("h3", of, class_="of"),
        tag("p", _sums(found), class_="note"),
        _table(found[:LATEST_MAX]),
        tag("p", every, class_="note") if len(found) > LATEST_MAX else None,
    )


def _of_group(listing: Listing, page: int) -> Markup:
    found = [one for one in listing.failovers if one.of == listing.of]
    back = tag("p", tag("a", "All reports and groups", href="./"), class_="note")
    if not found:
        return parts.section(
            "failovers", listing.of, back, tag("p", "No report tells of a change of master.")
        )
    shown, page, pages = _paged(found, page, FAILOVERS_LISTED_MAX)
    return parts.section(
        "failovers",
        listing.of,
        back,
        tag("p", _sums(found), class_="note"),
        _table(shown),
        _turn(page, pages, f"?of={quote(listing.of, safe='')}&failovers={{page}}", "failovers"),
    )


def _sums(found: Sequence[ListedFailover]) -> str:
    planned = sum(1 for one in found if one.planned)
    gaps = [one.write_gap_ms for one in found if one.write_gap_ms is not None and not one.planned]
    told = [words.count(len(found) - planned, "failover"), words.count(planned, "switchover")]
    if gaps:
        told.append(f"longest gap {words.ms(max(gaps))}")
    told.append(f"{words.seconds(sum(one.bad_s for one in found))} bad")
    known = [one.lost for one in found if one.lost is not None]
    told.append(f"{words.plain(sum(known))} lost" if known else "losses unknown")
    return ", ".join(told) + "."


def _table(failovers: Sequence[ListedFailover]) -> Markup:
    rows = [
        (
            words.iso(one.elected_us),
            tag("a", one.heading, href=one.address),
            words.ms(one.write_gap_ms),
            words.seconds(one.bad_s),
            words.NONE if one.lost is None else words.plain(one.lost),
        )
        for one in failovers
    ]
    heads = ("Elected (UTC)", "What", ">Write gap", ">Bad seconds", ">Lost")
    return parts.table(heads, rows, stacked=True)
