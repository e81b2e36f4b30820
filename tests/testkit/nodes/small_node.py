"""A node of Kubernetes, as far as its network goes: a pod on a bridge, Services that conntrack translates.

    pod ---- bridge [node] ---- wire ---- old        the pod of a master that will be cut off
                       `------- wire ---- new        the pod of its successor

The address of a Service leads to one of the two, by kube-proxy's rules in one of its modes (`service_rules`).
A cut drops packets at the old pod's end of the wire, and no other process learns of it.

Sockets belong to the namespace of the thread that made them, so tests use them as any others. Needs root,
`ip`, `iptables` and, for the mode nftables, `nft`; nothing of it outlives `remove`.
"""

import contextlib
import ctypes
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from typing import Final, Literal, TypeVar

from testkit.nodes.service_rules import ProxyMode, Version, base_rules, loader, programs, service_rules
from testkit.processes.process import ProcessFailedError

Place = Literal["node", "pod", "old", "new"]
VERSIONS: Final[tuple[Version, ...]] = ("IPv4", "IPv6")
PLACES: Final[tuple[Place, ...]] = ("node", "pod", "old", "new")
SERVICE: Final = {"IPv4": "10.96.0.11", "IPv6": "fd00:96::11"}
OTHER_SERVICE: Final = {"IPv4": "10.96.0.12", "IPv6": "fd00:96::12"}
SERVICE_PORT: Final = 10911
"""Of both Services; their addresses lead nowhere at other ports."""
_HOSTS: Final = {
    ("IPv4", "pod"): ("10.244.3.7", "10.244.3.1", 24),
    ("IPv4", "old"): ("10.244.1.5", "10.244.1.1", 24),
    ("IPv4", "new"): ("10.244.2.5", "10.244.2.1", 24),
    ("IPv6", "pod"): ("fd00:3::7", "fd00:3::1", 64),
    ("IPv6", "old"): ("fd00:1::5", "fd00:1::1", 64),
    ("IPv6", "new"): ("fd00:2::5", "fd00:2::1", 64),
}
_FAMILIES: Final = {"IPv4": socket.AF_INET, "IPv6": socket.AF_INET6}
_CLONE_NEWNET: Final = 0x40000000
_BACKLOG: Final = 4_096
_CONNECT_S: Final = 5.0

T = TypeVar("T")


