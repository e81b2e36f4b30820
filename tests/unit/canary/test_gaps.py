"""What a canary tells of gaps and losses, and from when to when it may be believed."""

import itertools
from datetime import datetime

from hypothesis import given
from hypothesis import strategies as st

from slo_pipeline.canary.gaps import GAP_NS_MIN, KEPT_NS, Gap, WriteGaps
from slo_pipeline.canary.read_plan import DELAY_NS, ReadPlan

MS = 1_000_000
S = 1_000 * MS
INTERVAL_NS = 50 * MS


def noted(*ends_ms: int) -> WriteGaps:
    gaps = WriteGaps(INTERVAL_NS)
    for end_ms in ends_ms:
        gaps.acknowledged(end_ms * MS)
    return gaps


def test_a_gap_lasts_from_one_acknowledgement_to_the_next() -> None:
    assert noted(1_000, 1_050, 1_562, 1_610).told(1_620 * MS, None).gaps == (Gap(1_050 * MS, 1_562 * MS),)


def test_a_gap_that_has_not_ended_is_told() -> None:
    gaps = noted(1_000, 1_050)
    assert gaps.told(1_149 * MS, None).gaps == ()
    assert gaps.told(1_150 * MS, None).gaps == (Gap(1_050 * MS, None),)


def test_the_schedule_makes_no_gaps() -> None:
    slow, fast = WriteGaps(2 * S), WriteGaps(MS)
    for gaps in (slow, fast):
        gaps.acknowledged(S)
        gaps.acknowledged(4 * S)
    assert slow.told(4 * S, None).gaps == ()
    assert fast.told(4 * S, None).gaps == (Gap(S, 4 * S),)
    assert fast.told(4 * S, None).gap_ns_min == GAP_NS_MIN


def test_nothing_is_claimed_before_the_first_acknowledgement() -> None:
    gaps = WriteGaps(INTERVAL_NS)
    assert gaps.told(9 * S, None).since_ns is None
    gaps.acknowledged(10 * S)
    assert gaps.told(10 * S, None).since_ns == 10 * S


def test_what_is_told_is_judged_up_to_the_oldest_unread_message_and_with_none_up_to_now() -> None:
    gaps = noted(1_000)
    assert gaps.told(2 * S, 1_000 * MS).until_ns == S
    assert gaps.told(2 * S, None).until_ns == 2 * S


def test_a_message_to_be_read_again_is_not_judged() -> None:
    plan = ReadPlan()
    plan.promise(7, 0, 0, now_ns=S)
    assert plan.unjudged_ns == S
    asked = plan.next_pull(S + DELAY_NS)
    assert asked is not None
    plan.answered(asked, {0: 7}, "a", S + DELAY_NS)
    assert plan.unjudged_ns is None
    plan.master_changed()
    assert plan.unjudged_ns == S


def test_losses_are_told_by_the_time_of_their_acknowledgement() -> None:
    gaps = noted(1_000)
    gaps.lost(3 * S)
    gaps.lost(2 * S)
    assert gaps.told(9 * S, None).lost_ns == (2 * S, 3 * S)


def test_what_is_forgotten_is_not_claimed() -> None:
    gaps = WriteGaps(INTERVAL_NS, gaps_max=1, lost_max=1)
    for end_s in (1, 2, 3):
        gaps.acknowledged(end_s * S)
    assert (gaps.told(3 * S, None).since_ns, gaps.told(3 * S, None).gaps) == (2 * S, (Gap(2 * S, 3 * S),))
    gaps.lost(5 * S)
    gaps.lost(4 * S)
    told = gaps.told(5 * S, None)
    assert (told.since_ns, told.lost_ns) == (4 * S + 1, (5 * S,))
    gaps.unread(6 * S)
    told = gaps.told(6 * S, None)
    assert (told.since_ns, told.gaps, told.lost_ns) == (6 * S + 1, (Gap(3 * S, None),), ())


def test_after_an_hour_all_is_forgotten() -> None:
    gaps = noted(1_000, 2_000)
    gaps.lost(S)
    gaps.acknowledged(2 * S + KEPT_NS)
    told = gaps.told(2 * S + KEPT_NS, None)
    assert (told.since_ns, told.lost_ns) == (2 * S, ())
    assert told.gaps == (Gap(2 * S, 2 * S + KEPT_NS),), "it ended just now"


@given(st.lists(st.integers(1, 300), min_size=1, max_size=60), st.integers(0, 300))
def test_gaps_are_the_long_ones_of_all_distances(distances_ms: list[int], later_ms: int) -> None:
    ends_ms = list(itertools.accumulate(distances_ms))
    told = noted(*ends_ms).told((ends_ms[-1] + later_ms) * MS, None)
    long = [Gap(a * MS, b * MS) for a, b in itertools.pairwise(ends_ms) if b - a >= 100]
    assert told.gaps == (*long, *([Gap(ends_ms[-1] * MS, None)] if later_ms >= 100 else []))


def test_the_json_has_utc_in_microseconds() -> None:
    gaps = noted(1_000, 1_512)
    gaps.lost(S)
    offset_ns = int(datetime.fromisoformat("2026-11-21T00:00:00Z").timestamp()) * S
    told = gaps.told(1_700 * MS + 999, 1_512 * MS)
    assert told.as_json("orders", lambda ns: ns + offset_ns) == {
        "group": "orders",
        "since": "2026-11-21T00:00:01.000000Z",
        "until": "2026-11-21T00:00:01.512000Z",
        "gap_min_ms": 100,
        "gaps": [
            {"start": "2026-11-21T00:00:01.000000Z", "end": "2026-11-21T00:00:01.512000Z"},
            {"start": "2026-11-21T00:00:01.512000Z", "end": None},
        ],
        "lost": ["2026-11-21T00:00:01.000000Z"],
    }


def test_a_canary_that_has_seen_nothing_says_so() -> None:
    told = WriteGaps(33_333_333).told(S, None).as_json("orders", lambda ns: ns)
    assert (told["since"], told["until"], told["gap_min_ms"], told["gaps"]) == (None, None, 67, [])
