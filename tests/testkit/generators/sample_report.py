"""A small report made by hand, for tests of the page that need no Spark."""

from typing import Final

from slo_pipeline.reports.values.model import (
    BadSecond,
    Coverage,
    Failover,
    FiredBurnAlert,
    GroupReport,
    LagSeries,
    Latency,
    LatencyBucket,
    LostMessage,
    Mark,
    ObjectiveResult,
    Phase,
    Point,
    Report,
    SendResults,
    StretchSeconds,
    SyncStateSetStep,
)

BEGIN_US: Final = 1_795_176_000_000_000
FAULT_US: Final = BEGIN_US + 120_000_000
US_PER_MS: Final = 1_000
# Phase, its length in milliseconds.
PHASES: Final = (
    ("P0 fault", 0),
    ("P1 detection", 4),
    ("P2 election", 5),
    ("P3 promotion", 51),
    ("P4 publication", 150),
    ("P5 first write", 170),
    ("P6 redundancy", 2_020),
)


def _phases() -> tuple[Phase, ...]:
    phases, at_us = [], FAULT_US
    for name, length_ms in PHASES:
        end_us = at_us + length_ms * US_PER_MS
        phases.append(Phase(name, at_us, end_us, float(length_ms), None, "a/1", "b/1", "in_order"))
        at_us = end_us
    return tuple(phases)


def _points() -> tuple[Point, ...]:
    return tuple(
        Point(us, None, "timeout") if 0 <= us - FAULT_US < 380_000 else Point(us, 2.0 + us % 3, "ok")
        for us in range(FAULT_US - 3_000_000, FAULT_US + 6_000_000, 100_000)
    )


def sample_failover() -> Failover:
    """Return a failover in which every mark is known."""
    return Failover(
        failover_id="demo/orders/2",
        cluster="demo",
        group="orders",
        epoch=2,
        old_epoch=1,
        cause="ConnectionClosed",
        booking="failover",
        old_master_id=1,
        new_master_id=2,
        old_master_address="10.0.0.1:10911",
        new_master_address="10.0.0.2:10911",
        sync_state_set_before="1,2,3",
        sync_state_set_after="2",
        fault="kill -9",
        fault_us=FAULT_US,
        fault_healed_us=FAULT_US + 20_000_000,
        elected_us=FAULT_US + 9 * US_PER_MS,
        first_ack_us=FAULT_US + 380 * US_PER_MS,
        redundancy_us=FAULT_US + 2_400 * US_PER_MS,
        gap_start_us=FAULT_US - 98 * US_PER_MS,
        write_gap_ms=478.0,
        interval_start_us=FAULT_US - 98 * US_PER_MS,
        interval_end_us=FAULT_US + 2_400 * US_PER_MS,
        order_uncertain=False,
        bad_s=1,
        lost_acknowledged=0,
        phases=_phases(),
        points=_points(),
        steps=(
            SyncStateSetStep(BEGIN_US, "1,2,3", 3),
            SyncStateSetStep(FAULT_US + 9_000, "2", 1),
            SyncStateSetStep(FAULT_US + 130_000, "2,3", 2),
            SyncStateSetStep(FAULT_US + 2_400_000, "1,2,3", 3),
        ),
        marks=(Mark(FAULT_US + 120_000, "HandshakeDone", "replica", 3, "handshake done"),),
    )


def _group(name: str, bad: tuple[BadSecond, ...], unknown_s: int) -> GroupReport:
    stretches = range(BEGIN_US, BEGIN_US + 600_000_000, 10_000_000)
    bad_at = {one.us // 10_000_000 * 10_000_000 for one in bad}
    return GroupReport(
        name=name,
        start_us=BEGIN_US,
        end_us=BEGIN_US + 600_000_000,
        good_s=600 - len(bad) - unknown_s,
        bad_s=len(bad),
        unknown_s=unknown_s,
        availability=1 - len(bad) / (600 - unknown_s),
        latency=Latency(5_990, 10, 2.0, 3.0, 9.0, 40.0, 151.0),
        histogram=((1.0, 0), (2.0, 3_000), (5.0, 2_980), (10.0, 10), (float("inf"), 0)),
        series=tuple(LatencyBucket(us, 2.0, 9.0, 20.0 + us % 7, int(us in bad_at)) for us in stretches),
        lag=(LagSeries("broker 2 (orders-2)", tuple((us, float(us % 5_000)) for us in stretches)),),
        bad_seconds=bad,
        strip=tuple(StretchSeconds(us, 10 - int(us in bad_at), int(us in bad_at), 0) for us in stretches),
        durability=SendResults(5_990, 5_980, 0, 10, 4, 1),
    )


def report() -> Report:
    """Return a report on two groups, one failover, one unexplained bad second."""
    orders = _group("orders", (BadSecond(FAULT_US, "failover", "demo/orders/2"),), 0)
    payments = _group("payments", (BadSecond(BEGIN_US + 420_000_000, "unexplained", None),), 6)
    return Report(
        title="RocketMQ availability",
        start_us=BEGIN_US,
        end_us=BEGIN_US + 600_000_000,
        target_percent=99.95,
        window_days=30,
        budget_s=1_296.0,
        groups=(orders, payments),
        failovers=(sample_failover(),),
        booked_s=2,
        counted_s=2,
        coverage=(Coverage("orders-1", 588, 600, 0.98, 1, 13.0, 1),),
        lost_listed=(LostMessage("orders", 4, BEGIN_US, "10.0.0.1:10911", 0, None),),
        bucket_s=10.0,
        objectives=(
            ObjectiveResult(
                "write-availability",
                "sends are acknowledged",
                "",
                "orders",
                99.95,
                599,
                1,
                0,
                599 / 600,
                1_296.0,
                0.6,
                3.3,
                1,
            ),
            ObjectiveResult(
                "durability",
                "messages are read back",
                "",
                "orders",
                100.0,
                5_980,
                0,
                10,
                1.0,
                0.0,
                None,
                None,
            ),
        ),
        pages=(
            FiredBurnAlert(
                "page", "write-availability", "orders", 14.4, "1h", "5m", FAULT_US, FAULT_US + 180_000_000
            ),
        ),
    )
