"""Which messages of another node reach the core: each line of the table; honest ones always do."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_core.log.memory import MemoryStore
from controller_core.raft.bounds import (
    INDEX_AHEAD_MAX,
    INDEX_MAX,
    NODE_ID_MAX,
    STORED_TERM_MAX,
    TERM_AHEAD_MAX,
    TERM_MAX,
)
from controller_core.raft.config import Config
from controller_core.raft.errors import RefusedMessageError
from controller_core.raft.peer_checks import PeerChecks, membership_problem
from controller_core.raft.raw_node import RawNode
from controller_core.raft.types import (
    ConfState,
    Entry,
    LogIndex,
    Message,
    MessageType,
    NodeId,
    Snapshot,
    StateType,
    Term,
)

VOTERS = ConfState(voters=(NodeId(1), NodeId(2), NodeId(3)))
FIRST = Snapshot(LogIndex(1), Term(1), VOTERS)


def node(initial: Snapshot | None = FIRST) -> tuple[RawNode, MemoryStore]:
    store = MemoryStore(initial)
    config = Config(
        1, 10, 2, applied=0 if initial is None else initial.index, pre_vote=True, check_quorum=True
    )
    return RawNode(config, store), store


def work(raw: RawNode, store: MemoryStore) -> None:
    while raw.has_ready():
        ready = raw.ready()
        store.commit(store.prepare(ready))
        raw.advance()


def follower() -> PeerChecks:
    """Return the checks of a node in term 2 that follows node 2.

    Entries 2 and 3 are of that term; the first is committed.
    """
    raw, store = node()
    raw.step(message("APP", index=1, log_term=1, entries=(entry(2, 2), entry(2, 3)), commit=2))
    work(raw, store)
    assert (raw.term, raw.leader_id, raw.last_index, raw.commit_index, raw.commit_term) == (2, 2, 3, 2, 2)
    return PeerChecks(raw, 1)


def leader() -> PeerChecks:
    raw, store = node(replace(FIRST, conf_state=ConfState(voters=(NodeId(1),))))
    raw.campaign()
    work(raw, store)
    assert raw.is_leader
    return PeerChecks(raw, 1)


def message(kind: str, **fields: Any) -> Message:
    given = {"to": 1, "from_": 2, "term": 2, **fields}
    return Message(MessageType[kind], **given)


def entry(term: int, index: int) -> Entry:
    return Entry(Term(term), LogIndex(index), data=b"x")


def snapshot(index: int = 9, term: int = 2, conf: ConfState = VOTERS) -> Snapshot:
    return Snapshot(LogIndex(index), Term(term), conf, b"state")


def refusal(checks: PeerChecks, what: Message) -> str:
    try:
        checks.check(what)
    except RefusedMessageError as error:
        return error.reason
    return ""


NEVER_SENT = [
    "HUP",
    "BEAT",
    "PROP",
    "UNREACHABLE",
    "SNAP_STATUS",
    "CHECK_QUORUM",
    "TRANSFER_LEADER",
    "STORAGE_APPEND",
    "STORAGE_APPEND_RESP",
    "STORAGE_APPLY",
    "STORAGE_APPLY_RESP",
    "FORGET_LEADER",
]


@pytest.mark.parametrize("kind", NEVER_SENT)
@pytest.mark.parametrize("term", [0, 2, 3])
def test_what_a_node_only_tells_itself_is_refused_from_others(kind: str, term: int) -> None:
    assert refusal(follower(), message(kind, term=term, entries=(entry(0, 0),))) == "type"


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        (message("HEARTBEAT", from_=1), "sender"),
        (message("HEARTBEAT", from_=0), "sender"),
        (message("HEARTBEAT", from_=NODE_ID_MAX + 1), "sender"),
        (message("HEARTBEAT", to=3), "sender"),
        (message("HEARTBEAT", term=0), "term"),
        (message("APP", term=0, index=3, log_term=2), "term"),
        (message("HEARTBEAT", term=2**64 - 1), "term"),
        (message("HEARTBEAT", term=TERM_MAX + 1), "term"),
        (message("HEARTBEAT", term=2 + TERM_AHEAD_MAX + 1), "term"),
        (message("HEARTBEAT", term=2 + TERM_AHEAD_MAX), ""),
        (message("VOTE", term=2**63, index=3, log_term=2), "term"),
        (message("PRE_VOTE_RESP", term=2**63), "term"),
        (message("VOTE", term=3, index=3, log_term=4), "term"),
        (message("VOTE", term=3, index=2**64 - 1, log_term=2), "index"),
        (message("VOTE", term=3, index=3, log_term=2), ""),
        (message("READ_INDEX", term=2, entries=(entry(0, 0),)), "term"),
        (message("READ_INDEX", term=0), "entries"),
        (message("READ_INDEX", term=0, entries=(entry(0, 0),)), ""),
        (message("READ_INDEX_RESP", index=INDEX_MAX, entries=(entry(0, 0),)), "index"),
        (message("HEARTBEAT", entries=(entry(2, 4),)), "entries"),
        (message("HEARTBEAT", snapshot=snapshot()), "snapshot"),
        (message("APP", index=3 + INDEX_AHEAD_MAX + 1, log_term=2), "index"),
        (message("APP", index=3 + INDEX_AHEAD_MAX, log_term=2), ""),
        (message("APP", index=3, log_term=2, commit=2**63), "index"),
        (message("APP", index=3, log_term=3), "term"),
        (message("APP", index=3, log_term=2, entries=(entry(2, 4), entry(2, 6))), "entries"),
        (message("APP", index=3, log_term=2, entries=(entry(2, 2),)), "entries"),
        (message("APP", index=3, log_term=2, entries=(entry(2, 4), entry(3, 5))), "entries"),
        (message("APP", index=3, log_term=2, entries=(entry(1, 4),)), "entries"),
        (message("APP", index=3, log_term=2, entries=(entry(2, 4), entry(2, 5)), commit=5), ""),
        (message("APP_RESP", reject=True, index=3, reject_hint=2**62), "index"),
        # A heartbeat commits nothing that this node does not have; from its leader it
        # means that entries were lost.
        (message("HEARTBEAT", term=3, commit=4), "index"),
        (message("HEARTBEAT", from_=3, commit=4), "index"),
        (message("HEARTBEAT", commit=4), ""),
        (message("HEARTBEAT", commit=3), ""),
        (message("TIMEOUT_NOW"), ""),
        (message("TIMEOUT_NOW", from_=3), "leader"),
        (message("TIMEOUT_NOW", term=3), "leader"),
        (message("SNAP"), "snapshot"),
        (message("SNAP", snapshot=snapshot()), ""),
        (message("SNAP", from_=3, snapshot=snapshot()), "leader"),
        (message("SNAP", term=52, snapshot=snapshot(10**6, 52)), "leader"),
        (message("SNAP", snapshot=snapshot(term=0)), "term"),
        (message("SNAP", snapshot=snapshot(term=3)), "term"),
        (message("SNAP", snapshot=snapshot(0)), "index"),
        (message("SNAP", snapshot=snapshot(2**63)), "index"),
        (message("SNAP", snapshot=snapshot(term=1)), "snapshot"),
        (message("SNAP", snapshot=snapshot(conf=ConfState())), "snapshot"),
        (
            message("SNAP", snapshot=snapshot(2, 1, ConfState())),
            "",
        ),  # Late: the core answers with what it has.
        (message("SNAP", term=1, snapshot=snapshot()), ""),  # Stale: the core drops it.
    ],
)
def test_a_message_is_judged_by_the_table(what: Message, reason: str) -> None:
    assert refusal(follower(), what) == reason


def test_a_snapshot_is_taken_from_the_candidate_that_this_node_voted_for() -> None:
    raw, store = node()
    raw.step(message("VOTE", term=5, index=9, log_term=1))
    work(raw, store)
    checks = PeerChecks(raw, 1)
    assert refusal(checks, message("SNAP", term=5, snapshot=snapshot(term=5))) == ""
    assert refusal(checks, message("SNAP", term=5, from_=3, snapshot=snapshot(term=5))) == "leader"


def test_a_leader_takes_no_acknowledgement_of_what_it_does_not_have() -> None:
    checks = leader()
    assert refusal(checks, message("APP_RESP", index=2)) == ""
    assert refusal(checks, message("APP_RESP", index=3)) == "index"


def test_a_node_without_a_log_takes_any_term_and_index_within_the_absolute_bounds() -> None:
    raw, store = node(None)
    checks = PeerChecks(raw, 1)
    what = message("APP", term=TERM_MAX, index=INDEX_MAX, log_term=TERM_MAX)
    assert refusal(checks, what) == ""
    assert refusal(checks, replace(what, term=Term(TERM_MAX + 1))) == "term"
    assert refusal(checks, replace(what, index=LogIndex(INDEX_MAX + 1))) == "index"
    raw.step(message("HEARTBEAT", term=TERM_MAX))
    work(raw, store)
    assert refusal(checks, message("SNAP", term=TERM_MAX, snapshot=snapshot(INDEX_MAX, TERM_MAX))) == ""


def test_a_snapshot_whose_state_cannot_replace_ours_is_refused_with_the_reason() -> None:
    raw, store = node()
    raw.step(message("HEARTBEAT"))
    work(raw, store)
    checks = PeerChecks(raw, 1, lambda _snapshot: "its last event is 0")
    with pytest.raises(RefusedMessageError, match="snapshot at index 9: its last event is 0"):
        checks.check(message("SNAP", snapshot=snapshot()))


def test_the_largest_term_of_a_peer_leaves_room_for_elections() -> None:
    raw, store = node(None)
    raw.step(message("HEARTBEAT", term=TERM_MAX))
    work(raw, store)
    assert TERM_MAX + 2**60 < STORED_TERM_MAX


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        (VOTERS, None),
        (ConfState((NodeId(1),), learners=(NodeId(2),)), None),
        (
            ConfState((NodeId(1),), (NodeId(2), NodeId(3)), (NodeId(4),), (NodeId(3),), auto_leave=True),
            None,
        ),
        (ConfState(), "without voters"),
        (ConfState(learners=(NodeId(1),)), "without voters"),
        (ConfState((NodeId(1), NodeId(1))), "twice"),
        (ConfState((NodeId(0),)), "ids outside"),
        (ConfState((NodeId(2**63),)), "ids outside"),
        (ConfState(tuple(map(NodeId, range(1, 100)))), "more than"),
        (ConfState((NodeId(1),), learners=(NodeId(1),)), "not valid"),
        (ConfState((NodeId(1),), learners_next=(NodeId(2),)), "contradicts itself"),
        (ConfState((NodeId(1),), auto_leave=True), "contradicts itself"),
    ],
)
def test_a_membership_is_checked_as_a_whole(state: ConfState, problem: str | None) -> None:
    found = membership_problem(state)
    assert found == problem if problem is None else problem in str(found)


_numbers = st.one_of(st.integers(0, 12), st.integers(2**29, 2**31), st.integers(2**60, 2**64 - 1))
_ids = st.tuples(_numbers.map(NodeId)).map(tuple)
_snapshots = st.builds(
    Snapshot,
    _numbers.map(LogIndex),
    _numbers.map(Term),
    st.builds(ConfState, _ids, _ids, _ids, _ids, st.booleans()),
    st.binary(max_size=3),
)
_entries = st.lists(st.builds(Entry, _numbers.map(Term), _numbers.map(LogIndex)), max_size=2).map(tuple)


@given(
    st.lists(
        st.builds(
            Message,
            type=st.sampled_from(MessageType),
            to=st.just(NodeId(1)),
            from_=st.sampled_from((NodeId(2), NodeId(3))),
            term=_numbers.map(Term),
            log_term=_numbers.map(Term),
            index=_numbers.map(LogIndex),
            entries=_entries,
            commit=_numbers.map(LogIndex),
            vote=st.just(NodeId(0)),
            snapshot=st.none() | _snapshots,
            reject=st.booleans(),
            reject_hint=_numbers.map(LogIndex),
            context=st.binary(max_size=9),
        ),
        max_size=6,
    )
)
def test_no_run_of_messages_makes_a_node_store_what_it_cannot_load_again(messages: list[Message]) -> None:
    raw, store = node()
    checks = PeerChecks(raw, 1)
    for each in messages:
        # From its leader, a commit index past the log ends the node: it has lost entries.
        if each.type is MessageType.HEARTBEAT and each.commit > raw.last_index:
            continue
        if not refusal(checks, each):
            raw.step(each)
            work(raw, store)
    hard_state, _ = store.initial_state()
    assert hard_state.term <= 1 + len(messages) * TERM_AHEAD_MAX
    again = RawNode(Config(1, 10, 2, applied=store.snapshot().index), store)
    again.campaign()
    assert again.status().role is not StateType.LEADER
