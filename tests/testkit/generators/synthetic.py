"""Segments of a known story: a report must find exactly the generated events.

Problem: a pipeline that is tested on its own output proves nothing. Here the story comes first (the masters,
the faults and their times, the duration of each step), the segments follow from it, and the story predicts
the findings. Shape: `Story` is a value; `write(story, directory)` makes the files; the same story makes the
same bytes. Never: nothing here uses the pipeline's transforms, only its segment schemas.
"""

import random
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from slo_pipeline.schemas.segments import EVENTS, PROBE_OPS, SAMPLES

US_PER_MS: Final = 1_000
US_PER_S: Final = 1_000_000
EPOCH_2026_US: Final = int(datetime(2026, 11, 20, 12, 0, tzinfo=UTC).timestamp()) * US_PER_S

type_of_kind: Final = {"samples": SAMPLES, "events": EVENTS, "probe_ops": PROBE_OPS}


@dataclass(frozen=True)
class ScriptedChange:
    """One change of master.

    Offsets are milliseconds after `at_ms`, which is the fault or the order to switch.

    Attributes:
        at_ms: after the story's begin.
        cause: MasterElected's cause; Designated makes it a switchover.
        fault: what the nemesis did; "" for none.
        gap_ms: writes intended in [at, at + gap) fail or wait; the first one after it is acknowledged.
        late_ms: of those, the sends intended this shortly before the end of the gap wait and succeed.
    """

    at_ms: int
    old_master_id: int
    new_master_id: int
    epoch: int
    cause: str = "ConnectionClosed"
    fault: str = "kill -9"
    suspected_ms: float = 4
    elected_ms: float = 9
    notified_ms: float = 11
    handshake_ms: float = 120
    role_taken_ms: float = 60
    route_seen_ms: float | None = 210
    gap_ms: float = 380
    late_ms: float = 0
    redundancy_ms: float = 2_400
    healed_ms: float | None = 20_000
    truncated_bytes: int = 0


@dataclass(frozen=True)
class StoryGroup:
    """A broker group of the story: its changes of master and what else befell its writes."""

    name: str
    replicas: tuple[int, ...] = (1, 2, 3)
    first_master_id: int = 1
    changes: tuple[ScriptedChange, ...] = ()
    unexplained_ms: tuple[int, ...] = ()  # sends intended at these times fail, with no change of master near
    silent_ms: tuple[int, int] | None = None  # the canary sends nothing in [from, until)
    lost_seqs: tuple[int, ...] = ()  # acknowledged, never read back


@dataclass(frozen=True)
class Story:
    """Everything that happened, and the seed of the noise around it."""

    groups: tuple[StoryGroup, ...]
    begin_us: int = EPOCH_2026_US
    duration_s: int = 600
    sends_per_s: int = 10
    cluster: str = "demo"
    seed: int = 7
    scrape_gap_s: tuple[int, int] | None = None
    extra_events: tuple[dict[str, Any], ...] = field(default_factory=tuple)

    def us(self, offset_ms: float) -> int:
        """Return the UTC microsecond of an offset from the story's begin."""
        return self.begin_us + round(offset_ms * US_PER_MS)


def two_failovers_and_a_switchover() -> Story:
    """Tell the demo's story: a kill, a freeze, a planned switch; one more group has one bad second."""
    orders = StoryGroup(
        name="orders",
        changes=(
            ScriptedChange(at_ms=120_000, old_master_id=1, new_master_id=2, epoch=2, truncated_bytes=14_336),
            ScriptedChange(
                at_ms=300_000,
                old_master_id=2,
                new_master_id=1,
                epoch=3,
                cause="HeartbeatTimeout",
                fault="freeze",
                suspected_ms=2_510,
                elected_ms=2_516,
                notified_ms=2_518,
                role_taken_ms=2_571,
                handshake_ms=2_640,
                route_seen_ms=2_905,
                gap_ms=3_050,
                late_ms=240,
                redundancy_ms=9_300,
                healed_ms=6_000,
            ),
            ScriptedChange(
                at_ms=480_000,
                old_master_id=1,
                new_master_id=2,
                epoch=4,
                cause="Designated",
                fault="",
                elected_ms=6,
                notified_ms=8,
                role_taken_ms=41,
                handshake_ms=70,
                route_seen_ms=None,
                gap_ms=150,
                late_ms=150,
                redundancy_ms=900,
                healed_ms=None,
            ),
        ),
    )
    payments = StoryGroup(name="payments", unexplained_ms=(420_300, 420_400), silent_ms=(550_000, 556_000))
    return Story(groups=(orders, payments), scrape_gap_s=(200, 212))


