"""Linearizable reads: by asking a quorum, and by a lease that ends before anybody else can lead."""

import pytest

from controller_core.raft.config import ReadOnlyOption
from controller_core.raft.errors import LocalError, ProposalDroppedError
from controller_core.raft.types import Entry, LogIndex, Message, MessageType, NodeId, Term
from testkit.raft.group import RaftGroup

LEASE = {"read_only": ReadOnlyOption.LEASE_BASED, "check_quorum": True, "pre_vote": True}


def test_a_read_is_good_at_the_commit_index_of_its_moment() -> None:
    group = RaftGroup(1, 2, 3)
    group.elect(1)
    group[1].propose(b"x")
    group.pump()
    group[1].read_index(b"r1")
    group.pump()
    assert [(read.context, read.index) for read in group.members[1].reads] == [(b"r1", group[1].commit_index)]


def test_a_follower_asks_the_leader() -> None:
    group = RaftGroup(1, 2, 3)
    group.elect(1)
    group[3].read_index(b"r1")
    group.pump()
    assert [read.context for read in group.members[3].reads] == [b"r1"]
    assert group.members[1].reads == []


def test_a_follower_does_not_pass_a_read_back_to_the_node_that_asked() -> None:
    """It asked while it followed this node, and leads by now. Its own message would be refused."""
    group = RaftGroup(1, 2, 3)
    group.elect(1)
    entry = Entry(term=Term(0), index=LogIndex(0), data=b"r1")
    read = Message(MessageType.READ_INDEX, to=NodeId(2), from_=NodeId(1), entries=(entry,))
    with pytest.raises(ProposalDroppedError):
        group[2].step(read)
    assert group[2].ready().messages == ()


def test_a_leader_without_a_quorum_never_confirms_a_read() -> None:
    group = RaftGroup(1, 2, 3)
    group.elect(1)
    group.isolate(1)
    group[1].read_index(b"r1")
    group.tick(5, 1)
    assert group.members[1].reads == []


def test_a_confirmed_read_confirms_those_before_it() -> None:
    group = RaftGroup(1, 2, 3)
    group.elect(1)
    group.isolate(1)
    group[1].read_index(b"r1")
    group[1].read_index(b"r2")
    group.pump()
    group.heal()
    group.tick(1, 1)
    assert [read.context for read in group.members[1].reads] == [b"r1", b"r2"]


def test_a_fresh_leader_waits_for_its_first_commit() -> None:
    group = RaftGroup(1, 2, 3)
    group.dropped = lambda message: message.type == MessageType.APP
    group.elect(1)
    group[1].read_index(b"r1")
    group.tick(3, 1)
    assert group.members[1].reads == []
    group.heal()
    group.tick(1, 1)
    assert [(read.context, read.index) for read in group.members[1].reads] == [(b"r1", 2)]


def test_a_single_voter_reads_at_once() -> None:
    group = RaftGroup(1)
    group.elect(1)
    group[1].read_index(b"r1")
    assert [read.context for read in group[1].ready().read_states] == [b"r1"]


def test_reads_are_bounded_and_need_a_leader_and_a_context() -> None:
    group = RaftGroup(1, 2, 3, pending_reads_max=2)
    with pytest.raises(ProposalDroppedError):
        group[1].read_index(b"r1")
    group.elect(1)
    group.isolate(1)
    for context in (b"r1", b"r2"):
        group[1].read_index(context)
    with pytest.raises(ProposalDroppedError):
        group[1].read_index(b"r3")
    with pytest.raises(LocalError):
        group[1].read_index(b"")


def test_a_lease_holds_from_the_heartbeat_that_a_quorum_answered() -> None:
    group = RaftGroup(1, 2, 3, **LEASE)
    group.tick(25)
    (leader,) = group.leaders()
    assert group[leader].has_valid_lease()
    assert not any(group[node].has_valid_lease() for node in group.members if node != leader)


def test_a_lease_ends_before_the_others_can_elect() -> None:
    """Election 10 ticks, margin 3: the lease ends 7 ticks after the last answered heartbeat left.

    No node may vote for 10 ticks.
    """
    group = RaftGroup(1, 2, 3, **LEASE)
    group.tick(25)
    (leader,) = group.leaders()
    group.isolate(leader)
    held = 0
    while group[leader].has_valid_lease():
        group.tick(1)
        held += 1
        assert group.leaders() == [leader]
    assert held == 7
    group.tick(30)
    assert group.leaders() != [leader]


def test_a_read_under_a_lease_asks_nobody() -> None:
    group = RaftGroup(1, 2, 3, **LEASE)
    group.tick(25)
    (leader,) = group.leaders()
    group.isolate(leader)
    group[leader].read_index(b"r1")
    assert [read.context for read in group[leader].ready().read_states] == [b"r1"]


def test_without_a_lease_the_same_read_asks_a_quorum() -> None:
    group = RaftGroup(1, 2, 3, **LEASE)
    group.elect(1)
    assert not group[1].has_valid_lease()
    group[1].read_index(b"r1")
    group.pump()
    assert [read.context for read in group.members[1].reads] == [b"r1"]


def test_a_transfer_of_leadership_voids_the_lease_for_the_term() -> None:
    group = RaftGroup(1, 2, 3, **LEASE)
    group.tick(25)
    (leader,) = group.leaders()
    target = leader % 3 + 1
    group.dropped = lambda message: message.type == MessageType.TIMEOUT_NOW
    group[leader].transfer_leadership(target)
    group.tick(15)
    assert group.leaders() == [leader]
    assert not group[leader].has_valid_lease()


def test_under_leases_a_restarted_voter_waits_before_it_votes() -> None:
    """It may have answered a heartbeat just before it died; that answer is still somebody's lease."""
    group = RaftGroup(1, 2, 3, **LEASE)
    group.tick(25)
    (leader,) = group.leaders()
    restarted, candidate = (node for node in group.members if node != leader)
    group.isolate(leader)
    group.restart(restarted)
    for _ in range(9):
        group.tick(1, restarted)
        group[candidate].campaign()
        group.pump()
        assert not group[candidate].is_leader
    group.tick(1, restarted)
    group[candidate].campaign()
    group.pump()
    assert group[candidate].is_leader


def test_under_leases_nobody_forgets_a_leader() -> None:
    group = RaftGroup(1, 2, 3, **LEASE)
    group.elect(1)
    group[2].forget_leader()
    assert group[2].leader_id == 1


def test_without_check_quorum_there_is_no_lease() -> None:
    group = RaftGroup(1, 2, 3)
    group.elect(1)
    group.tick(5)
    assert not group[1].has_valid_lease()
