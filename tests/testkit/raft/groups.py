"""A short way to use the groups' state machine in tests: commands by position, encoded, with times.

`GroupsDriver` plays the leader: it numbers entries, stamps them, captures who lives. It
never judges anything itself.
"""

from collections.abc import Iterable

from controller_core.groups.commands import (
    AlterSyncStateSet,
    AnyCommand,
    ApplyBrokerId,
    Cause,
    CleanBrokerData,
    ElectMaster,
    LiveBroker,
    MemberLog,
    RecordFailoverTimes,
    RegisterBroker,
    Stamp,
    Suspicion,
    decode,
    encode,
)
from controller_core.groups.group import Group
from controller_core.groups.keys import BrokerId, GroupKey, MasterEpoch
from controller_core.groups.replies import Outcome
from controller_core.groups.state import GroupsState

CLUSTER = "c1"
NAME = "b1"
KEY = GroupKey(CLUSTER, NAME)
CLOCK_ID = "n0"
SECOND_NS = 1_000_000_000


def stamp(second: float) -> Stamp:
    """Return both clocks at a second; the monotonic one started 1,000 s later."""
    return Stamp(int(second * SECOND_NS), int((second - 1_000) * SECOND_NS), CLOCK_ID)


def check_code(broker_id: int) -> str:
    """Return what a broker with this id would claim it with."""
    return f"127.0.0.1:{9000 + broker_id};17"


def ids_of(ids: Iterable[int]) -> tuple[BrokerId, ...]:
    """Return broker ids that a test wrote as numbers."""
    return tuple(map(BrokerId, ids))


def live(*brokers: int | LiveBroker) -> tuple[LiveBroker, ...]:
    """Return living members, given by id or whole."""
    return tuple(
        broker if isinstance(broker, LiveBroker) else LiveBroker(BrokerId(broker)) for broker in brokers
    )


