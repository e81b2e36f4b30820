"""Follow up an election that was committed.

Tell the group's brokers, and have the times of the new master recorded.
"""

from collections.abc import Callable

from controller_core.groups.commands import Stamp
from controller_core.groups.history import EventKind
from controller_core.groups.replies import Outcome, RoleNotice
from controller_core.server.notices.notice_order import RoleChanges
from controller_core.server.notices.notifier import Notifier
from controller_core.server.proposals.failover_times import FailoverTimesRecorder


class ElectionFollowUp:
    """Tells brokers who their master is; does not tell them while `may_notify` returns False."""

    def __init__(
        self,
        notifier: Notifier,
        changes: RoleChanges,
        recorder: FailoverTimesRecorder,
        may_notify: Callable[[], bool],
    ) -> None:
        self._notifier = notifier
        self._changes = changes
        self._recorder = recorder
        self._may_notify = may_notify

    async def after(self, outcome: Outcome, committed: Stamp, *, writes_stopped: bool) -> None:
        """Tell the brokers, in the order of `RoleChanges.tell`; return when every notice is on its way."""
        self._recorder.watch(outcome.notices, committed)
        if self._may_notify():
            await self._changes.tell(
                outcome.notices, _replaced_master_id(outcome), writes_stopped=writes_stopped
            )

    def repeat(self, notices: tuple[RoleNotice, ...]) -> None:
        """Tell brokers of an election that an earlier leader held.

        That leader may have died before it sent its notices.
        """
        if self._may_notify():
            self._notifier.notify(notices)
        self._recorder.watch(notices, None)

    def prepare(self, address: str) -> None:
        """Connect to a member that came alive, so that a later notice does not wait for the connection."""
        if self._may_notify():
            self._notifier.prepare(address)


def _replaced_master_id(outcome: Outcome) -> int | None:
    for event in outcome.events:
        if event.kind is EventKind.MASTER_ELECTED and "old_master_id" in event.attrs:
            return int(event.attrs["old_master_id"])
    return None
