"""The JSON that people and programs read over HTTP.

Plain values made from the state, the liveness and the node.

Field names are snake_case with the unit as suffix; times are UTC in nanoseconds. Sets are ascending lists.
Unknown values are null, so that a reader can distinguish them from empty ones.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from controller_core.groups.elections.election import FailureReason
from controller_core.groups.elections.first_elections import is_first
from controller_core.groups.group import Group
from controller_core.groups.history import Event, EventsPage, FailoverRecord
from controller_core.groups.keys import ReplicaKey

Json = dict[str, Any]

EVENTS_MISSED_KIND = "EventsMissed"


@dataclass(frozen=True, slots=True)
class Beat:
    """What a member's newest heartbeat said, as this node saw it."""

    alive: bool
    epoch: int
    max_offset: int
    confirm_offset: int
    last_beat_age_ms: int
    learner: bool = False


BeatOf = Callable[[ReplicaKey], Beat | None]


def group_json(group: Group, beat_of: BeatOf) -> Json:
    """Return one broker group with its members, as this node sees them."""
    key = group.key
    return {
        "cluster": key.cluster,
        "name": key.broker_name,
        "master_id": group.master_id,
        "master_address": group.master_address,
        "master_epoch": group.master_epoch,
        "sync_state_set": list(group.sync_state_set),
        "sync_state_set_epoch": group.set_epoch,
        "next_broker_id": group.next_broker_id,
        "failure_reason": group.failure_reason or _waits_for_members(group, beat_of),
        "replicas": [
            {
                "broker_id": broker_id,
                "address": replica.address,
                "electable": replica.electable,
                "in_sync": broker_id in group.sync_state_set,
                "master": broker_id == group.master_id,
                **_beat_json(beat_of(ReplicaKey(key.cluster, key.broker_name, broker_id))),
            }
            for broker_id, replica in sorted(group.replicas.items())
        ],
    }


def _waits_for_members(group: Group, beat_of: BeatOf) -> str | None:
    """Return why the first election of a group waits.

    Its members have logs that earlier controllers managed.
    """
    beats = (beat_of(ReplicaKey(*group.key, broker_id)) for broker_id in group.replicas)
    has_past = is_first(group) and any(beat is not None and beat.epoch > 0 for beat in beats)
    return str(FailureReason.WAITING_FOR_MEMBERS) if has_past else None


def _beat_json(beat: Beat | None) -> Json:
    return {
        "alive": beat is not None and beat.alive,
        "epoch": beat.epoch if beat and beat.epoch >= 0 else None,
        "max_offset": beat.max_offset if beat and beat.max_offset >= 0 else None,
        "confirm_offset": beat.confirm_offset if beat and beat.confirm_offset >= 0 else None,
        "last_beat_age_ms": beat.last_beat_age_ms if beat else None,
        "learner": beat is not None and beat.learner,
    }


def failover_json(record: FailoverRecord) -> Json:
    """Return one change of master."""
    value: Json = msgspec.to_builtins(record)
    value["correlation_id"] = f"{record.cluster}/{record.group}/{record.new_epoch}"
    return value


def event_json(event: Event, namespace: str) -> Json:
    """Return one event as it is streamed and filed."""
    value: Json = msgspec.to_builtins(event)
    value["namespace"] = namespace
    return value


def missed_json(page: EventsPage, template: Json) -> Json:
    """Return the marker that replaces dropped events in the stream.

    It has the form of an event, so that a reader that files events files the gap too; its sequence is that of
    the last event that is missing.
    """
    sequence = template["sequence"] - 1
    return {
        **dict.fromkeys(template),
        "sequence": sequence,
        "event_id": f"missed/{sequence}",
        "ts_ns": template["ts_ns"],
        "monotonic_ns": template["monotonic_ns"],
        "clock_id": template["clock_id"],
        "source": template["source"],
        "kind": EVENTS_MISSED_KIND,
        "namespace": template["namespace"],
        "cluster": "",
        "group": "",
        "attrs": {"missed": str(page.missed)},
    }
