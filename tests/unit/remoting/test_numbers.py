"""Numbers that somebody else wrote as text."""

import pytest

from controller_core.remoting.numbers import NUMBER_DIGITS_MAX, signed_number, whole_number


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("007", 7), (str(2**63 - 1), 2**63 - 1)])
def test_ascii_digits_are_a_number(text: str, number: int) -> None:
    assert whole_number(text) == number


@pytest.mark.parametrize("text", ["", "-1", "--1", "+1", " 1", "1_000", "1.0", "²", "١", "9" * 5_000])
def test_any_other_text_is_none(text: str) -> None:
    assert whole_number(text) is None


def test_a_longer_number_than_wanted_is_none() -> None:
    assert whole_number("9" * NUMBER_DIGITS_MAX) is not None
    assert whole_number("9" * (NUMBER_DIGITS_MAX + 1)) is None
    assert (whole_number("123", 3), whole_number("1234", 3)) == (123, None)


@pytest.mark.parametrize(
    ("text", "number"), [("7", 7), ("-7", -7), ("-0", 0), ("--7", None), ("-", None), ("+7", None)]
)
def test_a_signed_number_has_one_minus_sign_or_none(text: str, number: int | None) -> None:
    assert signed_number(text) == number
