"""The replicated state of all groups: the result of applying the log.

Deterministic and pure: `apply` looks at the state, the command, and the position of its entry, and at nothing
else. No clock, no liveness, no randomness, no order of a hash table: two nodes that applied the same log have
the same bytes, and `digest` tells whether they do.

Groups are keyed by cluster and brokerName. Some requests carry no cluster. Then the name alone decides if one
cluster has it. If several have, the group that fits what the request says (the master and epochs of a 1001,
the id of a 1002 or 1003) is meant if exactly one does; else the answer is 2005, naming the clusters. The
server tells the cluster whenever it knows it from the sender's heartbeats, so a broker's own requests never
come to that.

This module holds no rule of the protocol; it finds the group, asks the rule, puts the change in place.
"""

from collections.abc import Callable, Iterator

from controller_core.groups.commands import (
    AlterSyncStateSet,
    AnyCommand,
    ApplyBrokerId,
    CleanBrokerData,
    ElectMaster,
    GroupCommand,
    ImportGroups,
    LiftWriteGuard,
    RaiseWriteGuard,
    RecordFailoverTimes,
    RegisterBroker,
)
from controller_core.groups.elections.election import elect_master
from controller_core.groups.elections.failovers import record_times
from controller_core.groups.elections.write_guards import lift_write_guard, raise_write_guard
from controller_core.groups.errors import AmbiguousGroupError, CommandApplyError, GroupsUsageError
from controller_core.groups.group import Change, EpochFloor, Group, group_ext
from controller_core.groups.history import Event, History
from controller_core.groups.keys import GroupKey, MasterEpoch, SetEpoch
from controller_core.groups.members.broker_ids import apply_broker_id, register_broker
from controller_core.groups.members.cleaning import clean_broker_data
from controller_core.groups.members.imported_groups import import_groups
from controller_core.groups.members.sync_state import alter_sync_state_set
from controller_core.groups.replies import ExtValue, Outcome, ambiguous
from controller_core.groups.snapshots import Image, decode_image, encode_image, image_digest

EPOCH_FLOORS_MAX = 10_000
"""How many forgotten groups are remembered, so that a new group of the same name goes on from their
epochs."""

_NO_FLOOR = EpochFloor(MasterEpoch(0), SetEpoch(0))
_UNFIT = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What a pure function raises for its arguments alone.

