"""Strangers' JSON: any text is a value within the bounds, or a `JsonError`."""

import contextlib
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_core import bounded_json, limits
from controller_core.bounded_json import JsonError

DEEPEST = limits.JSON_DEPTH_MAX
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "not JSON"),
        ("no JSON", "not JSON"),
        (b"\xff", "not JSON"),
        (b"\xed\xa0\x80", "not JSON"),
        ("[" * 100_000, "too deeply"),
        ("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1), "too deeply"),
        ('{"a":' * (DEEPEST + 1) + "1" + "}" * (DEEPEST + 1), "too deeply"),
        ("9" * 5_000, "64 bits"),
        (str(2**64), "64 bits"),
        (str(-(2**63) - 1), "64 bits"),
        ("1e400", "the number 1e400"),
        ("NaN", "NaN"),
        ("[-Infinity]", "Infinity"),
        ('{"brokerId": 1, "x": 2, "brokerId": 3}', "'brokerId' comes twice"),
        (r'"\ud800"', "half a surrogate pair"),
        (r'{"\uDC00": 1}', "half a surrogate pair"),
        ('"' + "x" * 100 + '"', "at most 64"),
    ],
)
def test_a_text_beyond_a_bound_is_refused_with_the_reason(text: str | bytes, problem: str) -> None:
    with pytest.raises(JsonError, match=problem):
        bounded_json.decode(text, 64 if problem == "at most 64" else limits.JSON_BYTES_MAX)


@pytest.mark.parametrize("text", ["[]", "3", "null", "[" * 100_000])
def test_a_value_that_is_not_an_object_is_refused(text: str) -> None:
    with pytest.raises(JsonError, match=r"expected an object|too deeply"):
        bounded_json.decode_object(text)


def test_the_deepest_allowed_text_is_read() -> None:
    value = bounded_json.decode("[" * DEEPEST + "]" * DEEPEST)
    bounded_json.check_depth(value)
    with pytest.raises(JsonError):
        bounded_json.check_depth([value])


def test_whole_surrogate_pairs_are_read() -> None:
    assert bounded_json.decode(rb'"\ud83d\ude00"') == "😀"


def test_many_names_of_which_one_comes_twice_take_linear_time() -> None:
    text = "{" + ",".join(f'"{number}":0' for number in range(100_000)) + ',"99999":1}'
    started_s = time.process_time()
    with pytest.raises(JsonError, match="comes twice"):
        bounded_json.decode(text)
    assert time.process_time() - started_s < 1.0


@given(VALUES)
def test_every_value_within_the_bounds_is_read_as_it_was_written(value: object) -> None:
    for text in (json.dumps(value), json.dumps(value).encode(), bytearray(json.dumps(value).encode())):
        assert bounded_json.decode(text) == value


@given(st.binary() | st.text())
def test_any_other_text_is_an_error_and_nothing_else(text: bytes | str) -> None:
    with contextlib.suppress(JsonError):
        bounded_json.decode(text)
