"""Carrying a leader's request from the node that got it to the node that leads.

RocketMQ's follower refuses (2007) and the broker waits up to 10 s for its next look at who leads. Here the
follower asks the leader over a lasting connection and gives back the leader's answer, so a broker may ask any
node at any time.

The copy carries what only the receiving node knows, in fields of our own that Java ignores: who forwards (a
forwarded request is never forwarded again), that the sender's connection lives, and which cluster its
heartbeats named.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from controller_core.channel.connection import Connection
from controller_core.channel.endpoints import connect
from controller_core.channel.errors import ConnectError
from controller_core.groups.liveness.holders import NO_CHANNEL_ID
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.host_port import read_host_port
from controller_core.remoting.nodes.token import TOKEN_FIELD
from controller_core.tls.dialling import ClientTls

FORWARDED_BY_FIELD: Final = "rmqhaForwardedBy"
CLUSTER_FIELD: Final = "rmqhaCluster"
FATE_UNKNOWN_FIELD: Final = "rmqhaFateUnknown"
"""In the answer 2007 to a forwarded request: it may yet be carried out."""
DIAL_TIMEOUT_S: Final = 0.5
CALL_TIMEOUT_S: Final = 1.0


class Forwarder:
    """Calls the leader; one lasting connection a node."""

    def __init__(
        self,
        self_name: str,
        address_of: Callable[[int], str | None],
        client_tls: ClientTls | None = None,
    ) -> None:
        """Describe the nodes.

        Args:
            self_name: this node's name, for the mark.
            address_of: Raft id to remoting address; None if it is not known.
            client_tls: TLS to the leader; None for plain TCP.
        """
        self._self_name = self_name
        self._address_of = address_of
        self._client_tls = client_tls
        self._connections: dict[int, Connection] = {}
        self._dialling: dict[int, asyncio.Lock] = {}

    async def call(self, leader_id: int, request: RemotingCommand, cluster: str) -> RemotingCommand:
        """Ask the leader and return its answer to `request`.

        Raises:
            ConnectError: it was not reached, so nothing happened there.
            ChannelError: it got the request and did not answer, so the result is unknown.
        """
        marks = {FORWARDED_BY_FIELD: self._self_name}
        if cluster:
            marks[CLUSTER_FIELD] = cluster
        ext = {name: value for name, value in (request.ext or {}).items() if name != TOKEN_FIELD}
        copy = RemotingCommand.request(request.code, {**ext, **marks}, request.body)
        connection = await self._connection(leader_id)
        answer = await connection.call(copy, CALL_TIMEOUT_S)
        return RemotingCommand.response_to(request, answer.code, answer.ext, answer.remark, answer.body)

    async def ask(self, node_id: int, request: RemotingCommand, timeout_s: float) -> RemotingCommand:
        """Ask another node a question of our own, over the same connection, and return its answer.

        Raises:
            ChannelError: it was not reached, or does not answer in time.
        """
        connection = await self._connection(node_id)
        return await connection.call(request, timeout_s)

    def close(self) -> None:
        """Close the connections."""
        for connection in self._connections.values():
            connection.close()

    async def _connection(self, leader_id: int) -> Connection:
        async with self._dialling.setdefault(leader_id, asyncio.Lock()):
            connection = self._connections.get(leader_id)
            if connection is None or connection.is_closed:
                address = self._address_of(leader_id)
                if address is None:
                    raise ConnectError(f"nothing says where node {leader_id} is")
                connection = await connect(
                    *read_host_port(address), DIAL_TIMEOUT_S, client_tls=self._client_tls
                )
                self._connections[leader_id] = connection
            return connection


def is_forwarded(request: RemotingCommand) -> bool:
    """Say whether another node sent this on; it must not be sent on again."""
    return request.ext is not None and FORWARDED_BY_FIELD in request.ext


def cluster_meant(request: RemotingCommand, told: Callable[[], str]) -> str:
    """Return the cluster of the group that a request means; empty if nothing tells it.

    The request may name it (`clusterName`). Otherwise the heartbeats of its sender tell it: `told` returns
    what they told this node, and a request that another node sent on carries what they told that one.
    """
    ext = request.ext or {}
    if named := ext.get("clusterName", ""):
        return named
    return ext.get(CLUSTER_FIELD, "") if is_forwarded(request) else told()


def own_channel(channel_id: int, request: RemotingCommand) -> int:
    """Return the connection that lives and dies with the sender; none if another node sent the request on."""
    return NO_CHANNEL_ID if is_forwarded(request) else channel_id
