"""What one node has applied: the state machine, and beside it the membership and who the members are.

All three are functions of the log up to `index`, the same on every node, and travel together in a snapshot. A
change of membership that does not fit is without effect, on every node alike. The state machine passes over a
command that no node can apply (`node.state_machine`). A change of membership that cannot be read ends the
node: nodes that disagree about the voters could elect two leaders. Only this code writes such entries, from
values that were checked before.
"""

import logging
from collections.abc import Iterable

from controller_core.raft.confchange.changer import ConfChangeError
from controller_core.raft.confchange.changes import decode_conf_change
from controller_core.raft.raw_node import RawNode
from controller_core.raft.types import ConfState, Entry, EntryType, Snapshot
from controller_core.server.node.callers import Callers
from controller_core.server.node.conf_changes import ConfChanges
from controller_core.server.node.member_book import MemberBook, MemberBookError, unwrap, wrap
from controller_core.server.node.snapshots import Moment
from controller_core.server.node.types import StateMachine

_log = logging.getLogger(__name__)


class AppliedLog:
    """The applied part of one node's log.

    Attributes:
        index: of the last applied entry.
        conf_state: Raft's membership; empty until the node belongs to a cluster.
        book: names, addresses and stores of the members.
    """

    __slots__ = ("_machine", "book", "conf_state", "index")

    def __init__(self, machine: StateMachine, snapshot: Snapshot) -> None:
        self._machine = machine
        self.index = 0
        self.conf_state = ConfState()
        self.book = MemberBook()
        self.restore(snapshot)

    def restore(self, snapshot: Snapshot) -> None:
        """Replace everything by what a snapshot holds."""
        self.index, self.conf_state = snapshot.index, snapshot.conf_state
        self.book, data = unwrap(snapshot.data)
        if data:
            self._machine.restore(data)

    def snapshot_problem(self, snapshot: Snapshot) -> str | None:
        """Return why a snapshot cannot replace the applied state; None if it can."""
        try:
            _, data = unwrap(snapshot.data)
        except MemberBookError as error:
            return str(error)
        if data:
            return self._machine.problem_with(snapshot.index, data)
        return "it holds no state" if self.index else None

    def moment(self) -> Moment:
        """Return what a snapshot of now holds."""
        return self.index, self.conf_state, wrap(self.book, self._machine.snapshot())

    def apply(self, entries: Iterable[Entry], raw: RawNode, callers: Callers, changes: ConfChanges) -> None:
        """Apply committed entries and answer their callers."""
        for entry in entries:
            if entry.type is not EntryType.NORMAL:
                self._apply_change(entry, raw, changes)
            elif entry.data:
                result = self._machine.apply(entry.index, entry.term, entry.data)
                callers.proposals.answer(entry, result)
            self.index = entry.index

    def _apply_change(self, entry: Entry, raw: RawNode, changes: ConfChanges) -> None:
        change = decode_conf_change(entry)
        try:
            self.conf_state = raw.apply_conf_change(change)
        except ConfChangeError as error:
            _log.warning("the membership change at index %d was not applied: %s", entry.index, error)
            changes.applied(entry, str(error))
            return
        self.book = self.book.changed(change, self.conf_state)
        changes.applied(entry, self.conf_state)
