"""What one run came to, in a few lines of JSON: for whoever started the job and does not read pages.

    {"page": "...", "start_us": 1, "end_us": 2, "verdict": "...", "good": true, "more": 0,
     "apart": 0, "silent": 1, "silences": ["..."],
     "objectives": [{"name": "...", "group": "...", "target": 99.95, "attained": 0.9998, "left": 0.61,
                     "holds": true, "measured": true}]}

Problem: Kubernetes carries at most 4 KiB out of a pod that has ended, and many objectives of many groups are
more than that. Shape: one entry an objective, told of the group that has spent most of its budget; the entry
with the least left comes first. Entries that do not fit are cut from the end, and counted in `more`.
`silences` names the groups without sends for hours or days, those with the least measured first; `silent`
counts all of them. `measured` is false where too little was measured to call an objective successful; such an
entry comes after the overspent ones. Never: a number that is not on the page. `attained` is null where
nothing was measured, `left` where the budget is 0 and where `measured` is false and the objective holds.

Source: Kubernetes, "Customizing the termination message": 4096 bytes.
"""

import json
import math
from typing import Any, Final

from slo_pipeline.reports.page.states import UNKNOWN, budget_left, state, verdict, worst_of_each
from slo_pipeline.reports.values import silences
from slo_pipeline.reports.values.model import ObjectiveResult, Report

OUTCOME_BYTES_MAX: Final = 4_096
PAGE_CHARACTERS_MAX: Final = 512
SILENCES_MAX: Final = 3
# Orders unknown entries between overspent ones, below 0, and good ones.
UNKNOWN_SHARE: Final = -1e-12


def outcome(report: Report, page: str) -> dict[str, Any]:
    """Return what a run came to.

    Args:
        report: the content of the page.
        page: where the page is.
    """
    headline, good = verdict(report)
    silent = silences.silent_groups(report)
    told = [_told(kept) for kept in worst_first(report.objectives)]
    made: dict[str, Any] = {
        "page": page[-PAGE_CHARACTERS_MAX:],
        "start_us": report.start_us,
        "end_us": report.end_us,
        "verdict": headline,
        "good": good,
        "more": 0,
        "apart": sum(one.rows for one in report.apart),
        "silent": len(silent),
        "silences": [silences.line(report, *one) for one in silent[:SILENCES_MAX]],
        "objectives": told,
    }
    while told and len(text(made)) > OUTCOME_BYTES_MAX:
        told.pop()
        made["more"] += 1
    return made


def text(made: dict[str, Any]) -> str:
    """Return an outcome as one line of ASCII, so that its characters are its bytes."""
    return json.dumps(made, separators=(",", ":"), sort_keys=True) + "\n"


def worst_first(objectives: tuple[ObjectiveResult, ...]) -> list[ObjectiveResult]:
    """Return each objective once, as its worst group has it.

    The least left comes first; equals come in the file's order.

    An objective with too few measurements ranks worse than any good one.
    """
    return worst_of_each(objectives, _share)


def left(kept: ObjectiveResult) -> float | None:
    """Return the share of the budget that is left, below 0 where it is overspent.

    None where the budget is 0, and where too little was measured to say that it holds.
    """
    share = budget_left(kept)
    return None if share is None else round(share, 9)


def _share(kept: ObjectiveResult) -> tuple[float]:
    if state(kept) == UNKNOWN:
        return (UNKNOWN_SHARE,)
    share = left(kept)
    if share is None:
        return (1.0 if kept.holds else -math.inf,)
    return (share,)


def _told(kept: ObjectiveResult) -> dict[str, Any]:
    return {
        "name": kept.slo,
        "group": kept.group,
        "target": kept.target_percent,
        "attained": None if kept.attained is None else round(kept.attained, 9),
        "left": left(kept),
        "holds": kept.holds,
        "measured": kept.is_measured,
    }
