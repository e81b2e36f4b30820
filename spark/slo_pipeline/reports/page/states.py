"""The state of each objective: kept, burning, overspent or unknown, and how long its budget will last.

Problem: a budget that is not spent yet says nothing about the hour in which it burns, and nothing measured is
not the same as nothing bad. Shape: one state an objective and group. The worst of them is the state of the
objective, and the worst objective that of the report, so that no headline is better than the lines below it.
Never: a state that a reader cannot check with the numbers beside it; good news of a report of which any part
is unknown.

    overspent  more was bad than the budget allows, however little was measured
    unknown    not overspent, and too little was measured to judge by (`measured`)
    burning    the last hour of the data burned faster than 1: the budget would not last the window
    kept       none of these
"""

import math
from collections.abc import Callable, Iterable
from typing import Final

from slo_pipeline.reports.drawing.markup import Markup, tag
from slo_pipeline.reports.page import parts
from slo_pipeline.reports.values import words
from slo_pipeline.reports.values.model import GroupReport, ObjectiveResult, Report

KEPT: Final = "kept"
BURNING: Final = "burning"
OVERSPENT: Final = "overspent"
UNKNOWN: Final = "unknown"
WORST_FIRST: Final = (OVERSPENT, BURNING, UNKNOWN, KEPT)
SIGNS: Final = {OVERSPENT: "✕", BURNING: "▲", UNKNOWN: "?", KEPT: "✓"}
TONES: Final = {OVERSPENT: "failover", BURNING: "warn", UNKNOWN: "", KEPT: "good"}
HEADLINES: Final = {
    OVERSPENT: "Outside the error budget",
    BURNING: "Burning the error budget too fast",
    UNKNOWN: "Unknown",
    KEPT: "Inside the error budget",
}
NAME_CHARACTERS_MAX: Final = 60
S_PER_DAY: Final = 86_400
US_PER_S: Final = 1_000_000
US_PER_DAY: Final = S_PER_DAY * US_PER_S


def state(kept: ObjectiveResult) -> str:
    """Return the state of one objective of one group."""
    if not kept.holds:
        return OVERSPENT
    if not kept.is_measured:
        return UNKNOWN
    return BURNING if (kept.burn_1h or 0.0) > 1.0 else KEPT


def badness(kept: ObjectiveResult) -> tuple[float, ...]:
    """Return a sort key: the worst state first, then the least budget left, then the fastest burn."""
    left = budget_left(kept)
    if left is None:
        left = 1.0 if kept.holds else -math.inf
    return WORST_FIRST.index(state(kept)), left, -(kept.burn_1h or 0.0)


def budget_left(kept: ObjectiveResult) -> float | None:
    """Return the share of the budget that is left, below 0 if it is overspent.

    Return None if the budget is 0 or the state unknown.
    """
    if kept.budget == 0.0 or state(kept) == UNKNOWN:
        return None
    return 1.0 - kept.bad / kept.budget


def worst_of_each(
    objectives: Iterable[ObjectiveResult], by: Callable[[ObjectiveResult], tuple[float, ...]] = badness
) -> list[ObjectiveResult]:
    """Return each objective once, as its worst group has it.

    The worst objective comes first; equals come in the file's order.

    Of two, the one for which `by` is less is worse.
    """
    worst: dict[str, ObjectiveResult] = {}
    for kept in objectives:
        known = worst.get(kept.slo)
        if known is None or by(kept) < by(known):
            worst[kept.slo] = kept
    return sorted(worst.values(), key=by)


def overall(report: Report) -> str:
    """Return the state of the whole report: the worst of its objectives and of its groups' writes."""
    found = {state(kept) for kept in report.objectives}
    judged = _judged(report)
    if lost(report) or any(group.bad_s > report.budget_s for group in judged):
        found.add(OVERSPENT)
    if not judged or not all(group.is_measured for group in judged):
        found.add(UNKNOWN)
    return min(found, key=WORST_FIRST.index, default=KEPT)


def _judged(report: Report) -> list[GroupReport]:
    return [group for group in report.groups if group.is_judged]


def lost(report: Report) -> int:
    """Return how many acknowledged messages were lost."""
    return sum(group.durability.lost for group in report.groups if group.durability)


def verdict(report: Report) -> tuple[str, bool]:
    """Return the headline in one line and whether it is good news; unknown is not."""
    what, how_much = headline(report)
    found = overall(report)
    between = ": " if found == UNKNOWN else ", "
    return between.join(one for one in (what, how_much) if one), found == KEPT


