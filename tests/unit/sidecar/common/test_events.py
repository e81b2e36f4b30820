"""The stream of events: numbered, bounded and complete."""

from ha_sidecar.common.events import EVENTS_MAX, EventLog


async def test_events_are_numbered_bounded_and_complete() -> None:
    events = EventLog("c", "g", "ns")
    events.broker_id = 2
    for number in range(EVENTS_MAX + 5):
        events.add("RoleChanged", number, {"master_id": "1"})
    kept = events.after(EVENTS_MAX + 3)
    assert [event["sequence"] for event in kept] == [EVENTS_MAX + 4, EVENTS_MAX + 5]
    assert len(events.after(0)) == EVENTS_MAX
    assert set(kept[0]) == {
        *(
            "sequence",
            "event_id",
            "ts_ns",
            "monotonic_ns",
            "clock_id",
            "source",
            "kind",
            "namespace",
            "cluster",
        ),
        *("group", "broker_id", "epoch", "term", "index", "correlation_id", "attrs"),
    }
    assert kept[0]["correlation_id"] == f"c/g/{EVENTS_MAX + 3}"