class SmallNode:
    """The namespaces and their wires."""

    def __init__(self, mode: ProxyMode = "iptables") -> None:
        """Choose names that no other process of the tests has, and how addresses are translated."""
        self._mode: Final = mode
        self._prefix: Final = f"small{os.getpid() % 65_536}"
        self._libc: Final = ctypes.CDLL(None, use_errno=True)

    def make(self) -> None:
        """Make the namespaces and connect them."""
        for place in PLACES:
            self._run(f"ip netns add {self.name(place)}")
            self._run(f"ip -n {self.name(place)} link set lo up")
        self._ip("node", "link add cni0 type bridge")
        self._ip("node", "link set cni0 up")
        self._ip("node", "link add outside type bridge")
        self._ip("node", "link set outside up")
        for place in PLACES[1:]:
            self._ip("node", f"link add {place} type veth peer name eth0 netns {self.name(place)}")
            if place == "pod":
                self._ip("node", "link set pod master cni0")
            self._ip("node", f"link set {place} up")
            self._ip(place, "link set eth0 up")
            for version in VERSIONS:
                host, gateway, bits = _HOSTS[version, place]
                without_check = "nodad" if version == "IPv6" else ""
                inner = "cni0" if place == "pod" else place
                self._ip("node", f"addr add {gateway}/{bits} dev {inner} {without_check}")
                self._ip(place, f"addr add {host}/{bits} dev eth0 {without_check}")
                self._ip(place, f"-{version[-1]} route add default via {gateway}")
        forwarding = ("net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding")
        for key in forwarding:
            self._in("node", f"sysctl -q -w {key}=1")
        for version in VERSIONS:
            # As on any node: without a route, a process on it could not dial the address of a Service.
            self._ip("node", f"-{version[-1]} route add default dev outside")
            self._load(version, base_rules(self._mode, version))
            self._lead(version, "first", SERVICE[version], "old", is_new=True)
            self._lead(version, "second", OTHER_SERVICE[version], "new", is_new=True)

    def remove(self) -> None:
        """Remove whatever of it was made."""
        for place in PLACES:
            with contextlib.suppress(ProcessFailedError):
                self._run(f"ip netns del {self.name(place)}")

    def name(self, place: Place) -> str:
        """Return the name of a place's namespace."""
        return f"{self._prefix}-{place}"

    def host(self, version: Version, place: Place) -> str:
        """Return the address of a pod."""
        return _HOSTS[version, place][0]

    def gateway(self, version: Version, place: Place) -> str:
        """Return the address of the node towards a pod."""
        return _HOSTS[version, place][1]

    def move(self) -> None:
        """Lead new connections to the Service to the successor."""
        for version in VERSIONS:
            self._lead(version, "first", SERVICE[version], "new", is_new=False)

    def cut(self) -> None:
        """Let packets to and from the old pod disappear, without anybody being told."""
        self._in("old", "iptables -A INPUT -i eth0 -j DROP")
        self._in("old", "iptables -A OUTPUT -o eth0 -j DROP")
        self._in("old", "ip6tables -A INPUT -i eth0 -j DROP")
        self._in("old", "ip6tables -A OUTPUT -o eth0 -j DROP")

    def hide(self, service: str) -> None:
        """Keep a Service's connections of the node out of conntrack, as a data plane before it does."""
        self._in("node", f"iptables -t raw -A OUTPUT -d {service} -j CT --notrack")

    def entered(self, place: Place, work: Callable[[], T]) -> T:
        """Do something on a thread inside a namespace, and return its result."""
        results: list[T] = []
        problems: list[BaseException] = []

        def run() -> None:
            try:
                self._enter(place)
                results.append(work())
            except BaseException as error:
                problems.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        if problems:
            raise problems[0]
        return results[0]

    def _enter(self, place: Place) -> None:
        with open(f"/run/netns/{self.name(place)}") as namespace:
            if self._libc.setns(namespace.fileno(), _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), f"setns {place}")

    def listen(self, place: Place, version: Version, port: int) -> socket.socket:
        """Return a listener in a pod; the kernel accepts connections on its behalf."""

        def work() -> socket.socket:
            listener = socket.socket(_FAMILIES[version])
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("::" if version == "IPv6" else "", port))
            listener.listen(_BACKLOG)
            return listener

        return self.entered(place, work)

    def connect(self, place: Place, host: str, port: int, count: int = 1) -> list[socket.socket]:
        """Return connections from a place."""
        return self.entered(
            place, lambda: [socket.create_connection((host, port), _CONNECT_S) for _ in range(count)]
        )

    def dial(self, place: Place, host: str, port: int) -> socket.socket:
        """Return a socket that begins to connect."""

        def work() -> socket.socket:
            dialling = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
            dialling.setblocking(False)
            dialling.connect_ex((host, port))
            return dialling

        return self.entered(place, work)

    def _lead(self, version: Version, name: str, service: str, place: Place, *, is_new: bool) -> None:
        host = self.host(version, place)
        rules = service_rules(self._mode, version, name, service, SERVICE_PORT, place, host, is_new=is_new)
        self._load(version, rules)

    def _load(self, version: Version, rules: str) -> None:
        self._run(f"ip netns exec {self.name('node')} {loader(self._mode, version)}", rules)

    def _ip(self, place: Place, words: str) -> None:
        self._run(f"ip -n {self.name(place)} {words}")

    def _in(self, place: Place, words: str) -> None:
        self._run(f"ip netns exec {self.name(place)} {words}")

    def _run(self, words: str, given: str = "") -> None:
        done = subprocess.run(words.split(), input=given, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ProcessFailedError(f"{words}: {done.stderr.strip()}")


def lacking(mode: ProxyMode = "iptables") -> str:
    """Say what this machine lacks for a small node, empty if nothing."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    needed = ("ip", "iptables", "ip6tables", "sysctl", *programs(mode))
    missing = [name for name in needed if shutil.which(name) is None]
    return f"not installed: {', '.join(missing)}" if missing else ""


@contextlib.contextmanager
def small_node(mode: ProxyMode = "iptables") -> Iterator[SmallNode]:
    """Make a small node, and remove it afterwards."""
    node = SmallNode(mode)
    try:
        node.make()
        yield node
    finally:
        node.remove()
