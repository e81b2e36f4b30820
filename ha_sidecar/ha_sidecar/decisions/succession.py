"""When can the successor of a master acknowledge? By what the controllers say, and by its own answer.

A master refuses sends until as many members are in its set as clients need, so being master is not enough.
How many it can have is known from the set before the election.

Everything here is a pure function.

Source: AdminBrokerProcessor.java (907), ReplicasInfoManager.getSyncStateData (1006) 5.4.0.
"""

from controller_core.remoting.bodies import HARuntimeInfo
from ha_sidecar.decisions.broker_facts import GroupFacts


def is_succeeded(before: GroupFacts, now: GroupFacts) -> bool:
    """Say whether the controllers name another master, with a copy beside its own if one was possible."""
    return now.master_epoch > before.master_epoch and len(now.members) > _copies_required(before)


def acknowledges(answer: HARuntimeInfo, before: GroupFacts) -> bool:
    """Say whether the answering broker (907) is a master with a copy beside its own, if one was possible."""
    in_sync = sum(slave.in_sync for slave in answer.ha_connection_info)
    return answer.master and in_sync >= _copies_required(before)


def _copies_required(before: GroupFacts) -> int:
    """Return how many copies a successor has beside its own: one, if a third member was in the set."""
    others = len(before.members) - 1
    return min(others - 1, 1)
