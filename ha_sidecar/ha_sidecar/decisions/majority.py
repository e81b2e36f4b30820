"""Which word of several controllers counts: pure functions over what each of them answered.

One controller may lie: it was deposed and does not know, it is misconfigured, or a stranger has its address.
A majority of honest controllers is assumed, as Raft does. Two ways lead from answers to a fact:

    named leader   a majority names the same leader (1005), so that leader's own answer counts
    equal answers  a majority gives the same answer; controllers of this project forward the question
                   to their leader

A majority is one of the controllers that exist. The configured list may be longer: it may name controllers
that do not run yet. So controllers tell their number themselves (1005), and `ControllerCount` believes a
number that a majority tells. It keeps that number for `COUNT_KEPT_S`, so that one controller that is alone
for a moment cannot pass for a group of one.

Source: ControllerManager.getControllerMetadata (1005) 5.4.0.
"""

from collections import Counter
from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

COUNT_KEPT_S: Final = 30.0
"""How long a number counts that no majority repeated.

A group that shrinks from two to one takes so long to be believed.
"""

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True, slots=True)
class NamedLeader:
    """Whom a controller names.

    The id and the address by which controllers know the leader; None if not told.
    """

    id: str | None
    address: str | None


@dataclass(frozen=True, slots=True)
class ControllerAnswer:
    """What one controller answered to 1005.

    Attributes:
        count: how many controllers exist; 0 if it did not say.
        leader: None if it knows none.
        leads: whether it claims to be that leader.
    """

    count: int
    leader: NamedLeader | None
    leads: bool = False


class ControllerCount:
    """How many controllers exist, as far as a majority told."""

    def __init__(self, configured: int) -> None:
        """Take how many addresses are configured; no more than that can answer."""
        self._configured: Final = configured
        self._known = 0
        self._known_s = 0.0

    def known(self, now_s: float) -> int:
        """Return the number that a majority told within `COUNT_KEPT_S`; 0 if none did."""
        return self._known if now_s - self._known_s < COUNT_KEPT_S else 0

    def learn(self, told: Iterable[int], now_s: float) -> int:
        """Take what the controllers that answered said; return of how many a majority must be.

        Without a number that a majority tells, the largest counts: more answers are needed for a majority
        then, not fewer.
        """
        numbers = [min(number, self._configured) or self._configured for number in told]
        known = self.known(now_s)
        found = majority_of(numbers, known or len(numbers))
        if found is None:
            return known or max(numbers, default=self._configured)
        self._known, self._known_s = found, now_s
        return found


def majority_of(values: Sequence[T], count: int) -> T | None:
    """Return the value that more than half of `count` gave; None without such a value."""
    for value, votes in Counter(values).most_common(1):
        if 2 * votes > count:
            return value
    return None


def named_leader(views: Mapping[str, ControllerAnswer], count: int) -> NamedLeader | None:
    """Return the leader that more than half of `count` name; None without such a leader."""
    return majority_of([view.leader for view in views.values() if view.leader is not None], count)


def address_of(
    leader: NamedLeader, views: Mapping[str, ControllerAnswer], connected: Container[str]
) -> str | None:
    """Return the configured address of a leader that a majority named; None if it cannot be told.

    Controllers may know each other by other addresses than ours. The leader is then the only controller that
    claims the lead.
    """
    if leader.address is not None and leader.address in connected:
        return leader.address
    claiming = [address for address, view in views.items() if view.leads and view.leader == leader]
    return claiming[0] if len(claiming) == 1 else None
