"""Choose the flows of this node that a replaced master's silence keeps open, and no others.

A flow is one TCP connection as conntrack lists it: its client, the address that the client dialled, and the
server that it leads to after translation. Two kinds are chosen:

    HA       a broker dialled the HA port of the replaced master's      at the election
             process
    CLIENT   dialled its announced address, or that of another member   once that address leads elsewhere
             of its group, and leads to its process

A client that is reset sooner would dial the dead process again, and wait for its connect timeout.

A log replica's flow to the HA port stays: the replica has parted before the election (`transfer.slave`), and
the master must read that if it comes back. A reset would drop what the kernel still sends.

A flow that leads to any other host is never chosen, whatever address it dialled.

What can be chosen depends on the node's data plane (`visibility`):

| conntrack on this node | as with | can be reset |
|---|---|---|
| knows where Services lead | kube-proxy in the modes iptables, nftables and ipvs | both kinds |
| knows connections to pods, and not where Services lead | Cilium without kube-proxy, over iptables | HA |
| knows no connection | eBPF alone | none |

This module does no I/O.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from controller_core.remoting.host_port import plain_host
from ha_sidecar.address import HostPort
from ha_sidecar.node_agent.replaced import Replaced

TRIES_MAX: Final = 3
TRY_AGAIN_S: Final = 0.6
"""Linux answers a wrong segment on one connection at most every 0.5 s (tcp_invalid_ratelimit)."""


class FlowKind(StrEnum):
    """Why a flow is reset."""

    HA = "ha"
    CLIENT = "client"


@dataclass(frozen=True, slots=True)
class Flow:
    """One TCP connection of this node.

    Attributes:
        client: the end that dialled.
        address: where it dialled.
        server: where its packets go.
    """

    client: HostPort
    address: HostPort
    server: HostPort


class Visibility(StrEnum):
    """Which connections of this node conntrack knows; the value is what the agent logs."""

    ALL = "conntrack knows this node's connections"
    WITHOUT_SERVICES = (
        "conntrack does not know where addresses of Services lead from this node: another data plane "
        "translates addresses here, and only connections between members can be reset"
    )
    NONE = (
        "conntrack does not know this node's own connections: another data plane "
        "translates addresses here, and nothing can be reset on this node"
    )


def visibility(services: Mapping[str, str | None], hosts: Mapping[str, str | None]) -> Visibility | None:
    """Return what conntrack knows, by connections that this node has just dialled; None if unknown.

    Args:
        services: by dialled address of a Service, the host that conntrack names for it; None if none.
        hosts: the same by address that needs no translation.
    """
    if any(found is not None and not same_host(found, dialled) for dialled, found in services.items()):
        return Visibility.ALL
    sees_hosts = any(found is not None for found in hosts.values())
    if services:
        # Why: a data plane before conntrack leaves an entry of the translated connection only.
        return Visibility.WITHOUT_SERVICES if sees_hosts else Visibility.NONE
    return (Visibility.ALL if sees_hosts else Visibility.NONE) if hosts else None


class FlowChoice:
    """Chooses the flows of one replaced master, each at most `TRIES_MAX` times."""

    def __init__(self, replaced: Replaced, ha_ports: Collection[int]) -> None:
        """Take the replaced master and the HA ports of the group."""
        self._replaced: Final = replaced
        self._ha_ports: Final = frozenset(ha_ports)
        self._tries: Final[dict[Flow, tuple[int, float]]] = {}

    def addresses_to_probe(self, flows: Iterable[Flow]) -> tuple[HostPort, ...]:
        """Return the addresses at which clients dialled the replaced master."""
        return tuple(sorted({flow.address for flow in flows if self._is_client(flow)}))

    def choose(
        self, flows: Iterable[Flow], leads_to: Mapping[HostPort, str], now_s: float
    ) -> Mapping[FlowKind, tuple[Flow, ...]]:
        """Return the flows to reset now, by kind.

        Args:
            flows: the flows of this node; strangers' flows may be among them.
            leads_to: by address, the host that a new connection of this node reaches.
            now_s: a monotonic time.
        """
        flows = [flow for flow in dict.fromkeys(flows) if self._may_try(flow, now_s)]
        dead = self._replaced.process[0]
        moved = {address for address, host in leads_to.items() if not same_host(host, dead)}
        chosen = {
            FlowKind.HA: tuple(flow for flow in flows if self._is_ha(flow)),
            FlowKind.CLIENT: tuple(flow for flow in flows if self._is_client(flow) and flow.address in moved),
        }
        return {kind: some for kind, some in chosen.items() if some}

    def note_tried(self, flows: Iterable[Flow], now_s: float) -> None:
        """Learn which flows were tried."""
        for flow in flows:
            self._tries[flow] = (self._tries.get(flow, (0, 0.0))[0] + 1, now_s)

    def _may_try(self, flow: Flow, now_s: float) -> bool:
        tries, last_s = self._tries.get(flow, (0, float("-inf")))
        return tries < TRIES_MAX and now_s - last_s >= TRY_AGAIN_S

    def _is_ha(self, flow: Flow) -> bool:
        host = self._replaced.process[0]
        return (
            same_host(flow.server[0], host)
            and same_host(flow.address[0], host)
            and flow.server[1] in self._ha_ports
            and not any(same_host(flow.client[0], one) for one in self._replaced.log_replicas)
        )

    def _is_client(self, flow: Flow) -> bool:
        replaced = self._replaced
        return same_host(flow.server[0], replaced.process[0]) and any(
            same_host(flow.address[0], host) for host in replaced.movable
        )


def same_host(one: str, other: str) -> bool:
    """Say whether two texts are the same IP address, however it is written, or the same name."""
    return one == other or plain_host(one) == plain_host(other)
