"""Decide which member's connections are dead: from an election and from a majority's answer about its group.

An event stream only says when to ask. The decision comes from the answer that a majority of the controllers
vouches for (1006), at the moment of the decision, and the agent asks again before each batch of resets:

    the election was not for silence                                  nothing: `NOT_FOR_SILENCE`
    the old master was elected again                                  nothing: `SAME_MASTER`
    the election did not happen, or the old master leads again        nothing: `STALE`
    the old master is alive for the controllers                       nothing: `LIVES`
    its process's address was never confirmed                         nothing: `UNKNOWN_PROCESS`
    its addresses are names, which the kernel's tables do not know    nothing: `HOST_NAME`
    a living member of any group has the same host                    nothing: `SHARED_HOST`
    otherwise                                                         `Replaced`

The controllers forget the address of a process whose heartbeats end. `ProcessBook`
keeps the last one that a majority confirmed while the member was alive.

This module does no I/O.
"""

import ipaddress
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from controller_core.remoting.bodies import ReplicasInfo
from ha_sidecar.address import AddressError, HostPort, host_port
from ha_sidecar.decisions.broker_facts import GroupName
from ha_sidecar.node_agent.elections import Election


class Refusal(StrEnum):
    """Why the agent leaves the connections of a replaced master alone."""

    NOT_FOR_SILENCE = "not-for-silence"
    SAME_MASTER = "same-master"
    STALE = "stale"
    LIVES = "lives"
    UNKNOWN_PROCESS = "unknown-process"
    HOST_NAME = "host-name"
    SHARED_HOST = "shared-host"


@dataclass(frozen=True, slots=True)
class ConfirmedMember:
    """One member, as a majority of the controllers knows it.

    Attributes:
        announced: the address that clients use; on Kubernetes another member may answer there.
        process: the address of the member's own process; None if unknown.
    """

    id: int
    announced: HostPort | None
    process: HostPort | None
    alive: bool
    is_log_replica: bool = False


@dataclass(frozen=True, slots=True)
class ConfirmedGroup:
    """A group, as a majority of the controllers knows it; `master_id`: None without a master."""

    key: GroupName
    master_id: int | None
    master_epoch: int
    members: tuple[ConfirmedMember, ...]


@dataclass(frozen=True, slots=True)
class Replaced:
    """A master that was replaced for silence.

    Attributes:
        epoch: the master epoch of its successor.
        announced: the address that leads to the successor sooner or later.
        process: the address of its own process, which does not answer.
        others: announced hosts of the group's other members; one that was replaced shortly before may
            have had its address lent to this master.
        log_replicas: hosts of the group's log replicas.
    """

    group: GroupName
    epoch: int
    id: int
    announced: HostPort
    process: HostPort
    others: frozenset[str] = field(default=frozenset(), compare=False)
    log_replicas: frozenset[str] = field(default=frozenset(), compare=False)

    @property
    def movable(self) -> frozenset[str]:
        """Return the hosts that may have led to its process and can lead to another one."""
        return (self.others | {self.announced[0]}) - {self.process[0]}


def group_view(key: GroupName, info: ReplicasInfo) -> ConfirmedGroup:
    """Read one group of the answer to 1006, with None in place of unreadable addresses."""
    return ConfirmedGroup(
        key=key,
        master_id=info.master_broker_id or None,
        master_epoch=info.master_epoch,
        members=tuple(
            ConfirmedMember(
                id=member.broker_id,
                announced=_address(member.broker_address),
                process=_address(member.direct_address or member.broker_address),
                alive=member.alive,
                is_log_replica=member.is_log_replica,
            )
            for member in (*info.in_sync_replicas, *info.not_in_sync_replicas)
        ),
    )


@dataclass(frozen=True, slots=True)
class LocatedMember:
    """A living member, the confirmed host of its process, and the address that clients use if another one."""

    group: GroupName
    id: int
    host: str
    service: HostPort | None = None


