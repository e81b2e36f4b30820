"""The face of the core: what a Ready says, in which order things become true, and what misuse is refused."""

import pytest

from controller_core.log.memory import MemoryStore
from controller_core.raft.config import Config, ReadOnlyOption, fixed_jitter
from controller_core.raft.errors import (
    LocalError,
    LocalMessageError,
    PeerNotFoundError,
    ProposalDroppedError,
    RaftConfigError,
)
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
from testkit.raft.group import RaftGroup


@pytest.mark.parametrize(
    "settings",
    [
        {"id": 0},
        {"heartbeat_ticks": 0},
        {"election_ticks": 1},
        {"inflight_messages_max": 0},
        {"inflight_bytes_max": 10, "message_bytes_max": 11},
        {"message_bytes_max": -1},
        {"pending_reads_max": 0},
        {"read_only": ReadOnlyOption.LEASE_BASED},
        {"read_only": ReadOnlyOption.LEASE_BASED, "check_quorum": True, "lease_margin_ticks": 10},
        {"async_storage_writes": True},
    ],
    ids=str,
)
def test_a_setting_out_of_range_is_named(settings: dict[str, int]) -> None:
    with pytest.raises(RaftConfigError, match=next(reversed(settings))):
        RawNode(Config(**{"id": 1, **settings}), MemoryStore())


def test_the_default_jitter_is_reproducible_and_differs_from_node_to_node() -> None:
    first, again, other = fixed_jitter(1), fixed_jitter(1), fixed_jitter(2)
    drawn = [first(10) for _ in range(50)]
    assert drawn == [again(10) for _ in range(50)]
    assert drawn != [other(10) for _ in range(50)]
    assert set(drawn) == set(range(10))


def test_a_batch_of_proposals_is_one_append_message_a_follower() -> None:
    group = RaftGroup(1, 2, 3)
    group.elect(1)
    group[1].propose_many([b"a", b"b", b"c"])
    appends = [message for message in group.members[1].work() if message.type == MessageType.APP]
    assert [message.to for message in appends] == [2, 3]
    assert all([entry.data for entry in message.entries] == [b"a", b"b", b"c"] for message in appends)


def test_an_empty_batch_proposes_nothing() -> None:
    group = RaftGroup(1, 2, 3)
    group.elect(1)
    group[1].propose_many([])
    assert not group[1].has_ready()


def test_all_members_apply_the_same_in_the_same_order() -> None:
    group = RaftGroup(1, 2, 3)
    group.elect(1)
    for number in range(20):
        group[1 + number % 3].propose(b"%d" % number)
    group.pump()
    applied = group.members[1].applied
    assert sorted(applied, key=int) == [b"%d" % number for number in range(20)]
    assert all(member.applied == applied for member in group.members.values())


def test_a_vote_leaves_only_in_the_ready_that_has_it_persisted() -> None:
    group = RaftGroup(1, 2, 3)
    group[2].step(vote_request(term=5))
    ready = group[2].ready()
    assert ready.hard_state is not None
    assert (ready.hard_state.term, ready.hard_state.vote) == (5, 1)
    assert ready.must_sync
    assert [message.type for message in ready.messages] == [MessageType.VOTE_RESP]


def test_a_single_voter_commits_only_after_its_own_write() -> None:
    group = RaftGroup(1)
    group.elect(1)
    group[1].propose(b"x")
    ready = group[1].ready()
    assert [entry.data for entry in ready.entries] == [b"x"]
    assert ready.committed_entries == ()
    group.members[1].store.commit(group.members[1].store.prepare(ready))
    group[1].advance()
    assert [entry.data for entry in group[1].ready().committed_entries] == [b"x"]


def test_a_leader_counts_its_own_entry_only_once_it_is_written() -> None:
    """Four voters, so the leader's own is needed: two acknowledgements alone do not commit."""
    group = RaftGroup(1, 2, 3, 4)
    group.elect(1)
    group[1].propose(b"x")
    ready = group[1].ready()
    index = ready.entries[-1].index
    for node in (2, 3):
        group[1].step(acknowledgement(node, group[1].term, index))
    assert group[1].commit_index == index - 1
    group.members[1].store.commit(group.members[1].store.prepare(ready))
    group[1].advance()
    assert group[1].commit_index == index


def test_messages_between_ready_and_advance_show_in_the_next_ready() -> None:
    group = RaftGroup(1, 2, 3)
    group.elect(1)
    group[1].propose(b"first")
    first = group[1].ready()
    group[1].propose(b"second")
    group.members[1].store.commit(group.members[1].store.prepare(first))
    group[1].advance()
    second = group[1].ready()
    assert [entry.data for entry in first.entries] == [b"first"]
    assert [entry.data for entry in second.entries] == [b"second"]


def test_an_overwritten_write_is_not_taken_for_the_new_one() -> None:
    """The tail being written is replaced by a new leader's before the write is confirmed."""
    group = RaftGroup(1, 2, 3)
    group[2].step(append(1, term=1, index=1, log_term=0, data=(b"old", b"old")))
    old = group[2].ready()
    group[2].step(append(3, term=2, index=1, log_term=0, data=(b"new",)))
    group.members[2].store.commit(group.members[2].store.prepare(old))
    group[2].advance()
    new = group[2].ready()
    assert [(entry.index, entry.term, entry.data) for entry in new.entries] == [(2, 2, b"new")]
    group.members[2].store.commit(group.members[2].store.prepare(new))
    group[2].advance()
    assert group.members[2].store.last_index() == 2


