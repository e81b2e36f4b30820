"""Every scenario text of the project is replayed, and what happens is what the text says."""

from pathlib import Path

import pytest

from testkit.raft_scenarios.runner import ScenarioVerdict, replay, texts_under

TEXTS = texts_under(Path(__file__).parent.parent / "testdata" / "raft")


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_the_core_does_what_the_text_says(path: Path) -> None:
    result = replay(path)
    assert result.verdict is ScenarioVerdict.PASSED, f"\n{result.report}"


def test_each_text_opens_with_a_sentence_of_purpose() -> None:
    assert len(TEXTS) >= 10
    for path in TEXTS:
        assert path.read_text(encoding="utf-8").startswith("# "), path.name


def test_a_difference_is_found_and_shown(tmp_path: Path) -> None:
    path = tmp_path / "wrong.txt"
    path.write_text("add-nodes 1 voters=(1) index=5\n----\nok\n\ncampaign 1\n----\nnothing of the kind\n")
    result = replay(path)
    assert result.verdict is ScenarioVerdict.FAILED
    assert "-nothing of the kind" in result.report
    assert "wrong.txt:5: campaign 1" in result.report


def test_logger_lines_need_not_match(tmp_path: Path) -> None:
    path = tmp_path / "logged.txt"
    path.write_text("add-nodes 1 voters=(1) index=5\n----\nINFO 1 became follower at term 0\n  DEBUG more\n")
    assert replay(path).verdict is ScenarioVerdict.PASSED


def test_a_text_that_needs_asynchronous_storage_is_not_counted_as_passed(tmp_path: Path) -> None:
    path = tmp_path / "async.txt"
    path.write_text("add-nodes 1 voters=(1) index=5 async-storage-writes=true\n----\nok\n")
    result = replay(path)
    assert result.verdict is ScenarioVerdict.NOT_APPLICABLE
    assert result.report == "not applicable: async storage"


def test_a_rewritten_text_passes(tmp_path: Path) -> None:
    path = tmp_path / "again.txt"
    path.write_text(
        "# Purpose.\n\nadd-nodes 1 voters=(1) index=5\n----\nwrong\n\nraft-state\n----\nwrong\n\n# End.\n"
    )
    path.write_text(replay(path).rewritten)
    assert replay(path).verdict is ScenarioVerdict.PASSED
    assert path.read_text() == (
        "# Purpose.\n\nadd-nodes 1 voters=(1) index=5\n----\nok\n\n"
        "raft-state\n----\n1: StateFollower (Voter) Term:0 Lead:0\n\n# End.\n"
    )
