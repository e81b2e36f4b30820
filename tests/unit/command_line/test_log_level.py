"""A process changes its least level while it runs, by a file."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller_core.command_line.log_level import LEVELS, LogLevelFile
from testkit.tree.files import name_of, tracked

NAME = "controller_core.command_line.log_level"


@pytest.fixture(autouse=True)
def _root_level() -> Iterator[None]:
    """Start at info, and give the root logger back as it was."""
    root = logging.getLogger()
    before = root.level
    root.setLevel(logging.INFO)
    yield
    root.setLevel(before)


def level() -> int:
    """Return the level of the root logger."""
    return logging.getLogger().level


@pytest.mark.parametrize("word", LEVELS)
def test_the_file_gives_the_level(tmp_path: Path, word: str) -> None:
    (tmp_path / "level").write_text(f"{word.upper()}\n")
    LogLevelFile(tmp_path / "level", "info").refresh()
    assert level() == logging.getLevelNamesMapping()[word.upper()]


def test_without_a_file_it_is_the_level_of_the_start_again(tmp_path: Path) -> None:
    file = LogLevelFile(tmp_path / "level", "info")
    file.refresh()
    assert level() == logging.INFO
    (tmp_path / "level").write_text("error")
    file.refresh()
    assert level() == logging.ERROR
    (tmp_path / "level").unlink()
    file.refresh()
    assert level() == logging.INFO


@pytest.mark.parametrize("text", [b"loud", b"", b"\xff\xfe", b"debug" + b"x" * 100])
def test_a_wrong_word_changes_nothing_and_is_logged_once(
    tmp_path: Path, text: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "level").write_bytes(text)
    file = LogLevelFile(tmp_path / "level", "info")
    for _ in range(3):
        file.refresh()
    assert level() == logging.INFO
    assert len(caplog.records) == 1
    assert "the log level stays info" in caplog.text


def test_a_directory_in_place_of_the_file_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    LogLevelFile(tmp_path, "info").refresh()
    assert "cannot read the log level" in caplog.text


@pytest.mark.parametrize(("first", "second"), [("debug", "error"), ("error", "debug"), ("warning", "error")])
def test_each_change_is_logged_whatever_the_levels_are(
    tmp_path: Path, first: str, second: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = LogLevelFile(tmp_path / "level", "info")
    for word in (first, second):
        (tmp_path / "level").write_text(word)
        file.refresh()
    assert [one.getMessage() for one in caplog.records if one.name == NAME] == [
        f"the log level is now {word}" for word in (first, second)
    ]


def test_every_long_running_program_follows_the_file() -> None:
    callers = {
        name_of(path): path.read_text().count("    follow_log_level(")
        for path in tracked("*.py")
        if not name_of(path).startswith("tests/") and "    follow_log_level(" in path.read_text()
    }
    assert callers == {
        "controller_core/controller_core/server/cli/route_front.py": 1,
        "controller_core/controller_core/server/serve.py": 1,
        "ha_sidecar/ha_sidecar/cli.py": 3,  # companion, log replica, node agent
        "operator/rocketmq_operator/cli.py": 1,
        "spark/slo_pipeline/canary/command.py": 1,
        "spark/slo_pipeline/collect/command.py": 1,
    }
