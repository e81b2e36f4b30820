"""Builds timelines from the records of each change.

Sources: the controllers' failover records (suspicion, election, notice, role), the canary's RouteSeen events
from the collected segments, SyncStateSet changes from the collected events, and the load client's ledger.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp
import pyarrow.dataset as ds

from testkit.demo.cluster import CLUSTER, GROUP, DemoCluster
from testkit.demo.story import MEMBERS, Happened
from testkit.demo.timeline import FailoverMoment, SendGap, Timeline, longest_gap, sends_failed
from testkit.rocketmq.load import Send

Event = dict[str, Any]
Record = dict[str, Any]
_ACKNOWLEDGEMENT_COPIES_MIN = 2
_FIRST_SEND_WITHIN_NS = 5_000_000_000


async def failover_records(cluster: DemoCluster) -> list[Record]:
    """Return the changes of master that the controllers keep for the demo's group, newest first."""
    leader = await cluster.controllers.wait_leader()
    url = f"http://{cluster.controllers.http_addresses[leader]}/v1/failovers?cluster={CLUSTER}&group={GROUP}"
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        response.raise_for_status()
        return list((await response.json())["failovers"])


def collected_events(data: Path) -> list[Event]:
    """Return every event in the collected segments, by time."""
    table = ds.dataset(data / "events", format="parquet").to_table()
    events: list[Event] = table.to_pylist(maps_as_pydicts="strict")
    return sorted(events, key=lambda event: event["ts_ns"])


def timelines(
    happened: Sequence[Happened], records: Sequence[Record], events: Sequence[Event], sends: Sequence[Send]
) -> list[Timeline]:
    """Return a timeline for each thing that happened, in order."""
    return [_timeline(what, records, events, sends) for what in happened]


def _timeline(
    what: Happened, records: Sequence[Record], events: Sequence[Event], sends: Sequence[Send]
) -> Timeline:
    # A pause of the client later on, while the restarted broker takes the processors, is not the failover's.
    writable_ns = _set_reached_ns(what, events, _ACKNOWLEDGEMENT_COPIES_MIN)
    until_ns = min(what.until_ns, (writable_ns or what.until_ns) + _FIRST_SEND_WITHIN_NS)
    gap = longest_gap(sends, what.fault_ns, until_ns) or longest_gap(sends, what.fault_ns, what.until_ns)
    return Timeline(
        title=what.title,
        fault_ns=what.fault_ns,
        phases=_phases(what, records, events, gap),
        gap=gap,
        sends_failed=sends_failed(sends, what.fault_ns, what.until_ns),
    )


def _phases(
    what: Happened, records: Sequence[Record], events: Sequence[Event], gap: SendGap | None
) -> list[FailoverMoment]:
    if what.new_epoch is None:
        return []
    record = next(record for record in records if record["new_epoch"] == what.new_epoch)
    return [
        FailoverMoment("suspected", record["suspected_ns"]),
        FailoverMoment("elected (committed)", record["committed_ns"] or record["proposed_ns"]),
        FailoverMoment("role taken", record["role_taken_ns"]),
        FailoverMoment("route seen", _route_seen_ns(what, record, events)),
        FailoverMoment("two copies again", _set_reached_ns(what, events, _ACKNOWLEDGEMENT_COPIES_MIN)),
        FailoverMoment("first acknowledged send", gap.end_ns if gap else None),
        FailoverMoment("redundancy back", _set_reached_ns(what, events, MEMBERS)),
    ]


def _route_seen_ns(what: Happened, record: Record, events: Sequence[Event]) -> int | None:
    seen = (
        event["ts_ns"]
        for event in events
        if event["kind"] == "RouteSeen"
        and event["ts_ns"] > what.fault_ns
        and record["new_master_address"] in event["attrs"].values()
    )
    return next(seen, None)


def _set_reached_ns(what: Happened, events: Sequence[Event], members: int) -> int | None:
    reached = (
        event["ts_ns"]
        for event in events
        if event["kind"] == "SyncStateSetChanged"
        and event["epoch"] == what.new_epoch
        and len(event["attrs"]["sync_state_set_after"].split(",")) >= members
    )
    return next(reached, None)
