"""Which elections are changes of master, which marks belong to them, and claims that a report never makes."""

import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from slo_pipeline.jobs.gather import rows
from slo_pipeline.jobs.gold import closeup_marks
from slo_pipeline.transforms import budget, slices
from slo_pipeline.transforms.master_changes import elections, failovers, phases, rollouts
from testkit.generators.segment_rows import Row, elected, event, inputs, send, us


def _timed(spark: Any, directory: Any, events: list[Row], ops: list[Row]) -> Any:
    read = inputs(spark, directory, events=events, probe_ops=ops)
    return failovers.with_gaps(
        failovers.marked(elections.elections(read.events), read.events), read.probe_ops
    ), read.probe_ops


def _steady(until_ms: int, *, without: range = range(0)) -> list[Row]:
    """Return a send every 100 ms; those in the hole fail."""
    return [
        send(seq, at, "ok", 2) if at not in without else send(seq, at, "timeout", None)
        for seq, at in enumerate(range(0, until_ms, 100))
    ]


def test_a_first_election_is_nothing_and_a_reelection_of_the_same_master_no_failover(
    spark: SparkSession, tmp_path: Path
) -> None:
    events = [elected(0, 1, None, 1), elected(5_000, 2, 1, 1), elected(9_000, 3, None, 2)]
    timed, _ = _timed(spark, tmp_path, events, _steady(12_000))
    found = {row["epoch"]: row["booking"] for row in rows(timed.select("epoch", "booking"))}
    assert found == {2: "reelection", 3: "failover"}


def test_marks_belong_by_epoch_even_when_two_failovers_follow_at_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    events = [
        elected(0, 1, None, 1),
        elected(10_000, 2, 1, 2),
        elected(10_050, 3, 2, 3),
        event("RoleTaken", 10_090, epoch=3, broker=3),
        event("RoleTaken", 10_200, epoch=2, broker=2),
    ]
    timed, _ = _timed(spark, tmp_path, events, _steady(12_000))
    found = {row["epoch"]: row["role_taken_ts"] for row in rows(timed.select("epoch", "role_taken_ts"))}
    assert found == {2: us(10_200), 3: us(10_090)}


@pytest.mark.parametrize(
    ("role_ms", "handshake_ms", "route_ms", "first_ms"),
    [(10_100, 10_250, 10_200, 10_100), (10_300, 10_150, 10_200, 10_150), (10_300, 10_250, 10_200, 10_200)],
)
def test_whoever_first_sees_the_new_master_act_says_when_it_took_the_role(
    spark: SparkSession, tmp_path: Path, role_ms: int, handshake_ms: int, route_ms: int, first_ms: int
) -> None:
    events = [
        elected(10_000, 2, 1, 2),
        event("RoleTaken", role_ms, epoch=2, broker=2),
        event("HandshakeDone", handshake_ms, epoch=2, broker=3, source="replica"),
        event("RouteSeen", route_ms, broker=0, source="canary", attrs={"master_address": "10.0.0.2:10911"}),
    ]
    timed, _ = _timed(spark, tmp_path, events, _steady(11_000))
    assert [row["role_taken_ts"] for row in rows(timed.select("role_taken_ts"))] == [us(first_ms)]


def test_the_same_event_from_three_nodes_is_one_failover(spark: SparkSession, tmp_path: Path) -> None:
    copies = [elected(10_000, 2, 1, 2) | {"sequence": node} for node in (1, 2, 3)]
    timed, _ = _timed(spark, tmp_path, copies, _steady(11_000))
    assert timed.count() == 1


def test_a_mark_before_the_furthest_one_is_uncertain_by_another_clock_and_overtaken_by_the_same(
    spark: SparkSession, tmp_path: Path
) -> None:
    events = [
        elected(
            10_000, 2, 1, 2, last_heartbeat_ns=str(us(9_900) * 1_000), suspected_ns=str(us(9_990) * 1_000)
        ),
        event("RoleTaken", 9_970, epoch=2, broker=2, clock_id="elsewhere"),
        event("RouteSeen", 10_700, broker=0, source="canary", attrs={"master_address": "10.0.0.2:10911"}),
    ]
    timed, _ = _timed(spark, tmp_path, events, _steady(12_000, without=range(9_900, 10_300)))
    found = {row["phase"]: row for row in rows(phases.phases(timed))}
    assert (found["P3 promotion"]["order"], found["P3 promotion"]["skew_ms"]) == ("uncertain", 30.0)
    assert found["P5 first write"]["order"] == "overtaken"
    assert {row["duration_ms"] for row in found.values() if row["order"] != "in_order"} == {0.0, None}
    assert found["P6 redundancy"]["order"] == "absent"


