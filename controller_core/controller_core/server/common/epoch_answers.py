"""Read a member's answer to request 1007: its epochs and the end of its log."""

from typing import Final

from controller_core.groups.group import Group
from controller_core.groups.keys import BrokerId
from controller_core.remoting.bodies import EpochEntryCache
from controller_core.server.common.broker_questions import RefusedError

LIST_BYTES_MAX: Final = 1 << 20
"""Bytes of one answer: some 15,000 epochs. RocketMQ's own handshake ends at 1,000."""


class OtherMemberError(Exception):
    """Another member answered at this address."""


def own_epochs(group: Group, broker_id: BrokerId, body: bytes) -> EpochEntryCache:
    """Return the content of an answer that is this member's.

    Raises:
        OtherMemberError: it is not this member's.
        RefusedError: it is too long.
        RemotingProtocolError: it cannot be read.
    """
    if len(body) > LIST_BYTES_MAX:
        raise RefusedError(f"its list has {len(body)} bytes, at most {LIST_BYTES_MAX} are read")
    told = EpochEntryCache.decode(body)
    # A master answers with id 0, a broker without a role with -1.
    is_its_own = told.broker_id <= 0 or told.broker_id == broker_id
    if not is_its_own or (told.cluster_name, told.broker_name) != group.key:
        raise OtherMemberError(
            f"member {told.broker_id} of {told.cluster_name}/{told.broker_name} answers for {broker_id}"
        )
    return told
