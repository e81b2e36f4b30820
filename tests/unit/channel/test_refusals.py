"""A refusal keeps the peer's words, bounded, and is logged once."""

import logging

import pytest

from controller_core.channel.refusals import REMARK_CHARS_MAX, RefusalLog, refusal
from controller_core.remoting.command import RemotingCommand

_log = logging.getLogger("asking")
REQUEST = RemotingCommand.request(26)


def test_a_refusal_has_code_and_remark() -> None:
    answer = RemotingCommand.response_to(REQUEST, 16, remark="username cannot be null")
    assert (
        refusal("GET_BROKER_CONFIG", answer) == "GET_BROKER_CONFIG was answered 16: username cannot be null"
    )


@pytest.mark.parametrize("remark", ["x" * 100_000, "a\nb\x1b[31m" * 10_000, "\u2028" * 1_000])
def test_a_remark_is_one_printable_line_of_bounded_length(remark: str) -> None:
    text = refusal("26", RemotingCommand.response_to(REQUEST, 16, remark=remark))
    assert text.isprintable()
    assert len(text) <= len("26 was answered 16: ") + REMARK_CHARS_MAX


def test_a_refusal_without_a_remark_is_told_too() -> None:
    assert refusal("26", RemotingCommand.response_to(REQUEST, 1)) == "26 was answered 1: "


def test_the_same_words_of_a_peer_are_logged_once_and_anew_after_an_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    refusals = RefusalLog(_log)
    for words in ("no", "no", "never", "never"):
        refusals.refused("a:1", words)
    refusals.refused("b:1", "never")
    assert refusals.words("a:1") == "never"
    with caplog.at_level(logging.INFO):
        refusals.answered("a:1")
        refusals.answered("a:1")
    assert refusals.words("a:1") == ""
    refusals.refused("a:1", "never")
    assert [record.getMessage() for record in caplog.records] == [
        "a:1 refuses: no",
        "a:1 refuses: never",
        "b:1 refuses: never",
        "a:1 does not refuse any more",
        "a:1 refuses: never",
    ]
