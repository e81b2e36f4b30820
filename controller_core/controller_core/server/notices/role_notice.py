"""Build the frame of a role notice (1008), which tells one member of a group who its master is.

The body is the group's SyncStateSet. Answers to broker polls carry the same body, so its encoding is cached
here for both.
"""

from functools import lru_cache

from controller_core.groups.keys import SetEpoch
from controller_core.groups.replies import RoleNotice
from controller_core.remoting.bodies import SyncStateSet
from controller_core.remoting.codes import RequestCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.headers import NotifyBrokerRoleChangedRequestHeader

_ENCODED_SETS_MAX = 4_096


def role_notice_frame(notice: RoleNotice) -> RemotingCommand:
    """Return the oneway request 1008 for one member."""
    header = NotifyBrokerRoleChangedRequestHeader(
        master_address=notice.master_address,
        master_epoch=notice.master_epoch,
        sync_state_set_epoch=notice.set_epoch,
        master_broker_id=notice.master_id,
    )
    body = encoded_sync_state_set(notice.sync_state_set, notice.set_epoch)
    return RemotingCommand.request(RequestCode.NOTIFY_BROKER_ROLE_CHANGED, header.to_ext(), body, oneway=True)


@lru_cache(_ENCODED_SETS_MAX)
def encoded_sync_state_set(members: tuple[int, ...], epoch: SetEpoch) -> bytes:
    """Return the JSON body of a SyncStateSet."""
    return SyncStateSet.of(members, epoch).encode()
