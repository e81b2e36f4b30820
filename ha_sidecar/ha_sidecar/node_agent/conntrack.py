"""The node's connections as the kernel's conntrack knows them: list, look up, forget.

Linux translates the address of a Service once for each connection, and conntrack keeps the result. The kernel
filters the list by the dialled address (IPv4), so a large table costs little here.

Some nodes have a kernel without conntrack, or translate addresses elsewhere (eBPF). There `leads_to` does not
find its own connection.
"""

import contextlib
import errno
import socket
import struct
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

    def flows_to(self, host: str) -> list[Flow]:
        """Return the open TCP connections that dialled an address, and those that still dial it.

        Raises:
            OSError: the kernel refuses, for instance because it lacks conntrack.
        """
        family = _family(host)
        # Why not in IPv6: the kernel's filter (6.18) leaves out the addresses that are equal.
        filtered = host if family is socket.AF_INET else None
        wanted = NFCTAttrTuple(family=family, daddr=filtered, proto=TCP)
        wanted.attrs()
        flags = {"attrs": [["CTA_FILTER_ORIG_FLAGS", wanted.flags]]}
        request = nfct_msg.create_from(tuple_orig=wanted, filter=flags)
        request["nfgen_family"] = family
        packed = socket.inet_pton(family, host)
        found = []
        for message in self._kernel.ask(request, _SUBSYSTEM | IPCTNL_MSG_CT_GET, NLM_F_DUMP):
            if packed in message:
                entry = _decoded(message)
                flow = _flow(entry, family)
                if flow is not None and flow.address[0] == plain_host(host) and _state(entry) in _STATES:
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
