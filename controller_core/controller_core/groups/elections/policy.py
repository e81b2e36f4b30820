"""Who wins an election: a pure choice among ids, apart from what it does to the group.

The rule, over one pool of ids:
1. candidates are those of the pool that are alive and electable; without any, no member wins;
2. the old master stays if it is a candidate and no other member was designated;
3. the designated member wins if it is a candidate, else no member wins;
4. else the best log wins: highest epoch, then highest max offset, then lowest priority, then lowest id.

The first pool is the SyncStateSet, whose members hold every acknowledged message. Only when it gives no
winner, and only if unclean elections are allowed, all registered ids are a second pool: what the winner lacks
is then lost.

RocketMQ compares offsets and priorities by subtraction in 32 bits, so that a log 2 GiB longer may lose; here
tuples are compared. RocketMQ also elects a log replica that is left alone in the set; here a log replica is
never a candidate.

Source: DefaultElectPolicy.java 5.4.0.
"""

from collections.abc import Iterable, Mapping

from controller_core.groups.commands import LiveBroker
from controller_core.groups.group import Group
from controller_core.groups.keys import BrokerId


def elect(
    group: Group,
    alive: Mapping[BrokerId, LiveBroker],
    preferred_id: BrokerId | None,
    *,
    unclean_allowed: bool,
) -> BrokerId | None:
    """Return the id of the new master; None if no member may be master."""
    winner = elect_from(group.sync_state_set, group, alive, preferred_id)
    if winner is None and unclean_allowed:
        winner = elect_from(group.replicas, group, alive, preferred_id)
    return winner


def elect_from(
    pool: Iterable[BrokerId],
    group: Group,
    alive: Mapping[BrokerId, LiveBroker],
    preferred_id: BrokerId | None,
) -> BrokerId | None:
    """Return the winner within one pool."""
    candidates = [
        alive[broker_id] for broker_id in pool if broker_id in alive and is_electable(group, broker_id)
    ]
    ids = {candidate.id for candidate in candidates}
    if group.master_id in ids and preferred_id in (None, group.master_id):
        return group.master_id
    if preferred_id is not None:
        return preferred_id if preferred_id in ids else None
    return min(candidates, key=rank).id if candidates else None


def is_electable(group: Group, broker_id: BrokerId) -> bool:
    """Tell whether an id is registered and no log replica."""
    replica = group.replicas.get(broker_id)
    return replica is not None and replica.electable


def log_replicas_in_sync(group: Group) -> tuple[BrokerId, ...]:
    """Return the log replicas in a group's SyncStateSet, ascending."""
    return tuple(
        broker_id
        for broker_id, replica in sorted(group.replicas.items())
        if not replica.electable and broker_id in group.sync_state_set
    )


def rank(broker: LiveBroker) -> tuple[int, int, int, int]:
    """Return what sorts the best log first."""
    return (-broker.epoch, -broker.max_offset, broker.priority, broker.id)
