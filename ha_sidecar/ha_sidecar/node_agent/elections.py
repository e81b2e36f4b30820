"""Count which elections a majority of the controllers tells, from their event streams.

Every controller serves the same events, because they come from applied entries. So an event that more than
half of the controllers tell, word for word, is committed. One controller that lies, or a stranger at its
address, cannot make an election count, and cannot keep a true one from counting.

    vote that makes the majority     the election counts, once
    any other vote                   nothing
    unreadable event                 `ElectionEventError`: the caller counts it

Each controller's votes have a bound of their own: a flood from one controller removes only its own votes.

This module does no I/O.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from controller_core.remoting.numbers import whole_number
from ha_sidecar.address import AddressError, HostPort, host_port
from ha_sidecar.decisions.broker_facts import GroupName

VOTES_MAX: Final = 256
"""Elections kept for each controller."""
NAME_CHARS_MAX: Final = 1_024
ELECTED: Final = "MasterElected"
SILENCE: Final = frozenset({"HeartbeatTimeout", "NodeLost"})
"""Causes of an election for which the old master said nothing: its connections may be open and dead.

With any other cause its process has ended or still lives, and its kernel or its companion answers clients.
"""


class ElectionEventError(ValueError):
    """A line of an event stream has not the shape of a controller's event."""


@dataclass(frozen=True, slots=True)
class Election:
    """A change of master as an event tells it.

    Attributes:
        event_id: the same at every controller.
        group: its cluster and brokerName.
        epoch: the master epoch that the election made.
        cause: why the old master was replaced.
        old_id: the broker id of the old master.
        old_address: the address that the old master announced.
        new_id: the broker id of the new master.
    """

    event_id: str
    group: GroupName
    epoch: int
    cause: str
    old_id: int
    old_address: HostPort
    new_id: int

    @property
    def is_for_silence(self) -> bool:
        """Whether the old master was replaced because it said nothing."""
        return self.cause in SILENCE


def parse_election(event: object) -> Election | None:
    """Read an event; None if it is not the replacement of a master.

    Raises:
        ElectionEventError: it says that it is one, and lacks a value or has a wrong one.
    """
    if not isinstance(event, Mapping):
        raise ElectionEventError(f"{type(event).__name__}: expected an object")
    if event.get("kind") != ELECTED:
        return None
    attributes = event.get("attrs")
    if not isinstance(attributes, Mapping):
        raise ElectionEventError("attrs: expected an object")
    if "old_master_id" not in attributes:
        return None
    return Election(
        event_id=_text(event, "event_id"),
        group=GroupName(_text(event, "cluster"), _text(event, "group")),
        epoch=_number(event, "epoch"),
        cause=_text(attributes, "cause"),
        old_id=_number(attributes, "old_master_id"),
        old_address=_address(attributes, "old_master_address"),
        new_id=_number(attributes, "new_master_id"),
    )


class ElectionVotes:
    """The elections that each controller told."""

    def __init__(self, controllers: int) -> None:
        """Take how many controllers exist."""
        self._told: Final = tuple(OrderedDict[Election, None]() for _ in range(controllers))

    def vote(self, controller: int, election: Election) -> bool:
        """Take an election that a controller told; return whether this vote made the majority."""
        told = self._told[controller]
        if election in told:
            return False
        told[election] = None
        if len(told) > VOTES_MAX:
            told.popitem(last=False)
        votes = sum(election in other for other in self._told)
        return votes == len(self._told) // 2 + 1


def _text(values: Mapping[str, Any], key: str) -> str:
    value = values.get(key)
    if not isinstance(value, str) or not 0 < len(value) <= NAME_CHARS_MAX:
        raise ElectionEventError(
            f"{key} {_shown(value)}: expected a text of 1 to {NAME_CHARS_MAX} characters"
        )
    return value


def _number(values: Mapping[str, Any], key: str) -> int:
    value = values.get(key)
    if isinstance(value, str) and (number := whole_number(value)) is not None:
        return number
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ElectionEventError(f"{key} {_shown(value)}: expected a number from 0")
    return value


def _address(values: Mapping[str, Any], key: str) -> HostPort:
    try:
        return host_port(_text(values, key))
    except AddressError as error:
        raise ElectionEventError(f"{key}: {error}") from error


def _shown(value: object) -> str:
    return repr(value)[:80]