def test_two_readys_without_advance_are_refused() -> None:
    group = RaftGroup(1, 2, 3)
    group[1].campaign()
    group[1].ready()
    with pytest.raises(LocalError):
        group[1].ready()


def test_advance_without_a_ready_is_refused() -> None:
    with pytest.raises(LocalError):
        RaftGroup(1)[1].advance()


def test_local_messages_from_outside_are_refused() -> None:
    group = RaftGroup(1, 2, 3)
    for kind in (MessageType.HUP, MessageType.BEAT, MessageType.CHECK_QUORUM, MessageType.SNAP_STATUS):
        with pytest.raises(LocalMessageError):
            group[1].step(Message(kind, from_=NodeId(2)))


def test_a_response_of_a_stranger_is_refused() -> None:
    with pytest.raises(PeerNotFoundError):
        RaftGroup(1, 2, 3)[1].step(acknowledgement(9, 1, 1))


def test_proposals_are_dropped_where_no_leader_is_known() -> None:
    group = RaftGroup(1, 2, 3)
    with pytest.raises(ProposalDroppedError):
        group[1].propose(b"x")
    assert not group[1].has_ready()


def test_too_many_uncommitted_bytes_drop_a_proposal_until_some_commit() -> None:
    group = RaftGroup(1, 2, 3, uncommitted_bytes_max=10)
    group.elect(1)
    group[1].propose(b"x" * 50)  # With nothing pending any size is taken.
    with pytest.raises(ProposalDroppedError):
        group[1].propose(b"y")
    group[1].propose(b"")
    group.pump()
    group[1].propose(b"z")
    group.pump()
    assert group.members[3].applied == [b"x" * 50, b"z"]


def test_a_restart_keeps_term_vote_log_and_commit_index() -> None:
    group = RaftGroup(1, 2, 3)
    group.elect(1)
    group[1].propose(b"x")
    group.pump()
    before = group.hard_state(2)
    group.restart(2)
    status = group[2].status()
    assert (status.term, status.vote, status.commit) == (before.term, before.vote, before.commit)
    assert status.role == StateType.FOLLOWER
    group.pump()
    assert group.members[2].applied == [b"x"]


def test_a_member_behind_the_compacted_log_gets_a_snapshot_and_the_rest() -> None:
    group = RaftGroup(1, 2, 3)
    group.elect(1)
    group.isolate(3)
    for number in range(5):
        group[1].propose(b"%d" % number)
        group.pump()
    group.members[1].compact()
    group.heal()
    group.tick(2, 1)
    group[1].propose(b"last")
    group.pump()
    assert group.members[3].applied == [b"0", b"1", b"2", b"3", b"4", b"last"]


def test_a_snapshot_that_does_not_name_us_is_ignored() -> None:
    group = RaftGroup(1, 2, 3)
    others = Snapshot(LogIndex(9), Term(1), ConfState((NodeId(1), NodeId(2))))
    group[3].step(Message(MessageType.SNAP, from_=NodeId(1), term=Term(1), snapshot=others))
    assert group[3].commit_index == 1


def test_a_failed_snapshot_is_probed_again_after_a_heartbeat() -> None:
    group = RaftGroup(1, 2, 3)
    group.elect(1)
    group.isolate(3)
    group[1].propose(b"x")
    group.pump()
    group.members[1].compact()
    group.dropped = lambda message: message.type == MessageType.SNAP
    group.tick(2, 1)
    assert group[1].status().progress[3].pending_snapshot
    group[1].report_snapshot(3, ok=False)
    assert not group[1].status().progress[3].pending_snapshot
    group.heal()
    group.tick(1, 1)
    assert group.members[3].applied == [b"x"]


def test_status_shows_progress_on_a_leader_only() -> None:
    group = RaftGroup(1, 2, 3)
    group.elect(2)
    assert group[1].status().progress == {}
    assert {node: one.match for node, one in group[2].status().progress.items()} == {1: 2, 2: 2, 3: 2}
    assert (group[1].leader_id, group[1].term, group[1].is_leader) == (2, 1, False)


def vote_request(term: int) -> Message:
    return Message(
        MessageType.VOTE, to=NodeId(2), from_=NodeId(1), term=Term(term), log_term=Term(9), index=LogIndex(9)
    )


def acknowledgement(node: int, term: int, index: int) -> Message:
    return Message(MessageType.APP_RESP, from_=NodeId(node), term=Term(term), index=LogIndex(index))


def append(leader: int, *, term: int, index: int, log_term: int, data: tuple[bytes, ...]) -> Message:

    entries = tuple(Entry(Term(term), LogIndex(index + 1 + n), data=one) for n, one in enumerate(data))
    return Message(
        MessageType.APP,
        to=NodeId(2),
        from_=NodeId(leader),
        term=Term(term),
        index=LogIndex(index),
        log_term=Term(log_term),
        entries=entries,
    )


@pytest.mark.parametrize("node_id", [1, 2], ids=["leader", "follower"])
def test_no_tick_before_the_one_that_is_due_does_more_than_count(node_id: int) -> None:
    group = RaftGroup(1, 2, 3, check_quorum=True)
    group.elect(1)
    node = group[node_id]
    for _ in range(20):
        role = node.status().role
        for _ in range(node.ticks_until_due() - 1):
            node.tick()
            assert not node.has_ready()
        assert node.ticks_until_due() == 1
        node.tick()
        if role == StateType.FOLLOWER:
            assert node.status().role != StateType.FOLLOWER, "its patience is over"
            break
        group.pump()
    assert node.status().role != StateType.FOLLOWER
