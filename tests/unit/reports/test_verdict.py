"""The headline: only enough measured time is good news, and bad news needs none."""

from dataclasses import replace

import pytest

from slo_pipeline.reports.files.outcome import outcome
from slo_pipeline.reports.page.document import render
from slo_pipeline.reports.page.states import verdict
from slo_pipeline.reports.values.measured import MEASURED_S_MIN, MEASURED_SHARE_MIN
from slo_pipeline.reports.values.model import GroupReport, ImpossibleTimes, Report
from slo_pipeline.reports.values.words import span
from testkit.generators.sample_report import report

DAY_US = 86_400_000_000
UNMEASURED = {
    "good_s": 0, "bad_s": 0, "unknown_s": 0, "availability": None, "latency": None, "histogram": (),
    "series": (), "lag": (), "bad_seconds": (), "strip": (), "durability": None,
}  # fmt: skip


def _of(*changes: dict[str, object]) -> Report:
    """Return the report with these changes of its groups, in their order."""
    shown = report()
    return replace(
        shown, groups=tuple(replace(group, **one) for group, one in zip(shown.groups, changes, strict=True))
    )


def _only(**changes: object) -> Report:
    shown = report()
    return replace(shown, groups=(replace(shown.groups[0], bad_seconds=(), **changes),))


@pytest.mark.parametrize(
    ("good_s", "unknown_s", "said"),
    [
        (1, 0, "Unknown: 1 s of 30 d measured"),
        (10, 30 * 86_400 - 10, "Unknown: 10 s of 30 d measured"),
        (MEASURED_S_MIN - 1, 0, "Unknown: 59 s of 30 d measured"),
        (3_600, 3_601, "Unknown: 1 h of 30 d measured"),
        (MEASURED_S_MIN, 0, "Inside the error budget, 1 min of 30 d measured"),
        (3_600, 3_600, "Inside the error budget, 1 h of 30 d measured"),
    ],
)
def test_too_little_measured_time_is_unknown_and_the_headline_says_how_much_it_was(
    good_s: int, unknown_s: int, said: str
) -> None:
    assert MEASURED_SHARE_MIN == 0.5
    assert verdict(_only(good_s=good_s, bad_s=0, unknown_s=unknown_s)) == (said, said.startswith("Inside"))


def test_an_overspent_budget_is_bad_news_however_little_was_measured() -> None:
    said, good = verdict(replace(_only(good_s=0, bad_s=2, unknown_s=0), budget_s=1.0))
    assert (said, good) == ("Outside the error budget, 2 s of 30 d measured", False)


def test_a_group_that_was_not_measured_makes_the_verdict_unknown_and_is_listed_as_such() -> None:
    shown = _of({}, UNMEASURED)
    assert verdict(shown) == ("Unknown: 0 s of 30 d measured in payments", False)
    page = render(shown)
    row = page[page.index('id="availability"') :]
    assert ">payments</td>" in row[: row.index("</table>")]
    missing = page[page.index('id="missing"') :]
    assert '>payments</td><td data-l="Sends">none in the period</td>' in missing
    assert "Seconds of payments" not in page


def test_a_group_whose_last_row_is_older_than_the_period_is_listed_and_not_judged() -> None:
    shown = _of({}, UNMEASURED | {"is_judged": False, "last_us": report().start_us - 40 * DAY_US})
    assert verdict(shown) == ("Inside the error budget, 10 min of 30 d measured in orders", True)
    assert '>payments</td><td data-l="Sends">none in the period: not judged</td>' in render(shown)


def test_rows_set_apart_are_told_with_their_clock_their_number_and_how_far_off_they_are() -> None:
    shown = report()
    ahead = ImpossibleTimes(
        "probe_ops", "canary/2", "payments", True, 50, shown.end_us + DAY_US, shown.end_us + 40 * DAY_US
    )
    behind = ImpossibleTimes("events", "controller/<1>", "", False, 1, 0, 0)
    page = render(replace(shown, apart=(ahead, behind)))
    missing = page[page.index('id="missing"') :]
    assert "51 rows cannot be of the time that they say" in missing
    cells = (("Clock", "canary/2"), ("Kind", "probe_ops"), ("Group", "payments"))
    assert "".join(f'<td data-l="{head}">{cell}</td>' for head, cell in cells) in missing
    assert "up to 40\u00a0d after the period" in missing
    assert "1970-01-01 00:00:00" in missing
    assert outcome(replace(shown, apart=(ahead, behind)), "x")["apart"] == 51


def test_a_time_that_no_calendar_has_is_shown_as_the_nearest_that_one_has() -> None:
    wild = ImpossibleTimes("samples", "a", "", True, 1, 2**63 - 1, 2**63 - 1)
    assert "9999-12-31 23:59:59" in render(replace(report(), apart=(wild,)))


def test_absent_kinds_are_named_and_a_whole_report_says_that_nothing_is_missing() -> None:
    whole = _of({}, {"lag": report().groups[0].lag})
    assert "Nothing is missing, and no row was set apart." in render(whole)
    page = render(replace(whole, absent=("samples", "events")))
    assert "Nothing was scraped" in page
    assert "No event of the controllers was recorded" in page
    assert "No send was recorded" not in page


def test_the_worst_told_of_an_objective_is_the_group_of_which_nothing_is_known() -> None:
    shown = report()
    kept = shown.objectives[0]
    unknown = replace(kept, group="payments", good=0, bad=0, unknown=0, attained=None)
    told = outcome(replace(shown, objectives=(kept, unknown)), "x")["objectives"]
    assert [(one["group"], one["left"], one["holds"], one["measured"]) for one in told] == [
        ("payments", None, True, False)
    ]
    overspent = replace(kept, group="stock", bad=5_000)
    told = outcome(replace(shown, objectives=(kept, unknown, overspent)), "x")["objectives"]
    assert [one["group"] for one in told] == ["stock"]


def test_a_stretch_of_time_is_said_in_its_two_largest_units() -> None:
    assert [span(one).replace("\u00a0", " ") for one in (0, 10, 594, 3_600, 25_920, 2_592_000, 90_061)] == [
        "0 s", "10 s", "9 min 54 s", "1 h", "7 h 12 min", "30 d", "1 d 1 h",
    ]  # fmt: skip


def test_a_group_is_measured_by_its_own_seconds() -> None:
    group: GroupReport = replace(report().groups[0], good_s=100, bad_s=0, unknown_s=101)
    assert not group.is_measured
    assert replace(group, unknown_s=100).is_measured
