"""Free ports on loopback, in runs that belong together (a controller uses three in a row, a broker four).

The kernel hands out ephemeral ports to any process, so a port found free may be taken before its
process binds it. To make that rare, runs are taken below the ephemeral range, each worker of a test run
has a part of it for itself and starts its search there at a place derived from its pid, and no run is
handed out twice by one process.
"""

import os
import socket

_WORKERS_MAX = 4
_WORKER_PORTS = 4_000
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _WORKERS_MAX
_PORT_MIN = 15_000 + _WORKER * _WORKER_PORTS
_PORT_MAX = _PORT_MIN + _WORKER_PORTS
_SEARCH_STEPS_MAX = 4_000

_next_port = _PORT_MIN + (os.getpid() * 37) % _WORKER_PORTS


LOOPBACK = "127.0.0.1"


def free_ports(count: int) -> list[int]:
    """Return `count` consecutive unbound ports.

    Raises:
        RuntimeError: no such run was found in the whole range.
    """
    global _next_port
    for _ in range(_SEARCH_STEPS_MAX):
        first = _next_port
        _next_port = first + count if first + 2 * count <= _PORT_MAX else _PORT_MIN
        run = list(range(first, first + count))
        if all(_is_free(port) for port in run):
            return run
    raise RuntimeError(f"no {count} consecutive free ports between {_PORT_MIN} and {_PORT_MAX}")


def free_port() -> int:
    """Return one unbound port."""
    return free_ports(1)[0]


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
