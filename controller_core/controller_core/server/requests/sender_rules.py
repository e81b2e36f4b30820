"""Which requests this node takes from whom: those that people send, and those that a master sends.

| request | taken from |
|---|---|
| 1009, 1011, 1002 with `designateElect` | loopback, an admin's certificate, token; `plainAdminRequests` |
| 1001 | the master that it names, over a connection that does not deliver late (`liveness.deliveries`) |
| 30904 | loopback, a certificate, `rmqhaToken` with the token of the agents (`remoting.nodes.token`) |
| every other one | everybody |

Every other request is either a read, or what a broker may say of itself before any node can know it.

Who is the master, for 1001:

| the request came over | then |
|---|---|
| the connection that holds the master | taken |
| another connection of the same host, which holds no other member | taken |
| any other connection | refused: 16 by the leader, 2007 by a follower |

Why also the second row: a broker sends 1001 to the leader's address of request 1005, and heartbeats to each
address of its own `controllerAddr`. Where the two are spelt differently, it has two connections.

If no connection holds the master, the leader judges the request as usual, and refuses it, because a member
that does not live cannot be in the wanted set. A follower refuses it: the broker's next request goes to the
leader.

A request that another controller sends on was judged by that one. The mark alone proves nothing, so it must
come from a host from which a controller's peer connection comes.

Source: BrokerOuterAPI.java alterSyncStateSet, ReplicasManager.java of 5.5.0 for the two addresses.
"""

import hmac
import ipaddress
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from controller_core.channel.log_rate import LogRate
from controller_core.groups.errors import AmbiguousGroupError
from controller_core.groups.keys import BrokerId, ReplicaKey
from controller_core.groups.liveness.holders import NO_CHANNEL_ID
from controller_core.groups.state import GroupsState
from controller_core.remoting import headers
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.errors import HeaderError, shown
from controller_core.remoting.nodes.token import TOKEN_FIELD, node_token
from controller_core.server.common.certificate_names import PeerCertificate, is_administrator
from controller_core.server.elections.heartbeats import HeartbeatReceiver
from controller_core.server.requests.answers import not_leader
from controller_core.server.requests.forwarding import cluster_meant, is_forwarded
from controller_core.server.requests.interfaces import NodeReads
from controller_core.server.settings.config import Settings
from controller_core.server.settings.live_config import LiveConfig

ADMIN_REMARK: Final = (
    "this request is taken from loopback, with an administrator's certificate or with the cluster's token in "
    f"the field {TOKEN_FIELD}; plainAdminRequests=true takes it from everywhere"
)
LATE_REMARK: Final = "this request may be old: its connection was silent for seconds until now; send it again"
AGENT_REMARK: Final = (
    "heartbeats of a node agent are taken from loopback, with a client certificate or with the agents' token "
    f"in the field {TOKEN_FIELD}"
)
_ADMIN: Final = frozenset({RequestCode.UPDATE_CONTROLLER_CONFIG, RequestCode.CLEAN_BROKER_DATA})
_log_refused: Final = LogRate(logging.getLogger(__name__), logging.WARNING)


