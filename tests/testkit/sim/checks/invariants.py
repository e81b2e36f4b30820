"""The invariants at every moment of a simulated run, watched from outside the nodes.

    S1  at most one leader a term, one vote a voter and term; whoever applies an index applies the same entry
    S2  master epochs grow exactly when the master changes, none to some or some to none included: by one, or
        above what members told; one master an epoch, also over the lives of controllers; no member's log is
        of an epoch above an election's
    S4  a new master was in the SyncStateSet (once there is one), alive when its
        election was proposed, and electable
    S6  a store that is opened again holds all that was durable before
    S7  without a master, each member of the preceding set has all that was acknowledged (`observations`)

and, of the brokers, that whoever acknowledges a message is the master of its epoch. S3 (nothing acknowledged
is lost) and S5 (linearizable answers) are judged at the end of a run.

Nothing here raises: code that runs inside a node would take the exception for its
own. Violations are collected.
"""

import hashlib
from dataclasses import dataclass

from controller_core.groups.commands import AlterSyncStateSet, AnyCommand, ElectMaster
from controller_core.groups.elections.first_elections import IDLE_EPOCHS_MAX
from controller_core.groups.group import Group
from controller_core.groups.keys import BrokerId, GroupKey
from controller_core.raft.types import Message, MessageType
from testkit.check.registers import Register

_OF_A_LEADER = frozenset((MessageType.APP, MessageType.HEARTBEAT, MessageType.SNAP))


@dataclass(frozen=True, slots=True)
class AppliedEntry:
    """An entry as the first node that applied it saw it."""

    index: int
    term: int
    data: bytes


class Invariants:
    """Collects what nodes show and notes when two things cannot both be.

    Attributes:
        violations: what went wrong, in words; empty while all is well.
        elections: changes of master that were applied.
        leaders: terms that had a leader.
    """

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.elections = 0
        self.applied_max = 0
        self._leader_of: dict[int, int] = {}
        self._vote_of: dict[tuple[int, int], int] = {}
        self._entry_at: dict[int, AppliedEntry] = {}
        self._image_at: dict[int, bytes] = {}
        self._master_of: dict[tuple[GroupKey, int], int | None] = {}

    @property
    def leaders(self) -> int:
        """How many terms had a leader."""
        return len(self._leader_of)

    def broken(self, text: str) -> None:
        """Note a violation."""
        self.violations.append(text)

    def require(self, condition: bool, text: str) -> None:
        """Note a violation unless the condition holds."""
        if not condition:
            self.violations.append(text)

    def begin_anew(self) -> None:
        """All controllers lose their stores: terms and log indexes begin again, masters and epochs do not."""
        self._leader_of.clear()
        self._vote_of.clear()
        self._entry_at.clear()
        self._image_at.clear()
        self.applied_max = 0

    def sent(self, message: Message) -> None:
        """A Raft message leaves its node."""
        if message.type in _OF_A_LEADER:
            known = self._leader_of.setdefault(int(message.term), int(message.from_))
            self.require(
                known == message.from_, f"S1: nodes {known} and {message.from_} lead term {message.term}"
            )
        elif message.type is MessageType.VOTE_RESP and not message.reject:
            voter = (int(message.from_), int(message.term))
            chosen = self._vote_of.setdefault(voter, int(message.to))
            self.require(
                chosen == message.to,
                f"S1: node {voter[0]} votes for {chosen} and {message.to} in term {voter[1]}",
            )

    def applies(self, node: str, index: int, term: int, data: bytes) -> bool:
        """A node is about to apply an entry; return whether it is the first to do so."""
        known = self._entry_at.get(index)
        if known is None:
            self._entry_at[index] = AppliedEntry(index, term, data)
            self.applied_max = max(self.applied_max, index)
            return True
        self.require(
            (known.term, known.data) == (term, data), f"S1: {node} applies another entry at index {index}"
        )
        return False

    def image(self, node: str, index: int, data: bytes) -> None:
        """A node made or took a snapshot of the state at an index."""
        digest = hashlib.blake2b(data, digest_size=16).digest()
        self.require(
            self._image_at.setdefault(index, digest) == digest,
            f"S1: {node} has another state at index {index}",
        )

    def changed(self, key: GroupKey, before: Group | None, after: Group | None, command: AnyCommand) -> None:
        """An entry was applied for the first time."""
        old, new = register_of(before), register_of(after)
        if after is None or old == new:
            return
        name = f"{key.broker_name} at epoch {new.master_epoch}"
        self.require(
            new.master_epoch >= old.master_epoch, f"S2: the master epoch of {name} went back from {old}"
        )
        self.require(new.set_epoch >= old.set_epoch, f"S2: the set's epoch of {name} went back from {old}")
        told = command.told_epoch if isinstance(command, ElectMaster) else 0
        untold = IDLE_EPOCHS_MAX if told and not old.members else 0
        wanted = (
            max(old.master_epoch, told + untold) + 1 if new.master_id != old.master_id else old.master_epoch
        )
        self.require(
            new.master_epoch == wanted,
            f"S2: {name} had master {old.master_id} in epoch {old.master_epoch}, "
            f"then {new.master_id}, told was {told}",
        )
        known = self._master_of.setdefault((key, new.master_epoch), new.master_id)
        self.require(known == new.master_id, f"S2: {name} has masters {known} and {new.master_id}")
        self.require(
            new.master_id is None or new.master_id in new.members, f"S2: the master of {name} is not in sync"
        )
        if new.master_id != old.master_id and new.master_id is not None:
            self._elected(after, old, new, command)
        elif isinstance(command, AlterSyncStateSet):
            self.require(
                new.set_epoch == old.set_epoch + 1, f"S2: the set of {name} changed without its epoch"
            )

    def _elected(self, group: Group, old: Register, new: Register, command: AnyCommand) -> None:
        self.elections += 1
        winner = new.master_id
        name = f"{winner} of {group.key.broker_name} in epoch {new.master_epoch}"
        self.require(isinstance(command, ElectMaster), f"S4: {type(command).__name__} made {name} master")
        if isinstance(command, ElectMaster):
            self.require(
                winner in {broker.id for broker in command.alive}, f"S4: {name} was elected and not alive"
            )
        self.require(
            not old.members or winner in old.members, f"S4: {name} was elected, in sync were {old.members}"
        )
        self.require(
            group.replicas[BrokerId(winner or 0)].electable, f"S4: {name} was elected and is a log replica"
        )
        self.require(new.members == (winner,), f"S4: {name} was elected with the set {new.members}")

    def acknowledged(self, key: GroupKey, epoch: int, broker_id: int) -> None:
        """A broker acknowledged a message as master of an epoch."""
        master_id = self._master_of.get((key, epoch))
        self.require(
            master_id == broker_id,
            f"S2: broker {broker_id} of {key.broker_name} acknowledges in epoch {epoch} of {master_id}",
        )


def register_of(group: Group | None) -> Register:
    """Return a group as its API shows it."""
    if group is None:
        return Register()
    return Register(group.master_id, group.master_epoch, group.sync_state_set, group.set_epoch)
