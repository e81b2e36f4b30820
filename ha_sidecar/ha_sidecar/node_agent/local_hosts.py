"""Which addresses belong to pods and processes of this node, from the kernel's routes and links.

| the route to an address | it belongs to this node |
|---|---|
| local | yes: a process in the network of the node |
| over a gateway | no |
| without a gateway, over a link that also leads to a gateway | no: another machine of the same network |
| for this address alone, over a veth pair | yes: a pod |
| without a gateway, over a bridge of veth pairs only | yes: a pod |
| any other | no: the agent cannot tell |

"No" is the safe answer: the agent does not name the member, which is then judged as without agents.
"""

import socket
from collections.abc import Iterable
from typing import Any, Final

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

_LOCAL_ROUTE: Final = 2
_VETH, _BRIDGE = "veth", "bridge"


class LocalHosts:
    """The node's routes and links; to be used by one thread at a time."""

    def __init__(self) -> None:
        """Open the netlink socket; raise `OSError` if the kernel refuses."""
        self._kernel: Final[Any] = IPRoute()

    def close(self) -> None:
        """Close the socket."""
        self._kernel.close()

    def of(self, hosts: Iterable[str]) -> frozenset[str]:
        """Return those of some IP addresses that belong to this node.

        Raises:
            OSError: the kernel refuses.
        """
        wanted = list(dict.fromkeys(hosts))
        if not wanted:
            return frozenset()
        try:
            routes = list(self._kernel.get_routes())
            uplinks = frozenset(route.get_attr("RTA_OIF") for route in routes if _has_gateway(route))
            pairs, bridges = self._pod_links(uplinks)
            pods = frozenset(
                route.get_attr("RTA_DST") for route in routes if _is_of_one(route) and _link(route) in pairs
            )
            return frozenset(host for host in wanted if host in pods or self._is_here(host, bridges))
        except NetlinkError as error:
            raise OSError(error.code, str(error)) from error

    def _is_here(self, host: str, bridges: frozenset[int]) -> bool:
        try:
            routes = list(self._kernel.route("get", dst=host))
        except NetlinkError:
            return False  # without a route
        if not routes:
            return False
        route = routes[0]
        return route["type"] == _LOCAL_ROUTE or (not _has_gateway(route) and _link(route) in bridges)

    def _pod_links(self, uplinks: frozenset[int]) -> tuple[frozenset[int], frozenset[int]]:
        """Return the veth pairs, and the bridges of veth pairs only, that lead to no gateway."""
        links = list(self._kernel.get_links())
        kinds = {link["index"]: _kind(link) for link in links}
        ports: dict[int, list[str]] = {}
        for link in links:
            if (bridge := link.get_attr("IFLA_MASTER")) is not None:
                ports.setdefault(bridge, []).append(kinds[link["index"]])
        inner = [index for index in kinds if index not in uplinks]
        pairs = frozenset(index for index in inner if kinds[index] == _VETH)
        bridges = frozenset(
            index
            for index in inner
            if kinds[index] == _BRIDGE and all(port == _VETH for port in ports.get(index, ()))
        )
        return pairs, bridges


def _is_of_one(route: Any) -> bool:  # noqa: ANN401 - pyroute2 is untyped
    """Say whether a route without a gateway leads to one address only."""
    bits = 128 if route["family"] == socket.AF_INET6 else 32
    return bool(route["dst_len"] == bits and not _has_gateway(route))


def _link(route: Any) -> Any:  # noqa: ANN401 - pyroute2 is untyped
    return route.get_attr("RTA_OIF")


def _has_gateway(route: Any) -> bool:  # noqa: ANN401 - pyroute2 is untyped
    return any(route.get_attr(name) is not None for name in ("RTA_GATEWAY", "RTA_VIA", "RTA_MULTIPATH"))


def _kind(link: Any) -> str:  # noqa: ANN401 - pyroute2 is untyped
    details = link.get_attr("IFLA_LINKINFO")
    return "" if details is None else str(details.get_attr("IFLA_INFO_KIND"))
