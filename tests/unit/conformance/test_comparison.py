"""The judge of the conformance runs: what it must let pass and what it must not."""

import re
from pathlib import Path

import pytest

from testkit.conformance.comparison import compare
from testkit.conformance.improvements import IMPROVEMENTS, Improvement
from testkit.conformance.script import Ask, conversation
from testkit.conformance.transcript import (
    Answer,
    MaskedSettings,
    TranscriptError,
    masked_metadata,
    parse,
    settings,
)

RECORDING = Path(__file__).parents[2] / "testdata" / "conformance" / "java_controller_5.4.0.txt"
REFUSED = Answer("elect", 2012, {}, "Failed to elect a new master", "")


def problems(ours: Answer, reference: Answer, *table: Improvement) -> tuple[str, ...]:
    [verdict] = compare([ours], [reference], table)
    return verdict.problems


def test_a_transcript_reads_back_as_it_was_written() -> None:
    lines = parse(RECORDING.read_text(), RECORDING.name)
    assert parse("\n".join(map(str, lines)), "again") == lines


def test_the_recording_answers_every_step_of_the_conversation_in_order() -> None:
    recorded = [line.label for line in parse(RECORDING.read_text(), RECORDING.name)]
    assert recorded == [step.label for step in conversation() if isinstance(step, Ask)]


def test_every_improvement_names_a_step_and_says_why() -> None:
    labels = {step.label for step in conversation() if isinstance(step, Ask)}
    for entry in IMPROVEMENTS:
        assert entry.label in labels
        assert entry.what
        assert entry.why
        assert entry.ours


def test_a_line_of_neither_form_is_refused_with_its_place() -> None:
    with pytest.raises(TranscriptError, match="file:2"):
        parse("# comment\nrubbish", "file")


def test_equal_answers_pass() -> None:
    assert problems(REFUSED, REFUSED) == ()


@pytest.mark.parametrize(
    ("ours", "field"),
    [
        pytest.param(Answer("elect", 2011, {}, REFUSED.remark, ""), "code", id="code"),
        pytest.param(
            Answer("elect", 2012, None, REFUSED.remark, ""), "ext", id="no header is not an empty one"
        ),
        pytest.param(Answer("elect", 2012, {}, None, ""), "remark", id="remark"),
        pytest.param(Answer("elect", 2012, {}, REFUSED.remark, '{"syncStateSet":[]}'), "body", id="body"),
    ],
)
def test_each_field_that_differs_is_reported(ours: Answer, field: str) -> None:
    [problem] = problems(ours, REFUSED)
    assert problem.startswith(f"{field}: ")


def test_quoted_keys_and_members_repeated_at_the_top_are_the_same_elect_body() -> None:
    java = '{"brokerMemberGroup":{"brokerAddrs":{1:"a"},"brokerName":"b","cluster":"c"},"syncStateSet":[1]}'
    group = '"brokerAddrs":{"1":"a"},"brokerName":"b","cluster":"c"'
    ours = f'{{"brokerMemberGroup":{{{group}}},"syncStateSet":[1],{group}}}'
    assert problems(Answer("e", 0, {}, None, ours), Answer("e", 0, {}, None, java)) == ()


def test_members_repeated_wrongly_are_a_difference() -> None:
    java = '{"brokerMemberGroup":{"brokerAddrs":{1:"a"},"brokerName":"b","cluster":"c"},"syncStateSet":[1]}'
    ours = java[:-1] + ',"brokerName":"other"}'
    assert problems(Answer("e", 0, {}, None, ours), Answer("e", 0, {}, None, java)) != ()


def test_an_improvement_allows_its_field_and_no_other() -> None:
    entry = Improvement("elect", {"remark": re.compile("No.*")}, "what", "why")
    assert problems(Answer("elect", 2012, {}, "Nobody lives", ""), REFUSED, entry) == ()
    assert problems(Answer("elect", 2012, {}, "Yes", ""), REFUSED, entry) != ()
    assert problems(Answer("elect", 0, {}, "Nobody lives", ""), REFUSED, entry) != ()


def test_an_improvement_may_be_meant_for_one_occurrence() -> None:
    entry = Improvement("elect", {"code": "0"}, "what", "why", occurrence=2)
    ours = [Answer("elect", 0, {}, REFUSED.remark, "")] * 2
    first, second = compare(ours, [REFUSED, REFUSED], [entry])
    assert first.problems
    assert (second.name, second.problems, second.improvement) == ("elect #2", (), entry)


def test_an_unanswered_step_fails_and_a_step_the_reference_lacks_is_left_out() -> None:
    [verdict] = compare([Answer("other", 0, None, None, "")], [REFUSED], ())
    assert verdict.problems == ("no such step was answered",)


def test_settings_are_masked_where_runs_differ() -> None:
    listed = settings(
        [
            "listenPort=29878",
            "controllerDLegerPeers=n0-127.0.0.1:29878;n1-host:1",
            "controllerDLegerGroup=g",
            "ours=1",
            "isProcessReadEvent=true",
        ]
    )
    assert listed == MaskedSettings(
        (
            "controllerDLegerGroup=<own>",
            "controllerDLegerPeers=n0-<own>;n1-host:1",
            "isProcessReadEvent=true",
            "listenPort=<own>",
        )
    )


def test_metadata_keeps_its_form_when_masked() -> None:
    ext = {
        "peers": "n0:127.0.0.1:1;",
        "group": "g",
        "isLeader": "true",
        "controllerLeaderAddress": "127.0.0.1:1",
    }
    assert masked_metadata(ext) == {
        "peers": "n0:<own>;",
        "group": "<own>",
        "isLeader": "true",
        "controllerLeaderAddress": "<own>",
    }
    assert masked_metadata(None) is None
