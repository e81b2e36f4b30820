"""What the replica knows of its group: who is master in which epoch, and who is in the SyncStateSet.

Knowledge comes by three ways (the answer to registering, polls, notices) and in any order. A role is newer when its
epoch is; within an epoch only "no master known" can still turn into a master. A notice that a poll repeats changes
nothing, so it never reopens a connection.

A newer epoch without a master is a role too, and the old master is not followed in it: the controllers take that one for
dead and may elect another member next, who would lack whatever the old one acknowledged with our help meanwhile.

Source: ReplicasManager.changeBrokerRole 5.4.0 (only `newEpoch > masterEpoch` counts).
"""

import asyncio
from dataclasses import dataclass
from typing import Final

from controller_core.remoting.bodies import SyncStateSet

NO_EPOCH: Final = -1


@dataclass(frozen=True, slots=True)
class Role:
    """Who leads the group; id and address are None while there is no master."""

    epoch: int = NO_EPOCH
    master_id: int | None = None
    master_address: str | None = None


class GroupView:
    """The newest role and SyncStateSet; event loop's thread only."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self.role = Role()
        self.members: frozenset[int] = frozenset()
        self.members_epoch = -1
        self.broker_id = 0
        self._changed = asyncio.Event()

    @property
    def in_sync(self) -> bool:
        """Say whether this replica is in the SyncStateSet, as far as is known."""
        return self.broker_id in self.members

    def learn(
        self,
        epoch: int | None,
        master_id: int | None,
        master_address: str | None,
        members: SyncStateSet | None,
    ) -> bool:
        """Take what a controller said; return whether the role is a new one."""
        if members is not None and members.sync_state_set_epoch >= self.members_epoch:
            self.members = frozenset(members.sync_state_set)
            self.members_epoch = members.sync_state_set_epoch
        if epoch is None or epoch < self.role.epoch:
            return False
        found = Role(epoch, master_id, master_address) if master_id and master_address else Role(epoch)
        if epoch == self.role.epoch and (self.role.master_id is not None or found == self.role):
            return False
        self.role = found
        self._changed.set()
        self._changed = asyncio.Event()
        return True

    async def wait_role(self, other_than: Role) -> Role:
        """Return the role as soon as it is another one."""
        while self.role == other_than:
            await self._changed.wait()
        return self.role
