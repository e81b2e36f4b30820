"""A machine beside the nodes: a network namespace on the bridge of the nodes, with load balancers of its own.

    [outside] ---- wire ---- bridge ---- nodes

A client inside it connects to a virtual address, and its kernel leads each new connection to a node, as a
load balancer before the nodes would. So the address outside stays the same while nodes come and go.
Connections stay where they began.

Needs root, `ip`, `iptables` and `nsenter`; nothing of it outlives `remove`.
"""

import contextlib
import ipaddress
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any, Final

from testkit.processes.process import ProcessFailedError

VIRTUAL: Final = "192.0.2.1"
"""Leads to one node at a time, at any port (RFC 5737: an address for documents)."""
BALANCED: Final = ipaddress.ip_network("198.51.100.0/24")
"""The addresses of load balancers, each of one Service."""


class OutsideNetwork:
    """The namespace and its wire."""

    def __init__(self, node: str) -> None:
        """Choose a name that no other process of the tests has.

        Args:
            node: the address of any node: the namespace joins the network in which it is.
        """
        self._node: Final = node
        self.name: Final = f"outside{os.getpid() % 65_536}"
        self._wire: Final = f"out{os.getpid() % 65_536}"

    @property
    def entering(self) -> tuple[str, ...]:
        """The words before a command that runs it inside."""
        return ("nsenter", f"--net=/run/netns/{self.name}")

    def make(self) -> None:
        """Make the namespace and connect it.

        Raises:
            ProcessFailedError: this machine lacks a bridge to the node.
        """
        bridge = self._bridge()
        interface = ipaddress.ip_interface(self._address_of(bridge))
        own = interface.network.broadcast_address - 1
        run(f"ip netns add {self.name}")
        run(f"ip link add {self._wire} type veth peer name eth0 netns {self.name}")
        run(f"ip link set {self._wire} master {bridge} up")
        run(f"ip -n {self.name} link set lo up")
        run(f"ip -n {self.name} addr add {own}/{interface.network.prefixlen} dev eth0")
        run(f"ip -n {self.name} link set eth0 up")
        # The kernel needs a route before it looks at the rules, though no packet takes it.
        run(f"ip -n {self.name} route add default via {interface.ip}")

    def remove(self) -> None:
        """Remove whatever of it was made; its end of the wire goes with it."""
        for words in (f"ip link del {self._wire}", f"ip netns del {self.name}"):
            with contextlib.suppress(ProcessFailedError):
                run(words)

    def lead_to(self, node: str, balanced: Mapping[tuple[str, int], int] | None = None) -> None:
        """Lead new connections to a node.

        Args:
            node: its address.
            balanced: the node port by address and port of each load balancer.
        """
        self._inside("iptables -t nat -F OUTPUT")
        self._rule(f"-d {VIRTUAL}", node)
        for (host, port), node_port in (balanced or {}).items():
            self._rule(f"-d {host} -p tcp --dport {port}", f"{node}:{node_port}")

    def _rule(self, packets: str, destination: str) -> None:
        self._inside(f"iptables -t nat -A OUTPUT {packets} -j DNAT --to-destination {destination}")

    def _inside(self, words: str) -> None:
        run(" ".join((*self.entering, words)))

    def _bridge(self) -> str:
        for device in _json(f"ip -j addr show to {self._node}"):
            if device.get("addr_info"):
                return str(device["ifname"])  # the node is this machine
        (route,) = _json(f"ip -j route get {self._node}")
        if "gateway" in route:
            raise ProcessFailedError(f"{self._node} is not on a bridge of this machine")
        return str(route["dev"])

    def _address_of(self, device: str) -> str:
        (found,) = _json(f"ip -j -4 addr show dev {device}")
        first = found["addr_info"][0]
        return f"{first['local']}/{first['prefixlen']}"


def lacking() -> str:
    """Say what this machine lacks for it, empty if nothing."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [name for name in ("ip", "iptables", "nsenter") if shutil.which(name) is None]
    return f"not installed: {', '.join(missing)}" if missing else ""


@contextlib.contextmanager
def outside_network(node: str) -> Iterator[OutsideNetwork]:
    """Make it beside a node, lead it there, and remove it afterwards."""
    network = OutsideNetwork(node)
    try:
        network.make()
        network.lead_to(node)
        yield network
    finally:
        network.remove()


def run(words: str) -> str:
    """Run a command of the machine's network and return its output.

    Raises:
        ProcessFailedError: it failed.
    """
    done = subprocess.run(words.split(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise ProcessFailedError(f"{words}: {done.stderr.strip()}")
    return done.stdout


def _json(words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run(words))
    return found
