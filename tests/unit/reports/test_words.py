"""Numbers in words: nothing spent reads as nothing, nothing short of whole reads as whole."""

import pytest

from slo_pipeline.reports.values import words


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "–"), (0.0, "0 ms"), (4.13, "4.1 ms"), (380.4, "380 ms"), (999.4, "999 ms"), (999.6, "1 s"),
        (3_150.2, "3.15 s"), (60_000, "1 min"), (125_000, "2 min 5 s"),
    ],
)  # fmt: skip
def test_durations_change_their_unit_where_people_do(value: float | None, said: str) -> None:
    assert words.ms(value).replace(words.NBSP, " ") == said


@pytest.mark.parametrize(
    ("share", "said"), [(0.999996, "99.999 %"), (1.0, "100 %"), (0.99333, "99.333 %"), (-0.5, "-50 %")]
)
def test_availability_is_cut_and_never_rounded_up(share: float, said: str) -> None:
    assert words.percent(share).replace(words.NBSP, " ") == said


@pytest.mark.parametrize(
    ("share", "said"), [(0.0, "0 %"), (0.00001, "< 0.1 %"), (0.004, "0.4 %"), (1.5, "150 %")]
)
def test_something_spent_is_never_nothing(share: float, said: str) -> None:
    assert words.spent(share).replace(words.NBSP, " ") == said


@pytest.mark.parametrize(
    ("value", "said"), [(0, "0 B"), (512, "512 B"), (14_336, "14.3 kB"), (3_800_000, "3.8 MB")]
)
def test_bytes_have_decimal_prefixes(value: float, said: str) -> None:
    assert words.octets(value).replace(words.NBSP, " ") == said


def test_a_period_of_one_day_names_the_day_once() -> None:
    day_us = 86_400_000_000
    assert words.period(0, 600_000_000).count("1970") == 1
    assert words.period(0, 3 * day_us).count("1970") == 2
