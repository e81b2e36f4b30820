"""The sections after the failovers: availability and budget, latency, replication, durability, data quality.

Problem: numbers about many groups, of which most are uneventful. Shape: one table over all groups, then
pictures for the first DETAILED_MAX groups (those with most bad seconds first). Never: leave out a section
without data; it says that its data is missing.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from slo_pipeline.reports.drawing import charts
from slo_pipeline.reports.drawing.markup import Markup, join, tag
from slo_pipeline.reports.page import parts
from slo_pipeline.reports.values import words
from slo_pipeline.reports.values.model import Failover, GroupReport, Report

DETAILED_MAX: Final = 8
LOST_LISTED_MAX: Final = 100
BAD_LISTED_MAX: Final = 120
SERIES_LISTED_MAX: Final = 60
US_PER_S: Final = 1_000_000


def detailed(report: Report) -> list[GroupReport]:
    """Return the groups that get pictures, those with most bad seconds first; empty without any second."""
    seen = [group for group in worst_first(report) if group.measured_s + group.unknown_s or group.lag]
    return seen[:DETAILED_MAX]


def worst_first(report: Report) -> list[GroupReport]:
    """Return the groups in the order in which a reader looks for them: those with most bad seconds first."""
    return sorted(report.groups, key=lambda group: (-group.bad_s, group.name))


def _pictures(report: Report, blocks: Iterable[tuple[str, Markup]], bytes_max: int) -> Markup:
    """Show as many groups' pictures as the page has room for, and say of which groups they are."""
    cards = (tag("div", tag("h3", heading), picture, class_="card") for heading, picture in blocks)
    shown = parts.fitting(cards, bytes_max)
    if len(report.groups) <= len(shown) or not shown:
        return join(shown)
    said = f"Pictures of the {words.count(len(shown), 'group')} with most bad seconds."
    return join((tag("p", said, class_="note"), *shown))


def availability(report: Report, pictures_bytes_max: int) -> parts.Section:
    """Show good, bad and unknown seconds, the budget's burn-down and the check line."""
    changes: dict[str, list[Failover]] = {}
    for one in report.failovers:
        changes.setdefault(one.group, []).append(one)
    blocks = (
        (f"Seconds of {group.name}", _burn_figure(report, group, changes.get(group.name, [])))
        for group in detailed(report)
    )
    return parts.section(
        "availability",
        "Availability and budget",
        tag("p", _check(report), class_="note"),
        parts.beginning(availability_table(report)),
        _pictures(report, blocks, pictures_bytes_max),
    )


def availability_table(report: Report) -> parts.Long:
    """Return each group's seconds and budget, those with most bad seconds first."""
    allowed = 1.0 - report.target_percent / 100.0
    rows = (
        (
            parts.named(group.name),
            words.percent(group.availability),
            words.plain(group.good_s),
            words.plain(group.bad_s),
            words.plain(group.unknown_s),
            _burn_rate(group, allowed),
            _left(report, group),
        )
        for group in worst_first(report)
    )
    total = (
        "All groups", "", words.plain(sum(g.good_s for g in report.groups)),
        words.plain(sum(g.bad_s for g in report.groups)),
        words.plain(sum(g.unknown_s for g in report.groups)),
        "", "",
    )  # fmt: skip
    heads = (
        "Group",
        ">Availability",
        ">Good s",
        ">Bad s",
        ">Unknown s",
        ">Burn, whole period",
        ">Budget left",
    )
    return parts.Long("availability", "Availability and budget", heads, rows, len(report.groups), total)


def _left(report: Report, group: GroupReport) -> str:
    if not report.budget_s:
        return words.NONE
    if not group.is_measured and group.bad_s <= report.budget_s:
        return words.UNKNOWN
    return words.percent(1.0 - group.bad_s / report.budget_s, decimals=1)


def _burn_rate(group: GroupReport, allowed: float) -> str:
    judged = group.good_s + group.bad_s
    if judged == 0 or allowed <= 0:
        return words.NONE
    return f"{words.plain(group.bad_s / judged / allowed, 1)}×"


def _check(report: Report) -> str:
    verdict = "They agree." if report.booked_s == report.counted_s else "They differ: this report is wrong."
    return (
        f"Booked to causes and to unexplained: {words.seconds(report.booked_s)}. "
        f"Bad seconds counted: {words.seconds(report.counted_s)}. {verdict}"
    )


