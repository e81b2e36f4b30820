"""A replica's settings: types, ranges, and a file with the keys of the command line."""

import re
from pathlib import Path
from typing import get_type_hints

import pytest

from ha_sidecar.common.options import ConfigError, read_file
from ha_sidecar.replica import config

KEYS = tuple(get_type_hints(config.ReplicaConfig))
TEXTS = {
    "cluster": "c",
    "group": "g",
    "controllers": "a:1;b:2;[::1]:3",
    "listen": "127.0.0.1:4",
    "store": "somewhere",
    "http": "127.0.0.1:5",
}


def test_settings_are_read_with_their_types() -> None:
    made = config.from_texts({**TEXTS, "mapped_file_bytes": "4096", "unclean_election": "true"})
    assert made.controllers == (("a", 1), ("b", 2), ("::1", 3))
    assert (made.mapped_file_bytes, made.unclean_election, made.address) == (4096, True, "127.0.0.1:4")
    assert not made.sync_from_last_file
    assert config.from_texts({**TEXTS, "sync_from_last_file": "true"}).sync_from_last_file
    assert not made.learner
    assert config.from_texts({**TEXTS, "learner": "true"}).learner


def test_every_setting_of_a_replica_is_in_the_reference() -> None:
    text = (Path(__file__).parents[4] / "docs" / "reference" / "replica.md").read_text()
    keys = {key.replace("_", "-") for key in KEYS}
    assert {key for key in keys if not re.search(rf"^\|[^|]*\b{key}\b[^|]*\|", text, re.MULTILINE)} == set()


@pytest.mark.parametrize(
    ("key", "text", "problem"),
    [
        ("cluster", "", "missing: cluster"),
        ("controllers", ";", "controllers"),
        ("listen", "nowhere", "host:port"),
        ("listen", "h:70000", "host:port"),
        ("mapped_file_bytes", "-5", "mapped-file-bytes"),
        ("mapped_file_bytes", "5", "at least 1024"),
        ("heartbeat_timeout_ms", "1500", "3 \\* heartbeat-interval-ms"),
        ("ack_after", "maybe", "ack-after"),
        ("on_divergence", "delete", "on-divergence"),
        ("unclean_election", "1", "true or false"),
        ("sync_from_last_file", "yes", "sync-from-last-file 'yes'"),
        ("learner", "maybe", "learner 'maybe'"),
        ("group", "a#b", "separates"),
    ],
)
def test_a_wrong_setting_is_named(key: str, text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        config.from_texts({**TEXTS, key: text})


def test_a_settings_file_has_the_keys_of_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "replica.conf"
    path.write_text("# a comment\n\nmapped-file-bytes = 4096\ngroup=g\n")
    assert read_file(path, KEYS) == {"mapped_file_bytes": "4096", "group": "g"}
    path.write_text("group = a\\u0041\u2028b\\\n", encoding="utf-8")
    assert read_file(path, KEYS) == {"group": "a\\u0041\u2028b\\"}, "without escapes"
    path.write_bytes(b"group=\xff\n")
    with pytest.raises(ConfigError, match="expected UTF-8"):
        read_file(path, KEYS)
    path.write_text("gruop=g\n")
    with pytest.raises(ConfigError, match=":1: 'gruop=g'"):
        read_file(path, KEYS)