class SenderRules:
    """Judges requests by their senders."""

    def __init__(
        self, node: NodeReads, state: GroupsState, heartbeats: HeartbeatReceiver, config: LiveConfig
    ) -> None:
        """Take what tells the leader, the masters, the senders and the settings."""
        self.is_controller: Callable[[str], bool] = _anybody
        """Says whether a host is a controller's; the default believes every mark."""
        self._node: Final = node
        self._state: Final = state
        self._heartbeats: Final = heartbeats
        self._config: Final = config

    def refusal(
        self, channel_id: int, request: RemotingCommand, certificate: PeerCertificate | None
    ) -> RemotingCommand | None:
        """Return the answer to a request that its sender must not make; None if it may.

        Args:
            channel_id: of the connection.
            request: the request.
            certificate: what the sender has shown, if anything.
        """
        if request.code == RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET:
            return self._alter_refusal(channel_id, request)
        is_admin = is_administrator(certificate, self._config.settings.admin_names)
        if request.code == RequestCode.NODE_HEARTBEAT:
            if is_admin or self._is_agent(channel_id, request):
                return None
            return self._refused(channel_id, request, AGENT_REMARK)
        if not _is_admin(request) or is_admin or self._may_administer(channel_id, request):
            return None
        return self._refused(channel_id, request, ADMIN_REMARK)

    def _refused(self, channel_id: int, request: RemotingCommand, remark: str) -> RemotingCommand | None:
        host = self._heartbeats.host_of(channel_id)
        _log_refused("request %d from %s is refused: %s", request.code, host, remark)
        return RemotingCommand.response_to(request, ResponseCode.NO_PERMISSION, remark=remark)

    def _may_administer(self, channel_id: int, request: RemotingCommand) -> bool:
        settings = self._config.settings
        if takes_plain_admin(settings) or self._is_sent_on(channel_id, request):
            return True
        if _has_token(request, settings.http_token):
            return True
        return _is_loopback(self._heartbeats.host_of(channel_id))

    def _is_agent(self, channel_id: int, request: RemotingCommand) -> bool:
        # Why not also with plainAdminRequests: an agent's word changes when a master is replaced.
        if _has_token(request, node_token(self._config.settings.http_token)):
            return True
        return _is_loopback(self._heartbeats.host_of(channel_id))

    def _is_sent_on(self, channel_id: int, request: RemotingCommand) -> bool:
        return is_forwarded(request) and self.is_controller(self._heartbeats.host_of(channel_id))

    def _alter_refusal(self, channel_id: int, request: RemotingCommand) -> RemotingCommand | None:
        if self._is_sent_on(channel_id, request):
            return None
        if self._heartbeats.delivers_late(channel_id):
            _log_refused(
                "request 1001 from %s is refused: %s", self._heartbeats.host_of(channel_id), LATE_REMARK
            )
            return RemotingCommand.response_to(request, ResponseCode.SYSTEM_BUSY, remark=LATE_REMARK)
        try:
            header = headers.AlterSyncStateSetRequestHeader.from_ext(request.ext)
            told = partial(self._heartbeats.cluster_of, channel_id, header.broker_name)
            group = self._state.find_one(header.broker_name, cluster_meant(request, told))
        except (HeaderError, AmbiguousGroupError):
            return None  # judged, and refused, like every such request
        master = None if group is None else ReplicaKey(*group.key, BrokerId(header.master_broker_id))
        entry = None if master is None else self._heartbeats.table.get(master)
        if entry is None:
            return None if self._node.is_leader else not_leader(request)
        if self._speaks_for(channel_id, entry.channel_id):
            return None
        host = self._heartbeats.host_of(channel_id)
        name = shown(header.broker_name)
        member_id = header.master_broker_id
        _log_refused("request 1001 of %s in the name of %s %d is refused", host, name, member_id)
        if not self._node.is_leader:
            return not_leader(request)
        remark = (
            "Rejecting alter syncStateSet request because it did not come from the master: the heartbeats of "
            f"{header.broker_name} {header.master_broker_id} come over another connection"
        )
        return RemotingCommand.response_to(request, ResponseCode.NO_PERMISSION, remark=remark)

    def _speaks_for(self, channel_id: int, holder_id: int) -> bool:
        """Return whether a connection is that of the member that another one holds."""
        if channel_id == holder_id:
            return True
        host = self._heartbeats.host_of(channel_id)
        return (
            holder_id != NO_CHANNEL_ID
            and host == self._heartbeats.host_of(holder_id)
            and not self._heartbeats.table.holders.count(channel_id)
            and not self._heartbeats.unregistered.holders.count(channel_id)
        )


def takes_plain_admin(settings: Settings) -> bool:
    """Return whether every client may send the requests of an administrator."""
    if settings.plain_admin_requests != "auto":
        return settings.plain_admin_requests == "true"
    return settings.tls_server_mode == "disabled" or not settings.tls_server_cert_path


def _is_admin(request: RemotingCommand) -> bool:
    if request.code == RequestCode.CONTROLLER_ELECT_MASTER:
        return (request.ext or {}).get("designateElect", "").lower() == "true"
    return request.code in _ADMIN


def _has_token(request: RemotingCommand, token: str) -> bool:
    given = (request.ext or {}).get(TOKEN_FIELD, "")
    return bool(token) and hmac.compare_digest(given.encode(errors="surrogatepass"), token.encode())


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _anybody(_host: str) -> bool:
    """Believe every host, as where no other controller can be told by its host."""
    return True
