"""Keep log replicas in the SyncStateSet of a new master that may be unable to reach the controllers' leader.

RocketMQ's election leaves the new master alone in the set. A slave joins it by a request (1001) of the
master to the controllers' leader. If one lost node had both the old master and that leader, the new master
sends the request to the lost leader and waits 3 s for the answer. Until then the controllers do not know of
its copy, and the operator does not move addresses to it. (Measured with nodes cut off: the set had two
members after 3.8 and 4.0 s.)

So a leader that is new keeps log replicas in the set with the winner, by the election itself:

    the winner, or the replica, was not in the set             the winner alone, as in RocketMQ
    a broker acknowledges with fewer than all of the set       the winner alone: a member of the set may lack
                                                               an acknowledged message
    the replica did not answer the leader's last question      without it
    otherwise                                                  the winner and the replica

Why that is safe: each member of the previous set holds every acknowledged message, and the new master learns
the larger set with its role. From then on it acknowledges only what the replica has too. Until the replica
has connected, its sends wait, as RocketMQ's master counts a member of the set that is not connected as one
that has not acknowledged (GroupTransferService.doWaitTransfer). A replica that does not come leaves the set
by the master's own request.

A slave that is a Java broker is not kept: it may need a second to leave a silent master, and all sends would
wait for it.

Source: ReplicasManager.changeToMaster, AutoSwitchHAService.maybeShrinkSyncStateSet of 5.5.0.
"""

from typing import Final

from controller_core.groups.commands import AlterSyncStateSet, ElectMaster
from controller_core.groups.elections.policy import log_replicas_in_sync
from controller_core.groups.group import Group
from controller_core.groups.history import FailoverRecord
from controller_core.groups.keys import BrokerId

JOINS_WITHIN_NS: Final = 3_500_000_000
"""For how long after its election a master may not drop a kept replica that lives.

A master asks for that in the moment in which it takes its role, before any replica can connect. It waits 3 s
for the answer, so a frozen controller that goes on may carry the request out as late as that.
"""


def set_of_winner(group: Group, command: ElectMaster, winner: BrokerId) -> tuple[BrokerId, ...]:
    """Return the SyncStateSet after an election."""
    if winner not in group.sync_state_set:
        return (winner,)
    kept = set(command.kept) & set(log_replicas_in_sync(group))
    return tuple(sorted({winner, *kept}))


def drops_too_early(
    group: Group, record: FailoverRecord | None, command: AlterSyncStateSet
) -> tuple[BrokerId, ...]:
    """Return the living replicas that an election kept a moment ago and that its master wants to drop.

    Args:
        group: as it is now.
        record: of the election that made the group's master epoch; None if it is not known.
        command: the master's request.
    """
    if record is None or record.new_epoch != group.master_epoch or command.master_epoch != group.master_epoch:
        return ()
    if not 0 <= command.stamp.utc_ns - record.proposed_ns < JOINS_WITHIN_NS:
        return ()
    kept = set(record.sync_state_set_after) - {record.new_master_id}
    return tuple(sorted(kept & set(group.sync_state_set) & set(command.alive) - set(command.members)))