def probe_rows(story: Story, group: StoryGroup) -> list[dict[str, Any]]:
    """Return the canary's rows of one group: every send, and the reads of the stored messages."""
    chance = random.Random(f"{story.seed}/{group.name}")
    period_ms = 1_000 // story.sends_per_s
    rows: list[dict[str, Any]] = []
    for seq, at_ms in enumerate(range(0, story.duration_s * 1_000, period_ms)):
        if group.silent_ms and group.silent_ms[0] <= at_ms < group.silent_ms[1]:
            continue
        send = _send(story, group, seq, at_ms, chance)
        rows.append(send)
        if send["result"] == "ok" and seq not in group.lost_seqs:
            rows.append(_read(send, chance))
    return rows


def _send(story: Story, group: StoryGroup, seq: int, at_ms: int, chance: random.Random) -> dict[str, Any]:
    took_ms = 1.1 + chance.lognormvariate(0.0, 0.45) + (chance.random() < 0.01) * chance.uniform(5, 40)
    result = "ok"
    change = next((c for c in group.changes if c.at_ms <= at_ms < c.at_ms + c.gap_ms), None)
    if change is not None:
        left_ms = change.at_ms + change.gap_ms - at_ms
        if left_ms <= change.late_ms:
            took_ms += left_ms
        else:
            result = "timeout" if change.fault == "freeze" else "refused"
    if at_ms in group.unexplained_ms:
        result = "timeout"
    intended_us = story.us(at_ms)
    answered = result == "ok" or result == "refused"
    return {
        "op": "send",
        "group": group.name,
        "seq": seq,
        "intended_ts": intended_us,
        "start_ts": intended_us + 90,
        "end_ts": intended_us + round(took_ms * US_PER_MS) if answered else None,
        "result": result,
        "broker_addr": "127.0.0.1:10911",
        "queue_id": seq % 4 if result == "ok" else None,
        "queue_offset": seq // 4 if result == "ok" else None,
        "remark": None if result == "ok" else f"send {result}",
        "clock_id": "canary/1",
    }


