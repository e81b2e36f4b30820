"""Recognizes requests of brokers of RocketMQ 5.0.x and 5.1.0, whose protocol names members by addresses.

Such a broker cannot be served: broker ids, which 5.1.1 brought, are the keys of groups. Its requests lack the
id, so they would be refused for a missing field. This refusal says which release is needed instead.

| request | 5.0.x and 5.1.0 | 5.1.1 and later |
|---|---|---|
| 1001 ALTER_SYNC_STATE_SET | masterAddress | masterBrokerId |
| 1003 REGISTER_BROKER | brokerAddress without brokerId | brokerId |

Source: AlterSyncStateSetRequestHeader.java, RegisterBrokerToControllerRequestHeader.java of 5.0.0 and 5.1.1.
"""

from typing import Final

from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand, failure

REMARK: Final = (
    "this broker speaks the controller protocol of RocketMQ 5.0.x and 5.1.0, which names members by address "
    "(expected 5.1.1 or later, with broker ids)"
)
_OLD_AND_NEW: Final[dict[int, tuple[str, str]]] = {
    RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET: ("masterAddress", "masterBrokerId"),
    RequestCode.CONTROLLER_REGISTER_BROKER: ("brokerAddress", "brokerId"),
}


def refusal(request: RemotingCommand, error: Exception) -> RemotingCommand:
    """Return the answer to a request that cannot be read, with the reason if its sender is too old."""
    old, new = _OLD_AND_NEW.get(request.code, ("", ""))
    ext = request.ext or {}
    if old in ext and new not in ext:
        return RemotingCommand.response_to(request, ResponseCode.CONTROLLER_INVALID_REQUEST, remark=REMARK)
    return failure(request, error)
