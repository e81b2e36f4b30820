"""A modelled master's view of its SyncStateSet: which acknowledgements count, and the next request.

The rule that zero loss rests on (RocketMQ 5.1.1 and later): while a request to change the set is
under way, or its fate is not known, a message needs the acknowledgement of every member of the old
set *and* of each requested set. A set is left behind only when one of a higher epoch is seen, or
when it was definitely refused.

Planted bugs of brokers are switched on by name (`flaws`), for the scenarios that show what they cost.

Source: AutoSwitchHAService.java 5.4.0, maybeExpandInSyncStateSet, maybeShrinkSyncStateSet, getConfirmOffset;
ReplicasManager.java, changeSyncStateSet;
apache/rocketmq issues 5663, 6662.
"""

from dataclasses import dataclass, field

REQUEST_LIFE_S = 8.0
"""How long a request may live in pauses and queues; after that, a set that still has its old
epoch was not changed by it."""
DEFINITE_REFUSALS = frozenset((2000, 2001, 2002, 2003, 2006, 2013))
FORGETS_PROPOSALS = "forgets proposals"
SHRINKS_ALONE = "shrinks alone"


@dataclass(slots=True)
class Proposal:
    """A requested set."""

    members: frozenset[int]
    asked_s: float


@dataclass(slots=True)
class MasterView:
    """What a master knows of its set.

    Attributes:
        own_id: the master's id.
        members: the set as the controllers last told it.
        set_epoch: its epoch.
        proposals: sets asked for from this epoch on, whose fate is not known.
        acked: how far each slave's log is known to go, linked or not.
        linked: slaves with a link now.
    """

    own_id: int
    members: frozenset[int]
    set_epoch: int
    flaws: frozenset[str] = frozenset()
    proposals: list[Proposal] = field(default_factory=list)
    acked: dict[int, int] = field(default_factory=dict)
    linked: set[int] = field(default_factory=set)

    def next_mastership(self, members: frozenset[int], set_epoch: int) -> "MasterView":
        """Return the view of the same process when it becomes master again.

        The set told counts only if its epoch is above the known one.
        """
        if set_epoch <= self.set_epoch:
            members, set_epoch = self.members, self.set_epoch
        return MasterView(self.own_id, members, set_epoch, self.flaws)

    def required(self) -> frozenset[int]:
        """Return whose acknowledgement a message needs."""
        required = self.members
        if FORGETS_PROPOSALS not in self.flaws:
            required = required.union(*(proposal.members for proposal in self.proposals))
        if SHRINKS_ALONE in self.flaws:
            required = required & (self.linked | {self.own_id})
        return required

    def confirmed_end(self, own_end: int) -> int:
        """Return up to where the log lies on all that are required."""
        return min([own_end, *(self.acked.get(member, 0) for member in self.required() - {self.own_id})])

    def adopt(self, members: frozenset[int], set_epoch: int) -> bool:
        """Take a set that the controllers told; say whether it was news."""
        if set_epoch <= self.set_epoch:
            return False
        self.members, self.set_epoch = members, set_epoch
        self.proposals.clear()
        return True

    def still_old(self, set_epoch: int, asked_s: float) -> None:
        """Learn that at `asked_s` the set had the epoch we know: a much older request did not take effect."""
        if set_epoch == self.set_epoch:
            self.proposals = [
                proposal for proposal in self.proposals if proposal.asked_s + REQUEST_LIFE_S > asked_s
            ]

    def wanted(self, own_end: int) -> frozenset[int]:
        """Return the set that would be right now: linked members, and slaves that have caught up."""
        confirmed = self.confirmed_end(own_end)
        caught_up = {slave for slave in self.linked if self.acked.get(slave, 0) >= confirmed}
        return frozenset((self.members & self.linked) | caught_up | {self.own_id})
