"""Answers that every node gives about itself: who leads (1005), and its settings (1009, 1010)."""

import asyncio
from collections.abc import Callable, Mapping

from controller_core.remoting import headers
from controller_core.remoting.codes import ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.errors import BodyError
from controller_core.server.requests.interfaces import NodeReads
from controller_core.server.settings.live_config import LiveConfig, UpdateRefusedError
from controller_core.server.settings.peer_list import Peer, format_peers


class NodeAnswers:
    """Answers for one node."""

    def __init__(
        self,
        node: NodeReads,
        config: LiveConfig,
        lease_ms: Callable[[Mapping[str, str]], int | None],
        peers: Callable[[], tuple[Peer, ...]] | None = None,
        standby: Callable[[], bool] = bool,
    ) -> None:
        """Take the node, its settings, and three functions.

        `lease_ms` returns for how much longer the member that a request names may be silent. `peers` returns
        the present controllers; the default returns those of the settings. `standby` says whether the node
        stands by, and must not name a leader.
        """
        self._standby = standby
        self._node = node
        self._lease_ms = lease_ms
        self._config = config
        self._peers = peers or (lambda: config.settings.peers)

    def metadata(self, _channel_id: int, request: RemotingCommand) -> RemotingCommand:
        """Answer 1005: who leads, and who the controllers are."""
        settings = self._config.settings
        leader_id = None if self._standby() else self._node.leader_id
        peers = self._peers()
        leader = next((peer for peer in peers if peer.raft_id == leader_id), None)
        header = headers.GetMetaDataResponseHeader(
            group=settings.group,
            controller_leader_id=None if leader is None else leader.name,
            # Why "" and not absent: mqadmin takes a null address for "ask the name server".
            controller_leader_address="" if leader is None else leader.address,
            is_leader=leader is not None and leader.name == settings.self_id,
            peers=format_peers(peers),
            lease_ms=self._lease_ms(request.ext or {}),
        )
        return RemotingCommand.response_to(request, ResponseCode.SUCCESS, header.to_ext())

    def get_config(self, _channel_id: int, request: RemotingCommand) -> RemotingCommand:
        """Answer 1010 with the settings."""
        listing = self._config.listing().encode()
        return RemotingCommand.response_to(request, ResponseCode.SUCCESS, body=listing)

    async def update_config(self, _channel_id: int, request: RemotingCommand) -> RemotingCommand:
        """Take changed settings (1009) and save them."""
        try:
            text = request.body.decode()
            if self._config.update(text):
                await asyncio.to_thread(self._config.save)
        except UpdateRefusedError as error:
            return RemotingCommand.response_to(request, ResponseCode.NO_PERMISSION, remark=str(error))
        except ValueError as error:
            raise BodyError("properties", str(error)) from error
        return RemotingCommand.response_to(request, ResponseCode.SUCCESS)
