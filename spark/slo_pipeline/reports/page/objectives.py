"""The section on objectives: targets, results, burn rates, and alerts that would have fired.

Problem: eight objectives times many groups is a wall of numbers of which most say "fine". Shape: `summary`
shows each objective once, by its worst group, on the first screen. `section` has one row an objective and
group, the worst first; below it every time that a burn alert would have fired. Windows that are longer than
the data are marked. Never: show a share of a budget of 0; it either holds or does not.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from slo_pipeline.reports.drawing.markup import Markup, join, tag
from slo_pipeline.reports.page import parts, states
from slo_pipeline.reports.values import words
from slo_pipeline.reports.values.model import FiredBurnAlert, ObjectiveResult, Report

SUMMARY_MAX: Final = 12
GROUP_CHARACTERS_MAX: Final = 48
S_PER_HOUR: Final = 3_600
UNITS_S: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
# Stands behind the name of a window that is longer than the data.
MARK: Final = "*"


def summary(report: Report) -> Markup | None:
    """Show the state of each objective, told of its worst group; None if nothing was judged."""
    if not report.objectives:
        return None
    worst = states.worst_of_each(report.objectives)
    fired = _fired(report)
    by_state: dict[str, Counter[str]] = {}
    for kept in report.objectives:
        by_state.setdefault(kept.slo, Counter())[states.state(kept)] += 1
    rows = [
        (
            tag("a", kept.slo, href="#objectives"),
            join((states.chip(states.state(kept)), _share(by_state[kept.slo], states.state(kept)))),
            tag("span", words.clipped(kept.group, GROUP_CHARACTERS_MAX), class_="long", title=kept.group)
            if len(kept.group) > parts.LONG_NAME_CHARACTERS
            else kept.group,
            join((words.percent(kept.attained), tag("small", f" of {_promised(kept)}", class_="sub under"))),
            _left(kept),
            _rate(kept.burn_1h),
            states.lasts(report, kept),
            _paged(fired.get(kept.slo, Counter())),
        )
        for kept in worst[:SUMMARY_MAX]
    ]
    heads = (
        "Objective", "State", "Worst group", ">Kept", ">Budget left", _head(report, ">Burn, last 1 h", 1),
        ">Lasts", ">Would have paged",
    )  # fmt: skip
    more = len(worst) - SUMMARY_MAX
    link = tag("a", f"{more} more objectives.", href="#objectives") if more > 0 else None
    notes = [note for note in (link, _marked(report, S_PER_HOUR)) if note is not None]
    tail = tag("p", join(notes, " "), class_="note") if notes else None
    return tag("div", parts.table(heads, rows, stacked=True), tail, class_="card states")


def _share(groups: Counter[str], state: str) -> Markup | None:
    """Say how many of an objective's groups are in a state, where there are several."""
    every = sum(groups.values())
    if every == 1:
        return Markup("")
    return tag("small", f" {words.plain(groups[state])} of {words.count(every, 'group')}", class_="sub")


def _fired(report: Report) -> dict[str, Counter[str]]:
    """Return how often alerts of each severity would have fired for each objective.

    The counts are of all groups together.
    """
    fired: dict[str, Counter[str]] = {}
    for page in report.pages:
        fired.setdefault(page.slo, Counter())[page.severity] += 1
    return fired


def _paged(severities: Counter[str]) -> str:
    told = [words.count(amount, severity) for severity, amount in sorted(severities.items())]
    return ", ".join(told) or "never"


def section(report: Report) -> parts.Section:
    """Show every objective of every group, and what would have paged."""
    if not report.objectives:
        return parts.section("objectives", "Objectives", tag("p", "Nothing was judged."))
    counted = Counter(states.state(kept) for kept in report.objectives)
    told = [f"{words.plain(counted[one])} {one}" for one in states.WORST_FIRST if counted[one]]
    said = f"{words.count(len(report.objectives), 'budget')}: {', '.join(told)}. "
    return parts.section(
        "objectives",
        "Objectives",
        tag(
            "p",
            said,
            "Burn 1 would spend exactly the budget of the window. ",
            _marked(report, 72 * S_PER_HOUR),
            class_="note",
        ),
        parts.beginning(every(report)),
        _pages(report),
    )


