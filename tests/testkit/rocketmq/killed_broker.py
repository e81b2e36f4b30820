"""A real broker that is killed: what lay in huge pages, and how long its connections lasted after the kill.

It starts with the JVM's options of RocketMQ's start scripts and, after them, those of the operator.
"""

import asyncio
import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from rocketmq_operator.api.common import Resources
from rocketmq_operator.api.pods.jvm import Jvm
from rocketmq_operator.plan.common.java import java_options
from testkit.processes.ports import LOOPBACK, free_port
from testkit.rocketmq.processes import BrokerPlace, JavaBroker

SCRIPTS: Final = ("-XX:+AlwaysPreTouch", "-XX:-UseLargePages")
"""Source: 5.5.0 runbroker.sh."""
SMALL_PAGES: Final = ("-XX:-UseTransparentHugePages",)
"""What switches huge pages off."""
_KERNEL: Final = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def gives_huge_pages() -> bool:
    """Return whether the kernel of this machine gives a process huge pages on request."""
    return "[never]" not in _KERNEL.read_text()


class KilledBroker(NamedTuple):
    """What one run found."""

    memory_mib: int
    """All of the process."""
    huge_mib: int
    """That part of it which lies in huge pages."""
    connected_ms: float
    """From the kill to the end of the connection."""


async def killed(release: Path, heap: str, further: Sequence[str] = ()) -> KilledBroker:
    """Start a broker, connect to it, kill it, and wait for the end of the connection.

    Args:
        release: folder of one release's jars.
        heap: as in `spec.jvm.heap`.
        further: as `spec.jvm.options`.
    """
    options = Jvm.model_validate({"heap": heap, "directMemory": "256Mi", "options": further})
    jvm = [*SCRIPTS, *java_options(Resources(cpu="1", memory="64Gi"), options).split()]
    with tempfile.TemporaryDirectory() as name:
        place = BrokerPlace("c", "b", "b", Path(name))
        broker = JavaBroker(release, place, f"{LOOPBACK}:{free_port()}", jvm=jvm)
        try:
            await broker.start()
            pid = broker.process.pid
            reader, writer = await asyncio.open_connection(LOOPBACK, broker.port)
            memory_mib, huge_mib = _mebibytes(pid, "Rss"), _mebibytes(pid, "AnonHugePages")
            begun_s = time.perf_counter()
            os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ConnectionResetError):
                await reader.read(1)
            connected_ms = (time.perf_counter() - begun_s) * 1_000
            writer.close()
        finally:
            await broker.kill()
    return KilledBroker(memory_mib, huge_mib, connected_ms)


def _mebibytes(pid: int, key: str) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{key}:")) // 1_024
