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
from testkit.processes.process import ManagedProcess
from testkit.rocketmq.processes import java_command, write_properties

BOOT_TIMEOUT_S: Final = 150.0
SCRIPTS: Final = ("-XX:+AlwaysPreTouch", "-XX:-UseLargePages")
"""Source: 5.5.0 runbroker.sh."""
SMALL_PAGES: Final = ("-XX:-UseTransparentHugePages",)
"""What switches huge pages off."""


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
    with tempfile.TemporaryDirectory() as name:
        port = free_port()
        process = ManagedProcess(
            "broker", _command(release, Path(name), port, heap, further), Path(name, "log")
        )
        await process.start()
        try:
            await process.wait_for_text("boot success", BOOT_TIMEOUT_S)
            reader, writer = await asyncio.open_connection(LOOPBACK, port)
            memory_mib, huge_mib = _mebibytes(process.pid, "Rss"), _mebibytes(process.pid, "AnonHugePages")
            begun_s = time.perf_counter()
            os.kill(process.pid, signal.SIGKILL)
            with contextlib.suppress(ConnectionResetError):
                await reader.read(1)
            connected_ms = (time.perf_counter() - begun_s) * 1_000
            writer.close()
        finally:
            await process.kill()
    return KilledBroker(memory_mib, huge_mib, connected_ms)


def _command(release: Path, directory: Path, port: int, heap: str, further: Sequence[str]) -> list[str]:
    store = directory / "store"
    settings = {
        "brokerClusterName": "c",
        "brokerName": "b",
        "brokerId": "0",
        "brokerIP1": LOOPBACK,
        "listenPort": str(port),
        "storePathRootDir": str(store),
        "storePathCommitLog": str(store / "commitlog"),
        "mappedFileSizeCommitLog": str(1 << 26),
    }
    config = write_properties(directory / "broker.conf", settings)
    command = java_command(
        release, "org.apache.rocketmq.broker.BrokerStartup", "-c", str(config), home=directory / "home"
    )
    jvm = Jvm.model_validate({"heap": heap, "directMemory": "256Mi", "options": further})
    options = [*SCRIPTS, *java_options(Resources(cpu="1", memory="64Gi"), jvm).split()]
    at = command.index("-cp")
    return [*command[:at], *options, *command[at:]]


def _mebibytes(pid: int, key: str) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{key}:")) // 1_024
