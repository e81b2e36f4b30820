"""Entries, messages, Ready and progress in the text form of etcd raft, byte for byte.

The form is the contract of the scenario texts: a core that sends other messages, or the same in
another order, prints otherwise.
"""

import json
from collections.abc import Iterable, Mapping

from controller_core.raft.confchange.changes import ConfChangeDecodeError, decode_conf_change
from controller_core.raft.quorum.majority import INFINITE_INDEX
from controller_core.raft.tracker.progress import ProgressState, ProgressStatus
from controller_core.raft.tracker.tracker import Membership
from controller_core.raft.types import (
    ConfState,
    Entry,
    EntryType,
    HardState,
    Message,
    MessageType,
    Ready,
    Snapshot,
    StateType,
)
from testkit.raft_scenarios.conf_text import format_changes

_STATE_NAMES = {
    StateType.FOLLOWER: "StateFollower",
    StateType.CANDIDATE: "StateCandidate",
    StateType.LEADER: "StateLeader",
    StateType.PRE_CANDIDATE: "StatePreCandidate",
}
_PROGRESS_NAMES = {
    ProgressState.PROBE: "StateProbe",
    ProgressState.REPLICATE: "StateReplicate",
    ProgressState.SNAPSHOT: "StateSnapshot",
}
_ENTRY_NAMES = {
    EntryType.NORMAL: "EntryNormal",
    EntryType.CONF_CHANGE: "EntryConfChange",
    EntryType.CONF_CHANGE_V2: "EntryConfChangeV2",
}
# Every name is "Msg" and the words of ours in camel case, but for two that abbreviate or join.
_MESSAGE_NAMES = {kind: "Msg" + kind.name.title().replace("_", "") for kind in MessageType}
MESSAGE_TYPES = {name: kind for kind, name in _MESSAGE_NAMES.items()}


def state_name(state: StateType) -> str:
    """Return the name of a role."""
    return _STATE_NAMES[state]


def describe_index(index: int) -> str:
    """Return an index, or the sign of infinity."""
    return "∞" if index == INFINITE_INDEX else str(index)


def describe_entry(entry: Entry) -> str:
    """Return `term/index type data`, the data quoted or as words of a change of membership."""
    if entry.type == EntryType.NORMAL:
        # JSON's quoting equals Go's %q for the printable text that scenarios use.
        data = json.dumps(entry.data.decode("utf-8", "backslashreplace"), ensure_ascii=False)
    else:
        try:
            data = format_changes(decode_conf_change(entry).as_v2().changes)
        except ConfChangeDecodeError as error:
            data = str(error)
    return f"{entry.term}/{entry.index} {_ENTRY_NAMES[entry.type]}" + (f" {data}" if data else "")


def describe_entries(entries: Iterable[Entry]) -> str:
    """Return a line an entry."""
    return "".join(describe_entry(entry) + "\n" for entry in entries)


def describe_hard_state(hard_state: HardState) -> str:
    """Return term, vote if there is one, and commit index."""
    vote = f" Vote:{hard_state.vote}" if hard_state.vote else ""
    return f"Term:{hard_state.term}{vote} Commit:{hard_state.commit}"


def describe_conf_state(state: ConfState) -> str:
    """Return all sets of a ConfState."""

    def ids(nodes: Iterable[int]) -> str:
        return "[" + " ".join(map(str, nodes)) + "]"

    return (
        f"Voters:{ids(state.voters)} VotersOutgoing:{ids(state.voters_outgoing)} "
        f"Learners:{ids(state.learners)} LearnersNext:{ids(state.learners_next)} "
        f"AutoLeave:{str(state.auto_leave).lower()}"
    )


def describe_snapshot(snapshot: Snapshot) -> str:
    """Return a snapshot without its data."""
    return f"Index:{snapshot.index} Term:{snapshot.term} ConfState:{describe_conf_state(snapshot.conf_state)}"


def describe_message(message: Message) -> str:
    """Return a message; more than one entry, or a snapshot, on lines of their own."""
    text = (
        f"{message.from_}->{message.to} {_MESSAGE_NAMES[message.type]} "
        f"Term:{message.term} Log:{message.log_term}/{message.index}"
    )
    if message.reject:
        text += f" Rejected (Hint: {message.reject_hint})"
    if message.commit:
        text += f" Commit:{message.commit}"
    if message.vote:
        text += f" Vote:{message.vote}"
    if len(message.entries) == 1:
        text += f" Entries:[{describe_entry(message.entries[0])}]"
    elif message.entries:
        text += " Entries:[" + "".join(f"\n  {describe_entry(entry)}" for entry in message.entries) + "\n]"
    if message.snapshot is not None and message.snapshot.index:
        text += f"\n  Snapshot: {describe_snapshot(message.snapshot)}"
    return text


def describe_ready(ready: Ready) -> str:
    """Return the parts of a Ready that are there."""
    parts: list[str] = []
    if ready.soft_state is not None:
        parts.append(f"Lead:{ready.soft_state.lead} State:{_STATE_NAMES[ready.soft_state.state]}\n")
    if ready.hard_state is not None and ready.hard_state != HardState():
        parts.append(f"HardState {describe_hard_state(ready.hard_state)}\n")
    if ready.read_states:
        states = " ".join(
            f"{{{state.index} [{' '.join(map(str, state.context))}]}}" for state in ready.read_states
        )
        parts.append(f"ReadStates [{states}]\n")
    if ready.entries:
        parts.append("Entries:\n" + describe_entries(ready.entries))
    if ready.snapshot is not None:
        parts.append(f"Snapshot {describe_snapshot(ready.snapshot)}\n")
    if ready.committed_entries:
        parts.append("CommittedEntries:\n" + describe_entries(ready.committed_entries))
    if ready.messages:
        parts.append("Messages:\n" + "".join(describe_message(message) + "\n" for message in ready.messages))
    if not parts:
        return "<empty Ready>"
    return f"Ready MustSync={str(ready.must_sync).lower()}:\n" + "".join(parts)


def describe_progress(progress: ProgressStatus) -> str:
    """Return one follower's progress."""
    text = f"{_PROGRESS_NAMES[progress.state]} match={progress.match} next={progress.next}"
    if progress.is_learner:
        text += " learner"
    if progress.paused:
        text += " paused"
    if progress.pending_snapshot:
        text += f" pendingSnap={progress.pending_snapshot}"
    if not progress.recent_active:
        text += " inactive"
    if progress.inflight_count:
        text += f" inflight={progress.inflight_count}" + ("[full]" if progress.inflight_full else "")
    return text


def describe_progress_map(progress: Mapping[int, ProgressStatus]) -> str:
    """Return a line a follower, by id."""
    return "".join(f"{node}: {describe_progress(progress[node])}\n" for node in sorted(progress))


def describe_membership(membership: Membership) -> str:
    """Return voters, and what else there is."""
    text = f"voters={_majority(membership.voters)}"
    if membership.outgoing:
        text += f"&&{_majority(membership.outgoing)}"
    if membership.learners:
        text += f" learners={_majority(membership.learners)}"
    if membership.learners_next:
        text += f" learners_next={_majority(membership.learners_next)}"
    return text + (" autoleave" if membership.auto_leave else "")


def _majority(ids: Iterable[int]) -> str:
    return "(" + " ".join(map(str, sorted(ids))) + ")"
