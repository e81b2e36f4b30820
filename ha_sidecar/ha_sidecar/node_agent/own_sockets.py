"""Sockets of the agent's own network namespace, which on a node are those of host-network processes.

The kernel ends such a socket on request (SOCK_DESTROY, kernel option INET_DIAG_DESTROY): its process reads
ECONNABORTED. Java's sockets are IPv6 sockets also for IPv4, so both families are searched.
"""

import contextlib
import errno
import socket
import struct
from collections.abc import Iterable
from typing import Any, Final

from pyroute2.netlink import NETLINK_SOCK_DIAG, NLM_F_ACK, NLM_F_DUMP
from pyroute2.netlink.diag import (
    SOCK_DESTROY,
    SOCK_DIAG_BY_FAMILY,
    SS_ESTABLISHED,
    SS_SYN_SENT,
    inet_diag_msg,
    inet_diag_req,
)

from controller_core.remoting.host_port import plain_host
from ha_sidecar.address import HostPort
from ha_sidecar.node_agent.flows import Flow
from ha_sidecar.node_agent.netlink import Netlink
from ha_sidecar.node_agent.segments import TCP

_STATES: Final = (1 << SS_ESTABLISHED) | (1 << SS_SYN_SENT)
_UNABLE: Final = frozenset({errno.EOPNOTSUPP, errno.EINVAL})


def destroy_own(flows: Iterable[Flow]) -> frozenset[Flow]:
    """End those flows whose client's socket is in this namespace; return them.

    Flows that the kernel cannot end, because it lacks INET_DIAG_DESTROY, are left out.

    Raises:
        OSError: the kernel lacks inet_diag, or this process lacks the right to.
    """
    with contextlib.closing(Netlink(NETLINK_SOCK_DIAG)) as kernel:
        return frozenset(flow for flow, entry in _find(kernel, flows) if _destroy(kernel, entry))


def _find(kernel: Netlink, flows: Iterable[Flow]) -> list[tuple[Flow, Any]]:
    wanted = {(flow.client, flow.address): flow for flow in flows}
    found = []
    for family in (socket.AF_INET, socket.AF_INET6):
        for port in {address[1] for _, address in wanted}:
            request = _request(family)
            request["idiag_dport"] = port
            for message in kernel.ask(request, SOCK_DIAG_BY_FAMILY, NLM_F_DUMP):
                entry = inet_diag_msg(message)
                entry.decode()
                flow = wanted.get(_ends(entry))
                if flow is not None:
                    found.append((flow, entry))
    return found


def _destroy(kernel: Netlink, entry: Any) -> bool:  # noqa: ANN401 - pyroute2 is untyped
    family = entry["idiag_family"]
    request = _request(family)
    for side in ("src", "dst"):
        packed = socket.inet_pton(family, entry[f"idiag_{side}"]).ljust(16, b"\0")
        request[f"idiag_{side}"] = struct.unpack("!4I", packed)
        request[f"idiag_{side[0]}port"] = entry[f"idiag_{side[0]}port"]
    request["idiag_if"] = entry["idiag_if"]
    request["idiag_cookie"] = entry["idiag_cookie"]
    try:
        for _ in kernel.ask(request, SOCK_DESTROY, NLM_F_ACK):
            pass
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno in _UNABLE:
            return False
        raise
    return True


def _request(family: int) -> Any:  # noqa: ANN401 - pyroute2 is untyped
    request = inet_diag_req()
    request["sdiag_family"] = family
    request["sdiag_protocol"] = TCP
    request["idiag_states"] = _STATES
    return request


def _ends(entry: Any) -> tuple[HostPort, HostPort]:  # noqa: ANN401 - pyroute2 is untyped
    return (
        (plain_host(entry["idiag_src"]), entry["idiag_sport"]),
        (plain_host(entry["idiag_dst"]), entry["idiag_dport"]),
    )
