"""The settings of companion and handover, and how their commands refuse a lack of them."""

import pytest

from ha_sidecar import cli
from ha_sidecar.common.options import ConfigError
from ha_sidecar.companion import config as companion_config


def test_settings_of_companion_and_handover() -> None:
    texts = {
        "cluster": "c",
        "group": "g",
        "broker": "h:1",
        "controllers": "a:1;b:2",
        "name_servers": "n:3",
        "deadline_s": "9",
    }
    made = companion_config.from_texts(texts, serves=False)
    assert (made.broker, made.name_servers, made.deadline_s) == (("h", 1), (("n", 3),), 9)
    for changed, problem in (
        ({}, "missing: http"),
        ({"http": "h:2", "poll_interval_ms": "10"}, "poll-interval-ms"),
        ({"http": "h:2", "deadline_s": "0"}, "deadline-s"),
        ({"http": "h:2", "hold_port": "10910"}, "hold-port 10910: only with hold-ms"),
        ({"http": "h:2", "hold_ms": "500", "hold_port": "65536"}, "hold-port 65536: 0 to 65535"),
        ({"http": "h:2", "controllers": ""}, "missing: controllers"),
        ({"http": "h:2", "group": ""}, "missing: group"),
    ):
        with pytest.raises(ConfigError, match=problem):
            companion_config.from_texts({**texts, **changed}, serves=True)


def test_the_commands_refuse_missing_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["companion", "--cluster", "c"]) == 2
    assert cli.main(["handover", "--cluster", "c"]) == 2
    assert "missing: group" in capsys.readouterr().err