def test_a_fault_long_before_the_last_heartbeat_did_not_cause_the_election(
    spark: SparkSession, tmp_path: Path
) -> None:
    beat = str(us(99_000) * 1_000)
    events = [
        event("FaultInjected", 20_000, source="nemesis", attrs={"fault": "slow disk"}),
        elected(100_000, 2, 1, 2, last_heartbeat_ns=beat),
        event("FaultInjected", 199_800, source="nemesis", attrs={"fault": "kill"}),
        elected(200_000, 3, 2, 1, last_heartbeat_ns=str(us(199_000) * 1_000)),
    ]
    timed, _ = _timed(spark, tmp_path, events, [])
    assert {row["epoch"]: row["fault"] for row in rows(timed.select("epoch", "fault"))} == {
        2: None,
        3: "kill",
    }


def test_without_a_canary_there_is_no_gap_and_without_an_acknowledgement_after_it_no_end(
    spark: SparkSession, tmp_path: Path
) -> None:
    events = [elected(2_000, 2, 1, 2)]
    silent, _ = _timed(spark, tmp_path / "silent", events, [])
    assert rows(silent.select("gap_start_ts", "write_gap_ms")) == [
        {"gap_start_ts": None, "write_gap_ms": None}
    ]
    broken, _ = _timed(spark, tmp_path / "broken", events, _steady(9_000, without=range(2_000, 9_000)))
    found = rows(broken.select("gap_start_ts", "first_ack_ts", "write_gap_ms"))
    assert found == [{"gap_start_ts": us(1_902), "first_ack_ts": None, "write_gap_ms": None}]


def _booked(spark: Any, directory: Any, events: list[Row], ops: list[Row]) -> tuple[Any, Any]:
    """Return the bookings of bad slices and the slices."""
    read = inputs(spark, directory, events=events, probe_ops=ops)
    told = read.events.coalesce(1).localCheckpoint()
    marked = failovers.marked(elections.elections(told).localCheckpoint(), told).coalesce(1).localCheckpoint()
    timed = failovers.with_gaps(marked, read.probe_ops).localCheckpoint()
    judged = slices.slices_1s(read.probe_ops).localCheckpoint()
    return budget.book(judged, budget.causes(timed, told)).localCheckpoint(), judged


def test_a_slice_in_two_changes_is_booked_to_the_later_one_only(spark: SparkSession, tmp_path: Path) -> None:
    events = [elected(10_100, 2, 1, 2), elected(10_400, 3, 2, 1)]
    booked, judged = _booked(spark, tmp_path, events, _steady(20_000, without=range(10_000, 11_000)))
    assert [row["failover_id"] for row in rows(booked)] == ["main/orders/3"]
    assert budget.check(budget.budget(booked, budget.BudgetTarget()), judged) == (1, 1)


def _fault(kind: str, at_ms: int, name: str, broker: int) -> Row:
    return event(kind, at_ms, broker=broker, source="nemesis", attrs={"fault": name, "target": str(broker)})


