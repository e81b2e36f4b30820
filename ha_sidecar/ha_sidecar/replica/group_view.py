"""The replica's knowledge of its group: the master of each epoch, and the members of the SyncStateSet.

Only answers that a majority of the controllers vouches for come here. The last such answer counts, whatever
the view knew before: controllers that were restored from a backup may name a lower epoch. Two questions may
be open at a time, and the older answer may come last. So the view takes an older state (a lower epoch, or
another role in the same epoch) only if it learned nothing since the question began.

A newer epoch without a master is a role too, and the old master is not followed in it: the controllers take
that one for dead and may elect another member next, which would lack the messages that the old one
acknowledged with our help since.

Epoch 0 without a master says nothing new of a known master: the controllers lost their state and have not
elected yet. They look for the member that acts as master, and that member can take no writes without the
acknowledgements of its set. So the replica follows it until an election.

Source: ReplicasManager.changeBrokerRole 5.4.0 (a broker takes only `newEpoch > masterEpoch`, from anybody).
"""

import asyncio
from dataclasses import dataclass
from typing import Final

from controller_core.remoting.bodies import SyncStateSet
from controller_core.remoting.numbers import BrokerId
from ha_sidecar.common.identity import NO_ID

NO_EPOCH: Final = -1
BEFORE_ELECTIONS: Final = 0
"""The epoch of a group in which these controllers never elected anybody."""


@dataclass(frozen=True, slots=True)
class MasterRole:
    """The group's master in one epoch; id and address are None without a master."""

    epoch: int = NO_EPOCH
    master_id: BrokerId | None = None
    master_address: str | None = None


class FollowedGroup:
    """The newest role and SyncStateSet; event loop's thread only.

    Attributes:
        version: counts how often something new was learned.
        is_learner: whether this replica never enters the SyncStateSet.
        retention_hours: for how long the master keeps files of its log; None until it has told.
    """

    def __init__(self, *, is_learner: bool = False) -> None:
        """Know nothing yet."""
        self.is_learner: Final = is_learner
        self.retention_hours: int | None = None
        self.role = MasterRole()
        self.members: frozenset[BrokerId] = frozenset()
        self.members_epoch = -1
        self.broker_id = NO_ID
        self.version = 0
        self._changed = asyncio.Event()

    @property
    def in_sync(self) -> bool:
        """Say whether this replica is in the SyncStateSet, as far as is known."""
        return self.broker_id in self.members

    @property
    def is_joining(self) -> bool:
        """Say whether this replica hurries, because it is not in the SyncStateSet yet."""
        return not self.in_sync and not self.is_learner

    def learn(
        self,
        epoch: int | None,
        master_id: BrokerId | None,
        master_address: str | None,
        members: SyncStateSet | None,
        *,
        asked_at: int | None = None,
    ) -> bool:
        """Take what a majority of the controllers said; return whether the role is a new one.

        Args:
            epoch: master epoch; None if not told.
            master_id: None or 0 without a master.
            master_address: host:port.
            members: the SyncStateSet; None if not told.
            asked_at: `version` when the question began; None if nothing can have been learned since.
        """
        if epoch == BEFORE_ELECTIONS and not master_id and self.role.master_id is not None:
            return False
        is_newest = asked_at is None or asked_at == self.version
        before = (self.role, self.members, self.members_epoch)
        if members is not None and (is_newest or members.sync_state_set_epoch >= self.members_epoch):
            self.members = frozenset(map(BrokerId, members.sync_state_set))
            self.members_epoch = members.sync_state_set_epoch
        found = self.role
        if epoch is not None and (is_newest or epoch > self.role.epoch):
            found = (
                MasterRole(epoch, master_id, master_address)
                if master_id and master_address
                else MasterRole(epoch)
            )
        is_new = found != self.role
        self.role = found
        if before != (self.role, self.members, self.members_epoch):
            self.version += 1
        if is_new:
            self._changed.set()
            self._changed = asyncio.Event()
        return is_new

    async def wait_role(self, other_than: MasterRole) -> MasterRole:
        """Return the role as soon as it is another one."""
        while self.role == other_than:
            await self._changed.wait()
        return self.role
