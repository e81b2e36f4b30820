"""The period and the groups, as functions of the times that were found: no Spark here."""

import argparse
import datetime as dt

import pytest

from slo_pipeline.jobs.period import Period
from slo_pipeline.jobs.survey import DAY_US, Span, Survey, add_now, known_groups, micros, now_of, period
from slo_pipeline.schemas.segments import AHEAD_MAX_S
from slo_pipeline.transforms.clocks import latest_us

NOON_US = 1_795_176_000_000_000
S = 1_000_000


def _span(group: str, day: int, seconds: int = 10) -> Span:
    begin_us = NOON_US + day * DAY_US
    return Span(group, begin_us, begin_us + seconds * S)


def test_the_period_is_from_the_first_row_to_the_end_of_the_last_ones_second() -> None:
    spans = [Span("orders", NOON_US + 7, NOON_US + 9 * S + 1), _span("payments", 0, 3)]
    assert period(spans, 30) == Period(NOON_US, NOON_US + 10 * S)
    assert period([], 30) is None


def test_rows_before_the_window_do_not_begin_the_period() -> None:
    spans = [_span("payments", -40), _span("orders", -3), _span("orders", 0)]
    assert period(spans, 30) == Period(NOON_US - 3 * DAY_US, NOON_US + 11 * S)


def test_a_day_with_rows_on_both_sides_of_the_windows_begin_begins_the_period_there() -> None:
    spans = [Span("orders", NOON_US - DAY_US, NOON_US + 20 * S), _span("orders", 1)]
    assert period(spans, 1) == Period(NOON_US + 11 * S, NOON_US + DAY_US + 11 * S)


def test_a_group_is_known_by_its_newest_row_and_also_by_rows_set_apart() -> None:
    found = Survey((_span("orders", 0), _span("orders", -9)), (_span("stock", -2), _span("", 0)))
    known = known_groups(found, [{"group": "payments"}, {"group": "orders"}, {"group": ""}])
    assert known == [
        {"group": "orders", "last_ts": NOON_US + 10 * S},
        {"group": "payments", "last_ts": None},
        {"group": "stock", "last_ts": NOON_US - 2 * DAY_US + 10 * S},
    ]


def test_now_is_an_option_in_utc_and_has_a_bound_of_its_own() -> None:
    parser = argparse.ArgumentParser()
    add_now(parser)
    when = now_of(parser.parse_args(["--now", "2026-11-20T14:00:00+02:00"]))
    assert (when.isoformat(), micros(when)) == ("2026-11-20T12:00:00+00:00", NOON_US)
    assert latest_us(NOON_US) == NOON_US + AHEAD_MAX_S * S
    assert now_of(parser.parse_args([])).tzinfo == dt.UTC
    with pytest.raises(SystemExit):
        parser.parse_args(["--now", "noon"])
