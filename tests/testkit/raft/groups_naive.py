"""Second, deliberately simple versions of the groups' decisions; they share no code with the first.

They are written from the protocol's tables: election by sorting everybody, the state as plain dictionaries
that are changed in place. Slow and repetitive on purpose.
"""

from dataclasses import dataclass, field


@dataclass
class NaiveBroker:
    """A living broker in an election."""

    id: int
    epoch: int
    max_offset: int
    priority: int


def naive_winner(
    sync_state_set: set[int],
    registered: set[int],
    log_replicas: set[int],
    alive: list[NaiveBroker],
    old_master: int | None,
    preferred: int | None,
    unclean: bool,
) -> int | None:
    """Return who becomes master, by trying each pool in turn."""
    pools = [sync_state_set]
    if unclean:
        pools.append(registered)
    for pool in pools:
        possible = [broker for broker in alive if broker.id in pool & registered - log_replicas]
        if not possible:
            continue
        ids = [broker.id for broker in possible]
        if old_master in ids and (preferred is None or preferred == old_master):
            return old_master
        if preferred is not None:
            if preferred in ids:
                return preferred
            continue
        # Stable sorts, least important first.
        possible.sort(key=lambda broker: broker.id)
        possible.sort(key=lambda broker: broker.priority)
        possible.sort(key=lambda broker: broker.max_offset, reverse=True)
        possible.sort(key=lambda broker: broker.epoch, reverse=True)
        return possible[0].id
    return None


@dataclass
class NaiveGroup:
    """One group, as mutable as can be."""

    next_id: int = 1
    addresses: dict[int, str] = field(default_factory=dict)
    codes: dict[int, str] = field(default_factory=dict)
    log_replicas: set[int] = field(default_factory=set)
    master: int | None = None
    epoch: int = 0
    set_epoch: int = 0
    members: set[int] = field(default_factory=set)
    members_before: set[int] = field(default_factory=set)

    def apply_id(self, broker_id: int, code: str, *, log_replica: bool) -> int:
        """Claim an id; returns the answer's code."""
        if not self.addresses and broker_id != 1:
            return 2014
        if broker_id in self.codes:
            return 0 if self.codes[broker_id] == code else 2014
        self.codes[broker_id] = code
        self.addresses[broker_id] = code.split(";")[0]
        if log_replica:
            self.log_replicas.add(broker_id)
        self.next_id = max(self.next_id, broker_id + 1)
        return 0

    def register(self, broker_id: int, address: str, *, log_replica: bool, take_up: bool = False) -> int:
        """Announce an address, or take up an id that is unknown; returns the answer's code."""
        if broker_id not in self.addresses:
            if not take_up:
                return 2010
            self.codes[broker_id] = address + ";"
            self.next_id = max(self.next_id, broker_id + 1)
        self.addresses[broker_id] = address
        self.log_replicas.discard(broker_id)
        if log_replica:
            self.log_replicas.add(broker_id)
        return 0

    def alter(self, members: set[int], master: int, epoch: int, set_epoch: int, alive: set[int]) -> int:
        """Replace the set; returns the answer's code."""
        if not self.addresses or members == self.members:
            return 2013
        if self.master is None or self.master != master:
            return 2002
        if self.epoch != epoch:
            return 2000
        if self.set_epoch != set_epoch:
            return 2001
        for member in sorted(members):
            if member not in self.addresses:
                return 2003
            if member not in alive:
                return 2006
        if self.master not in members:
            return 2013
        self.members = set(members)
        self.members_before = set()
        self.set_epoch += 1
        return 0

    def elect(
        self,
        alive: list[NaiveBroker],
        asker: int | None,
        *,
        designate: bool,
        unclean: bool,
        acting: int | None = None,
    ) -> int:
        """Hold an election; returns the answer's code."""
        if not self.addresses:
            return 2010
        ids = {broker.id for broker in alive}
        told = self.told([broker for broker in alive if broker.id in self.addresses])
        winner: int | None
        if not self.members and told > 0 and not designate and (asker is None or asker in self.addresses):
            winner = None if asker is not None else self.longest(alive, told, acting)
        elif not self.members and asker is not None:
            if asker not in self.addresses:
                return 2010
            winner = asker if asker in ids and asker not in self.log_replicas else None
        else:
            winner = naive_winner(
                self.members,
                set(self.addresses),
                self.log_replicas,
                alive,
                self.master,
                asker if designate else None,
                unclean,
            )
        if winner is None and asker is not None:
            return 2012
        if winner is None:
            if self.master is not None:
                self.master = None
                self.epoch = max(self.epoch, told) + 1
            return 2004
        if winner == self.master:
            return 2011
        self.master = winner
        # Epochs without a write are in no log, so no member reports them.
        self.epoch = max(self.epoch, told + (1_000 if told and not self.members else 0)) + 1
        if winner not in self.members:
            self.members_before = set()
        elif len(self.members) > 1:
            self.members_before = self.members
        self.members = {winner}
        self.set_epoch += 1
        return 0

    def told(self, alive: list[NaiveBroker]) -> int:
        """Return the greatest reported epoch that can be true, 0 without one."""
        return max([0] + [broker.epoch for broker in alive if broker.epoch <= self.epoch + 100_000])

    def longest(self, alive: list[NaiveBroker], told: int, acting: int | None) -> int | None:
        """Return the first master of a group with a past: who acts as master, else the longest log."""
        members = [broker for broker in alive if broker.id in self.addresses]
        brokers = [broker for broker in members if broker.id not in self.log_replicas]
        brokers = [broker for broker in brokers if broker.epoch <= self.epoch + 100_000]
        for broker in brokers:
            if broker.id == acting and broker.epoch >= told:
                return broker.id
        brokers.sort(key=lambda broker: (-broker.epoch, -broker.max_offset, broker.priority, broker.id))
        if not brokers:
            return None
        for replica in members:
            if replica.id in self.log_replicas and replica.max_offset > brokers[0].max_offset:
                return None
        return brokers[0].id

    def clean(self, ids: set[int], *, living: bool, alive: set[int]) -> int:
        """Forget members; returns the answer's code. A group without members loses its addresses."""
        if living and ids:
            return 2009
        if not living:
            if not ids and self.master is not None:
                return 2009
            if (ids or set(self.addresses)) & alive:
                return 2009
        if not self.addresses:
            return 2009
        left = set(self.addresses) - ids if ids else set()
        if not left:
            self.addresses.clear()
            self.codes.clear()
            self.log_replicas.clear()
            self.members.clear()
            self.members_before.clear()
            self.master = None
            self.next_id = 1
            return 0
        if self.members & ids and not self.members - ids - self.log_replicas:
            return 2009
        for broker_id in ids:
            self.addresses.pop(broker_id, None)
            self.codes.pop(broker_id, None)
            self.log_replicas.discard(broker_id)
        self.members_before -= ids
        if self.members & ids:
            self.members -= ids
            self.set_epoch += 1
        if self.master in ids:
            self.master = None
            self.epoch += 1
        return 0
