"""Reset flows of this node: sockets of its own namespace by the kernel, those of its pods by forged segments.

    own socket, kernel can end it        destroyed
    own socket, kernel cannot            forged segments, over the loopback link
    a pod's socket                       forged segments
    no answer                            reported; the next pass tries again

The conntrack entry of an ended connection is deleted. So is that of a client that did not answer: the kernel
translates its next packet again, and the successor's kernel resets the connection.
"""

import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from ha_sidecar.address import HostPort
from ha_sidecar.node_agent.conntrack import Conntrack
from ha_sidecar.node_agent.flows import Flow, FlowKind
from ha_sidecar.node_agent.forging import FLOWS_MAX, ClientLinks, reset_by_segments
from ha_sidecar.node_agent.local_hosts import LocalHosts
from ha_sidecar.node_agent.own_sockets import destroy_own

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ResetCounts:
    """How many flows ended in which way, and how many did not."""

    destroyed: int = 0
    forged: int = 0
    unanswered: int = 0
    foreign: int = 0


class NodeFlows:
    """The TCP connections of this node; to be used by one thread at a time."""

    def __init__(self) -> None:
        """Open the netlink sockets; raise `OSError` if the kernel refuses."""
        self._conntrack: Final = Conntrack()
        self._links: Final = ClientLinks()
        self._local: Final = LocalHosts()

    def close(self) -> None:
        """Close the sockets."""
        self._local.close()
        self._conntrack.close()
        self._links.close()

    def flows_to(self, hosts: Collection[str]) -> list[Flow]:
        """Return the connections that dialled some addresses; raise `OSError` if the kernel refuses."""
        return self._conntrack.flows_to(hosts)

    def leads_to(self, address: HostPort) -> str | None:
        """Return the host that a new connection to an address reaches; None if conntrack cannot tell.

        Raises:
            OSError: the kernel refuses.
        """
        return self._conntrack.leads_to(address)

    def hosts_here(self, hosts: Iterable[str]) -> frozenset[str]:
        """Return those of some addresses that belong to this node; raise `OSError` if the kernel refuses."""
        return self._local.of(hosts)

    def reset(self, kind: FlowKind, flows: Iterable[Flow]) -> ResetCounts:
        """Reset flows, and return how many ended.

        Raises:
            OSError: this process lacks a right, or the kernel a part.
        """
        wanted = tuple(flows)
        destroyed = _destroyed(wanted)
        others = [flow for flow in wanted if flow not in destroyed]
        parts = [
            reset_by_segments(self._links, others[start : start + FLOWS_MAX])
            for start in range(0, len(others), FLOWS_MAX)
        ]
        foreign = {flow for part in parts for flow in part.foreign}
        unanswered = {flow for part in parts for flow in part.unanswered}
        for flow in wanted:
            if flow not in foreign and (kind is FlowKind.CLIENT or flow not in unanswered):
                self._conntrack.forget(flow)
        return ResetCounts(
            destroyed=len(destroyed),
            forged=sum(len(part.reset) for part in parts),
            unanswered=len(unanswered),
            foreign=len(foreign),
        )


def _destroyed(flows: tuple[Flow, ...]) -> frozenset[Flow]:
    try:
        return destroy_own(flows)
    except OSError as error:
        _log.warning("sockets of this node's own processes cannot be ended: %s", error)
        return frozenset()
