"""Changes of membership under way on the leader: one at a time, from the proposal until it is applied here.

    none under way --propose--> in the log at an index --applied there, same term--> answered
                                          |
                                          +--- refused when applied, or withdrawn: an error, nothing changed
                                          +--- leadership lost: outcome unknown

A second one during that time is refused with its own error: two changes at a time can make two majorities
that do not meet. A joint change is answered when it is entered, and is under way until the cluster leaves it.
"""

import asyncio
from dataclasses import dataclass

from controller_core.raft.confchange.changes import ConfChange, ConfChangeV2
from controller_core.raft.errors import ProposalDroppedError
from controller_core.raft.raw_node import RawNode
from controller_core.raft.types import ConfState, Entry
from controller_core.server.node.types import (
    ChangeRefusedError,
    ChangeUnderWayError,
    CommandDroppedError,
    ProposalLostError,
)


@dataclass(slots=True)
class _UnderWay:
    index: int
    term: int
    done: asyncio.Future[ConfState]


class ConfChanges:
    """The changes that this node proposed."""

    __slots__ = ("_raw", "_under_way")

    def __init__(self, raw: RawNode) -> None:
        self._raw = raw
        self._under_way: _UnderWay | None = None

    def propose(self, change: ConfChange | ConfChangeV2) -> asyncio.Future[ConfState]:
        """Put a change into the log of this leader; the future is of the membership that it led to.

        Raises:
            ChangeUnderWayError: another change is not applied yet; nothing happened.
            CommandDroppedError: leadership is being handed over; nothing happened.
        """
        if self._under_way is not None or self._raw.conf_change_pending:
            raise ChangeUnderWayError
        try:
            self._raw.propose_conf_change(change)
        except ProposalDroppedError as error:
            raise CommandDroppedError(error.reason or "leadership is being handed over") from error
        status = self._raw.status()
        done: asyncio.Future[ConfState] = asyncio.get_running_loop().create_future()
        self._under_way = _UnderWay(status.last_index, status.term, done)
        return done

    def applied(self, entry: Entry, result: ConfState | str) -> None:
        """Answer the change that stands at the entry's index: the new membership, or why it had no effect."""
        under_way = self._under_way
        if under_way is None or entry.index < under_way.index:
            return
        self._under_way = None
        if under_way.done.done():
            return
        if (entry.index, entry.term) != (under_way.index, under_way.term):
            under_way.done.set_exception(ProposalLostError(f"another entry was committed at {entry.index}"))
        elif isinstance(result, str):
            under_way.done.set_exception(ChangeRefusedError(result))
        else:
            under_way.done.set_result(result)

    def check_leadership(self) -> None:
        """Fail the waiting caller if leadership was lost."""
        under_way = self._under_way
        if under_way is not None and not (self._raw.is_leader and self._raw.term == under_way.term):
            self.lose("leadership was lost; the outcome of the change is unknown")

    def lose(self, reason: str) -> None:
        """Fail the waiting caller: the outcome is unknown."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None and not under_way.done.done():
            under_way.done.set_exception(ProposalLostError(reason))