def headline(report: Report) -> tuple[str, str]:
    """Return the report's result, and how much was measured.

    The second is empty where the first says enough.
    """
    found, judged = overall(report), _judged(report)
    if found == OVERSPENT and lost(report):
        return f"{words.count(lost(report), 'acknowledged message')} lost", ""
    if found != UNKNOWN:
        return HEADLINES[found], _how_much(report, judged)
    if not any(group.measured_s for group in judged):
        return "Nothing was measured", ""
    unknown = [group for group in judged if not group.is_measured]
    if unknown:
        return HEADLINES[found], _how_much(report, unknown)
    names = list(dict.fromkeys(kept.slo for kept in report.objectives if state(kept) == UNKNOWN))
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return HEADLINES[found], f"too little of {names[0]}{more} measured"


def _how_much(report: Report, groups: list[GroupReport]) -> str:
    """Say how much of the window was measured.

    The number is that of the group with the least, which is named if there are several.
    """
    told = f"{measured(report, groups)} measured"
    if not groups or len(report.groups) == 1:
        return told
    return f"{told} in {words.clipped(_least(groups).name, NAME_CHARACTERS_MAX)}"


def measured(report: Report, groups: list[GroupReport] | None = None) -> str:
    """Say how much of the window was measured, as in "10 min of 30 d": of the group with the least.

    Args:
        report: has the window.
        groups: which to tell of; by default all that are judged.
    """
    chosen = _judged(report) if groups is None else groups
    measured_s = _least(chosen).measured_s if chosen else 0
    # It also leaves the page, for terminals and logs.
    return f"{words.span(measured_s)} of {words.span(report.window_days * S_PER_DAY)}".replace(
        words.NBSP, " "
    )


def _least(groups: list[GroupReport]) -> GroupReport:
    return min(groups, key=lambda group: (group.measured_s, group.name))


def is_longer_than_data(report: Report, window_us: int, until_us: int | None = None) -> bool:
    """Tell whether a window that ends at `until_us` begins before the data does.

    The default is the end of the data.
    """
    end_us = report.end_us if until_us is None else until_us
    return end_us - window_us < report.start_us


def exhaustion_us(report: Report, kept: ObjectiveResult) -> int | None:
    """Return how long the budget lasts if the last hour goes on, microseconds.

    Returns:
        0 if it is spent; None without a budget, without a burn, if the state is unknown, and if it lasts the
        window.
    """
    if kept.budget == 0.0 or kept.bad >= kept.budget:
        return 0 if kept.bad > 0 or kept.budget > 0.0 else None
    if state(kept) == UNKNOWN:
        return None
    allowed = 1.0 - kept.target_percent / 100.0
    seen = kept.good + kept.bad + kept.unknown
    if not kept.burn_1h or kept.burn_1h <= 0.0 or seen == 0 or allowed <= 0.0:
        return None
    # At the mean pace of the period, as the budget of events grows with their number.
    bad_per_us = kept.burn_1h * allowed * seen / max(1, report.end_us - report.start_us)
    lasts = round((kept.budget - kept.bad) / bad_per_us)
    return lasts if lasts < report.window_days * US_PER_DAY else None


def lasts(report: Report, kept: ObjectiveResult) -> str:
    """Say how long the budget lasts if the last hour goes on."""
    found = exhaustion_us(report, kept)
    if state(kept) == OVERSPENT:
        return "spent"
    if found is not None:
        return f"spent in {words.span(found / US_PER_S)}" if found else "spent"
    if kept.burn_1h is None or budget_left(kept) is None:
        return words.NONE
    return f"over {report.window_days}{words.NBSP}d"


def chip(name: str) -> Markup:
    """Return a state as a small label: a sign beside the word, for those who do not see its colour."""
    return parts.chip(f"{SIGNS.get(name, '?')} {name}", TONES.get(name, ""))


def sign(name: str) -> Markup:
    """Draw a tick, a triangle, a cross or a question mark: the shape of the report's state."""
    shape, colour = {
        KEPT: ("M15 27.5l8 8 15-18", "var(--good)"),
        BURNING: ("M26 13v17M26 38v.5", "var(--warn)"),
        OVERSPENT: ("M17 17l18 18M35 17l-18 18", "var(--bad)"),
        UNKNOWN: ("M19 21a7 7 0 1 1 9 7q-2 1-2 4M26 38v.5", "var(--soft)"),
    }[name]
    drawn = f"fill:none;stroke:{colour};stroke-linecap:round;stroke-linejoin:round"
    return tag(
        "svg",
        tag("title", name),
        tag("circle", cx=26, cy=26, r=24, style=f"fill:none;stroke:{colour};stroke-width:3.5"),
        tag("path", d=shape, style=f"{drawn};stroke-width:4.5"),
        role="img",
        view_box="0 0 52 52",
    )
