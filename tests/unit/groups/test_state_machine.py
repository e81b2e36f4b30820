"""Random lives of one group, compared step by step with a naive model, on two nodes with restores.

Invariants under every sequence (the promises that the whole system rests on):
- both nodes have the same bytes after the same log, also when one has just been
  restored from the other's snapshot;
- master epoch and set epoch never go down, an election goes above the epochs that living members tell, and an
  epoch has one master at most;
- a broker outside the last set is never elected in clean mode, a log replica never in any;
- the master is in the set, the set is registered.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from controller_core.groups.commands import Cause, LiveBroker, decode
from controller_core.groups.elections.first_elections import told_epoch
from controller_core.groups.replies import Outcome
from controller_core.groups.state import GroupsState
from testkit.raft.groups import KEY, GroupsDriver
from testkit.raft.groups_naive import NaiveBroker, NaiveGroup

ids = st.integers(1, 4)
some_ids = st.sets(ids)
brokers = st.lists(
    st.builds(
        LiveBroker,
        id=ids,
        epoch=st.integers(-1, 2) | st.sampled_from([9, 2**31 - 1]),
        max_offset=st.integers(-1, 2),
        priority=st.integers(0, 1),
    ),
    unique_by=lambda broker: broker.id,
    max_size=4,
)


class GroupLife(RuleBasedStateMachine):
    """One group from its first claim on; each rule is one command."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = GroupsDriver()
        self.other = GroupsState()
        self.naive = NaiveGroup()
        self.epochs = (0, 0)
        self.masters: dict[int, int] = {}

    @initialize(log_replica=st.booleans())
    def begin_with_a_master(self, log_replica: bool) -> None:
        """Claim three ids, elect the first, take all into the set: most of a life comes after that."""
        for broker_id in (1, 2, 3):
            self.claim(broker_id, "1", log_replica)
        self.elect([LiveBroker(1)], asker=1, designate=False, unclean=False, acting=None)
        self.alter_as_the_master_would({1, 2, 3})

    def check(self, outcome: Outcome, expected: int) -> None:
        """Compare an answer with the naive model's, and have the other node apply the same entry."""
        assert int(outcome.reply.code) == expected
        entry = decode(self.driver.log[-1])
        assert self.other.apply(entry, self.driver.index, self.driver.term) == outcome

    @rule(broker_id=ids, attempt=st.sampled_from(["1", "1", "2"]), log_replica=st.booleans())
    def claim(self, broker_id: int, attempt: str, log_replica: bool) -> None:
        """Claim an id, at times under another check code."""
        code = f"a:{broker_id};{attempt}"
        log_replica = log_replica and broker_id > 2
        expected = self.naive.apply_id(broker_id, code, log_replica=log_replica)
        self.check(self.driver.claim(broker_id, code, log_replica=log_replica), expected)

    @rule(
        broker_id=ids,
        port=st.integers(1, 2),
        log_replica=st.booleans(),
        alive=some_ids,
        take_up=st.sampled_from([False, False, True]),
    )
    def register(self, broker_id: int, port: int, log_replica: bool, alive: set[int], take_up: bool) -> None:
        """Announce an address and a kind, at times with an id of another life."""
        address = f"b:{port}"
        expected = self.naive.register(broker_id, address, log_replica=log_replica, take_up=take_up)
        outcome = self.driver.register(
            broker_id, address, alive=sorted(alive), log_replica=log_replica, take_up=take_up
        )
        self.check(outcome, expected)
        names_master = "masterBrokerId" in (outcome.reply.ext or {})
        assert names_master == (expected == 0 and self.naive.master in alive)

    @precondition(lambda self: self.naive.master is not None)
    @rule(members=some_ids)
    def alter_as_the_master_would(self, members: set[int]) -> None:
        """Take living registered members into the set, or drop some."""
        members = (members & set(self.naive.addresses)) | {self.naive.master or 0}
        self.send_alter(members, members, (0, 0, 0))

    @precondition(lambda self: self.naive.master is not None)
    @rule(
        members=some_ids, wrong=st.sampled_from(["master", "epoch", "set epoch"]), by=st.sampled_from([-1, 1])
    )
    def alter_with_one_thing_wrong(self, members: set[int], wrong: str, by: int) -> None:
        """Do the same with one number wrong, that of a master or a view that has been overtaken."""
        members = (members & set(self.naive.addresses)) | {self.naive.master or 0}
        off = (by * (wrong == "master"), by * (wrong == "epoch"), by * (wrong == "set epoch"))
        self.send_alter(members, members, off)

    @rule(members=some_ids, alive=some_ids)
    def alter_anyhow(self, members: set[int], alive: set[int]) -> None:
        """Alter the set, also with unknown, dead or missing members."""
        self.send_alter(members, alive, (0, 0, 0))

    def send_alter(self, members: set[int], alive: set[int], off: tuple[int, int, int]) -> None:
        """Alter the set, by so much off the master and the epochs of now."""
        master_id = (self.naive.master or 0) + off[0]
        epoch, set_epoch = self.naive.epoch + off[1], self.naive.set_epoch + off[2]
        outcome = self.driver.alter(
            members, master_id=master_id, master_epoch=epoch, set_epoch=set_epoch, alive=sorted(alive)
        )
        self.check(outcome, self.naive.alter(members, master_id, epoch, set_epoch, alive))

    @rule(
        alive=brokers,
        asker=st.none() | ids,
        designate=st.booleans(),
        unclean=st.sampled_from([False, False, True]),
        acting=st.none() | ids,
    )
    def elect(
        self,
        alive: list[LiveBroker],
        asker: int | None,
        designate: bool,
        unclean: bool,
        acting: int | None,
    ) -> None:
        """Hold an election, clean or not, and look at who won."""
        designate = designate and asker is not None
        members = set(self.naive.members)
        naive_alive = [NaiveBroker(live.id, live.epoch, live.max_offset, live.priority) for live in alive]
        expected = self.naive.elect(naive_alive, asker, designate=designate, unclean=unclean, acting=acting)
        outcome = self.driver.elect(
            *alive,
            by=asker,
            designate=designate,
            unclean_allowed=unclean,
            told_epoch=self.told(alive),
            acting_id=acting,
        )
        self.check(outcome, expected)
        if expected == 0:
            group = self.driver.group
            credible = [one.epoch for one in alive if one.id in group.replicas and one.epoch < 2**31 - 1]
            assert group.master_epoch > max(credible, default=0)
            winner = group.master_id
            assert unclean or not members or winner in members
            assert winner in {live.id for live in alive} - self.naive.log_replicas

    def told(self, alive: list[LiveBroker]) -> int:
        """Return what the leader would capture of the epochs that living members tell."""
        group = self.driver.state.get(KEY)
        return 0 if group is None else told_epoch(group, alive)

    @precondition(lambda self: self.naive.master is not None)
    @rule(alive=brokers)
    def suspect_twice(self, alive: list[LiveBroker]) -> None:
        """Hold the same election twice for one death: the second changes nothing."""
        alive = [live for live in alive if live.id != self.naive.master]
        suspicion = self.driver.suspicion()
        naive_alive = [NaiveBroker(live.id, live.epoch, live.max_offset, live.priority) for live in alive]
        expected = self.naive.elect(naive_alive, None, designate=False, unclean=False)
        outcome = self.driver.elect(
            *alive, suspicion=suspicion, cause=Cause.HEARTBEAT_TIMEOUT, told_epoch=self.told(alive)
        )
        self.check(outcome, expected)
        before = self.driver.group
        again = self.driver.elect(*alive, suspicion=suspicion, cause=Cause.HEARTBEAT_TIMEOUT)
        self.check(again, 2011 if expected == 0 else 2004)
        assert (self.driver.group, again.events) == (before, ())

    @rule(named=some_ids, alive=some_ids)
    def clean_some(self, named: set[int], alive: set[int]) -> None:
        """Forget some, mostly dead ones."""
        self.clean(named, alive - named if len(named) < 3 else alive, living=False)

    @rule(named=st.just(set()) | some_ids, again=st.booleans())
    def clean_all(self, named: set[int], again: bool) -> None:
        """Forget all, alive or not, and at times start over."""
        self.clean(named, {1, 2}, living=True)
        if again:
            self.begin_with_a_master(log_replica=False)

    def clean(self, named: set[int], alive: set[int], *, living: bool) -> None:
        """Forget some or all."""
        text = ";".join(str(broker_id) for broker_id in sorted(named))
        expected = self.naive.clean(named, living=living, alive=alive)
        self.check(self.driver.clean(text, clean_living=living, alive=sorted(alive)), expected)

    @rule(epoch=st.integers(0, 5))
    def record_times(self, epoch: int) -> None:
        """Add times to whatever failover there may be."""
        known = self.driver.state.history.failover(KEY, epoch) is not None
        self.check(self.driver.record_times(epoch, noticed=self.driver.now), 0 if known else 2008)

    @rule()
    def restore_the_other_node(self) -> None:
        """Let the other node restart from a snapshot."""
        self.other = GroupsState()
        self.other.restore(self.driver.state.snapshot())

    @invariant()
    def nodes_agree(self) -> None:
        """Compare the nodes by bytes."""
        assert self.other.digest() == self.driver.state.digest()

    @invariant()
    def agrees_with_the_naive_model(self) -> None:
        """Compare every field with the naive model's, and the group with its own invariants."""
        group = self.driver.state.get(KEY)
        naive = self.naive
        assert (group is None) == (not naive.addresses)
        if group is None:
            return
        assert {
            broker_id: replica.address for broker_id, replica in group.replicas.items()
        } == naive.addresses
        assert {broker_id for broker_id, replica in group.replicas.items() if not replica.electable} == (
            naive.log_replicas
        )
        fields = (group.next_broker_id, group.master_id, group.master_epoch, group.set_epoch)
        assert fields == (naive.next_id, naive.master, naive.epoch, naive.set_epoch)
        assert set(group.sync_state_set) == naive.members
        assert set(group.preceding_set) == naive.members_before
        assert set(group.sync_state_set) <= set(group.replicas)
        assert group.master_id is None or group.master_id in group.sync_state_set
        assert group.master_id is None or group.failure_reason == ""

    @invariant()
    def epochs_never_go_down_and_have_one_master_each(self) -> None:
        """Watch the epochs over the group's whole life, including removal and a new claim."""
        group = self.driver.state.get(KEY)
        if group is None:
            return
        assert group.master_epoch >= self.epochs[0]
        assert group.set_epoch >= self.epochs[1]
        self.epochs = (group.master_epoch, group.set_epoch)
        if group.master_id is not None:
            assert self.masters.setdefault(group.master_epoch, group.master_id) == group.master_id


TestGroupLife = GroupLife.TestCase
TestGroupLife.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