def every(report: Report) -> parts.Long:
    """Return the table of every objective of every group, the worst first."""
    heads = (
        "Objective", "Group", "State", ">Promised", ">Kept", ">Bad", ">Budget", ">Left",
        _head(report, ">Burn 1 h", 1), _head(report, ">Burn 3 d", 72), ">Lasts",
    )  # fmt: skip
    rows = (_row(report, kept) for kept in sorted(report.objectives, key=states.badness))
    return parts.Long("objectives", "Objectives", heads, rows, len(report.objectives), bytes_max=60_000)


def _row(report: Report, kept: ObjectiveResult) -> tuple[object, ...]:
    name = tag("span", kept.slo, " ", tag("small", kept.threshold, class_="sub"), title=f"good: {kept.says}")
    return (
        name,
        parts.named(kept.group),
        states.chip(states.state(kept)),
        _promised(kept),
        words.percent(kept.attained),
        words.plain(kept.bad),
        words.plain(kept.budget, 1),
        _left(kept),
        _rate(kept.burn_1h),
        _rate(kept.burn_3d),
        states.lasts(report, kept),
    )


def _promised(kept: ObjectiveResult) -> str:
    return f"{words.plain(kept.target_percent, 4)}{words.NBSP}%"


def _head(report: Report, name: str, hours: int) -> str:
    """Return a column's name, marked if its window is longer than the data."""
    return name + (MARK if _is_short(report, hours * S_PER_HOUR) else "")


def _is_short(report: Report, window_s: int, until_us: int | None = None) -> bool:
    return states.is_longer_than_data(report, window_s * states.US_PER_S, until_us)


def _marked(report: Report, window_s: int) -> str | None:
    """Say what the mark means, if a window of this length has it."""
    if not _is_short(report, window_s):
        return None
    span = words.span((report.end_us - report.start_us) / states.US_PER_S)
    return f"{MARK} The window is longer than the data, which spans {span}: only measured time counts."


def _left(kept: ObjectiveResult) -> Markup | str:
    if states.state(kept) == states.UNKNOWN:
        return words.UNKNOWN
    share = states.budget_left(kept)
    if share is None:
        return "none" if kept.holds else parts.chip("broken", "failover")
    left = words.percent(share, decimals=1)
    return left if kept.holds else parts.chip(left, "failover")


def _rate(rate: float | None) -> str:
    return words.NONE if rate is None else f"{words.plain(rate, 1)}×"


def _pages(report: Report) -> Markup:
    heading = tag("h4", "What would have paged")
    if not report.pages:
        return join((heading, tag("p", "No burn alert would have fired.", class_="note")))
    fired = _paged(Counter(page.severity for page in report.pages))
    return join(
        (heading, tag("p", f"{fired}, the latest first.", class_="note"), parts.beginning(paged(report)))
    )


def paged(report: Report) -> parts.Long:
    """Return the table of every time that a burn alert would have fired, the latest first."""
    heads = ("From (UTC)", ">For", "Severity", "Objective", "Group", "Burn")
    ordered = sorted(report.pages, key=lambda page: page.start_us, reverse=True)
    rows = (
        (
            words.iso(page.start_us),
            _lasted(report, page),
            page.severity,
            page.slo,
            parts.named(page.group),
            f"over {words.plain(page.burn_rate, 1)}× in {' and '.join(_windows(report, page))}",
        )
        for page in ordered
    )
    return parts.Long("paged", "What would have paged", heads, rows, len(ordered))


def _lasted(report: Report, page: FiredBurnAlert) -> str:
    lasted = words.ms((page.end_us - page.start_us) / 1_000)
    return f"{lasted}, still firing" if page.end_us >= report.end_us else lasted


def _windows(report: Report, page: FiredBurnAlert) -> Iterable[str]:
    """Return an alert's two windows, marked if the data began after they did."""
    for window in (page.long_window, page.short_window):
        size_s = int(window[:-1]) * UNITS_S[window[-1]]
        yield window + (MARK if _is_short(report, size_s, page.start_us) else "")
