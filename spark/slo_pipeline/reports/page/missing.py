"""The section on gaps in the data: missing measurements, and rows that were set apart.

Problem: a group without measurements shows zero bad seconds, so it looks like the best one. Shape: one line
for each kind of segment that is absent, one table of the groups that lack something, one of the clocks whose
rows were set apart. Never: a number of these rows is in another section.
"""

from typing import Final

from slo_pipeline.reports.drawing.markup import Markup, join, tag
from slo_pipeline.reports.page import parts
from slo_pipeline.reports.values import silences, words
from slo_pipeline.reports.values.model import GroupReport, ImpossibleTimes, Report

# What each of the two tables may add to the report's page; the rest is in files.
GROUPS_BYTES_MAX: Final = 28_000
APART_BYTES_MAX: Final = 14_000
ABSENT: Final = {
    "probe_ops": "No send was recorded: nothing says whether writes were acknowledged.",
    "events": "No event of the controllers was recorded: no change of master can be told.",
    "samples": "Nothing was scraped: neither replication nor the coverage of scrapes is known.",
}
MISSING: Final = "missing"
# Of one group's times without a send, and of the groups with one on the first screen; the table has the
# others.
SILENCES_LISTED_MAX: Final = 5
SILENT_NAMED_MAX: Final = 3


def section(report: Report) -> parts.Section:
    """Show missing data and rows set apart; say so if nothing is missing."""
    lines = [tag("p", ABSENT[kind], class_="note") for kind in ABSENT if kind in report.absent]
    shown = [*lines, _groups(report), _apart(report)]
    found = [one for one in shown if one is not None]
    if not found:
        found = [tag("p", "Nothing is missing, and no row was set apart.", class_="note")]
    return parts.section("missing", "Missing or set apart", *found)


def silent(report: Report) -> Markup | None:
    """Name the groups without sends for hours or days, for the first screen.

    Return None if every group was measured all the time.
    """
    found = silences.silent_groups(report)
    if not found:
        return None
    named = [tag("li", silences.line(report, group, times), ".") for group, times in found[:SILENT_NAMED_MAX]]
    left = len(found) - len(named)
    more = tag("li", f"{words.count(left, 'more group')} were not measured all the time.") if left else None
    link = tag("p", tag("a", "What is missing", href="#missing"), class_="note")
    return tag("div", tag("ul", *named, more), link, class_="note")


def _groups(report: Report) -> Markup | None:
    long = groups_table(report)
    if not long.row_count:
        return None
    return join((tag("h4", long.heading), parts.beginning(long)))


def groups_table(report: Report) -> parts.Long:
    """Return the groups that lack what the report has of others, or enough sends, in the report's order."""
    has_durability = any(one.durability for one in report.groups)
    has_lag = any(one.lag for one in report.groups)
    lacking = [
        group
        for group in report.groups
        if not group.is_measured
        or silences.silences(report, group)
        or (has_durability and not group.durability)
        or (has_lag and not group.lag)
    ]
    rows = (
        (
            parts.named(group.name),
            _writes(group),
            _silences(report, group),
            "there" if group.durability else MISSING,
            "there" if group.lag else MISSING,
            words.NONE if group.last_us is None else words.iso(group.last_us),
        )
        for group in lacking
    )
    heads = ("Group", "Sends", "No send (UTC)", "Read back", "Replication lag", "Newest send or event (UTC)")
    heading = "Groups that lack a measurement"
    return parts.Long("missing", heading, heads, rows, len(lacking), bytes_max=GROUPS_BYTES_MAX)


def _silences(report: Report, group: GroupReport) -> str:
    times = [silences.said(one) for one in silences.silences(report, group)]
    left = len(times) - SILENCES_LISTED_MAX
    more = [f"and {left} more"] if left > 0 else []
    return "; ".join(times[:SILENCES_LISTED_MAX] + more) or words.NONE


def _writes(group: GroupReport) -> str:
    if not group.is_judged:
        return "none in the period: not judged"
    if not group.measured_s:
        return "none in the period"
    if not group.is_measured:
        seen_s = group.measured_s + group.unknown_s
        return f"too few: {words.span(group.measured_s)} of {words.span(seen_s)}"
    return "there"


def _apart(report: Report) -> Markup | None:
    if not report.apart:
        return None
    count = sum(one.rows for one in report.apart)
    said = (
        f"{words.count(count, 'row')} cannot be of the time that {'it says' if count == 1 else 'they say'}: "
        "the clock of the writer is wrong. No other number of this page has them."
    )
    long = apart_table(report)
    return join((tag("h4", long.heading), tag("p", said, class_="note"), parts.beginning(long)))


def apart_table(report: Report) -> parts.Long:
    """Return the clocks whose rows were set apart."""
    rows = (
        (
            parts.named(one.writer or words.NONE),
            one.kind,
            parts.named(one.group or words.NONE),
            words.plain(one.rows),
            words.iso(one.first_us),
            words.iso(one.last_us),
            _off(report, one),
        )
        for one in report.apart
    )
    heads = ("Clock", "Kind", "Group", ">Rows", "First (UTC)", "Last (UTC)", "Off")
    return parts.Long("apart", "Rows set apart", heads, rows, len(report.apart), bytes_max=APART_BYTES_MAX)


def _off(report: Report, one: ImpossibleTimes) -> str:
    """Say how far a clock is from the period, which does not depend on when the page is made."""
    if one.ahead:
        return f"up to {words.span((one.last_us - report.end_us) / 1_000_000)} after the period"
    return f"up to {words.span((report.start_us - one.first_us) / 1_000_000)} before the period"
