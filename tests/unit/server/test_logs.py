"""Log lines: one JSON object each, of bounded length whatever a stranger sends."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from controller_core.server.logs import JsonFormatter, bind


@pytest.fixture
def lines() -> Iterator[tuple[logging.Logger, io.StringIO]]:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(JsonFormatter({"node": "n0"}))
    logger = logging.Logger("controller_core.test")
    logger.addHandler(handler)
    yield logger, written
    logger.removeHandler(handler)


@pytest.mark.parametrize("value", ["z" * 50_000, ["z" * 50_000], {"name": "z" * 50_000}, b"z" * 50_000])
def test_a_long_value_is_cut_and_its_length_told(
    lines: tuple[logging.Logger, io.StringIO], value: object
) -> None:
    logger, written = lines
    logger.warning("a setting keeps its value", extra=bind(error=value))
    line = written.getvalue()
    assert len(line) < 2_500
    assert json.loads(line)["error"].startswith(("z", '["z', '{"name": "z', "\"b'z"))
    assert "characters)" in line


def test_short_values_of_every_kind_stay_as_they_are(lines: tuple[logging.Logger, io.StringIO]) -> None:
    logger, written = lines
    logger.info("elected", extra=bind(epoch=4, members=[1, 2], master=None, clean=True, lag_s=0.5))
    line = json.loads(written.getvalue())
    assert line | {"epoch": 4, "members": [1, 2], "master": None, "clean": True, "lag_s": 0.5} == line
    assert (line["node"], line["message"], line["level"]) == ("n0", "elected", "info")


def test_a_value_is_encoded_once_however_it_is_nested(lines: tuple[logging.Logger, io.StringIO]) -> None:
    class Member:
        times = 0

        def __str__(self) -> str:
            self.times += 1
            return "m1"

    member = Member()
    logger, written = lines
    logger.info("elected", extra=bind(members=[{"name": member}]))
    assert json.loads(written.getvalue())["members"] == [{"name": "m1"}]
    assert member.times == 1
