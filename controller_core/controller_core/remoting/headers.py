"""Headers of the controller's requests and answers, the role notice, and the HA requests between brokers.

One class a message, called as in RocketMQ's source so that both can be read side by side; `header.py` says
how a class becomes text. Lists and sets do not fit in a header and travel as bodies (`bodies.py`).

`invoke_time` is the sender's clock in ms, written by 5.2 and later; a controller must not use it.
`replica_kind` is ours: `log` marks a replica that keeps the log and can never be master; Java's controller
ignores it. `master_ha_tls` is ours too: the HA address of the same answer serves TLS.

Source: org.apache.rocketmq.remoting.protocol.header.* of 5.1.1 to 5.5.0, whose field sets differ only in
invokeTime.
"""

from typing import Final

from controller_core.remoting.header import Header, JavaInt, JavaLong

REPLICA_KIND_LOG: Final = "log"
"""Value of `replica_kind` for a replica that can never be elected."""
LEARNER_PRIORITY: Final = -(1 << 31)
"""The `brokerElectionPriority` of a learner, which no election takes.

A Java learner registers like any broker, and tells only its master that it is a learner. Of its settings its
heartbeats carry this one. RocketMQ's own controller subtracts priorities in 32 bits, so that this one comes
after the default there too.
"""
BROKER_ID_NONE: Final = -1
"""The broker id of an ELECT_MASTER that does not name a broker."""


class AlterSyncStateSetRequestHeader(Header, frozen=True):
    """1001 ALTER_SYNC_STATE_SET; the wanted set and the epoch it was made from are the body."""

    broker_name: str
    master_broker_id: JavaLong
    master_epoch: JavaInt
    invoke_time: JavaLong | None = None


class ElectMasterRequestHeader(Header, frozen=True):
    """1002 ELECT_MASTER.

    A broker asks with its own id, `mqadmin electMaster` designates one, and the controller itself asks with
    none.
    """

    broker_name: str
    cluster_name: str | None = None
    broker_id: JavaLong = BROKER_ID_NONE
    designate_elect: bool = False
    invoke_time: JavaLong | None = None


class ElectMasterResponseHeader(Header, frozen=True):
    """Answer to 1002; all fields are absent after a failed election."""

    master_broker_id: JavaLong | None = None
    master_address: str | None = None
    master_epoch: JavaInt | None = None
    sync_state_set_epoch: JavaInt | None = None


class RegisterBrokerToControllerRequestHeader(Header, frozen=True):
    """1003 REGISTER_BROKER (to the controller; 103 is the name server's)."""

    cluster_name: str
    broker_name: str
    broker_id: JavaLong
    broker_address: str
    invoke_time: JavaLong | None = None
    replica_kind: str | None = None


class RegisterBrokerToControllerResponseHeader(Header, frozen=True):
    """Answer to 1003; the four master fields only while a recorded master is alive."""

    cluster_name: str | None = None
    broker_name: str | None = None
    master_broker_id: JavaLong | None = None
    master_address: str | None = None
    master_epoch: JavaInt | None = None
    sync_state_set_epoch: JavaInt | None = None


class GetReplicaInfoRequestHeader(Header, frozen=True):
    """1004 GET_REPLICA_INFO.

    `cluster_name` is ours: which cluster's group is meant; RocketMQ's controllers ignore it.
    """

    broker_name: str
    cluster_name: str | None = None


class GetReplicaInfoResponseHeader(Header, frozen=True):
    """Answer to 1004; a broker fails on every poll if a known group's answer lacks `master_epoch`."""

    master_broker_id: JavaLong | None = None
    master_address: str | None = None
    master_epoch: JavaInt | None = None


class GetMetaDataResponseHeader(Header, frozen=True):
    """Answer to 1005 GET_METADATA_INFO, whose request does not have a header.

    `peers` is `n0:host:port;n1:host:port;`, with the last semicolon. Leader fields are absent without a
    leader.

    Ours: to a request that names a member (clusterName, brokerName, brokerId), `lease_ms` says for how much
    longer this controller will wait for that member's next heartbeat; 0 if the member is not alive, absent if
    it is unknown and no other is master.
    """

    group: str | None = None
    controller_leader_id: str | None = None
    controller_leader_address: str | None = None
    is_leader: bool = False
    peers: str | None = None
    lease_ms: JavaLong | None = None


class NotifyBrokerRoleChangedRequestHeader(Header, frozen=True):
    """1008 NOTIFY_BROKER_ROLE_CHANGED, oneway from controller to broker; the SyncStateSet is the body.

    Ours: with an epoch and no master, and not oneway, it asks a log replica to part from the master of that
    epoch, which is about to be replaced. It is answered when no ack can reach that master any more.
    `part_wait_ms`: for how long the replica waits until that master has noticed; its own time if absent.
    """

    master_address: str | None = None
    master_epoch: JavaInt | None = None
    sync_state_set_epoch: JavaInt | None = None
    master_broker_id: JavaLong | None = None
    part_wait_ms: JavaInt | None = None


class SyncStateDataRequestHeader(Header, frozen=True):
    """1006 GET_SYNC_STATE_DATA, whose names are the body; RocketMQ's request does not have a header.

    `cluster_name` is ours: the cluster of all names; without it each name must belong to one cluster.
    """

    cluster_name: str | None = None


class CleanControllerBrokerDataRequestHeader(Header, frozen=True):
    """1011 CLEAN_BROKER_DATA; ids are `1;2`."""

    broker_name: str
    cluster_name: str | None = None
    broker_controller_ids_to_clean: str | None = None
    is_clean_living_broker: bool = False
    invoke_time: JavaLong | None = None


class GetNextBrokerIdRequestHeader(Header, frozen=True):
    """1012 GET_NEXT_BROKER_ID."""

    cluster_name: str
    broker_name: str


class GetNextBrokerIdResponseHeader(Header, frozen=True):
    """Answer to 1012."""

    cluster_name: str | None = None
    broker_name: str | None = None
    next_broker_id: JavaLong | None = None


class ApplyBrokerIdRequestHeader(Header, frozen=True):
    """1013 APPLY_BROKER_ID; the check code is `<broker address>;<ms>`."""

    cluster_name: str
    broker_name: str
    applied_broker_id: JavaLong
    register_check_code: str
    replica_kind: str | None = None


class BrokerHeartbeatRequestHeader(Header, frozen=True):
    """904 BROKER_HEARTBEAT, oneway to every controller.

    `heartbeat_timeout_mills` is spelled as on the wire.
    """

    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: JavaLong | None = None
    epoch: JavaInt | None = None
    max_offset: JavaLong | None = None
    confirm_offset: JavaLong | None = None
    heartbeat_timeout_mills: JavaLong | None = None
    election_priority: JavaInt | None = None


class ExchangeHAInfoRequestHeader(Header, frozen=True):
    """906 EXCHANGE_BROKER_HA_INFO; without `master_ha_address` it asks, with it it tells."""

    master_ha_address: str | None = None
    master_flush_offset: JavaLong | None = None
    master_address: str | None = None


class ExchangeHAInfoResponseHeader(Header, frozen=True):
    """Answer to 906; all absent while the broker is a slave."""

    master_ha_address: str | None = None
    master_flush_offset: JavaLong | None = None
    master_address: str | None = None
    master_ha_tls: bool | None = None
