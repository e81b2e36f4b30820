"""The node's connections as the kernel's conntrack knows them: list, look up, forget.

Linux translates the address of a Service once for each connection, and conntrack keeps the result. For one
list the kernel walks all buckets of its table: about 13 ms for 262,144 of them. So a small table is listed
once for all addresses. A large one is listed once for each: the kernel filters by the dialled address (IPv4),
so that few entries come here.

Some nodes have a kernel without conntrack, or translate addresses elsewhere (eBPF). There `leads_to` does not
find its own connection.
"""

import contextlib
import errno
import socket
import struct
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

from pyroute2.netlink import NETLINK_NETFILTER, NLM_F_ACK, NLM_F_DUMP
from pyroute2.netlink.nfnetlink import NFNL_SUBSYS_CTNETLINK
from pyroute2.netlink.nfnetlink.nfctsocket import (
    IPCTNL_MSG_CT_DELETE,
    IPCTNL_MSG_CT_GET,
    NFCTAttrTuple,
    nfct_msg,
)

from controller_core.remoting.host_port import plain_host
from ha_sidecar.address import HostPort
from ha_sidecar.node_agent.flows import Flow
from ha_sidecar.node_agent.netlink import Netlink
from ha_sidecar.node_agent.segments import TCP, is_v6

ESTABLISHED: Final = 3
DIALLING: Final = 1
_STATES: Final = frozenset({DIALLING, ESTABLISHED})
"""TCP_CONNTRACK_SYN_SENT, TCP_CONNTRACK_ESTABLISHED."""
SMALL_TABLE: Final = 2_000
"""Entries that cost less to look through here than a second walk costs the kernel."""
_COUNT: Final = Path("/proc/sys/net/netfilter/nf_conntrack_count")
_IN_PROGRESS: Final = frozenset({0, errno.EINPROGRESS})
_SUBSYSTEM: Final = NFNL_SUBSYS_CTNETLINK << 8
_CLOSE_AT_ONCE: Final = struct.pack("ii", 1, 0)


class Conntrack:
    """The table of this network namespace; to be used by one thread at a time."""

    def __init__(self) -> None:
        """Open the netlink socket; raise `OSError` if the kernel has no netfilter."""
        self._kernel: Final = Netlink(NETLINK_NETFILTER)

    def close(self) -> None:
        """Close the socket."""
        self._kernel.close()

    def flows_to(self, hosts: Collection[str]) -> list[Flow]:
        """Return the open TCP connections that dialled one of some addresses, and those that still dial it.

        Raises:
            OSError: the kernel refuses, for instance because it lacks conntrack.
        """
        found = []
        for family in sorted({_family(host) for host in hosts}):
            those = sorted({host for host in hosts if _family(host) is family})
            is_one_list = family is socket.AF_INET6 or _is_small()
            for some in [those] if is_one_list else [[host] for host in those]:
                found += self._listed(family, some)
        return found

    def _listed(self, family: socket.AddressFamily, hosts: list[str]) -> list[Flow]:
        """List the table once; the kernel filters it by a single address."""
        # Why not in IPv6: the kernel's filter (6.18) leaves out the addresses that are equal.
        filtered = hosts[0] if family is socket.AF_INET and len(hosts) == 1 else None
        wanted = NFCTAttrTuple(family=family, daddr=filtered, proto=TCP)
        wanted.attrs()
        flags = {"attrs": [["CTA_FILTER_ORIG_FLAGS", wanted.flags]]}
        request = nfct_msg.create_from(tuple_orig=wanted, filter=flags)
        request["nfgen_family"] = family
        dialled = {plain_host(host) for host in hosts}
        packed = [socket.inet_pton(family, host) for host in hosts]
        found = []
        for message in self._kernel.ask(request, _SUBSYSTEM | IPCTNL_MSG_CT_GET, NLM_F_DUMP):
            if any(host in message for host in packed):
                entry = _decoded(message)
                flow = _flow(entry, family)
                if flow is not None and flow.address[0] in dialled and _state(entry) in _STATES:
                    found.append(flow)
        return found

    def leads_to(self, address: HostPort) -> str | None:
        """Return the host that a new connection of this node to an address reaches; None if it cannot tell.

        The connection is closed at once, without waiting for the other end.

        Raises:
            OSError: the kernel refuses to look it up.
        """
        with socket.socket(_family(address[0]), socket.SOCK_STREAM) as dialling:
            dialling.setblocking(False)
            dialling.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _CLOSE_AT_ONCE)
            if dialling.connect_ex(address) not in _IN_PROGRESS:
                return None
            flow = self._entry(dialling.getsockname()[:2], address)
        if flow is None:
            return None
        self.forget(flow)
        return flow.server[0]

    def forget(self, flow: Flow) -> None:
        """Delete a flow's entry: its next packet is translated again, and reaches the new server."""
        with contextlib.suppress(OSError):
            for _ in self._kernel.ask(
                _request(flow.client, flow.address), _SUBSYSTEM | IPCTNL_MSG_CT_DELETE, NLM_F_ACK
            ):
                pass

    def _entry(self, client: HostPort, address: HostPort) -> Flow | None:
        request = _request(client, address)
        try:
            messages = list(self._kernel.ask(request, _SUBSYSTEM | IPCTNL_MSG_CT_GET, NLM_F_ACK))
        except FileNotFoundError:
            return None
        return _flow(_decoded(messages[0]), _family(client[0])) if messages else None


def _is_small() -> bool:
    """Return whether this network namespace has few entries; False if the kernel does not say."""
    try:
        return int(_COUNT.read_text()) <= SMALL_TABLE
    except (OSError, ValueError):
        return False


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if is_v6(host) else socket.AF_INET


def _request(client: HostPort, address: HostPort) -> Any:  # noqa: ANN401 - pyroute2 is untyped
    """Return a question for one connection, by its ends as the client sees them."""
    family = _family(client[0])
    ends = NFCTAttrTuple(
        family=family, saddr=client[0], daddr=address[0], proto=TCP, sport=client[1], dport=address[1]
    )
    request = nfct_msg.create_from(tuple_orig=ends)
    request["nfgen_family"] = family
    return request


def _decoded(message: bytes) -> Any:  # noqa: ANN401 - pyroute2 is untyped
    entry = nfct_msg(message)
    entry.decode()
    return entry


def _state(entry: Any) -> int | None:  # noqa: ANN401 - pyroute2 is untyped
    details = entry.get_attr("CTA_PROTOINFO")
    tcp = None if details is None else details.get_attr("CTA_PROTOINFO_TCP")
    return None if tcp is None else tcp.get_attr("CTA_PROTOINFO_TCP_STATE")


def _flow(entry: Any, family: socket.AddressFamily) -> Flow | None:  # noqa: ANN401 - pyroute2 is untyped
    asked, answered = entry.get_attr("CTA_TUPLE_ORIG"), entry.get_attr("CTA_TUPLE_REPLY")
    if asked is None or answered is None:
        return None
    one: Any = NFCTAttrTuple.from_netlink(family, asked)
    other: Any = NFCTAttrTuple.from_netlink(family, answered)
    return Flow(
        (plain_host(one.saddr), one.sport),
        (plain_host(one.daddr), one.dport),
        (plain_host(other.saddr), other.sport),
    )
