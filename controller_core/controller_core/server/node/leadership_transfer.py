"""TransferringNode leadership over: whom to, and whether it came about."""

import asyncio
from typing import Final, Protocol

from controller_core.raft.raw_node import Status

_POLL_S: Final = 0.005


class TransferringNode(Protocol):
    """What this asks of the node."""

    @property
    def leader_id(self) -> int | None:
        """Raft id of the leader, this node included."""
        ...


def best_successor(status: Status) -> int | None:
    """Return the voter besides us with most of the log, recently active ones first; None without one."""
    others = [
        (progress.recent_active, progress.match, node)
        for node, progress in status.progress.items()
        if node != status.id and node in status.conf_state.voters
    ]
    return max(others)[-1] if others else None


async def came_about(node: TransferringNode, own_id: int, to: int, within_s: float) -> bool:
    """Wait until another node is known to lead; return whether it is `to`."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + within_s
    while loop.time() < deadline_s:
        if node.leader_id not in {None, own_id}:
            return node.leader_id == to
        await asyncio.sleep(_POLL_S)
    return False
