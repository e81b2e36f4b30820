"""A canary that was dead for days is named with its times, on the page and in both summaries."""

import json
from dataclasses import replace

import pytest

from slo_pipeline.reports.files.folder import summary
from slo_pipeline.reports.files.outcome import OUTCOME_BYTES_MAX, outcome, text
from slo_pipeline.reports.page.document import render
from slo_pipeline.reports.page.states import verdict
from slo_pipeline.reports.values.model import Report, StretchSeconds
from slo_pipeline.reports.values.silences import silences
from testkit.generators.sample_report import report

H = 3_600
END_US = 1_793_491_200_000_000  # 2026-11-01T00:00:00Z
START_US = END_US - 30 * 24 * H * 1_000_000
WIDTH_S = 6 * H


def _strip(first_day: int, measured: range, over: range) -> tuple[StretchSeconds, ...]:
    """Return stretches of 6 h from a day on; the days of `over` in `measured` are good."""
    return tuple(
        StretchSeconds(START_US + (day * 24 + hour) * H * 1_000_000, WIDTH_S if day in measured else 0, 0,
                0 if day in measured else WIDTH_S)
        for day in over if day >= first_day
        for hour in range(0, 24, 6)
    )  # fmt: skip


def _month(measured: range, first_day: int = 0, **changes: object) -> Report:
    """Return a report of 30 days in which orders was measured on some days, and payments on all of them."""
    shown = report()
    days = range(30)
    strips = (_strip(first_day, measured, days), _strip(0, days, days))
    groups = tuple(
        replace(
            group,
            start_us=strip[0].us,
            end_us=END_US,
            good_s=sum(one.good_s for one in strip),
            bad_s=0,
            unknown_s=sum(one.unknown_s for one in strip),
            availability=1.0,
            bad_seconds=(),
            strip=strip,
        )
        for group, strip in zip(shown.groups, strips, strict=True)
    )
    groups = (replace(groups[0], **changes), groups[1])
    return replace(
        shown, start_us=START_US, end_us=END_US, bucket_s=float(WIDTH_S), groups=groups, objectives=()
    )


@pytest.mark.parametrize(
    ("shown", "said", "state"),
    [
        (
            _month(range(3)),
            "orders: no send was measured from 2026-10-05 00:00:00 to 2026-11-01 00:00:00 UTC; "
            "3 d of 30 d measured",
            "Unknown: 3 d of 30 d measured in orders",
        ),
        (
            _month(range(25)),
            "orders: no send was measured from 2026-10-27 00:00:00 to 2026-11-01 00:00:00 UTC; "
            "25 d of 30 d measured",
            "Inside the error budget, 25 d of 30 d measured in orders",
        ),
        (
            _month(range(27, 30), first_day=27),
            "orders: no send was measured from 2026-10-02 00:00:00 to 2026-10-29 00:00:00 UTC; "
            "3 d of 30 d measured",
            "Inside the error budget, 3 d of 30 d measured in orders",
        ),
        (
            _month(range(0), good_s=0, unknown_s=0, strip=(), availability=None),
            "orders: no send was measured from 2026-10-02 00:00:00 to 2026-11-01 00:00:00 UTC; "
            "0 s of 30 d measured",
            "Unknown: 0 s of 30 d measured in orders",
        ),
    ],
    ids=["dead since day 3", "dead since day 25", "alive since day 27", "never alive"],
)
def test_a_canary_that_was_dead_for_days_is_named_with_its_times(
    shown: Report, said: str, state: str
) -> None:
    assert verdict(shown)[0] == state
    page = render(shown)
    first, missing = page[: page.index('class="tiles"')], page[page.index('id="missing"') :]
    assert f"<li>{said}.</li>" in first
    times = said.partition("from ")[2].partition(" UTC")[0]
    assert '>orders</td><td data-l="Sends">' in missing
    assert f'<td data-l="No send (UTC)">{times} (' in missing
    assert summary(shown)["silent"] == [said]
    told = outcome(shown, "x")
    assert (told["silent"], told["silences"]) == (1, [said])


def test_a_pause_of_less_than_hours_is_not_named() -> None:
    assert "no send was measured" not in render(report())
    assert outcome(report(), "x")["silences"] == summary(report())["silent"] == []


def test_a_group_that_is_not_judged_has_no_silence() -> None:
    shown = _month(range(3), is_judged=False)
    assert silences(shown, shown.groups[0]) == []


def test_the_longest_of_several_silences_is_named_and_the_table_has_all() -> None:
    whole = _month(range(30))
    strip = tuple(
        replace(one, good_s=0, unknown_s=WIDTH_S) if place in {8, 40, 41, 80} else one
        for place, one in enumerate(whole.groups[0].strip)
    )
    shown = replace(whole, groups=(replace(whole.groups[0], strip=strip), whole.groups[1]))
    (said,) = summary(shown)["silent"]
    assert said.startswith(
        "orders: no send was measured from 2026-10-12 00:00:00 to 2026-10-12 12:00:00 UTC and 2 other times"
    )
    assert "2026-10-04 00:00:00 to 2026-10-04 06:00:00 (6\u00a0h); 2026-10-12" in render(shown)


def test_many_silent_groups_with_long_names_fit_what_a_pod_may_say() -> None:
    one = _month(range(3)).groups[0]
    names = [f"{number:04}" + "注" * 200 for number in range(300)]
    shown = replace(_month(range(3)), groups=tuple(replace(one, name=name) for name in names))
    told = outcome(shown, "/" + "p" * 5_000)
    assert len(text(told).encode()) <= OUTCOME_BYTES_MAX
    assert told["silent"] == 300
    assert 0 < len(told["silences"]) < 300
    assert json.loads(text(told)) == told
    assert "297 more groups were not measured all the time" in render(shown)