def _read(send: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    start_us = int(send["end_ts"]) + round(chance.uniform(1, 30) * US_PER_MS)
    return send | {"op": "read", "intended_ts": start_us, "start_ts": start_us, "end_ts": start_us + 900}


class _Events:
    """Numbers events and fills in what all of them carry."""

    def __init__(self, story: Story, group: StoryGroup) -> None:
        self.rows: list[dict[str, Any]] = []
        self._story, self._group = story, group

    def add(
        self, at_ms: float, kind: str, source: str, epoch: int | None, broker: int | None, **attrs: str
    ) -> None:
        story, group = self._story, self._group.name
        ts_ns = story.us(at_ms) * 1_000
        self.rows.append(
            {
                "sequence": len(self.rows) + 1,
                "event_id": f"{source}/{group}/{kind}/{epoch}/{broker}/{ts_ns}",
                "ts": ts_ns // 1_000,
                "ts_ns": ts_ns,
                "monotonic_ns": ts_ns - story.begin_us * 1_000,
                "clock_id": f"{source}/1",
                "source": source,
                "kind": kind,
                "namespace": "",
                "cluster": "" if source == "canary" else story.cluster,
                "group": group,
                "broker_id": broker,
                "epoch": None if source in {"nemesis", "canary"} else epoch,
                "term": 1 if source == "controller" else None,
                "index": len(self.rows) + 10 if source == "controller" else None,
                "correlation_id": f"{story.cluster}/{group}/{epoch}" if source == "controller" else None,
                "attrs": attrs,
            }
        )


def address(broker_id: int) -> str:
    """Return the address the story gives a broker."""
    return f"127.0.0.1:{10_901 + 10 * broker_id}"


def event_rows(story: Story, group: StoryGroup) -> list[dict[str, Any]]:
    """Return the events of one group, of all sources, in order of time."""
    events = _Events(story, group)
    everybody = ",".join(str(one) for one in group.replicas)
    first = str(group.first_master_id)
    events.add(
        100, "MasterElected", "controller", 1, group.first_master_id, cause="BrokerRequest",
        old_master_id="", new_master_id=first, old_epoch="0", new_epoch="1",
        sync_state_set_before="", sync_state_set_after=first,
        new_master_address=address(group.first_master_id),
    )  # fmt: skip
    events.add(
        1_500, "SyncStateSetChanged", "controller", 1, group.first_master_id, sync_state_set_before=first,
        sync_state_set_after=everybody,
    )  # fmt: skip
    for change in group.changes:
        _change_events(story, group, change, events)
    return sorted(events.rows, key=lambda row: (int(row["ts_ns"]), str(row["event_id"])))


def _change_events(story: Story, group: StoryGroup, change: ScriptedChange, events: _Events) -> None:
    at, epoch, old, new = change.at_ms, change.epoch, change.old_master_id, change.new_master_id
    planned = change.cause == "Designated"
    everybody = ",".join(str(one) for one in group.replicas)
    if change.fault:
        events.add(
            at, "FaultInjected", "nemesis", None, old, fault=change.fault, target=f"{group.name} {old}"
        )
    if not planned:
        events.add(at + change.suspected_ms, "BrokerSuspected", "controller", epoch, old, cause=change.cause)
    proposed_ms = at if planned else at + change.suspected_ms + 1
    events.add(
        proposed_ms, "MasterElected", "controller", epoch, new, cause=change.cause,
        old_master_id=str(old), new_master_id=str(new), old_epoch=str(epoch - 1), new_epoch=str(epoch),
        sync_state_set_before=everybody, sync_state_set_after=str(new),
        last_heartbeat_ns=str(story.us(at - 350) * 1_000),
        suspected_ns="" if planned else str(story.us(at + change.suspected_ms) * 1_000),
        proposed_ns=str(story.us(proposed_ms) * 1_000),
        old_master_address=address(old), new_master_address=address(new),
    )  # fmt: skip
    committed = str(story.us(at + change.elected_ms) * 1_000)
    events.add(at + change.notified_ms, "RoleNotified", "controller", epoch, new, committed_ns=committed)
    events.add(at + change.role_taken_ms, "RoleTaken", "controller", epoch, new, committed_ns=committed)
    replica = next(one for one in group.replicas if one not in {old, new})
    if change.truncated_bytes:
        events.add(
            at + change.handshake_ms - 15,
            "Truncated",
            "replica",
            epoch,
            replica,
            bytes=str(change.truncated_bytes),
        )
    events.add(at + change.handshake_ms, "HandshakeDone", "replica", epoch, replica)
    if change.route_seen_ms is not None:
        events.add(at + change.route_seen_ms, "RouteSeen", "canary", None, new, master_address=address(new))
    without_old = ",".join(str(one) for one in sorted({new, replica}))
    events.add(
        at + change.handshake_ms + 8, "SyncStateSetChanged", "controller", epoch, new,
        sync_state_set_before=str(new), sync_state_set_after=without_old,
    )  # fmt: skip
    events.add(
        at + change.redundancy_ms, "SyncStateSetChanged", "controller", epoch, new,
        sync_state_set_before=without_old, sync_state_set_after=everybody,
    )  # fmt: skip
    if change.healed_ms is not None and change.fault:
        events.add(
            at + change.healed_ms,
            "FaultHealed",
            "nemesis",
            None,
            old,
            fault=change.fault,
            target=f"{group.name} {old}",
        )


def sample_rows(story: Story, group: StoryGroup) -> list[dict[str, Any]]:
    """Return one scrape per second of each replica's lag and of a counter that restarts with its process."""
    chance = random.Random(f"{story.seed}/samples/{group.name}")
    rows: list[dict[str, Any]] = []
    for replica in group.replicas:
        instance, sent, uid = f"{group.name}-{replica}", 0, 0
        for second in range(story.duration_s):
            if story.scrape_gap_s and story.scrape_gap_s[0] <= second < story.scrape_gap_s[1]:
                continue
            down = _down_since(group, replica, second * 1_000)
            if down is not None and second * 1_000 < down.at_ms + down.redundancy_ms - 800:
                uid, sent = down.epoch, 0
                continue
            sent += 90 + chance.randrange(20)
            lag = _lag_bytes(down, second * 1_000, chance)
            base = {
                "ts": story.us(second * 1_000 + 250),
                "instance": instance,
                "instance_uid": f"{instance}/{uid}",
                "embedded_ts": None,
            }
            labels = {"cluster": story.cluster, "group": group.name, "broker_id": str(replica)}
            rows.append(base | {"metric": "rmqha_ha_lag_bytes", "labels": labels, "value": float(lag)})
            rows.append(
                base | {"metric": "rocketmq_messages_in_total", "labels": labels, "value": float(sent)}
            )
    return rows


def _down_since(group: StoryGroup, replica: int, at_ms: int) -> ScriptedChange | None:
    """Return the change that took this replica out, while it is still felt."""
    felt = [
        c
        for c in group.changes
        if c.fault and c.old_master_id == replica and c.at_ms <= at_ms < c.at_ms + 15_000
    ]
    return felt[-1] if felt else None


def _lag_bytes(down: ScriptedChange | None, at_ms: int, chance: random.Random) -> int:
    noise = chance.choice((0, 0, 0, 512, 1_024))
    if down is None:
        return noise
    left_ms = max(0.0, down.at_ms + down.redundancy_ms + 400 - at_ms)
    return noise + int(left_ms * 4_800)


def write(story: Story, directory: Path) -> None:
    """Write the story's segments below a directory, one file a kind and day."""
    rows: dict[str, list[dict[str, Any]]] = {
        "samples": [],
        "events": list(story.extra_events),
        "probe_ops": [],
    }
    for group in story.groups:
        rows["samples"] += sample_rows(story, group)
        rows["events"] += event_rows(story, group)
        rows["probe_ops"] += probe_rows(story, group)
    for kind, found in rows.items():
        write_rows(directory, kind, found)


def write_rows(directory: Path, kind: str, rows: list[dict[str, Any]]) -> None:
    """Write rows of one kind, cut by UTC day; timestamps are microseconds."""
    clock = "intended_ts" if kind == "probe_ops" else "ts"
    by_day: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        day = datetime.fromtimestamp(int(row[clock]) / US_PER_S, tz=UTC).strftime("%Y-%m-%d")
        by_day.setdefault(day, []).append(row)
    for day, found in sorted(by_day.items()):
        folder = directory / kind / f"day={day}"
        folder.mkdir(parents=True, exist_ok=True)
        table = pa.Table.from_pylist([_maps_as_pairs(row) for row in found], schema=type_of_kind[kind])
        pq.write_table(table, folder / f"synthetic-{day}.parquet", compression="zstd")


def _maps_as_pairs(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row with its maps as sorted pairs, which is how pyarrow takes them."""
    return {name: sorted(value.items()) if isinstance(value, dict) else value for name, value in row.items()}


def with_losses(story: Story, group: str, seqs: tuple[int, ...]) -> Story:
    """Return the story in which these acknowledged messages of a group are gone."""
    groups = tuple(replace(one, lost_seqs=seqs) if one.name == group else one for one in story.groups)
    return replace(story, groups=groups)
