"""What the remoting port of a log replica takes from strangers, as the channel's bounds of one port."""

from controller_core.channel.deadlines import ProgressDeadlines
from controller_core.channel.endpoints import PortBounds
from controller_core.channel.memory import MemoryBudget
from controller_core.remoting.frame import FrameBounds
from ha_sidecar import limits


def port_bounds() -> PortBounds:
    """Return the bounds, with a memory budget of their own."""
    return PortBounds(
        connections_max=limits.REPLICA_CONNECTIONS_MAX,
        source_connections_max=limits.REPLICA_SOURCE_CONNECTIONS_MAX,
        frames=FrameBounds(limits.REPLICA_FRAME_BYTES_MAX),
        unsent_bytes_max=limits.REPLICA_UNSENT_BYTES_MAX,
        budget=MemoryBudget(limits.REPLICA_HELD_BYTES_MAX),
        deadlines=ProgressDeadlines(),
        shares_turns=True,
    )
