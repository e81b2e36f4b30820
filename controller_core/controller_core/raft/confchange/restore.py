"""Rebuild a membership from the ConfState of a snapshot, by the same moves that made it.

A plain configuration is built by adding its members one at a time. A joint one is built in two steps: first
its outgoing voters are added one at a time, as if they were the configuration; then the joint is entered with
a change that removes them all and adds the incoming voters and the learners.
"""

from controller_core.raft.confchange.changer import Changed, Changer
from controller_core.raft.confchange.changes import ConfChangeSingle, ConfChangeType
from controller_core.raft.tracker.tracker import ProgressTracker
from controller_core.raft.types import ConfState, NodeId


def restore(tracker: ProgressTracker, last_index: int, conf_state: ConfState) -> Changed:
    """Return membership and progress of `conf_state`, built on top of an empty tracker.

    Raises:
        ConfChangeError: the ConfState is not a valid configuration.
    """
    work = ProgressTracker(tracker.inflight_messages_max, tracker.inflight_bytes_max)
    outgoing = [_single(ConfChangeType.ADD_NODE, node) for node in conf_state.voters_outgoing]
    incoming = [
        *(_single(ConfChangeType.REMOVE_NODE, node) for node in conf_state.voters_outgoing),
        *(_single(ConfChangeType.ADD_NODE, node) for node in conf_state.voters),
        *(_single(ConfChangeType.ADD_LEARNER_NODE, node) for node in conf_state.learners),
        *(_single(ConfChangeType.ADD_LEARNER_NODE, node) for node in conf_state.learners_next),
    ]
    for change in outgoing or incoming:
        work.membership, work.progress = Changer(work, last_index).simple((change,))
    if outgoing:
        return Changer(work, last_index).enter_joint(incoming, auto_leave=conf_state.auto_leave)
    return work.membership, work.progress


def _single(kind: ConfChangeType, node: NodeId) -> ConfChangeSingle:
    return ConfChangeSingle(kind, node)
