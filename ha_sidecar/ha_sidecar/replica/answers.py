"""The replica's answers to questions for a broker: its epochs, its state, its HA address; its readiness.

Every asker gets the address by 906: a Java broker says nothing there unless it is master, but a log replica
serves its log at any time, and the asker must know whether that is the log it wants. `masterAddress` is given
only while the controllers name this replica as master, as brokers do. `masterHaTls` promises TLS at the HA
address; Java ignores it.

Source: AdminBrokerProcessor.java (906, 907, 1007) 5.4.0.
"""

from controller_core.remoting.bodies import (
    EpochEntryBody,
    EpochEntryCache,
    HAClientRuntimeInfo,
    HAConnectionRuntimeInfo,
    HARuntimeInfo,
)
from controller_core.remoting.headers import ExchangeHAInfoResponseHeader
from controller_core.remoting.numbers import BrokerId
from ha_sidecar.commitlog.store import ReplicaStore
from ha_sidecar.replica.config import ReplicaConfig
from ha_sidecar.replica.group_view import FollowedGroup
from ha_sidecar.replica.slave_server import ServedSlave


def epoch_cache(config: ReplicaConfig, store: ReplicaStore, broker_id: BrokerId) -> EpochEntryCache:
    """Return the body of the answer to 1007."""
    epochs = store.epochs
    return EpochEntryCache(
        broker_id=broker_id,
        broker_name=config.group,
        cluster_name=config.cluster,
        epoch_list=tuple(
            EpochEntryBody(epochs.end_offset(entry.epoch), entry.epoch, entry.start_offset)
            for entry in epochs
        ),
        max_offset=store.log.max_offset,
    )


def ha_status(
    view: FollowedGroup, store: ReplicaStore, slaves: list[ServedSlave], *, is_following: bool
) -> HARuntimeInfo:
    """Return the body of the answer to 907: this replica as a slave, and the slaves that it serves itself."""
    max_offset = store.log.max_offset
    client = HAClientRuntimeInfo(
        activated=is_following, master_addr=view.role.master_address, max_offset=max_offset
    )
    connections = tuple(
        HAConnectionRuntimeInfo(
            addr=slave.address,
            diff=max_offset - slave.ack_offset,
            in_sync=slave.broker_id in view.members,
            slave_ack_offset=slave.ack_offset,
            transfer_from_where=slave.position,
        )
        for slave in slaves
    )
    others = view.members - {view.broker_id}
    return HARuntimeInfo(
        client,
        connections,
        in_sync_slave_nums=len(others) if _is_master(view) else 0,
        master=_is_master(view),
        master_commit_log_max_offset=max_offset,
    )


def ha_address(
    config: ReplicaConfig, view: FollowedGroup, store: ReplicaStore
) -> ExchangeHAInfoResponseHeader:
    """Return the answer to a 906 that asks; empty if slaves are not served."""
    if config.ha_address is None:
        return ExchangeHAInfoResponseHeader()
    return ExchangeHAInfoResponseHeader(
        master_ha_address=config.ha_address,
        master_flush_offset=store.log.synced_offset,
        master_address=config.address if _is_master(view) else None,
        master_ha_tls=True if config.tls is not None else None,
    )


def readiness(
    view: FollowedGroup, *, is_learner: bool, is_following: bool, has_room: bool, refusal: str
) -> tuple[bool, str]:
    """Return whether a replica does its work, and the text that says so.

    A member works in the SyncStateSet. A learner never enters it, and works while it follows a master.
    """
    if not view.broker_id:
        return False, "not registered"
    if is_learner:
        text = f"a learner that {'follows' if is_following else 'waits for'} its master, id {view.broker_id}"
    else:
        members = ",".join(str(member) for member in sorted(view.members))
        text = f"{'in' if view.in_sync else 'not in'} the SyncStateSet [{members}], id {view.broker_id}"
    if not has_room:
        text += "; the disk lacks room, nothing is received"
    if refusal:
        text += f"; the master refuses to tell its HA address: {refusal}"
    return is_following and has_room if is_learner else view.in_sync, text


def _is_master(view: FollowedGroup) -> bool:
    return view.broker_id != 0 and view.role.master_id == view.broker_id
