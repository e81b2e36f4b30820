"""The headline of a report: inside the budget, outside of it, or unknown.

Bad news needs no minimum: lost messages and an overspent budget are said however little was measured. "Inside" needs enough
measured time of every group that is judged (`measured`).
"""

from typing import Final

from slo_pipeline.reports import words
from slo_pipeline.reports.model import Group, Report

INSIDE: Final = "Inside the error budget"
OUTSIDE: Final = "Outside the error budget"


def verdict(report: Report) -> tuple[str, bool]:
    """Return the headline and whether it is good news; unknown is not."""
    judged = [group for group in report.groups if group.is_judged]
    if not any(group.measured_s for group in judged):
        return "Nothing was measured", False
    lost = sum(group.durability.lost for group in report.groups if group.durability)
    if lost:
        return f"{words.count(lost, 'acknowledged message')} lost", False
    if any(group.bad_s > report.budget_s for group in judged):
        return f"{OUTSIDE}, {how_much(report, judged)}", False
    unknown = [group for group in judged if not group.is_measured]
    if unknown:
        return f"Unknown: {how_much(report, unknown)}", False
    return f"{INSIDE}, {how_much(report, judged)}", True


def how_much(report: Report, groups: list[Group]) -> str:
    """Say how much of the window was measured: of the group with the least, which is named if there are several."""
    least = min(groups, key=lambda group: (group.measured_s, group.name))
    whose = f" in {least.name}" if len(report.groups) > 1 else ""
    window = words.span(report.window_days * 86_400)
    said = f"{words.span(least.measured_s)} of {window} measured{whose}"
    # It also leaves the page, for terminals and logs.
    return said.replace(words.NBSP, " ")
