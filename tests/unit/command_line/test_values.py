"""Durations have a unit, lists are separated by commas; an error names the option and the value."""

import argparse

import pytest

from controller_core.command_line.program import MisuseError, Parser
from controller_core.command_line.values import duration, hosts, names, positive_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("500ms", 0.5),
        ("5s", 5.0),
        ("1.5s", 1.5),
        ("2m", 120.0),
        ("1h", 3_600.0),
        ("1d", 86_400.0),
        ("0s", 0.0),
    ],
)
def test_a_duration_is_a_number_with_a_unit(text: str, seconds: float) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "5", "s", "5 s", "-5s", "5S", "1e3s", "nans", "infs", "5sec", "\u0665s", "5m5s"]
)
def test_any_other_duration_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="expected a number with a unit"):
        duration(text)


def test_a_duration_that_must_be_positive_is_not_0() -> None:
    assert positive_duration("1ms") == 0.001
    with pytest.raises(argparse.ArgumentTypeError, match=r"'0ms' \(expected more than 0\)"):
        positive_duration("0ms")


def test_an_error_names_the_option_and_the_value() -> None:
    parser = Parser()
    parser.add_argument("--timeout", type=duration)
    with pytest.raises(MisuseError, match="argument --timeout: invalid duration '60' "):
        parser.parse_args(["--timeout", "60"])


def test_a_list_is_separated_by_commas_and_may_be_repeated() -> None:
    parser = Parser()
    parser.add_argument("--by", action="extend", type=names, default=[])
    assert parser.parse_args(["--by", "a, b,", "--by=c"]).by == ["a", "b", "c"]
    assert parser.parse_args([]).by == []


def test_addresses_may_have_the_semicolons_of_rocketmq() -> None:
    assert hosts("a:1;b:2") == hosts("a:1,b:2") == hosts(" a:1; ,b:2;") == ["a:1", "b:2"]


@pytest.mark.parametrize("text", ["", ",", " , "])
def test_an_empty_list_is_refused(text: str) -> None:
    for parse in (names, hosts):
        with pytest.raises(argparse.ArgumentTypeError, match="expected values separated by commas"):
            parse(text)
