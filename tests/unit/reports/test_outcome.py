"""The outcome of a run for the job that started it.

The worst comes first, each objective once, within the length of a pod's message.
"""

import json
from dataclasses import replace

from slo_pipeline.reports.files.outcome import OUTCOME_BYTES_MAX, outcome, text
from slo_pipeline.reports.values.model import ObjectiveResult
from testkit.generators.sample_report import report

PAGE = "/data/reports/weekly/index.html"


def _kept(slo: str, group: str, *, bad: int, budget: float) -> ObjectiveResult:
    return ObjectiveResult(
        slo, "says", "", group, 99.0, 1_000, bad, 0, 1_000 / (1_000 + bad), budget, None, None
    )


def test_the_outcome_has_the_numbers_of_the_page() -> None:
    told = outcome(report(), PAGE)
    assert (told["page"], told["verdict"], told["good"], told["more"]) == (
        PAGE,
        "Inside the error budget, 9 min 54 s of 30 d measured in payments",
        True,
        0,
    )
    written = {one["name"]: one for one in told["objectives"]}
    assert written["write-availability"] == {
        "name": "write-availability",
        "group": "orders",
        "target": 99.95,
        "attained": 0.998333333,
        "left": 0.999228395,
        "holds": True,
        "measured": True,
    }
    assert (written["durability"]["left"], written["durability"]["holds"]) == (None, True)


def test_each_objective_is_told_once_of_the_group_with_the_least_left() -> None:
    objectives = (
        _kept("writes", "orders", bad=1, budget=10.0),
        _kept("writes", "payments", bad=12, budget=10.0),
        _kept("lag", "orders", bad=5, budget=10.0),
    )
    told = outcome(replace(report(), objectives=objectives), PAGE)["objectives"]
    assert [(one["name"], one["group"], one["left"], one["holds"]) for one in told] == [
        ("writes", "payments", -0.2, False),
        ("lag", "orders", 0.5, True),
    ]


def test_a_promise_of_everything_that_is_broken_is_the_worst() -> None:
    objectives = (
        _kept("writes", "orders", bad=1_000, budget=10.0),
        _kept("durability", "orders", bad=1, budget=0.0),
        _kept("elections", "orders", bad=0, budget=0.0),
    )
    told = outcome(replace(report(), objectives=objectives), PAGE)["objectives"]
    assert [(one["name"], one["holds"]) for one in told] == [
        ("durability", False),
        ("writes", False),
        ("elections", True),
    ]


def test_what_was_not_measured_has_no_attained_share() -> None:
    unknown = replace(_kept("writes", "orders", bad=0, budget=10.0), good=0, attained=None)
    (told,) = outcome(replace(report(), objectives=(unknown,)), PAGE)["objectives"]
    assert (told["attained"], told["left"], told["holds"]) == (None, None, True)
    assert not told["measured"]


def test_the_best_are_left_out_and_counted_where_all_do_not_fit() -> None:
    objectives = tuple(
        _kept(f"{number:02d}-" + "n" * 60, "g" * 63, bad=number, budget=100.0) for number in range(64)
    )
    told = outcome(replace(report(), objectives=objectives), "/" + "p" * 5_000)
    assert len(text(told).encode()) <= OUTCOME_BYTES_MAX
    assert told["objectives"][0]["name"].startswith("63-")
    assert told["more"] + len(told["objectives"]) == 64
    assert told["more"] > 0
    assert json.loads(text(told)) == told