class ProcessBook:
    """The last confirmed address of each member's process, and which hosts have a living member."""

    def __init__(self) -> None:
        self._processes: Final[dict[tuple[GroupName, int], HostPort]] = {}
        self._members: Final[dict[GroupName, tuple[LocatedMember, ...]]] = {}
        self._living: Final[dict[GroupName, frozenset[str]]] = {}

    def learn(self, view: ConfirmedGroup) -> None:
        """Take a view that a majority vouches for."""
        for member in view.members:
            key = (view.key, member.id)
            is_direct = member.process != member.announced
            # Why not always: a controller that has not heard the member yet tells the announced address.
            if member.alive and member.process is not None and (is_direct or key not in self._processes):
                self._processes[key] = member.process
        present = {member.id for member in view.members}
        for key in [key for key in self._processes if key[0] == view.key and key[1] not in present]:
            del self._processes[key]
        self._members[view.key] = tuple(
            LocatedMember(view.key, member.id, member.process[0], _service(member))
            for member in view.members
            if member.alive and member.process is not None
        )
        self._living[view.key] = frozenset(member.host for member in self._members[view.key])

    def process(self, group: GroupName, member_id: int) -> HostPort | None:
        """Return the last confirmed address of a member's process."""
        return self._processes.get((group, member_id))

    def living(self) -> Iterable[LocatedMember]:
        """Return the members that were alive when their group was last confirmed."""
        return [member for members in self._members.values() for member in members]

    def services(self) -> list[HostPort]:
        """Return the announced addresses of living members that are not those of their processes."""
        return sorted({member.service for member in self.living() if member.service is not None})

    def living_hosts(self) -> Collection[str]:
        """Return the hosts on which a member was alive when its group was last confirmed."""
        return _union(self._living.values())


def judge(election: Election, view: ConfirmedGroup, book: ProcessBook) -> Replaced | Refusal:
    """Decide whether the old master's connections are dead.

    Args:
        election: what the event streams tell.
        view: what a majority of the controllers answers now; the book has learnt it.
        book: the addresses confirmed so far.
    """
    if not election.is_for_silence:
        return Refusal.NOT_FOR_SILENCE
    if election.old_id == election.new_id:
        return Refusal.SAME_MASTER
    if view.key != election.group or not _has_happened(election, view):
        return Refusal.STALE
    if any(member.alive for member in view.members if member.id == election.old_id):
        return Refusal.LIVES
    process = book.process(election.group, election.old_id)
    if process is None:
        return Refusal.UNKNOWN_PROCESS
    if not all(is_ip(host) for host in (process[0], election.old_address[0])):
        return Refusal.HOST_NAME
    if process[0] in book.living_hosts():
        return Refusal.SHARED_HOST
    others = (member.announced for member in view.members if member.id != election.old_id)
    hosts = frozenset(one[0] for one in others if one is not None and is_ip(one[0]))
    replicas = (book.process(view.key, one.id) or one.process for one in view.members if one.is_log_replica)
    return Replaced(
        election.group,
        election.epoch,
        election.old_id,
        election.old_address,
        process,
        others=hosts,
        log_replicas=frozenset(one[0] for one in replicas if one is not None),
    )


def _service(member: ConfirmedMember) -> HostPort | None:
    """Return the announced address if it is an IP address that needs translation."""
    announced, process = member.announced, member.process
    if announced is None or process is None or announced[0] == process[0] or not is_ip(announced[0]):
        return None
    return announced


def is_ip(host: str) -> bool:
    """Say whether a host is an IP address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _has_happened(election: Election, view: ConfirmedGroup) -> bool:
    """Say whether a group has replaced the old master, and not made it master again.

    A later change of master, or its absence, brings the old master's connections not back to life.
    """
    if view.master_epoch == election.epoch:
        return view.master_id in (election.new_id, None)
    return view.master_epoch > election.epoch and view.master_id != election.old_id


def _address(text: str | None) -> HostPort | None:
    try:
        return host_port(text or "")
    except AddressError:
        return None


def _union(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*sets)