def _burn_figure(report: Report, group: GroupReport, changes: Sequence[Failover]) -> Markup:
    seconds = charts.availability_strip(report, group, f"seconds-{group.name}")
    picture = charts.burn_down(report, group, changes, f"burn-{group.name}")
    listed = [
        (words.iso(bad.us), bad.booking, bad.failover_id or bad.detail or words.NONE)
        for bad in group.bad_seconds[:BAD_LISTED_MAX]
    ]
    more = len(group.bad_seconds) - len(listed)
    data = parts.table(("Bad second (UTC)", "Booked as", "Which"), listed)
    note = (
        "The axis does not begin at 0. Dotted: the budget spent evenly. Triangle: failover. Ring: switchover."
    )
    tail = tag("p", f"{words.plain(more)} more.", class_="note") if more > 0 else None
    return join(
        (
            parts.figure(seconds, _strip_table(group), summary="Stretches that were not all good"),
            tag("h4", "What is left of the budget"),
            tag("p", note, class_="note"),
            parts.figure(picture, join(one for one in (data, tail) if one)),
        )
    )


def _strip_table(group: GroupReport) -> Markup:
    rows = [
        (words.iso(one.us), words.plain(one.good_s), words.plain(one.bad_s), words.plain(one.unknown_s))
        for one in group.strip
        if one.bad_s or one.unknown_s
    ]
    foot = ("Whole period", words.plain(group.good_s), words.plain(group.bad_s), words.plain(group.unknown_s))
    return parts.table(("From (UTC)", ">Good s", ">Bad s", ">Unknown s"), rows[:BAD_LISTED_MAX], foot=foot)


def latency(report: Report, pictures_bytes_max: int) -> parts.Section:
    """Show exact quantiles, latency over time and histograms."""
    table = latency_table(report)
    if not table.row_count:
        return parts.section("latency", "Latency", tag("p", "No sends were recorded."))
    blocks = (
        (f"Sends to {group.name}", _latency_figures(report, group))
        for group in detailed(report)
        if group.latency
    )
    note = "Acknowledged sends of the canary, from the intended time; quantiles are exact."
    return parts.section(
        "latency",
        "Latency",
        tag("p", note, class_="note"),
        parts.beginning(table),
        _pictures(report, blocks, pictures_bytes_max),
    )


def latency_table(report: Report) -> parts.Long:
    """Return each group's quantiles, the groups with most bad seconds first."""
    rows = (
        (
            parts.named(group.name),
            words.plain(one.acknowledged),
            words.plain(one.failed),
            words.ms(one.p50_ms),
            words.ms(one.p90_ms),
            words.ms(one.p99_ms),
            words.ms(one.p999_ms),
            words.ms(one.max_ms),
        )
        for group in worst_first(report)
        if (one := group.latency)
    )
    count = sum(1 for group in report.groups if group.latency)
    heads = ("Group", ">Acknowledged", ">Failed", ">Median", ">90 %", ">99 %", ">99.9 %", ">Slowest")
    return parts.Long("latency", "Latency", heads, rows, count)


def _latency_figures(report: Report, group: GroupReport) -> Markup:
    worst = sorted(group.series, key=lambda one: (-one.failed, -(one.max_ms or 0.0), one.us))[
        :SERIES_LISTED_MAX
    ]
    listed = [
        (
            words.iso(one.us),
            words.ms(one.p50_ms),
            words.ms(one.p99_ms),
            words.ms(one.max_ms),
            words.plain(one.failed),
        )
        for one in sorted(worst, key=lambda one: one.us)
    ]
    heads = (f"From (UTC), {words.seconds(report.bucket_s)} each", ">Median", ">99 %", ">Slowest", ">Failed")
    buckets = [(label, words.plain(sends)) for label, sends in charts.bucket_labels(group)]
    total = ("Sum", words.plain(sum(sends for _, sends in group.histogram)))
    return join(
        (
            parts.figure(
                charts.latency_over_time(report, group, f"latency-{group.name}"),
                parts.table(heads, listed),
                summary=f"The {len(listed)} worst stretches",
            ),
            tag("h4", "How long acknowledged sends took"),
            parts.figure(
                charts.histogram(group, f"histogram-{group.name}"),
                parts.table(("Latency", ">Sends"), buckets, foot=total),
            ),
        )
    )


