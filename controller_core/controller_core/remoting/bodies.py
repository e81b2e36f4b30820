"""The bodies of controller and HA messages: sets, elections, replica tables, epochs, properties.

Each class reads and writes one body. Every Java reader from 5.1.1 on must accept the output, so:

- `syncStateSet` is always an array: Java's class throws on null or absence.
- map keys are quoted: every version reads them, `mqadmin electMaster` of 5.4.0 and later fails on bare ones.
- an elect body repeats the group's members at its top level, where mqadmin looks for them and brokers do not.
- both lists of a group in BrokerReplicasInfo are present, even when empty.

Input from Java may have bare keys, ids as texts, and unknown fields: the readers accept all of these. Ids of
a set are unique and ascending on both ways, so that equal sets are equal bytes.

Source: org.apache.rocketmq.remoting.protocol.body.* of 5.1.1 to 5.5.0.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Self

import msgspec

from controller_core.remoting import lenient_json
from controller_core.remoting.errors import BodyError, RemotingProtocolError
from controller_core.remoting.header import JavaInt, JavaLong

_ENCODER: Final = msgspec.json.Encoder(order="sorted")


class Body(msgspec.Struct, frozen=True, rename="camel"):
    """Base of every JSON body; immutable, compared by value."""

    def encode(self) -> bytes:
        """Write this body as Java would: keys in alphabetical order, without those that are null."""
        members = msgspec.to_builtins(self, str_keys=True)
        text = _ENCODER.encode(members)
        # Nearly always no field is null. A text may contain the word `null` as well; then no field is left
        # out.
        return _ENCODER.encode(_without_null(members)) if b"null" in text else text

    @classmethod
    def decode(cls, body: bytes) -> Self:
        """Read this body.

        Raises:
            BodyError: it is empty, not JSON, or lacks what it must have.
        """
        if not body:
            raise BodyError(cls.__name__, "is empty")
        try:
            return lenient_json.decode(body, cls)
        except RemotingProtocolError as error:
            raise BodyError(cls.__name__, str(error)) from error


def _without_null(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Drop null members at every depth; the depth is that of the declared classes."""
    match value:
        case dict():
            return {key: _without_null(member) for key, member in value.items() if member is not None}
        case list() | tuple():
            return [_without_null(member) for member in value]
        case _:
            return value


def _ids(ids: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(set(ids)))


class SyncStateSet(Body, frozen=True):
    """A SyncStateSet and its epoch: body of 1001 and 1008, and of the answers to 1001, 1003 and 1004."""

    sync_state_set: tuple[JavaLong, ...]
    sync_state_set_epoch: JavaInt = 0

    @classmethod
    def of(cls, ids: Iterable[int], epoch: int) -> Self:
        """Make one from ids in any order."""
        return cls(_ids(ids), epoch)

    @classmethod
    def decode(cls, body: bytes) -> Self:
        """Read this body; the ids come out ascending and unique.

        Raises:
            BodyError: it is empty, not JSON, or lacks the list of ids.
        """
        read = super().decode(body)
        return cls(_ids(read.sync_state_set), read.sync_state_set_epoch)


class BrokerMemberGroup(Body, frozen=True):
    """Every registered replica of a group, id to address."""

    broker_addrs: dict[int, str] = msgspec.field(default_factory=dict)
    broker_name: str | None = None
    cluster: str | None = None


class ElectMasterResponseBody(Body, frozen=True):
    """Body of the answer to 1002.

    The group's members are absent when the master did not change (code 2011).
    """

    sync_state_set: tuple[JavaLong, ...]
    broker_member_group: BrokerMemberGroup | None = None
    broker_addrs: dict[int, str] | None = None
    broker_name: str | None = None
    cluster: str | None = None

    @classmethod
    def of(
        cls,
        cluster: str,
        broker_name: str,
        addresses: Mapping[int, str] | None,
        sync_state_set: Iterable[int],
    ) -> Self:
        """Make the form that both brokers and mqadmin understand; `addresses` None leaves the members out."""
        if addresses is None:
            return cls(_ids(sync_state_set))
        members = dict(sorted(addresses.items()))
        return cls(
            _ids(sync_state_set),
            BrokerMemberGroup(members, broker_name, cluster),
            members,
            broker_name,
            cluster,
        )


