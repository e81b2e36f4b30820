"""The report finds exactly the injected faults: the whole pipeline on a story whose truth is known."""

from typing import Any

import pytest

from testkit.generators.synthetic import ScriptedChange, Story

MS_OF_A_SEND = 120  # one period of the canary and the slowest of its usual sends
CHANGES = (0, 1, 2)


def _change(story: Story, index: int) -> ScriptedChange:
    return story.groups[0].changes[index]


def _row(told: Any, index: int) -> dict[str, Any]:
    epoch = _change(told.story, index).epoch
    return next(row for row in told.tables["failovers"] if row["epoch"] == epoch)


def test_two_failovers_and_a_switchover_are_found_and_nothing_else(told: Any) -> None:
    found = sorted((row["group"], row["epoch"], row["booking"]) for row in told.tables["failovers"])
    assert found == [("orders", 2, "failover"), ("orders", 3, "failover"), ("orders", 4, "switchover")]


@pytest.mark.parametrize("index", CHANGES)
def test_every_mark_is_where_the_story_put_it(told: Any, index: int) -> None:
    change, row = _change(told.story, index), _row(told, index)
    at = told.story.us
    expected = {
        "fault_ts": at(change.at_ms) if change.fault else None,
        "suspected_ts": at(change.at_ms + change.suspected_ms) if change.fault else None,
        "elected_ts": at(change.at_ms + change.elected_ms),
        "role_taken_ts": at(change.at_ms + change.role_taken_ms),
        "route_seen_ts": None if change.route_seen_ms is None else at(change.at_ms + change.route_seen_ms),
        "redundancy_ts": at(change.at_ms + change.redundancy_ms),
        "fault_healed_ts": at(change.at_ms + change.healed_ms) if change.healed_ms else None,
    }
    assert {name: row[name] for name in expected} == expected
    assert (row["old_master_id"], row["new_master_id"]) == (change.old_master_id, change.new_master_id)


@pytest.mark.parametrize("index", CHANGES)
def test_the_write_gap_is_the_storys_up_to_one_send(told: Any, index: int) -> None:
    change, row = _change(told.story, index), _row(told, index)
    assert change.gap_ms <= row["write_gap_ms"] <= change.gap_ms + MS_OF_A_SEND


@pytest.mark.parametrize("index", CHANGES)
def test_the_phases_of_a_change_tile_the_time_from_fault_to_redundancy(told: Any, index: int) -> None:
    change, row = _change(told.story, index), _row(told, index)
    own = [one for one in told.tables["failover_phases"] if one["failover_id"] == row["failover_id"]]
    assert len(own) == 7
    assert all(one["duration_ms"] is None or one["duration_ms"] >= 0 for one in own)
    assert sum(one["duration_ms"] or 0 for one in own) == pytest.approx(change.redundancy_ms, abs=0.001)


def test_bad_seconds_are_booked_to_what_burned_them_and_add_up(told: Any) -> None:
    spent = {(row["group"], row["failover_id"]): row["bad_s"] for row in told.tables["budget"]}
    assert spent == {("orders", "demo/orders/2"): 1, ("orders", "demo/orders/3"): 3, ("payments", None): 1}
    assert told.report.booked_s == told.report.counted_s == 5


def test_seconds_without_a_send_are_unknown_not_good(told: Any) -> None:
    slices = {
        row["group"]: (row["good_s"], row["bad_s"], row["unknown_s"]) for row in told.tables["sli_window"]
    }
    assert slices == {"orders": (596, 4, 0), "payments": (593, 1, 6)}


def test_messages_that_were_never_read_back_are_listed_by_sequence(told: Any) -> None:
    assert sorted((row["group"], row["seq"]) for row in told.tables["lost"]) == [
        ("payments", 100),
        ("payments", 101),
    ]
    assert {row["group"]: row["lost"] for row in told.tables["durability"]} == {"orders": 0, "payments": 2}
    assert all(row["lost_acknowledged"] == 0 for row in told.tables["failovers"])


def test_missing_scrapes_and_restarts_are_counted(told: Any) -> None:
    rows = {row["instance"]: row for row in told.tables["coverage"]}
    assert (rows["payments-1"]["scrapes"], rows["payments-1"]["expected"]) == (588, 600)
    assert (rows["payments-1"]["gaps"], rows["payments-1"]["longest_gap_s"]) == (1, 13.0)
    assert rows["orders-1"]["restarts"] == 1
    assert rows["orders-1"]["coverage"] < rows["orders-3"]["coverage"]


def test_the_lag_of_a_replica_that_was_down_is_kept_as_a_maximum(told: Any) -> None:
    worst = max(told.tables["lag_points"], key=lambda row: row["lag_bytes_max"])
    assert worst["broker_id"] == "1"
    assert worst["lag_bytes_max"] > 1_000_000


def test_latency_counts_every_send_once(told: Any) -> None:
    for row in told.tables["latency"]:
        buckets = [one["sends"] for one in told.tables["latency_histogram"] if one["group"] == row["group"]]
        assert sum(buckets) == row["acknowledged"]
        assert row["p50_ms"] <= row["p99_ms"] <= row["max_ms"]