def replication(report: Report, pictures_bytes_max: int) -> parts.Section:
    """Show how far replicas were behind."""
    pictured = [group for group in detailed(report) if group.lag]
    if not pictured:
        return parts.section("replication", "Replication", tag("p", "No replica reported its lag."))
    blocks = (_lag_figure(report, group) for group in pictured)
    note = "The worst lag of each replica, in bytes of its log behind the master's, stretch by stretch."
    return parts.section(
        "replication",
        "Replication",
        tag("p", note, class_="note"),
        _pictures(report, blocks, pictures_bytes_max),
    )


def _lag_figure(report: Report, group: GroupReport) -> tuple[str, Markup]:
    rows = [(series.name, words.octets(charts.worst_lag(series)), len(series.values)) for series in group.lag]
    picture = charts.lag(report, group, f"lag-{group.name}")
    data = parts.table(("Replica", ">Largest lag", ">Stretches measured"), rows)
    return f"Lag of {group.name}'s replicas", parts.figure(picture, data)


def durability(report: Report) -> parts.Section:
    """Show what became of every acknowledged message."""
    table = durability_table(report)
    if not table.row_count:
        return parts.section("durability", "Durability", tag("p", words.lost(None)))
    lost = sum(group.durability.lost for group in report.groups if group.durability)
    return parts.section(
        "durability",
        "Durability",
        tag("p", f"{words.lost(lost)} The objective is 0.", class_="note"),
        parts.beginning(table),
        _lost_table(report) if report.lost_listed else None,
    )


def durability_table(report: Report) -> parts.Long:
    """Return what became of each group's messages, the groups with most lost ones first."""
    checked = [(group, group.durability) for group in report.groups if group.durability]
    rows = (
        (
            parts.named(group.name),
            words.plain(one.acknowledged),
            words.plain(one.read_back),
            words.plain(one.lost),
            words.plain(one.pending),
            f"{words.plain(one.ambiguous_found)} of {words.plain(one.ambiguous)}",
        )
        for group, one in sorted(checked, key=lambda pair: (-pair[1].lost, pair[0].name))
    )
    heads = ("Group", ">Acknowledged", ">Read back", ">Lost", ">Not read yet", ">Unanswered, yet stored")
    return parts.Long("durability", "Durability", heads, rows, len(checked))


def _lost_table(report: Report) -> Markup:
    rows = [
        (
            parts.named(one.group),
            str(one.seq),
            f"{words.iso(one.acknowledged_us)}",
            one.broker_addr or words.NONE,
            words.NONE if one.queue_id is None else str(one.queue_id),
            words.NONE if one.queue_offset is None else str(one.queue_offset),
        )
        for one in report.lost_listed[:LOST_LISTED_MAX]
    ]
    heads = ("Group", ">Sequence", "Acknowledged (UTC)", "By", ">Queue", ">Queue offset")
    return join((tag("h4", "Lost messages"), parts.table(heads, rows, stacked=True)))


def quality(report: Report) -> parts.Section:
    """Say how much of the input can be believed."""
    unknown = sum(group.unknown_s for group in report.groups)
    judged = sum(group.good_s + group.bad_s for group in report.groups)
    said = (
        f"{words.seconds(unknown)} of {words.seconds(unknown + judged)} are unknown: no send was intended in "
        "them. "
    )
    if report.late_rows is not None:
        said += (
            f"{words.count(report.late_rows, 'row')} came after "
            f"{'its' if report.late_rows == 1 else 'their'} day was closed. "
        )
    if not report.coverage:
        return parts.section("quality", "Data quality", tag("p", said + "Nothing was scraped."))
    scrapes = sum(one.scrapes for one in report.coverage)
    expected = sum(one.expected for one in report.coverage)
    share = scrapes / expected if expected else None
    said += f"{words.percent(share, decimals=2)} of the expected scrapes are there."
    return parts.section(
        "quality", "Data quality", tag("p", said, class_="note"), parts.beginning(quality_table(report))
    )


def quality_table(report: Report) -> parts.Long:
    """Return how completely each instance was scraped."""
    rows = (
        (
            parts.named(one.instance),
            words.plain(one.scrapes),
            words.plain(one.expected),
            words.percent(one.coverage, decimals=2),
            words.plain(one.gaps),
            words.NONE if one.longest_gap_s is None else words.seconds(one.longest_gap_s),
            words.plain(one.restarts),
        )
        for one in report.coverage
    )
    heads = ("Instance", ">Scrapes", ">Expected", ">Coverage", ">Gaps", ">Longest distance", ">Restarts")
    return parts.Long("quality", "Data quality", heads, rows, len(report.coverage))