LOG_REPLICA_MARK: Final = " (log replica)"


class ReplicaIdentity(Body, frozen=True):
    """One replica in BrokerReplicasInfo.

    `direct_address` is ours, RocketMQ's readers skip it: the address of the replica's own process, if it is
    not `broker_address`. The name of a log replica ends in `LOG_REPLICA_MARK`.
    """

    alive: bool = False
    broker_address: str | None = None
    broker_id: JavaLong = 0
    broker_name: str | None = None
    direct_address: str | None = None

    @property
    def is_log_replica(self) -> bool:
        """Whether it is a log replica, by its name."""
        return (self.broker_name or "").endswith(LOG_REPLICA_MARK)


class ReplicasInfo(Body, frozen=True):
    """One group in BrokerReplicasInfo; the master's fields are absent without a master.

    `preceding_sync_state_set` is ours, RocketMQ's readers skip it: see `groups.group.Group`.
    """

    in_sync_replicas: tuple[ReplicaIdentity, ...] = ()
    master_address: str | None = None
    master_broker_id: JavaLong | None = None
    master_epoch: JavaInt = 0
    not_in_sync_replicas: tuple[ReplicaIdentity, ...] = ()
    preceding_sync_state_set: tuple[JavaLong, ...] | None = None
    sync_state_set_epoch: JavaInt = 0


class BrokerReplicasInfo(Body, frozen=True):
    """Body of the answer to 1006, by broker name."""

    replicas_info_table: dict[str, ReplicasInfo]


class EpochEntryBody(Body, frozen=True):
    """One master epoch and the commit log bytes written in it; the last entry's end is 2**63 - 1."""

    end_offset: JavaLong
    epoch: JavaInt
    start_offset: JavaLong


class EpochEntryCache(Body, frozen=True):
    """Body of a broker's answer to 1007."""

    broker_id: JavaLong
    broker_name: str
    cluster_name: str
    epoch_list: tuple[EpochEntryBody, ...]
    max_offset: JavaLong


class HAConnectionRuntimeInfo(Body, frozen=True):
    """One slave as its master sees it; offsets and `diff` in bytes."""

    addr: str | None = None
    diff: JavaLong = 0
    in_sync: bool = False
    slave_ack_offset: JavaLong = 0
    transfer_from_where: JavaLong = 0
    transferred_byte_in_second: JavaLong = 0


class HAClientRuntimeInfo(Body, frozen=True):
    """A slave's own view of its replication; timestamps in ms of its clock."""

    activated: bool = False
    last_read_timestamp: JavaLong = 0
    last_write_timestamp: JavaLong = 0
    master_addr: str | None = None
    master_flush_offset: JavaLong = 0
    max_offset: JavaLong = 0
    transferred_byte_in_second: JavaLong = 0


class HARuntimeInfo(Body, frozen=True):
    """Body of a broker's answer to 907."""

    ha_client_runtime_info: HAClientRuntimeInfo | None = None
    ha_connection_info: tuple[HAConnectionRuntimeInfo, ...] = ()
    in_sync_slave_nums: JavaInt = 0
    master: bool = False
    master_commit_log_max_offset: JavaLong = 0


def encode_names(names: Iterable[str]) -> bytes:
    """Write the broker names that 1006 asks for, in the given order."""
    return _ENCODER.encode(list(names))


def decode_names(body: bytes) -> list[str]:
    """Read the broker names of a 1006; no body and null are the empty list.

    Raises:
        BodyError: it is not a JSON array of texts.
    """
    if not body or body == b"null":
        return []
    try:
        return lenient_json.decode(body, list[str])
    except RemotingProtocolError as error:
        raise BodyError("names", str(error)) from error
