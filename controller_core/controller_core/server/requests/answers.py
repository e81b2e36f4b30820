"""Turn a reply of the state machine into the frame that answers a request.

Header fields as text, the body as JSON.

The state machine decides what an answer says; `remoting.bodies` knows how RocketMQ writes it. This module
joins both.
"""

from collections.abc import Mapping

from controller_core.groups.replies import (
    Body,
    ElectionView,
    ExtValue,
    GroupReply,
    GroupSyncStateView,
    ReplicaView,
    SyncStateSetView,
)
from controller_core.remoting.bodies import (
    LOG_REPLICA_MARK,
    BrokerReplicasInfo,
    ElectMasterResponseBody,
    ReplicaIdentity,
    ReplicasInfo,
)
from controller_core.remoting.codes import ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.frame import PreparedAnswer
from controller_core.server.notices.role_notice import encoded_sync_state_set

NOT_LEADER_REMARK = "The controller is not in leader state"
"""Behind the broker name of each log replica in an answer to 1006; a broker's name stands alone."""


def answer(request: RemotingCommand, reply: GroupReply | PreparedAnswer) -> RemotingCommand:
    """Return the frame that answers `request` with `reply`."""
    if isinstance(reply, PreparedAnswer):
        return reply.command.with_opaque(request.opaque)
    return RemotingCommand.response_to(request, reply.code, _ext(reply.ext), reply.remark, _body(reply.body))


def not_leader(request: RemotingCommand) -> RemotingCommand:
    """Return the answer of a node that can reach no leader; brokers try again by their own timers."""
    return RemotingCommand.response_to(request, ResponseCode.CONTROLLER_NOT_LEADER, remark=NOT_LEADER_REMARK)


def not_supported(request: RemotingCommand) -> RemotingCommand:
    """Return the answer to a code that no controller serves.

    The remark is Java's, its leading space included.
    """
    remark = f" request type {request.code} not supported"
    return RemotingCommand.response_to(request, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark)


def _ext(ext: Mapping[str, ExtValue] | None) -> dict[str, str] | None:
    return None if ext is None else {name: str(value) for name, value in ext.items()}


def _body(body: Body) -> bytes:
    match body:
        case None:
            return b""
        case SyncStateSetView():
            return encoded_sync_state_set(body.members, body.epoch)
        case ElectionView():
            return _election_bytes(body)
        case _:
            table = {view.key.broker_name: _replicas_info(view) for view in body}
            return BrokerReplicasInfo(table).encode()


def _election_bytes(view: ElectionView) -> bytes:
    key = view.key
    addresses = None if view.addresses is None else {int(each): at for each, at in view.addresses.items()}
    return ElectMasterResponseBody.of(key.cluster, key.broker_name, addresses, view.sync_state_set).encode()


def _replicas_info(view: GroupSyncStateView) -> ReplicasInfo:
    return ReplicasInfo(
        in_sync_replicas=tuple(_identity(replica) for replica in view.in_sync),
        master_address=view.master_address,
        master_broker_id=view.master_id,
        master_epoch=view.master_epoch,
        not_in_sync_replicas=tuple(_identity(replica) for replica in view.not_in_sync),
        preceding_sync_state_set=view.preceding_set or None,
        sync_state_set_epoch=view.set_epoch,
    )


def _identity(replica: ReplicaView) -> ReplicaIdentity:
    # mqadmin prints a member's four fields and no others. People need id, address and liveness; the name only
    # repeats the group's name above, and mqadmin is the only client. Source:
    # GetSyncStateSetSubCommand.printData, BrokerReplicasInfo.ReplicaIdentity.toString 5.2.0 to 5.5.0.
    name = replica.broker_name + (LOG_REPLICA_MARK if replica.log_replica else "")
    direct = replica.direct_address if replica.direct_address != replica.address else ""
    return ReplicaIdentity(replica.alive, replica.address, replica.broker_id, name, direct or None)