Not: MemoryError, RecursionError, OSError, which are of one process.
"""
_REASON_CHARS_MAX = 200


class GroupsState:
    """All groups, their history, and how far the log has been applied.

    Not safe for use by several threads; one loop owns it.
    """

    def __init__(self) -> None:
        self._load(Image())

    def _load(self, image: Image) -> None:
        self._digest: str | None = None
        self.applied_index: int = image.applied_index
        self.applied_term: int = image.applied_term
        self.history: History = History(image.events, image.failovers, image.last_sequence)
        self._groups: dict[GroupKey, Group] = {group.key: group for group in image.groups}
        self._floors: dict[GroupKey, EpochFloor] = dict(image.floors)
        self._by_name: dict[str, tuple[GroupKey, ...]] = {}
        for key in sorted(self._groups):
            self._by_name[key.broker_name] = (*self._by_name.get(key.broker_name, ()), key)

    def apply(self, command: AnyCommand, index: int, term: int) -> Outcome:
        """Carry out one entry of the log, and say what it led to.

        Args:
            command: what the entry holds.
            index: the entry's position, higher than that of each entry before.
            term: the entry's term.

        Raises:
            CommandApplyError: the command does not fit the state; only the applied index has changed.
            GroupsUsageError: the index was applied before; state and log no longer belong together.
        """
        self.skip(index, term)
        try:
            if isinstance(command, ImportGroups):
                reply, changes = import_groups(command, is_new=self.is_new)
                found = [(change.group.key, change) for change in changes if change.group is not None]
            else:
                key, change = self._change(command, index, term)
                reply, found = change.reply, [(key, change)]
        except AmbiguousGroupError as error:
            return Outcome(ambiguous(error, _ambiguous_ext(command)))
        except _UNFIT as error:
            reason = f"{type(error).__name__}: {error}"[:_REASON_CHARS_MAX]
            raise CommandApplyError(
                f"command {type(command).__name__} cannot be applied: {reason}"
            ) from error
        events: list[Event] = []
        for key, change in found:
            self._put(key, change)
            numbered = enumerate(change.facts, len(events))
            events += [self.history.add_event(key, fact, index, term, number) for number, fact in numbered]
            for record in change.failovers:
                self.history.add_failover(record)
        notices = tuple(notice for _, change in found for notice in change.notices)
        return Outcome(reply, notices, tuple(events))

    @property
    def is_new(self) -> bool:
        """Whether no group was ever recorded here."""
        return not self._groups and self.history.last_sequence == 0

    def skip(self, index: int, term: int) -> None:
        """Pass over one entry of the log: it counts as applied and changes nothing else.

        Raises:
            GroupsUsageError: the index was applied before; state and log no longer belong together.
        """
        if index <= self.applied_index:
            raise GroupsUsageError(f"entry {index} comes after {self.applied_index} was applied")
        self._digest = None
        self.applied_index = index
        self.applied_term = term

    def _change(self, command: GroupCommand, index: int, term: int) -> tuple[GroupKey, Change]:
        key = GroupKey(command.cluster, command.broker_name)
        group = self.find(command.broker_name, command.cluster, _fits(command))
        key = key if group is None else group.key
        match command:
            case ApplyBrokerId():
                change = apply_broker_id(group, key, self._floors.get(key, _NO_FLOOR), command)
            case RegisterBroker():
                change = register_broker(group, key, self._floors.get(key, _NO_FLOOR), command)
            case AlterSyncStateSet():
                change = alter_sync_state_set(group, command)
            case ElectMaster():
                change = elect_master(group, command, index, term)
            case CleanBrokerData():
                change = clean_broker_data(group, command)
            case RecordFailoverTimes():
                change = record_times(self.history.failover(key, command.master_epoch), command)
            case RaiseWriteGuard():
                change = raise_write_guard(group, command)
            case LiftWriteGuard():
                change = lift_write_guard(group, command)
        return key, change

    def _put(self, key: GroupKey, change: Change) -> None:
        if change.forget:
            self._forget(key)
        elif change.group is not None:
            if key not in self._groups:
                self._by_name[key.broker_name] = tuple(sorted((*self._by_name.get(key.broker_name, ()), key)))
                self._floors.pop(key, None)
            self._groups[key] = change.group

    def _forget(self, key: GroupKey) -> None:
        group = self._groups.pop(key)
        names = tuple(other for other in self._by_name.pop(key.broker_name) if other != key)
        if names:
            self._by_name[key.broker_name] = names
        self._floors[key] = EpochFloor(group.master_epoch, group.set_epoch)
        if len(self._floors) > EPOCH_FLOORS_MAX:
            del self._floors[next(iter(self._floors))]

    def find(
        self, broker_name: str, cluster: str = "", fits: Callable[[Group], bool] | None = None
    ) -> Group | None:
        """Return the group of a name; None if it is unknown.

        Args:
            broker_name: the group's name.
            cluster: its cluster, empty if unknown.
            fits: what else is known about it, to choose among clusters.

        Raises:
            AmbiguousGroupError: several clusters have such a group.
        """
        if cluster:
            return self._groups.get(GroupKey(cluster, broker_name))
        keys = self._by_name.get(broker_name, ())
        if len(keys) > 1 and fits is not None:
            fitting = tuple(key for key in keys if fits(self._groups[key]))
            keys = fitting if len(fitting) == 1 else keys
        if len(keys) > 1:
            raise AmbiguousGroupError(broker_name, tuple(key.cluster for key in keys))
        return self._groups[keys[0]] if keys else None

    def find_one(
        self, broker_name: str, cluster: str = "", fits: Callable[[Group], bool] | None = None
    ) -> Group | None:
        """As `find`, for those to whom a name of several clusters is as good as none."""
        try:
            return self.find(broker_name, cluster, fits)
        except AmbiguousGroupError:
            return None

    def group_of(self, command: AnyCommand) -> Group | None:
        """Return the group that applying a command now would change; None for none or several."""
        if isinstance(command, ImportGroups):
            return None
        return self.find_one(command.broker_name, command.cluster, _fits(command))

    def is_ambiguous(self, broker_name: str) -> bool:
        """Say whether several clusters have a group of this name."""
        return len(self._by_name.get(broker_name, ())) > 1

    def get(self, key: GroupKey) -> Group | None:
        """Return the group of a full key."""
        return self._groups.get(key)

    def groups(self) -> Iterator[Group]:
        """Yield all groups; do not apply anything during the iteration."""
        return iter(self._groups.values())

    def __len__(self) -> int:
        return len(self._groups)

    def snapshot(self) -> bytes:
        """Write the whole state; the same state always gives the same bytes."""
        return encode_image(self._image())

    def restore(self, data: bytes) -> None:
        """Replace the whole state by a snapshot's.

        Raises:
            SnapshotDecodeError: the bytes are not a snapshot of a version that this code knows; the state is
                unchanged.
        """
        self._load(decode_image(data))

    def digest(self) -> str:
        """Return a fingerprint of the whole state, 64 hex digits.

        It takes some 20 ms with a full history, so it is remembered until the next entry is applied.
        """
        if self._digest is None:
            self._digest = image_digest(self._image())
        return self._digest

    def _image(self) -> Image:
        return Image(
            applied_index=self.applied_index,
            applied_term=self.applied_term,
            groups=tuple(self._groups[key] for key in sorted(self._groups)),
            floors=tuple(self._floors.items()),
            events=self.history.encoded_events,
            last_sequence=self.history.last_sequence,
            failovers=self.history.failovers,
        )


def _fits(command: GroupCommand) -> Callable[[Group], bool] | None:
    """Return the test that chooses among groups of one name in several clusters; None without a hint."""
    match command:
        case AlterSyncStateSet(master_id=master_id, master_epoch=epoch, set_epoch=set_epoch):
            wanted = (master_id, epoch, set_epoch)
            return lambda group: (group.master_id, group.master_epoch, group.set_epoch) == wanted
        case ElectMaster(requester_id=int(requester_id)):
            return lambda group: requester_id in group.replicas
        case ElectMaster(suspicion=suspicion) if suspicion is not None:
            suspected = (suspicion.master_id, suspicion.master_epoch)
            return lambda group: (group.master_id, group.master_epoch) == suspected
        case RegisterBroker(broker_id=broker_id, address=address):
            return lambda group: group.address(broker_id) == address
        case _:
            return None


def _ambiguous_ext(command: AnyCommand) -> dict[str, ExtValue] | None:
    """Return the header that each request's refusals carry."""
    match command:
        case ApplyBrokerId() | RegisterBroker():
            return group_ext(command.cluster, command.broker_name)
        case AlterSyncStateSet():
            return {"newSyncStateSetEpoch": 0}
        case ElectMaster():
            return {}
        case _:
            return None
