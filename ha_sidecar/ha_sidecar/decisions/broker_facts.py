"""A companion's knowledge of its broker, as values: answers become facts, facts become readiness.

Two sources that may disagree for a second: the broker says what it is (907, 1007, 28), the controllers say
what the group takes it for (1006). Where both could tell, the controllers' word counts: a broker that
believes to be master in an old epoch is not.

A master answers 1007 with broker id 0, the one that name servers list masters under; which of the group it
is, only its announced address tells (`with_controller_id`).

Everything here is a pure function. An unknown value is None and never a zero.

Source: AdminBrokerProcessor.java (28, 907, 1007), ReplicasInfoManager.getSyncStateData (1006) 5.4.0.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from controller_core.remoting.bodies import (
    EpochEntryCache,
    HAConnectionRuntimeInfo,
    HARuntimeInfo,
    ReplicaIdentity,
    ReplicasInfo,
)
from controller_core.remoting.host_port import join_host_port
from controller_core.remoting.numbers import BrokerId, LogOffset
from ha_sidecar.address import AddressError, HostPort, host_port

"""Name of the figure in the answer to 28."""


class GroupName(NamedTuple):
    """A broker group among those of all clusters: controllers may serve several with groups of one name."""

    cluster: str
    broker_name: str

    def __str__(self) -> str:
        """Return CLUSTER/GROUP."""
        return f"{self.cluster}/{self.broker_name}"


@dataclass(frozen=True, slots=True)
class SlaveFacts:
    """A slave as its master sees it; offsets and lag in bytes."""

    address: str
    ack_offset: LogOffset
    lag_bytes: int
    in_sync: bool
    sent_bytes_per_s: int = 0


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """What the broker says of itself; offsets in bytes.

    Attributes:
        broker_id: given by the controllers; 0 of a master that is not identified yet, and before an id is
            given.
        address: what it announces to the controllers, host:port; empty if it was not asked.
        is_master: whether it takes itself for the master.
        last_epoch: newest epoch of its log, -1 for none.
        max_offset: end of its log.
        confirm_offset: least ack of the slaves in its set, as far as acks count; None if it is a slave.
        slaves: its slaves, if it is master.
        epoch_starts: (epoch, offset of its first byte) of its log, ascending.
        received_bytes_per_s: what a slave receives from its master.
    """

    broker_id: BrokerId
    address: str
    is_master: bool
    last_epoch: int
    max_offset: LogOffset
    confirm_offset: LogOffset | None
    slaves: tuple[SlaveFacts, ...]
    epoch_starts: tuple[tuple[int, int], ...] = ()
    received_bytes_per_s: int | None = None


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """What the controllers say of the group.

    Attributes:
        master_id: None without a master, as is its address.
        members: SyncStateSet, ascending.
        others: (id, address, alive) of every registered replica, ascending.
        preceding: the SyncStateSet before the last election, while nobody has joined the master that it made;
            without a master only.
        master_direct: the address of the master's own process, while its announced address may lead to
            another; None if unknown.
    """

    master_id: BrokerId | None
    master_address: str | None
    master_epoch: int
    members: tuple[BrokerId, ...]
    others: tuple[tuple[BrokerId, str, bool], ...]
    preceding: tuple[BrokerId, ...] = ()
    master_direct: str | None = None


def master_client_address(group: GroupFacts | None) -> HostPort | None:
    """Return the address at which clients reach the group's master; None without a master, or if unknown."""
    return parsed_address((group and group.master_address) or "")


def master_process_address(group: GroupFacts) -> HostPort | None:
    """Return the address of the master's own process, wherever its announced address leads.

    None without a master.
    """
    return parsed_address(group.master_direct or group.master_address or "")


def parsed_address(address: str) -> HostPort | None:
    """Return an address as host and port, None if it is not one."""
    try:
        return host_port(address)
    except AddressError:
        return None


def broker_facts(cache: EpochEntryCache, status: HARuntimeInfo, address: str = "") -> BrokerFacts:
    """Read the answers to 1007 and 907."""
    max_offset = LogOffset(cache.max_offset)
    slaves = tuple(_slave(info) for info in status.ha_connection_info) if status.master else ()
    in_sync = [slave.ack_offset for slave in slaves if slave.in_sync]
    client = status.ha_client_runtime_info
    return BrokerFacts(
        broker_id=BrokerId(cache.broker_id),
        address=address,
        is_master=status.master,
        last_epoch=max((entry.epoch for entry in cache.epoch_list), default=-1),
        max_offset=max_offset,
        confirm_offset=min([max_offset, *in_sync]) if status.master else None,
        slaves=slaves,
        epoch_starts=tuple(sorted((entry.epoch, entry.start_offset) for entry in cache.epoch_list)),
        received_bytes_per_s=None if status.master or client is None else client.transferred_byte_in_second,
    )


