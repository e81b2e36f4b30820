"""The state of an objective: the first screen never shows a better state than the details below it."""

from dataclasses import replace

import pytest

from slo_pipeline.reports.files.folder import summary
from slo_pipeline.reports.page import states
from slo_pipeline.reports.page.document import render
from slo_pipeline.reports.values.model import ObjectiveResult, Report
from testkit.generators.sample_report import report

US_PER_DAY = 86_400_000_000


def _objective(**changes: object) -> ObjectiveResult:
    return replace(report().objectives[0], **changes)


def _report(*objectives: ObjectiveResult) -> Report:
    return replace(report(), objectives=objectives)


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, states.KEPT),
        ({"burn_1h": 1.0}, states.KEPT),
        ({"burn_1h": 14.4}, states.BURNING),
        ({"good": 59, "bad": 0, "slice_s": 1}, states.UNKNOWN),
        ({"good": 59, "bad": 0, "slice_s": 1, "burn_1h": 14.4}, states.UNKNOWN),
        ({"good": 0, "bad": 1_297, "slice_s": 1, "unknown": 9_999}, states.OVERSPENT),
        ({"good": 300, "bad": 0, "slice_s": 1, "unknown": 301}, states.UNKNOWN),
        ({"good": 300, "bad": 0, "slice_s": 1, "unknown": 300}, states.KEPT),
        ({"bad": 1_297}, states.OVERSPENT),
        ({"bad": 1_297, "burn_1h": 14.4}, states.OVERSPENT),
        ({"good": 0, "bad": 0, "unknown": 600, "attained": None}, states.UNKNOWN),
        ({"target_percent": 100.0, "budget": 0.0, "bad": 0, "burn_1h": None}, states.KEPT),
        ({"target_percent": 100.0, "budget": 0.0, "bad": 1, "burn_1h": None}, states.OVERSPENT),
    ],
)
def test_an_objective_has_the_state_that_its_numbers_say(changes: dict[str, object], state: str) -> None:
    assert states.state(_objective(**changes)) == state


@pytest.mark.parametrize(
    ("changes", "headline", "state"),
    [
        ({}, "Inside the error budget", "kept"),
        ({"burn_1h": 14.4}, "Burning the error budget too fast", "burning"),
        ({"bad": 1_297}, "Outside the error budget", "overspent"),
        ({"good": 0, "bad": 0}, "Unknown", "unknown"),
    ],
)
def test_the_headline_is_that_of_the_worst_objective(
    changes: dict[str, object], headline: str, state: str
) -> None:
    shown = _report(_objective(), _objective(slo="send-latency", **changes))
    said, good = states.verdict(shown)
    assert said.startswith(headline)
    assert good == (state == states.KEPT)
    page = render(shown)
    first = page[page.index('class="verdict"') : page.index('class="lead"')]
    assert headline in first
    assert f"<title>{state}</title>" in first
    assert ("calm" in page[page.index('class="tiles"') : page.index("The last failover")]) == good


def test_a_report_in_which_nothing_was_judged_is_unknown_and_not_kept() -> None:
    empty = _objective(good=0, bad=0, attained=None)
    groups = tuple(replace(group, good_s=0, bad_s=0) for group in report().groups)
    assert states.verdict(replace(_report(empty), groups=groups)) == ("Nothing was measured", False)


def test_each_objective_is_told_of_its_worst_group_and_the_worst_comes_first() -> None:
    told = states.worst_of_each(
        (
            _objective(slo="calm", group="a"),
            _objective(slo="mixed", group="a"),
            _objective(slo="mixed", group="b", burn_1h=2.0),
            _objective(slo="mixed", group="c", burn_1h=9.0),
            _objective(slo="spent", group="a", bad=2_000),
        )
    )
    assert [(kept.slo, kept.group) for kept in told] == [("spent", "a"), ("mixed", "c"), ("calm", "a")]


def test_a_budget_of_time_lasts_what_is_left_of_the_window_over_the_burn() -> None:
    shown = report()
    seen = _objective(good=0, bad=648, burn_1h=10.0)
    whole = replace(shown, end_us=shown.start_us + 648_000_000)
    lasts = states.exhaustion_us(whole, seen)
    assert lasts == pytest.approx(30 * US_PER_DAY * 0.5 / 10, rel=1e-6)
    assert states.lasts(whole, seen) == "spent in 1\u00a0d 12\u00a0h"
    assert states.lasts(whole, replace(seen, burn_1h=0.0)) == "over 30\u00a0d"
    assert states.lasts(whole, replace(seen, bad=1_297)) == "spent"


def test_windows_longer_than_the_data_are_marked_and_the_mark_is_explained() -> None:
    page = render(report())
    assert "Burn 3 d*" in page
    assert "* The window is longer than the data, which spans 10\u00a0min" in page
    month = replace(report(), start_us=report().end_us - 30 * US_PER_DAY)
    assert "Burn 3 d*" not in render(month)
    assert "longer than the data" not in render(month)


def test_the_first_screen_says_how_much_of_the_window_was_measured_and_what_would_have_paged() -> None:
    page = render(report())
    first = page[page.index('class="verdict"') : page.index("The last failover")]
    assert "9 min 54 s of 30 d measured in payments" in first
    assert "1 page" in first


def test_nothing_on_the_first_screen_is_green_where_a_part_is_unknown() -> None:
    shown = report()
    lag = _objective(slo="replication-lag", good=9, bad=0, unknown=51, slice_s=10)
    dark = replace(shown.groups[1], good_s=0, bad_s=0, unknown_s=0)
    for made, said in (
        (_report(_objective(), lag), "Unknown: too little of replication-lag measured"),
        (replace(shown, groups=(shown.groups[0], dark)), "Unknown: 0 s of 30 d measured in payments"),
    ):
        assert states.verdict(made) == (said, False)
        page = render(made)
        first = page[page.index('class="verdict"') : page.index("The last failover")]
        assert "<title>unknown</title>" in first
        assert 'class="calm"' not in first


@pytest.mark.parametrize("changes", [{"good_s": 0, "bad_s": 2}, {"good_s": 0, "bad_s": 0, "unknown_s": 0}])
def test_what_is_overspent_is_said_where_too_little_was_measured(changes: dict[str, int]) -> None:
    groups = tuple(replace(group, **changes) for group in report().groups)
    shown = replace(_report(_objective(bad=1_297)), groups=groups)
    assert states.overall(shown) == states.OVERSPENT
    assert states.verdict(shown)[0].startswith("Outside the error budget, ")
    assert states.verdict(replace(shown, groups=())) == (
        "Outside the error budget, 0 s of 30 d measured",
        False,
    )


def test_a_group_that_is_not_judged_does_not_make_the_report_unknown() -> None:
    shown = report()
    old = replace(shown.groups[1], good_s=0, bad_s=0, unknown_s=0, is_judged=False)
    assert states.overall(replace(shown, groups=(shown.groups[0], old))) == states.KEPT


def test_no_share_of_a_budget_is_told_of_what_is_unknown() -> None:
    unknown = _objective(group="payments", good=1, bad=0, slice_s=1, burn_1h=14.4)
    assert states.budget_left(unknown) is None
    assert states.lasts(report(), unknown) == "–"
    listed = summary(_report(_objective(), unknown))
    assert (listed["state"], listed["good"], listed["measured"]) == ("unknown", False, "9 min 54 s of 30 d")
    assert listed["budget_of"] == "write-availability of orders"