def test_each_bad_second_goes_to_the_first_cause_that_it_touches(spark: SparkSession, tmp_path: Path) -> None:
    operator = {"source": "operator", "attrs": {"reason": "new image"}}
    events = [
        elected(1_000, 1, None, 1),
        elected(10_000, 2, 1, 2, sync_state_set_after="1,2,3"),
        elected(
            20_500,
            3,
            2,
            2,
            cause="HeartbeatTimeout",
            suspected_ns=str(us(20_100) * 1_000),
            sync_state_set_after="1,2,3",
        ),
        _fault("FaultInjected", 40_000, "slow disk", 3),
        _fault("FaultHealed", 45_000, "slow disk", 3),
        event("RolloutStarted", 42_000, **operator),
        event("RolloutFinished", 70_000, **operator),
    ]
    holes = (10_000, 20_000, 43_000, 65_000, 80_000)
    ops = [
        send(seq, at, "timeout", None) if any(hole <= at < hole + 300 for hole in holes) else send(seq, at)
        for seq, at in enumerate(range(0, 90_000, 100))
    ]
    booked, _ = _booked(spark, tmp_path, events, ops)
    found = {(row["slice_start"] - us(0)) // 1_000: row for row in rows(booked)}
    assert {at: (row["booking"], row["failover_id"], row["detail"]) for at, row in found.items()} == {
        10_000: ("failover", "main/orders/2", None),
        20_000: ("reelection", "main/orders/3", None),
        43_000: ("fault", None, "slow disk"),
        65_000: ("rollout", None, "new image"),
        80_000: ("unexplained", None, None),
    }


def _restart(at_ms: int, note: str, **changes: Any) -> Row:
    told = {"reason": "MemberRestarted", "object_kind": "BrokerGroup", "message": note}
    return event("KubernetesEvent", at_ms, source="kubernetes", **({"attrs": told, "cluster": ""} | changes))


def test_a_master_that_the_operator_told_to_hand_over_was_switched_over_and_no_failover(
    spark: SparkSession, tmp_path: Path
) -> None:
    note = "delete Pod orders-1 (older revision; it hands over first)"
    events = [
        elected(0, 1, None, 1),
        _restart(10_000, note),
        elected(10_600, 2, 1, 2),
        # The order before is used up; a slave's restart and another group's master say nothing of this one.
        _restart(19_000, "delete Pod orders-0 (older revision)"),
        _restart(19_500, note, group="pay"),
        elected(20_000, 3, 2, 1),
        # Fell silent before it could hand over, and its handover request is too old.
        _restart(30_000, note),
        elected(32_000, 4, 1, 2, cause="HeartbeatTimeout"),
        _restart(40_000, note),
        elected(140_000, 5, 2, 1),
    ]
    found = elections.elections(inputs(spark, tmp_path, events=events).events)
    assert {row["epoch"]: row["booking"] for row in rows(found.select("epoch", "booking"))} == {
        2: "switchover",
        3: "failover",
        4: "failover",
        5: "failover",
    }


def _set(at_ms: int, members: str) -> Row:
    return event("SyncStateSetChanged", at_ms, epoch=1, attrs={"sync_state_set_after": members})


def test_a_restart_by_the_operator_lasts_until_the_set_has_its_size_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    killing = {"reason": "Killing", "object_kind": "Pod", "message": "delete Pod orders-1 (older revision)"}
    events = [
        elected(0, 1, None, 1),
        _set(1_000, "1,2,3"),
        _restart(10_000, "delete Pod orders-1 (older revision)"),
        _set(12_000, "1,3"),
        # While the member is away another one comes and goes: the set is whole only at 40 s.
        _set(20_000, "1"),
        _set(21_000, "1,3"),
        _set(40_000, "1,2,3"),
        # Of another cluster with a group of the same name, of a pod alone, and of a group that is not ours.
        _restart(50_000, "delete Pod orders-2 (older revision)", cluster="other"),
        _restart(51_000, "x", attrs=killing),
        _restart(52_000, "delete Pod pay-0 (older revision)", group="pay"),
        # The set never shrinks: no controller reports the end.
        _restart(200_000, "rubbish"),
    ]
    read = inputs(spark, tmp_path, events=events)
    found = rows(rollouts.rollouts(read.events).orderBy("interval_start", "group", "detail"))
    said = [(row["group"], row["detail"], (row["interval_end"] - us(0)) // 1_000_000) for row in found]
    assert said == [
        ("orders", "restart of orders-1: older revision", 40),
        ("orders", "restart of orders-2: older revision", 110),
        ("pay", "restart of pay-0: older revision", 112),
        ("orders", "restart of a member", 260),
    ]


def test_a_bad_second_of_a_restart_is_the_rollouts_and_a_later_one_nobodys(
    spark: SparkSession, tmp_path: Path
) -> None:
    events = [
        elected(0, 1, None, 1),
        _set(1_000, "1,2,3"),
        _restart(10_000, "delete Pod orders-1 (older revision)"),
        _set(12_000, "1,3"),
        _set(30_000, "1,2,3"),
    ]
    holes = (9_000, 11_000, 29_500, 31_000)
    ops = [
        send(seq, at, "timeout", None) if at in holes else send(seq, at)
        for seq, at in enumerate(range(0, 40_000, 100))
    ]
    booked, _ = _booked(spark, tmp_path, events, ops)
    found = {(row["slice_start"] - us(0)) // 1_000: row["booking"] for row in rows(booked)}
    assert found == {9_000: "unexplained", 11_000: "rollout", 29_000: "rollout", 31_000: "unexplained"}


def test_events_of_kubernetes_are_shown_with_the_changes_of_their_group_that_are_near(
    spark: SparkSession, tmp_path: Path
) -> None:
    def said(at_ms: int, **changes: Any) -> Row:
        attrs = {"object_kind": "Pod", "object_name": "orders-0", "reason": "Killing", "message": "stop"}
        told = {"source": "kubernetes", "attrs": attrs, "event_id": f"k/{at_ms}"} | changes
        return event("KubernetesEvent", at_ms, **told)

    events = [
        elected(100_000, 2, 1, 2),
        said(20_000),
        said(99_000),
        said(99_500, group="pay"),
        said(99_600, group=""),
        said(1_000_000),
    ]
    timed, _ = _timed(spark, tmp_path, events, _steady(101_000))
    marks = closeup_marks(inputs(spark, tmp_path).events, timed)
    found = [(row["failover_id"], row["ts"], row["source"]) for row in rows(marks)]
    assert found == [("main/orders/2", us(99_000), "kubernetes")]


KINDS = ("elect", "reelect", "fault", "heal", "rollout", "rolled")
GROUPS = 40


def _told(happenings: list[tuple[str, int]]) -> list[Row]:
    events, master, epoch = [elected(0, 1, None, 1)], 1, 1
    for kind, at_ms in sorted(happenings, key=lambda one: one[1]):
        if kind in {"elect", "reelect"}:
            epoch, new = epoch + 1, master if kind == "reelect" else 3 - master
            events.append(elected(at_ms, epoch, master, new))
            master = new
        elif kind in {"fault", "heal"}:
            events.append(_fault("FaultInjected" if kind == "fault" else "FaultHealed", at_ms, "kill", 3))
        else:
            name = "RolloutStarted" if kind == "rollout" else "RolloutFinished"
            events.append(event(name, at_ms, source="operator"))
    return events


def test_bookings_always_add_up_to_the_bad_seconds_of_each_group(spark: SparkSession, tmp_path: Path) -> None:
    chance = random.Random(5)
    bad_by_group = {
        f"g{number}": set(chance.sample(range(60), chance.randrange(20))) for number in range(GROUPS)
    }
    events, ops = [], []
    for name, bad_s in bad_by_group.items():
        told = [(chance.choice(KINDS), chance.randrange(1_000, 58_000)) for _ in range(chance.randrange(9))]
        events += [row | {"group": name, "event_id": f"{name}/{at}"} for at, row in enumerate(_told(told))]
        ops += [
            send(second, second * 1_000, group=name)
            if second not in bad_s
            else send(second, second * 1_000, "timeout", None, group=name)
            for second in range(60)
        ]
    booked, judged = _booked(spark, tmp_path, events, ops)
    found: dict[str, set[int]] = {name: set() for name in bad_by_group}
    listed = rows(booked)
    for row in listed:
        found[row["group"]].add((row["slice_start"] - us(0)) // 1_000_000)
    assert found == bad_by_group
    assert len(listed) == sum(len(bad_s) for bad_s in bad_by_group.values())
    assert {row["booking"] for row in listed} >= {"failover", "reelection", "fault", "rollout", "unexplained"}
    assert budget.check(budget.budget(booked, budget.BudgetTarget()), judged) == (len(listed), len(listed))


def test_the_default_objective_allows_1296_seconds_in_30_days() -> None:
    assert budget.BudgetTarget().budget_s == 1_296.0
