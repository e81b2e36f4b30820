"""JSON of others: a text of any shape is a value or a ValueError."""

import pytest

from rocketmq_operator.plan.common.json_text import parse_json, parse_json_object
from rocketmq_operator.plan.report.observed import parse_summary

DEEP = "[" * 100_000
HUGE = "9" * 5_000


@pytest.mark.parametrize("text", ["", "no JSON", DEEP, HUGE, b"\xff"])
def test_a_text_that_is_not_json_is_refused(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_json(text)


@pytest.mark.parametrize("text", ["[]", "3", "null", DEEP])
def test_a_value_that_is_not_an_object_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected an object|too deeply"):
        parse_json_object(text)


def test_an_object_is_returned() -> None:
    assert parse_json_object(b'{"a": [1]}') == {"a": [1]}


@pytest.mark.parametrize("text", [DEEP, '{"verdict": ' + DEEP, "[]"])
def test_a_summary_that_is_not_an_object_is_none(text: str) -> None:
    assert parse_summary(text) is None
