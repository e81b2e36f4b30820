"""Raft as the paper states it: each test is pinned to a sentence or two, with the section.

Source: Ongaro and Ousterhout, In Search of an Understandable Consensus Algorithm (extended version).
"""

import pytest

from controller_core.raft.types import Entry, LogIndex, Message, MessageType, NodeId, StateType, Term
from testkit.raft.group import RaftGroup

T = MessageType


def message(kind: MessageType, from_: int, term: int, **fields: object) -> Message:
    return Message(kind, to=NodeId(1), from_=NodeId(from_), term=Term(term), **fields)  # type: ignore[arg-type]


def role(group: RaftGroup, node: int) -> StateType:
    return group[node].status().role


@pytest.mark.parametrize("start", ["follower", "candidate", "leader"])
def test_a_higher_term_makes_anybody_a_follower(start: str) -> None:
    """5.1: a candidate or leader whose term is out of date immediately reverts to follower."""
    group = RaftGroup(1, 2, 3)
    if start == "candidate":
        group[1].campaign()
    elif start == "leader":
        group.elect(1)
    group[1].step(message(T.APP, 2, 9))
    status = group[1].status()
    assert (status.role, status.term, status.lead) == (StateType.FOLLOWER, 9, 2)


def test_a_message_of_a_stale_term_is_rejected() -> None:
    """5.1: if a server receives a request with a stale term number, it rejects the request."""
    group = RaftGroup(1, 2, 3)
    group[1].step(message(T.HEARTBEAT, 2, 5))
    group.members[1].work()
    before = group[1].status()
    group[1].step(message(T.APP, 3, 4, index=LogIndex(1), entries=(Entry(Term(4), LogIndex(2)),)))
    group[1].step(message(T.VOTE, 3, 4, index=LogIndex(9), log_term=Term(4)))
    assert group[1].status() == before
    assert not group[1].has_ready()


def test_a_server_starts_as_a_follower() -> None:
    """5.2: when servers start up, they begin as followers."""
    assert role(RaftGroup(1, 2, 3), 1) == StateType.FOLLOWER


def test_a_leader_sends_heartbeats_each_interval() -> None:
    """5.2: leaders send periodic heartbeats to all followers in order to maintain their authority."""
    group = RaftGroup(1, 2, 3, heartbeat_ticks=2)
    group.elect(1)
    group[1].tick()
    assert not group[1].has_ready()
    group[1].tick()
    sent = [(one.type, one.to) for one in group.members[1].work()]
    assert sent == [(T.HEARTBEAT, 2), (T.HEARTBEAT, 3)]


@pytest.mark.parametrize("again", [False, True], ids=["follower", "candidate"])
def test_silence_starts_an_election(again: bool) -> None:
    """5.2: to begin an election, a follower increments its term, votes for itself, asks each other one."""
    group = RaftGroup(1, 2, 3)
    if again:
        group[1].campaign()
        group.members[1].work()
    term = group[1].term
    for _ in range(20):
        group[1].tick()
        if group[1].term > term:
            break
    sent = [(one.type, one.to, one.term) for one in group.members[1].work()]
    assert sent == [(T.VOTE, 2, term + 1), (T.VOTE, 3, term + 1)]
    assert (role(group, 1), group.hard_state(1).vote) == (StateType.CANDIDATE, 1)


@pytest.mark.parametrize(
    ("size", "granted", "refused", "outcome"),
    [
        (1, 0, 0, StateType.LEADER),
        (3, 1, 0, StateType.LEADER),
        (5, 2, 2, StateType.LEADER),
        (3, 0, 2, StateType.FOLLOWER),
        (5, 1, 3, StateType.FOLLOWER),
        (3, 0, 1, StateType.CANDIDATE),
        (5, 1, 2, StateType.CANDIDATE),
    ],
)
def test_a_majority_of_votes_elects(size: int, granted: int, refused: int, outcome: StateType) -> None:
    """5.2: a candidate wins an election if it receives votes from a majority for the same term."""
    group = RaftGroup(*range(1, size + 1))
    group[1].campaign()
    group.members[1].work()
    for voter in range(2, 2 + granted + refused):
        group[1].step(message(T.VOTE_RESP, voter, 1, reject=voter >= 2 + granted))
    assert role(group, 1) == outcome


def test_a_vote_is_given_once_a_term_first_come_first_served() -> None:
    """5.2: each server votes for at most one candidate in a term, on a first-come-first-served basis."""
    group = RaftGroup(1, 2, 3)
    for candidate in (2, 3, 2):
        group[1].step(message(T.VOTE, candidate, 1, index=LogIndex(9), log_term=Term(1)))
    answers = [(one.to, one.reject) for one in group.members[1].work()]
    assert answers == [(2, False), (3, True), (2, False)]


def test_a_candidate_yields_to_a_leader_of_its_term() -> None:
    """5.2: if the leader's term is at least the candidate's, the candidate returns to follower state."""
    group = RaftGroup(1, 2, 3)
    group[1].campaign()
    group[1].step(message(T.HEARTBEAT, 3, 1))
    assert (role(group, 1), group[1].leader_id) == (StateType.FOLLOWER, 3)


