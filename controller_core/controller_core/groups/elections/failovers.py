"""What an election leaves in the history: its record, its events, and the times that are known only later.

The cause of a failover is why the old master was lost. If elections failed before one succeeded, the cause,
the old master and the time of suspicion are those of the loss, remembered in the group; what started the
election that succeeded is its trigger.
"""

from msgspec.structs import replace

from controller_core.groups.commands import ElectMaster, RecordFailoverTimes, Stamp
from controller_core.groups.group import Change, Group, lost_master
from controller_core.groups.history import EventKind, Fact, FailoverRecord
from controller_core.groups.keys import BrokerId, MasterEpoch, comma_list
from controller_core.groups.replies import GroupReply
from controller_core.remoting.codes import ResponseCode


def elected(
    before: Group, after: Group, winner: BrokerId, command: ElectMaster, index: int, term: int
) -> tuple[FailoverRecord, Fact]:
    """Return the record and the event of an election that `winner` won.

    `index` and `term` are its entry's.
    """
    lost = lost_master(before, command.cause, command.suspicion)
    record = FailoverRecord(
        cluster=after.key.cluster,
        group=after.key.broker_name,
        cause=command.cause if lost is None else lost.cause,
        trigger=command.cause,
        term=term,
        index=index,
        old_master_id=None if lost is None else lost.master_id,
        old_master_address=None if lost is None else lost.address,
        old_epoch=before.master_epoch if lost is None else lost.epoch,
        new_master_id=winner,
        new_master_address=after.replicas[winner].address,
        new_epoch=after.master_epoch,
        sync_state_set_before=before.sync_state_set,
        sync_state_set_after=after.sync_state_set,
        unclean=bool(before.sync_state_set) and winner not in before.sync_state_set,
        last_heartbeat_ns=None if lost is None else lost.last_heartbeat_ns,
        suspected_ns=None if lost is None else lost.suspected_ns,
        proposed_ns=command.stamp.utc_ns,
    )
    fact = Fact(
        EventKind.MASTER_ELECTED,
        command.stamp,
        winner,
        after.master_epoch,
        _elected_attrs(record),
        correlation_epoch=after.master_epoch,
    )
    return record, fact


def _elected_attrs(record: FailoverRecord) -> dict[str, str]:
    values = {
        "cause": record.cause,
        "trigger": record.trigger,
        "old_master_id": record.old_master_id,
        "old_master_address": record.old_master_address,
        "old_epoch": record.old_epoch,
        "new_master_id": record.new_master_id,
        "new_master_address": record.new_master_address,
        "new_epoch": record.new_epoch,
        "sync_state_set_before": comma_list(record.sync_state_set_before),
        "sync_state_set_after": comma_list(record.sync_state_set_after),
        "unclean": str(record.unclean).lower(),
        "last_heartbeat_ns": record.last_heartbeat_ns,
        "suspected_ns": record.suspected_ns,
        "proposed_ns": record.proposed_ns,
    }
    # Unknown values are left out: otherwise every reader would have to distinguish an empty text from a
    # number.
    return {name: str(value) for name, value in values.items() if value is not None}


def suspected(command: ElectMaster, epoch: MasterEpoch) -> tuple[Fact, ...]:
    """Return the event of the suspicion that an election answers.

    `epoch` is the one that the election made.
    """
    suspicion = command.suspicion
    if suspicion is None:
        return ()
    attrs = {"cause": str(command.cause), "master_epoch": str(suspicion.master_epoch)}
    if suspicion.last_heartbeat_ns is not None:
        attrs["last_heartbeat_ns"] = str(suspicion.last_heartbeat_ns)
    stamp = suspicion.suspected
    return (
        Fact(EventKind.BROKER_SUSPECTED, stamp, suspicion.master_id, epoch, attrs, correlation_epoch=epoch),
    )


def failed(before: Group, after: Group, command: ElectMaster, reason: str) -> Fact:
    """Return the event of a failed election."""
    attrs = {
        "reason": str(reason),
        "cause": str(command.cause),
        "sync_state_set": comma_list(after.sync_state_set),
        "alive": comma_list(tuple(sorted(broker.id for broker in command.alive))),
    }
    if before.master_id is not None:
        attrs["old_master_id"] = str(before.master_id)
    if command.requester_id is not None:
        attrs["requester_id"] = str(command.requester_id)
    return Fact(
        EventKind.ELECTION_FAILED,
        command.stamp,
        command.requester_id,
        after.master_epoch,
        attrs,
        correlation_epoch=after.master_epoch,
    )


def record_times(record: FailoverRecord | None, command: RecordFailoverTimes) -> Change:
    """Add later times to a record; the first value of each stays, so repetitions do nothing.

    If the history has dropped the election, the answer is 2008 and nothing changes.
    """
    if record is None:
        remark = f"No failover of {command.broker_name} to epoch {command.master_epoch} is kept"
        return Change(GroupReply(ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST, None, remark))
    after = replace(
        record,
        committed_ns=_first(record.committed_ns, command.committed),
        noticed_ns=_first(record.noticed_ns, command.noticed),
        role_taken_ns=_first(record.role_taken_ns, command.role_taken),
        first_beat_ns=_first(record.first_beat_ns, command.first_beat),
    )
    facts = []
    if record.noticed_ns is None and command.noticed is not None:
        facts.append(_later(EventKind.ROLE_NOTIFIED, after, command.noticed))
    if record.role_taken_ns is None and command.role_taken is not None:
        facts.append(_later(EventKind.ROLE_TAKEN, after, command.role_taken))
    failovers = (after,) if after != record else ()
    return Change(GroupReply(ResponseCode.SUCCESS), facts=tuple(facts), failovers=failovers)


def _first(known_ns: int | None, stamp: Stamp | None) -> int | None:
    return stamp.utc_ns if known_ns is None and stamp is not None else known_ns


def _later(kind: EventKind, record: FailoverRecord, stamp: Stamp) -> Fact:
    attrs = {"address": record.new_master_address, "cause": str(record.cause)}
    if record.committed_ns is not None:
        attrs["committed_ns"] = str(record.committed_ns)
    return Fact(
        kind, stamp, record.new_master_id, record.new_epoch, attrs, correlation_epoch=record.new_epoch
    )
