"""Which gap and which losses are a failover's, and when a canary may be believed on them."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rocketmq_operator.plan.common.observation import ObservationError
from rocketmq_operator.plan.group.observed import ReportedFailover
from rocketmq_operator.plan.group.write_gaps import (
    MARGIN,
    SETTLE_MAX,
    CanaryGaps,
    ObservedGap,
    measured_status,
    parse_canary_gaps,
)
from slo_pipeline.canary.gaps import WriteGaps

T0 = datetime(2026, 11, 21, 12, tzinfo=UTC)
Json = dict[str, Any]


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def change(
    epoch: int, seconds: float, *, taken: float | None = 0.2, had_master: bool = True
) -> ReportedFailover:
    """Return a failover that is suspected then, committed 10 ms later, and taken so many seconds later."""
    times = {"suspected": at(seconds), "proposed": at(seconds), "committed": at(seconds + 0.01)}
    if taken is not None:
        times["role_taken"] = at(seconds + taken)
    return ReportedFailover(
        cluster="main",
        group="orders",
        cause="ConnectionClosed",
        old_master_address="10.0.0.1:10911",
        new_master_address="10.0.0.2:10911",
        had_master=had_master,
        old_epoch=epoch - 1,
        new_epoch=epoch,
        sync_state_set_before=(1, 2),
        sync_state_set_after=(2,),
        unclean=False,
        times=times,
    )


def seen(
    *gaps: tuple[float, float | None], lost: tuple[float, ...] = (), since: float = -600, until: float = 600
) -> CanaryGaps:
    return CanaryGaps(
        since=at(since),
        until=at(until),
        shortest=timedelta(milliseconds=100),
        gaps=tuple(ObservedGap(at(start), None if end is None else at(end)) for start, end in gaps),
        lost=tuple(at(one) for one in lost),
    )


def told(
    canary: CanaryGaps, *others: ReportedFailover, one: ReportedFailover | None = None
) -> tuple[str | None, int | None]:
    meant = change(5, 0) if one is None else one
    status = measured_status([meant, *others], meant, canary)
    return status.write_gap, status.lost_messages


def test_the_longest_gap_around_the_marks_is_the_changes() -> None:
    assert told(seen((-0.5, -0.3), (-0.05, 0.462), (0.6, 0.8))) == ("512ms", 0)


def test_a_gap_that_began_long_before_the_suspicion_is_the_changes_if_it_lasted_until_then() -> None:
    assert told(seen((-8.0, 0.5))) == ("8500ms", 0)


@pytest.mark.parametrize("gap", [(-3.0, -1.0), (1.2, 9.0)], ids=["before", "at a later return of the broker"])
def test_a_gap_outside_the_margin_is_not_the_changes(gap: tuple[float, float]) -> None:
    assert told(seen(gap)) == ("<100ms", 0)


def test_a_gap_that_touches_the_margin_is() -> None:
    assert told(seen((1.19, 9.0)))[0] == "7810ms"
    assert told(seen((-3.0, -0.99)))[0] == "2010ms"


def test_a_gap_that_lasts_is_waited_for() -> None:
    assert told(seen((0.1, None))) == (None, None)
    assert told(seen((0.0, 0.9), (1.0, None))) == (None, None)
    assert told(seen((0.0, 0.9), (30.0, None))) == ("900ms", 0)


def test_a_canary_that_was_not_there_before_tells_nothing() -> None:
    assert told(seen((-0.05, 0.462), since=-0.99)) == (None, None)
    assert told(seen((-0.05, 0.462), since=-1.0)) == ("512ms", 0)


@pytest.mark.parametrize(("gap", "end"), [((-0.05, 0.462), 1.2), ((-0.05, 4.0), 4.0)])
def test_nothing_is_said_to_be_lost_or_not_before_all_is_read(gap: tuple[float, float], end: float) -> None:
    assert told(seen(gap, until=end))[1] is None
    assert told(seen(gap, until=end + 0.001))[1] == 0


def test_losses_up_to_the_end_of_the_gap_are_the_changes() -> None:
    assert told(seen((-0.05, 4.0), lost=(-59.0, -0.05, 4.0, 4.1)))[1] == 3


def test_a_message_much_older_than_the_change_is_not_its_loss() -> None:
    oldest = -SETTLE_MAX.total_seconds()
    assert told(seen(lost=(oldest - 0.1, oldest + 0.1)))[1] == 1


def test_a_loss_for_which_two_changes_could_answer_is_of_the_earlier() -> None:
    first, second = change(5, 0), change(6, 20)
    canary = seen((-0.1, 0.5), (19.9, 20.5), lost=(-0.2, 0.5, 0.6, 20.0))
    assert told(canary, second, one=first) == ("600ms", 2)
    assert told(canary, first, one=second) == ("600ms", 2)


def test_the_first_election_answers_for_no_loss() -> None:
    assert told(seen(lost=(-9.0,)), change(4, -5, had_master=False))[1] == 1


def test_between_two_changes_the_election_is_the_border() -> None:
    first, second = change(5, 0), change(6, 0.6)
    canary = seen((-0.1, 0.3), (0.65, 1.15))
    assert told(canary, second, one=first)[0] == "400ms", "within the margin, but after the next election"
    assert told(canary, first, one=second)[0] == "500ms"
    assert told(seen((-0.9, 0.0)), first, one=second)[0] == "<100ms", (
        "within the margin, but before the last election"
    )


def test_a_role_taken_very_late_does_not_move_the_border_without_end() -> None:
    late = change(5, 0, taken=300)
    assert told(seen((100.0, 130.0)), one=late)[0] == "<100ms"
    assert told(seen((60.5, 61.5)), one=late)[0] == "1000ms"


def test_without_the_new_masters_sign_the_election_is_the_last_mark() -> None:
    assert told(seen((0.5, 3.0)), one=change(5, 0, taken=None))[0] == "2500ms"
    assert told(seen((0.01 + MARGIN.total_seconds(), 3.0)), one=change(5, 0, taken=None))[0] == "<100ms"


def _answer(**changes: object) -> Json:
    return {
        "group": "orders",
        "since": "2026-11-21T11:00:00.000000Z",
        "until": "2026-11-21T12:00:00.000000Z",
        "gap_min_ms": 100,
        "gaps": [
            {"start": "2026-11-21T11:30:00.250000Z", "end": "2026-11-21T11:30:01.000000Z"},
            {"start": "2026-11-21T11:59:00.000000Z", "end": None},
        ],
        "lost": ["2026-11-21T11:30:00.249999Z"],
    } | changes


def test_a_canarys_answer_is_read() -> None:
    canary = parse_canary_gaps(_answer(), "orders")
    assert canary == CanaryGaps(
        since=at(-3600),
        until=at(0),
        shortest=timedelta(milliseconds=100),
        gaps=(ObservedGap(at(-1799.75), at(-1799)), ObservedGap(at(-60), None)),
        lost=(at(-1799.750001),),
    )


def test_what_a_canary_writes_is_what_the_operator_reads() -> None:
    gaps = WriteGaps(interval_ns=50_000_000)
    for end_s in (1, 3):
        gaps.acknowledged(end_s * 10**9)
    gaps.lost(10**9)
    t0_ns = round(T0.timestamp()) * 10**9
    told = gaps.told(5 * 10**9, 3 * 10**9).as_json("orders", lambda monotonic_ns: t0_ns + monotonic_ns)
    expected = seen((1, 3), (3, None), lost=(1,), since=1, until=3)
    assert parse_canary_gaps(json.loads(json.dumps(told)), "orders") == expected
    nothing = WriteGaps(interval_ns=1).told(1, None).as_json("orders", lambda monotonic_ns: monotonic_ns)
    assert parse_canary_gaps(nothing, "orders") is None


def test_a_canary_without_an_acknowledgement_has_seen_nothing() -> None:
    assert parse_canary_gaps(_answer(since=None, until=None, gaps=[], lost=[]), "orders") is None


@pytest.mark.parametrize(
    "changes",
    [
        {"group": "pay"},
        {"since": "yesterday"},
        {"since": "2026-11-21T11:00:00"},
        {"until": None},
        {"gap_min_ms": "100"},
        {"gap_min_ms": 10**30},
        {"gaps": {"start": "2026-11-21T11:00:00Z"}},
        {"gaps": [{"start": "0001-01-01T00:00:00Z", "end": None}]},
        {"gaps": [{"start": "2026-11-21T11:00:01Z", "end": "2026-11-21T11:00:00Z"}]},
        {"lost": 3},
        {"lost": [3]},
    ],
    ids=str,
)
def test_an_answer_of_another_shape_is_the_canarys_fault(changes: Json) -> None:
    with pytest.raises(ObservationError):
        parse_canary_gaps(_answer(**changes), "orders")