def group_facts(info: ReplicasInfo) -> GroupFacts:
    """Read one group of the answer to 1006."""
    everyone: Sequence[ReplicaIdentity] = (*info.in_sync_replicas, *info.not_in_sync_replicas)
    direct = {replica.broker_id: replica.direct_address for replica in everyone}
    return GroupFacts(
        master_id=BrokerId(info.master_broker_id) if info.master_broker_id else None,
        master_address=info.master_address or None,
        master_epoch=info.master_epoch,
        members=tuple(sorted(BrokerId(replica.broker_id) for replica in info.in_sync_replicas)),
        others=tuple(
            sorted((BrokerId(each.broker_id), each.broker_address or "", each.alive) for each in everyone)
        ),
        preceding=tuple(sorted(map(BrokerId, info.preceding_sync_state_set or ()))),
        master_direct=direct.get(info.master_broker_id or 0),
    )


def settings(properties: str) -> dict[str, str]:
    """Return a broker's settings by name, from the answer to 26."""
    pairs = (line.partition("=") for line in properties.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def announced_address(properties: str) -> str:
    """Return the address that a broker announces, from its settings (the answer to 26).

    Empty if they lack it.
    """
    values = settings(properties)
    host, port = values.get("brokerIP1", ""), values.get("listenPort", "")
    return join_host_port(host, port) if host and port else ""


def with_controller_id(broker: BrokerFacts, group: GroupFacts | None) -> BrokerFacts:
    """Return the facts with the id that the controllers know the broker's address by, if it said none itself.

    Of several ids it is the one that lives, else the newest: a broker whose first application was answered
    too late has applied again, and its first id stays with the controllers, never alive.
    Source: ReplicasManager.register 5.5.0 (a failed applyBrokerId clears the temporary metadata).
    """
    if broker.broker_id or group is None or not broker.address:
        return broker
    found = [(alive, broker_id) for broker_id, address, alive in group.others if address == broker.address]
    return replace(broker, broker_id=max(found)[1]) if found else broker


def other_master(broker: BrokerFacts, group: GroupFacts | None) -> HostPort | None:
    """Return the address of the group's master, None without a master.

    None too if it is this broker, by the controllers' word, which may come before its own: held against
    itself it would lack nothing, and what its last master knew would be forgotten for what it knows.
    """
    if group is None or group.master_id is None:
        return None
    is_itself = (
        with_controller_id(broker, group).broker_id == group.master_id
        or broker.address == group.master_address
    )
    return None if is_itself else master_client_address(group)


def living_members(group: GroupFacts, besides_id: BrokerId) -> tuple[tuple[BrokerId, str], ...]:
    """Return id and address of those in the SyncStateSet that live, all but one.

    A log replica may be among them.
    """
    return tuple(
        (broker_id, address)
        for broker_id, address, alive in group.others
        if alive and broker_id != besides_id and broker_id in group.members
    )


def readiness(broker: BrokerFacts | None, group: GroupFacts | None, refusal: str = "") -> tuple[bool, str]:
    """Say whether the broker should get traffic, and why; `refusal` is what it refused with last, if it did.

    The group's facts may be old: controllers that cannot be reached must not take working brokers out of
    service.
    """
    if broker is None:
        return False, f"the broker refuses: {refusal}" if refusal else "the broker does not answer"
    if group is None:
        return False, "no controller has told of the group yet"
    members = ",".join(str(member) for member in group.members)
    where = f"the SyncStateSet [{members}], id {broker.broker_id}, epoch {group.master_epoch}"
    if broker.broker_id and broker.broker_id == group.master_id:
        return broker.is_master, f"{'master' if broker.is_master else 'elected, not yet master'} with {where}"
    in_sync = broker.broker_id in group.members
    return in_sync, f"slave {'in' if in_sync else 'not in'} {where}"


def lag_bytes(broker: BrokerFacts, master_max_offset: LogOffset | None) -> int | None:
    """Return what the broker lacks of the master's log; None if the master did not say how far it reaches."""
    if broker.is_master:
        return 0
    return None if master_max_offset is None else max(0, master_max_offset - broker.max_offset)


def slaves_by_name(slaves: Sequence[SlaveFacts]) -> dict[str, SlaveFacts]:
    """Name slaves by host, so that a reconnect makes no new series.

    By host and port where a host has several.
    """
    hosts = [slave.address.removeprefix("/").rpartition(":")[0] for slave in slaves]
    return {
        host if hosts.count(host) == 1 else slave.address.removeprefix("/"): slave
        for host, slave in zip(hosts, slaves, strict=True)
    }


def _slave(info: HAConnectionRuntimeInfo) -> SlaveFacts:
    return SlaveFacts(
        info.addr or "",
        LogOffset(info.slave_ack_offset),
        max(0, info.diff),
        info.in_sync,
        info.transferred_byte_in_second,
    )