class GroupsDriver:
    """A state machine and the log that feeds it; by default about one group."""

    def __init__(self, key: GroupKey = KEY) -> None:
        self.state = GroupsState()
        self.log: list[bytes] = []
        self.term = 1
        self.index = 0
        self.key = key

    def apply(self, command: AnyCommand) -> Outcome:
        """Append a command as bytes and apply what they decode to."""
        self.log.append(encode(command))
        self.index += 1
        return self.state.apply(decode(self.log[-1]), self.index, self.term)

    @property
    def now(self) -> Stamp:
        """Return the time of the next entry: a second each."""
        return stamp(2_000 + self.index)

    @property
    def group(self) -> Group:
        """Return the driven group, which must exist."""
        group = self.state.get(self.key)
        if group is None:
            raise LookupError(f"no group {self.key}")
        return group

    def claim(self, broker_id: int, code: str | None = None, *, log_replica: bool = False) -> Outcome:
        """Claim an id (1013)."""
        return self.apply(
            ApplyBrokerId(
                cluster=self.key.cluster,
                broker_name=self.key.broker_name,
                stamp=self.now,
                broker_id=BrokerId(broker_id),
                check_code=check_code(broker_id) if code is None else code,
                log_replica=log_replica,
            )
        )

    def register(
        self,
        broker_id: int,
        address: str,
        *,
        alive: Iterable[int] = (),
        log_replica: bool = False,
        take_up: bool = False,
    ) -> Outcome:
        """Announce an address (1003)."""
        return self.apply(
            RegisterBroker(
                cluster=self.key.cluster,
                broker_name=self.key.broker_name,
                stamp=self.now,
                broker_id=BrokerId(broker_id),
                address=address,
                log_replica=log_replica,
                alive=ids_of(alive),
                take_up=take_up,
            )
        )

    def alter(
        self,
        members: Iterable[int],
        *,
        master_id: int | None = None,
        master_epoch: int | None = None,
        set_epoch: int | None = None,
        alive: Iterable[int] | None = None,
        cluster: str = "",
    ) -> Outcome:
        """Replace the SyncStateSet (1001), as the master of now unless told otherwise."""
        wanted = ids_of(members)
        group = self.state.get(self.key) or Group(self.key)
        return self.apply(
            AlterSyncStateSet(
                cluster=cluster,
                broker_name=self.key.broker_name,
                stamp=self.now,
                master_id=BrokerId((group.master_id or 0) if master_id is None else master_id),
                master_epoch=group.master_epoch if master_epoch is None else master_epoch,
                members=wanted,
                set_epoch=group.set_epoch if set_epoch is None else set_epoch,
                alive=wanted if alive is None else ids_of(alive),
            )
        )

    def election(
        self,
        *alive: int | LiveBroker,
        by: int | None = None,
        designate: bool = False,
        unclean_allowed: bool = False,
        suspicion: Suspicion | None = None,
        cause: Cause | None = None,
        replaced_epoch: int | None = None,
        told_epoch: int = 0,
        acting_id: int | None = None,
        logs: tuple[MemberLog, ...] = (),
    ) -> ElectMaster:
        """Return an election's command (1002) among the living; without `by` it is the controller's own."""
        if cause is None and by is None:
            cause = Cause.MASTER_MISSING
        elif cause is None:
            cause = Cause.DESIGNATED if designate else Cause.BROKER_REQUEST
        return ElectMaster(
            cluster=self.key.cluster,
            broker_name=self.key.broker_name,
            stamp=self.now,
            requester_id=None if by is None else BrokerId(by),
            designate=designate,
            cause=cause or Cause.MASTER_MISSING,
            alive=live(*alive),
            unclean_allowed=unclean_allowed,
            suspicion=suspicion,
            replaced_epoch=replaced_epoch,
            told_epoch=told_epoch,
            acting_id=None if acting_id is None else BrokerId(acting_id),
            logs=logs,
        )

    def elect(
        self,
        *alive: int | LiveBroker,
        by: int | None = None,
        designate: bool = False,
        unclean_allowed: bool = False,
        suspicion: Suspicion | None = None,
        cause: Cause | None = None,
        replaced_epoch: int | None = None,
        told_epoch: int = 0,
        acting_id: int | None = None,
        logs: tuple[MemberLog, ...] = (),
    ) -> Outcome:
        """Hold that election."""
        return self.apply(
            self.election(
                *alive,
                by=by,
                designate=designate,
                unclean_allowed=unclean_allowed,
                suspicion=suspicion,
                cause=cause,
                replaced_epoch=replaced_epoch,
                told_epoch=told_epoch,
                acting_id=acting_id,
                logs=logs,
            )
        )

    def suspect(self, *alive: int | LiveBroker, cause: Cause = Cause.CONNECTION_CLOSED) -> Outcome:
        """Hold the election that the death of the recorded master asks for."""
        return self.elect(*alive, suspicion=self.suspicion(), cause=cause)

    def suspicion(self) -> Suspicion:
        """Return the leader's belief that the recorded master has just died."""
        group = self.group
        return Suspicion(
            group.master_id or BrokerId(0),
            group.master_epoch,
            self.now,
            last_heartbeat_ns=self.now.utc_ns - SECOND_NS // 2,
        )

    def clean(
        self,
        ids: str = "",
        *,
        clean_living: bool = False,
        alive: Iterable[int] = (),
        cluster: str | None = None,
    ) -> Outcome:
        """Forget members or the group (1011)."""
        return self.apply(
            CleanBrokerData(
                cluster=self.key.cluster if cluster is None else cluster,
                broker_name=self.key.broker_name,
                stamp=self.now,
                ids_text=ids,
                clean_living=clean_living,
                alive=ids_of(alive),
            )
        )

    def record_times(self, master_epoch: int, **times: Stamp) -> Outcome:
        """Add later times to a failover's record."""
        return self.apply(
            RecordFailoverTimes(
                cluster=self.key.cluster,
                broker_name=self.key.broker_name,
                stamp=self.now,
                master_epoch=MasterEpoch(master_epoch),
                **times,
            )
        )

    def group_of_three(self, log_replicas: Iterable[int] = ()) -> "GroupsDriver":
        """Claim ids 1 to 3, elect 1, take all into the set: what RocketMQ's own tests begin with."""
        for broker_id in (1, 2, 3):
            self.claim(broker_id, log_replica=broker_id in tuple(log_replicas))
        self.elect(1, 2, 3, by=1)
        self.alter((1, 2, 3))
        return self


def replay(log: Iterable[bytes], term: int = 1) -> GroupsState:
    """Apply a log to an empty state."""
    state = GroupsState()
    for index, data in enumerate(log, start=1):
        state.apply(decode(data), index, term)
    return state
