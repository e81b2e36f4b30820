"""One broker group as the controller knows it: an immutable value, and what a rule gives back.

Rules (in `elections` and `members`) are functions of a group and a command to a `Change`; they never touch
the group they were given. `state` puts changes in place and numbers their events.

RocketMQ's own controller keeps two tables, one of ids and one of SyncStateSets, and a group can be in one of
them only. Here it is one value, so such a half-known group cannot be.

Source: BrokerReplicaInfo.java, SyncStateInfo.java of 5.4.0 for the fields.
"""

import msgspec

from controller_core.groups.commands import Cause, Suspicion
from controller_core.groups.history import Fact, FailoverRecord
from controller_core.groups.keys import BrokerId, GroupKey, MasterEpoch, SetEpoch
from controller_core.groups.replies import ExtValue, GroupReply, RoleNotice, SyncStateSetView

FIRST_BROKER_ID = BrokerId(1)


class Replica(msgspec.Struct, frozen=True):
    """One claimed id.

    Attributes:
        check_code: who claimed it; kept when the address changes.
        electable: False for a log replica.
    """

    address: str
    check_code: str
    electable: bool = True


class LostMaster(msgspec.Struct, frozen=True):
    """The master that a group had before an election failed.

    Kept so that the record of the next one is whole.
    """

    master_id: BrokerId
    address: str | None
    epoch: MasterEpoch
    cause: Cause
    suspected_ns: int | None = None
    last_heartbeat_ns: int | None = None


class Group(msgspec.Struct, frozen=True):
    """One broker group.

    Invariant: each member of the SyncStateSet is registered, and so is the master.
    Invariant: a recorded master is in the SyncStateSet.
    Invariant: once a master was elected, the SyncStateSet is never empty.
    Invariant: each member with a write guard is registered.
    Invariant: each member of the preceding set is registered; empty unless the SyncStateSet has one member.
    Invariant: epochs never go down, also when a group is forgotten and claimed again.

    Attributes:
        next_broker_id: higher than every id that was ever claimed.
        replicas: by ascending id, so that equal groups are equal bytes.
        sync_state_set: ascending.
        preceding_set: the SyncStateSet that the last election found, until somebody joins the master that it
            made. Where a master alone acknowledges nothing (minInSyncReplicas of 2), each of these has all
            that was acknowledged.
        failure_reason: why the last election failed, one word; empty while the group has a master.
        write_guards: members whose writes are stopped until they get their setting back, by ascending id,
            each with its earlier minInSyncReplicas.
    """

    key: GroupKey
    next_broker_id: BrokerId = FIRST_BROKER_ID
    replicas: dict[BrokerId, Replica] = msgspec.field(default_factory=dict)
    master_id: BrokerId | None = None
    master_epoch: MasterEpoch = MasterEpoch(0)
    set_epoch: SetEpoch = SetEpoch(0)
    sync_state_set: tuple[BrokerId, ...] = ()
    lost_master: LostMaster | None = None
    failure_reason: str = ""
    write_guards: dict[BrokerId, int] = msgspec.field(default_factory=dict)
    preceding_set: tuple[BrokerId, ...] = ()

    @property
    def master_address(self) -> str | None:
        """Where the recorded master listens; None without a master."""
        return None if self.master_id is None else self.address(self.master_id)

    def address(self, broker_id: BrokerId) -> str | None:
        """The address at which a member listens; None for an unclaimed id."""
        replica = self.replicas.get(broker_id)
        return None if replica is None else replica.address

    def set_view(self) -> SyncStateSetView:
        """Return the SyncStateSet as bodies carry it."""
        return SyncStateSetView(self.sync_state_set, self.set_epoch)

    def master_ext(self) -> dict[str, ExtValue]:
        """Return the header fields that describe the master; without one, only the epochs."""
        ext: dict[str, ExtValue] = {"masterEpoch": self.master_epoch, "syncStateSetEpoch": self.set_epoch}
        if self.master_id is not None:
            ext["masterBrokerId"] = self.master_id
            ext["masterAddress"] = self.replicas[self.master_id].address
        return ext


def lost_master(group: Group, cause: Cause, suspicion: Suspicion | None = None) -> LostMaster | None:
    """Return the recorded master to remember before it is cleared.

    Without one, the master that the group already remembers.
    """
    if group.master_id is None:
        return group.lost_master
    return LostMaster(
        group.master_id,
        group.master_address,
        group.master_epoch,
        cause,
        None if suspicion is None else suspicion.suspected.utc_ns,
        None if suspicion is None else suspicion.last_heartbeat_ns,
    )


class EpochFloor(msgspec.Struct, frozen=True):
    """How far a forgotten group's epochs had come: where a group of the same name goes on."""

    master_epoch: MasterEpoch
    set_epoch: SetEpoch


class Change(msgspec.Struct, frozen=True):
    """What one command does to one group.

    Attributes:
        group: the group afterwards; None leaves it as it is.
        forget: forget the whole group.
    """

    reply: GroupReply
    group: Group | None = None
    forget: bool = False
    facts: tuple[Fact, ...] = ()
    notices: tuple[RoleNotice, ...] = ()
    failovers: tuple[FailoverRecord, ...] = ()


def group_ext(cluster: str, broker_name: str) -> dict[str, ExtValue]:
    """Return the two header fields that 1003, 1012 and 1013 always answer with."""
    return {"clusterName": cluster, "brokerName": broker_name}