def test_election_timeouts_are_spread_so_that_split_votes_are_rare() -> None:
    """5.2: election timeouts are chosen randomly from a fixed interval."""
    waits: set[int] = set()
    group = RaftGroup(1, 2, 3, election_ticks=10)
    for _ in range(60):
        term, waited = group[1].term, 0
        while group[1].term == term:
            group[1].tick()
            waited += 1
        waits.add(waited)
    assert waits == set(range(10, 20))


def test_a_leader_replicates_then_commits_then_tells() -> None:
    """5.3: when the entry is safely replicated, the leader applies it; followers learn of it and apply."""
    group = RaftGroup(1, 2, 3)
    group.elect(1)
    group[1].propose(b"x")
    appends = group.members[1].work()
    group.deliver(appends)
    assert group.members[1].applied == []
    acknowledgements = [one for node in (2, 3) for one in group.members[node].work()]
    assert group.members[2].applied == []
    group.deliver(acknowledgements)
    told = group.members[1].work()
    assert group.members[1].applied == [b"x"]
    group.deliver(told)
    group.pump()
    assert group.members[2].applied == group.members[3].applied == [b"x"]


@pytest.mark.parametrize(
    ("index", "term", "refused"), [(1, 0, False), (2, 1, True), (1, 1, True), (5, 1, True)]
)
def test_an_append_is_refused_unless_the_entry_before_it_matches(
    index: int, term: int, refused: bool
) -> None:
    """5.3: a follower without an entry of the same index and term refuses the new entries."""
    group = RaftGroup(1, 2, 3)
    group[1].step(message(T.APP, 2, 1, index=LogIndex(index), log_term=Term(term)))
    (answer,) = group.members[1].work()
    assert answer.reject is refused


def test_a_conflicting_tail_is_replaced() -> None:
    """5.3: conflicting entries in follower logs will be overwritten with entries from the leader's log."""
    group = RaftGroup(1, 2, 3)
    group.elect(1)
    group.isolate(1)
    group[1].propose_many([b"lost", b"lost too"])
    group.pump()
    group.elect(2)
    group[2].propose(b"kept")
    group.pump()
    group.heal()
    group.tick(2, 2)
    assert [member.applied for member in group.members.values()] == [[b"kept"]] * 3
    assert group[1].status().last_index == group[2].status().last_index


@pytest.mark.parametrize(
    ("term", "index", "granted"),
    [(2, 2, True), (1, 3, True), (3, 1, True), (1, 1, False), (1, 2, True), (0, 9, False)],
)
def test_a_vote_goes_only_to_an_up_to_date_log(term: int, index: int, granted: bool) -> None:
    """5.4.1: the voter denies its vote if its own log is more up-to-date than that of the candidate."""
    group = RaftGroup(1, 2, 3)
    group.elect(1)  # Our log now ends with term 1 at index 2.
    group[1].step(message(T.VOTE, 3, 5, log_term=Term(term), index=LogIndex(index)))
    answers = [one for one in group.members[1].work() if one.type == T.VOTE_RESP]
    assert [not one.reject for one in answers] == [granted]


def test_entries_of_former_terms_are_committed_only_with_one_of_the_present() -> None:
    """5.4.2: Raft never commits log entries from previous terms by counting replicas."""
    group = RaftGroup(1, 2, 3)
    group.elect(1)
    group.isolate(1)
    group[1].propose(b"old")
    group.pump()
    group[1].step(message(T.VOTE_RESP, 2, 2, reject=True))  # Somebody is at term 2: it steps down.
    group.dropped = lambda one: one.type == T.APP
    group.elect(1)
    index = group[1].status().last_index
    assert group[1].term == 3
    group[1].step(message(T.APP_RESP, 2, 3, index=LogIndex(index - 1)))
    assert group[1].commit_index < index - 1
    group[1].step(message(T.APP_RESP, 2, 3, index=index))
    assert group[1].commit_index == index
    group.members[1].work()
    assert group.members[1].applied == [b"old"]


def test_a_new_leader_appends_an_empty_entry() -> None:
    """8: each leader commits a blank no-op entry into the log at the start of its term."""
    group = RaftGroup(1, 2, 3)
    group[1].campaign()
    group.members[1].work()
    group[1].step(message(T.VOTE_RESP, 2, 1))
    entries = group[1].ready().entries
    assert [(entry.term, entry.index, entry.data) for entry in entries] == [(1, 2, b"")]


def test_a_pre_vote_changes_nobodys_term() -> None:
    """Thesis 9.6: a candidate only increments its term if a majority would grant their votes."""
    group = RaftGroup(1, 2, 3, pre_vote=True)
    group.isolate(1)
    group.tick(100, 1)
    assert group[1].term == 0
    group.heal()
    group.elect(1)
    assert group[1].term == 1


def test_a_leader_cut_off_from_a_majority_steps_down_with_check_quorum() -> None:
    """Thesis 6.2: a leader steps down after an election timeout without heartbeats to a majority."""
    group = RaftGroup(1, 2, 3, check_quorum=True)
    group.elect(1)
    group.isolate(1)
    group.tick(20, 1)
    assert role(group, 1) != StateType.LEADER


def test_leadership_is_transferred_to_an_up_to_date_follower_at_once() -> None:
    """Thesis 3.10: the prior leader sends TimeoutNow, and the target server starts an election at once."""
    group = RaftGroup(1, 2, 3, check_quorum=True, pre_vote=True)
    group.elect(1)
    group[1].transfer_leadership(3)
    group.pump()
    assert group.leaders() == [3]
    assert group[1].leader_id == 3
