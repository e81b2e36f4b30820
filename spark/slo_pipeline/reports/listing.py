"""The page that lists reports and failovers: what a server shows at its root.

Shape: plain rows in, one HTML page out, in the reports' own looks.
Never: it opens no file; addresses are relative to the server's root.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from slo_pipeline.reports import parts, words
from slo_pipeline.reports.markup import Markup, tag
from slo_pipeline.reports.page import document

FAILOVERS_MAX: Final = 200


class ListedReport(NamedTuple):
    """One report of the list."""

    name: str
    title: str
    start_us: int
    end_us: int
    verdict: str
    good: bool


class ListedFailover(NamedTuple):
    """One change of master of the list; `address` leads to its page."""

    address: str
    heading: str
    elected_us: int
    write_gap_ms: float | None
    bad_s: int
    lost: int | None


def render_list(reports: Sequence[ListedReport], failovers: Sequence[ListedFailover]) -> str:
    """Return the page; both lists come in the order in which they are shown."""
    body = tag(
        "body",
        tag("header", tag("h1", "RocketMQ reports")),
        tag("main", _reports(reports), _failovers(failovers[:FAILOVERS_MAX])),
    )
    return document("RocketMQ reports", body)


def _reports(reports: Sequence[ListedReport]) -> Markup:
    if not reports:
        return parts.section("reports", "Reports", tag("p", "There is no report yet."))
    rows = [
        (
            tag("a", one.title, href=f"reports/{one.name}/"),
            words.period(one.start_us, one.end_us),
            one.verdict if one.good else parts.chip(one.verdict, "failover"),
        )
        for one in reports
    ]
    return parts.section("reports", "Reports", parts.table(("Report", "Period", "Verdict"), rows))


def _failovers(failovers: Sequence[ListedFailover]) -> Markup:
    if not failovers:
        return parts.section("failovers", "Failovers", tag("p", "No report tells of a change of master."))
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
    return parts.section("failovers", "Failovers", parts.table(heads, rows))
