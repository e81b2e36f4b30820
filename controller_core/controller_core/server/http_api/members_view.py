"""The controllers as people see and change them over HTTP.

The leader knows how far each member is; another node tells who they are, and null for the rest.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from controller_core.error_text import error_text
from controller_core.server.common.http_errors import HttpError
from controller_core.server.common.json_views import Json
from controller_core.server.membership.changes import MembershipChanges, MembershipError, NotYetError
from controller_core.server.membership.members import ControllerMembers
from controller_core.server.node.raft_node import Node
from controller_core.server.node.types import (
    CommandDroppedError,
    NodeStatus,
    NotLeaderError,
    ProposalLostError,
)
from controller_core.server.peers.greeting_rules import store_fingerprint
from controller_core.server.settings.config import Settings
from controller_core.server.settings.peer_list import Peer, PeerListError, parse_peers

CHANGE_WITHIN_S: Final = 4.0


class MembersView:
    """Shows and changes the membership of one node's cluster."""

    def __init__(
        self, node: Node, settings: Settings, members: ControllerMembers, membership: MembershipChanges | None
    ) -> None:
        self._node = node
        self._settings = settings
        self._members = members
        self._membership = membership

    def json(self) -> Json:
        """Return all members in the order of their ids."""
        status = self._node.status()
        return {
            "leader": None if status.leader_id is None else f"n{status.leader_id - 1}",
            "members": [self._member(peer, status) for peer in self._members.peers()],
        }

    def _member(self, peer: Peer, status: NodeStatus) -> Json:
        progress = status.progress.get(peer.raft_id)
        state = status.conf_state
        role = "learner" if peer.raft_id in state.learners else "voter"
        return {
            "name": peer.name,
            "raft_id": peer.raft_id,
            "role": role if peer.raft_id in {*state.voters, *state.learners} else None,
            "leader": peer.raft_id == status.leader_id,
            "address": peer.address,
            "http_address": f"{peer.host}:{self._settings.http_port(peer)}",
            "incarnation": store_fingerprint(self._members.incarnation(peer.raft_id)) or None,
            "match_index": None if progress is None else progress.match,
            "lag_entries": None if progress is None else max(status.commit_index - progress.match, 0),
            "active": None if progress is None else progress.recent_active or peer.raft_id == status.node_id,
        }

    async def change(self, action: str, member: str) -> Json:
        """Add, promote or remove a member; removing the leader only hands leadership over.

        Raises:
            HttpError: it was refused, or its end is not known.
        """
        try:
            async with asyncio.timeout(CHANGE_WITHIN_S):
                await self._change(action, member)
        except MembershipError as error:
            raise HttpError(_status(error), str(error), field=action, value=error.value) from error
        except PeerListError as error:
            raise HttpError(400, str(error), field=action, value=member) from error
        except (NotLeaderError, CommandDroppedError, ProposalLostError, TimeoutError) as error:
            text = error_text(error)
            raise HttpError(503, f"the change was not made, or its end is not known: {text}") from error
        return self.json()

    async def replace(self, add: Sequence[str], remove: Sequence[str]) -> Json | None:
        """Make learners voters and remove members in one joint change; return the members as they are then.

        A leader that is removed itself hands leadership to a remaining voter, if one exists, and returns
        None: the new leader can do it without an election in between.

        Raises:
            HttpError: 409, it makes no sense; 503, it cannot be done yet, or its end is not known.
        """
        try:
            async with asyncio.timeout(CHANGE_WITHIN_S):
                if await self._handed_over(remove):
                    return None
                await self._replace(add, remove)
        except MembershipError as error:
            raise HttpError(_status(error), str(error), field=error.field, value=error.value) from error
        except (NotLeaderError, CommandDroppedError, ProposalLostError, TimeoutError) as error:
            text = error_text(error)
            raise HttpError(503, f"the change was not made, or its end is not known: {text}") from error
        return self.json()

    async def _replace(self, add: Sequence[str], remove: Sequence[str]) -> None:
        if self._membership is None:
            raise MembershipError("this node is without peers", "add", ",".join(add))
        await self._membership.replace(add, remove)

    async def _handed_over(self, remove: Sequence[str]) -> bool:
        names = {peer.raft_id: peer.name for peer in self._members.peers()}
        progress = self._node.status().progress
        staying = [
            (progress[voter].recent_active, progress[voter].match, voter)
            for voter in self._node.conf_state.voters
            if names.get(voter) not in remove and voter in progress
        ]
        if self._settings.self_id not in remove or not staying:
            return False
        return await self._node.transfer_leadership(max(staying)[-1])

    async def _change(self, action: str, member: str) -> None:
        if self._membership is None:
            raise MembershipError("this node is without peers", action, member)
        match action:
            case "add":
                await self._membership.add(parse_peers(member)[0])
            case "promote":
                await self._membership.promote(member)
            case _ if member == self._settings.self_id and len(self._node.conf_state.voters) > 1:
                if not await self._node.transfer_leadership():
                    raise MembershipError("leads, and no other node took over in time", "name", member)
            case _:
                await self._membership.remove(member)


def _status(error: MembershipError) -> int:
    """Return 503 for a temporary refusal, 409 for a permanent one."""
    return 503 if isinstance(error, NotYetError) else 409
