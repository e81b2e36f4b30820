"""Which groups the leader should hold an election for, and when it knows enough to do so.

A death that the leader sees leads to an election at once. This scan finds the rest: masters that died while
another node led, groups whose whole set was gone and has a member again, elections overtaken by another
death. So it should run after gaining leadership, whenever a member comes alive, after each applied election,
and every so often.

RocketMQ's scan looks at groups with a recorded master only, and the others wait for a broker to ask; its
JRaft variant had the test the wrong way round (apache/rocketmq#10875), so that living masters were replaced
and dead ones kept.

After a start the liveness table is empty, and every master looks dead. So silence counts for nothing until a
node has listened for one heartbeat timeout. What a node has itself seen to die, by a connection that closed,
is known at once: brokers keep connections to every controller, so a follower that takes over need not wait.

Pure: the state, the table and the time are parameters.

Source: ReplicasInfoManager.java 5.4.0, scanNeedReelectBrokerSets; DLedgerController.java, scanInactiveMaster.
"""

from dataclasses import dataclass

from controller_core.groups.commands import DEFAULT_HEARTBEAT_TIMEOUT_MS, Cause
from controller_core.groups.elections.policy import elect
from controller_core.groups.group import Group
from controller_core.groups.keys import BrokerId, GroupKey, MasterEpoch, ReplicaKey
from controller_core.groups.liveness.entries import Death
from controller_core.groups.liveness.table import LivenessTable
from controller_core.groups.state import GroupsState


@dataclass(frozen=True, slots=True)
class ElectionNeed:
    """A group that needs a master, and why.

    Attributes:
        master_id: the recorded master; None without one.
        death: how this node saw the recorded master die, None if it did not.
    """

    key: GroupKey
    master_id: BrokerId | None
    master_epoch: MasterEpoch
    cause: Cause
    death: Death | None


def groups_needing_election(
    state: GroupsState, liveness: LivenessTable, *, unclean_allowed: bool = False
) -> list[ElectionNeed]:
    """Return the groups without a living master in which a member could be elected now."""
    needs = (election_need(group, liveness, unclean_allowed=unclean_allowed) for group in state.groups())
    return [need for need in needs if need is not None]


def election_need(
    group: Group, liveness: LivenessTable, *, unclean_allowed: bool = False
) -> ElectionNeed | None:
    """Return why a group needs an election that can succeed now, None if it does not.

    A group that never had a master waits for a broker to ask: that broker becomes its first master.
    """
    master_key = None if group.master_id is None else ReplicaKey(*group.key, group.master_id)
    if not group.sync_state_set or (master_key is not None and liveness.is_alive(master_key)):
        return None
    living = liveness.alive(group.key, group.replicas)
    alive = {broker.id: broker for broker in living if not broker.is_learner}
    if elect(group, alive, None, unclean_allowed=unclean_allowed) is None:
        return None
    death = None if master_key is None else liveness.last_death(master_key)
    cause = Cause.MASTER_MISSING if death is None else death.cause
    return ElectionNeed(group.key, group.master_id, group.master_epoch, cause, death)


def may_elect(
    need: ElectionNeed, *, now_ms: int, listening_since_ms: int, hold_ms: int = DEFAULT_HEARTBEAT_TIMEOUT_MS
) -> bool:
    """Tell whether a need is certain enough to act on.

    Args:
        need: what the scan found.
        now_ms: the time.
        listening_since_ms: since when this node has taken heartbeats without a break. Not: since when it
            leads.
        hold_ms: for how long a node must have listened before silence means anything.
    """
    if need.master_id is None:
        return True  # no master to replace
    if need.death is not None:
        return True  # seen with own eyes
    return listening_left_ms(now_ms, listening_since_ms, hold_ms) == 0


def listening_left_ms(
    now_ms: int, listening_since_ms: int, hold_ms: int = DEFAULT_HEARTBEAT_TIMEOUT_MS
) -> int:
    """Return for how much longer silence means nothing to a node that has listened since this time."""
    return max(0, listening_since_ms + hold_ms - now_ms)


def must_hold_request(
    group: Group,
    liveness: LivenessTable,
    *,
    now_ms: int,
    listening_since_ms: int,
    hold_ms: int = DEFAULT_HEARTBEAT_TIMEOUT_MS,
) -> bool:
    """Return whether a broker's own 1002 must be refused for now.

    Its master may live without a heartbeat yet. A person's designation is never held.
    """
    if group.master_id is None:
        return False
    master_key = ReplicaKey(*group.key, group.master_id)
    if liveness.is_alive(master_key) or liveness.last_death(master_key) is not None:
        return False
    return listening_left_ms(now_ms, listening_since_ms, hold_ms) > 0
