"""The section on objectives: what was promised, what was kept, and what would have paged.

Problem: eight objectives times many groups is a wall of numbers of which most say "fine".
Shape: one table, overspent budgets first, then those of which too little was measured; below it every time that a burn alert would have fired.
Never: a budget of 0 has no share; it is kept, or it is not.
"""

from typing import Final

from slo_pipeline.reports import parts, words
from slo_pipeline.reports.markup import Markup, join, tag
from slo_pipeline.reports.model import Kept, Report

LISTED_MAX: Final = 120
PAGES_LISTED_MAX: Final = 100


def section(report: Report) -> Markup:
    """Show every objective of every group, and the pages."""
    if not report.objectives:
        return parts.section("objectives", "Objectives", tag("p", "Nothing was judged."))
    broken = [kept for kept in report.objectives if not kept.holds]
    holding = sorted((kept for kept in report.objectives if kept.holds), key=lambda kept: kept.is_measured)
    ordered = [*broken, *holding]
    unknown = sum(1 for kept in ordered if kept.holds and not kept.is_measured)
    said = (
        f"{words.count(len(broken), 'budget')} of {len(ordered)} overspent. "
        if broken
        else f"All {len(ordered)} budgets hold. "
        if not unknown
        else ""
    )
    if unknown:
        said += f"Too little was measured to judge {unknown} of {words.count(len(ordered), 'budget')}. "
    heads = ("Objective", "Group", ">Promised", ">Kept", ">Bad", ">Budget", ">Left", ">Burn 1 h", ">Burn 3 d")
    return parts.section(
        "objectives",
        "Objectives",
        tag("p", said, "Burn 1 would spend exactly the budget of the window.", class_="note"),
        parts.table(heads, [_row(kept) for kept in ordered[:LISTED_MAX]]),
        _pages(report),
    )


def _row(kept: Kept) -> tuple[object, ...]:
    name = tag("span", kept.slo, " ", tag("small", kept.threshold, class_="sub"), title=f"good: {kept.says}")
    return (
        name,
        kept.group,
        f"{words.plain(kept.target_percent, 4)}{words.NBSP}%",
        words.percent(kept.attained),
        words.plain(kept.bad),
        words.plain(kept.budget, 1),
        _left(kept),
        _rate(kept.burn_1h),
        _rate(kept.burn_3d),
    )


def _left(kept: Kept) -> Markup | str:
    if kept.holds and not kept.is_measured:
        return words.UNKNOWN
    if kept.budget == 0.0:
        return "kept" if kept.holds else parts.chip("broken", "failover")
    left = words.percent(1.0 - kept.bad / kept.budget, decimals=1)
    return left if kept.holds else parts.chip(left, "failover")


def _rate(rate: float | None) -> str:
    return words.NONE if rate is None else f"{words.plain(rate, 1)}×"


def _pages(report: Report) -> Markup:
    heading = tag("h4", "What would have paged")
    if not report.pages:
        return join((heading, tag("p", "No burn alert would have fired.", class_="note")))
    rows = [
        (
            words.iso(page.start_us),
            words.ms((page.end_us - page.start_us) / 1_000),
            page.severity,
            page.slo,
            page.group,
            f"over {words.plain(page.burn_rate, 1)}× in {page.long_window} and {page.short_window}",
        )
        for page in report.pages[:PAGES_LISTED_MAX]
    ]
    more = len(report.pages) - len(rows)
    tail = tag("p", f"{words.plain(more)} more.", class_="note") if more > 0 else None
    heads = ("From (UTC)", ">For", "Severity", "Objective", "Group", "Burn")
    return join(one for one in (heading, parts.table(heads, rows), tail) if one is not None)
