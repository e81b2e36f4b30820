"""Conditions: when their time moves, and that a list is whole."""

from datetime import UTC, datetime, timedelta

from rocketmq_operator.api.conditions import make_finding, merge_findings

THEN = datetime(2026, 1, 1, tzinfo=UTC)
NOW = THEN + timedelta(minutes=5)


def test_a_condition_keeps_its_time_while_only_its_reason_changes() -> None:
    before = merge_findings(
        (), [make_finding("Ready", holds=False, reason="NoMaster")], generation=1, now=THEN
    )
    (after,) = merge_findings(
        before, [make_finding("Ready", holds=False, reason="Scaling")], generation=2, now=NOW
    )
    assert (after.reason, after.last_transition_time, after.observed_generation) == ("Scaling", THEN, 2)


def test_a_condition_gets_a_new_time_when_its_status_changes() -> None:
    before = merge_findings((), [make_finding("Ready", holds=None, reason="Unseen")], generation=1, now=THEN)
    (after,) = merge_findings(
        before, [make_finding("Ready", holds=True, reason="AllInSync")], generation=1, now=NOW
    )
    assert (after.status, after.last_transition_time) == ("True", NOW)


def test_a_type_that_is_no_longer_found_is_dropped() -> None:
    before = merge_findings((), [make_finding("Old", holds=True, reason="Once")], generation=1, now=THEN)
    assert [
        one.type
        for one in merge_findings(
            before, [make_finding("New", holds=True, reason="Now")], generation=1, now=NOW
        )
    ] == ["New"]


def test_a_long_text_is_cut_and_not_refused() -> None:
    (condition,) = merge_findings(
        (), [make_finding("Ready", holds=True, reason="Fine", message="x" * 5_000)], generation=1, now=NOW
    )
    assert len(condition.message) == 1_024
