"""Java brokers that hold a write lease, as on Kubernetes: the operator's start script, and a companion.

Each broker runs in a PID namespace of its own, as in a container: the guard of the script is process 1 there.
"""

import asyncio
import contextlib
import os
import shlex
import signal
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from rocketmq_operator.plan.common.java import JAVA_START, JAVA_STOP, JAVA_WAIT
from rocketmq_operator.plan.group.scripts.lease_guard import OWN_GROUP, lease_guard
from testkit.processes.ports import free_port
from testkit.products.companion import BrokerCompanion
from testkit.rocketmq.processes import JavaBroker
from testkit.rocketmq.witness import Witness

STOPPED_LINE = "lease: it has run out, the broker stands still"
_NAMESPACE = ("unshare", "--pid", "--mount-proc", "--fork", "--kill-child")
_COUNTED_WITHIN_S = 30.0
_POLL_S = 0.02


class GuardedBroker:
    """A broker under its guard, with its companion and its witness.

    Attributes:
        broker: its process is the namespace with the start script.
        companion: its process.
    """

    def __init__(
        self, broker: JavaBroker, controllers: Sequence[str], topic: str, first_sequence: int, **given: str
    ) -> None:
        """Describe all; `given` are further settings of the companion."""
        self.broker = broker
        self._port = free_port()
        own = {"lease-port": str(self._port), **given}
        self._companion = BrokerCompanion(broker, controllers, **own)
        self.companion = self._companion.process
        directory = broker.place.directory
        self.witness = Witness(broker.address, broker.place.group, topic, first_sequence, directory)
        broker.process.command = [*_NAMESPACE, "bash", str(self._write_script(directory / "guarded"))]

    def _write_script(self, home: Path) -> Path:
        (home / "bin").mkdir(parents=True)
        (home / "bin" / "mqbroker").write_text(f"exec {shlex.join(self.broker.process.command)}\n")
        before = f"set -eu\nROCKETMQ_HOME={home}\nprogram=mqbroker\n{JAVA_STOP}{OWN_GROUP}{JAVA_START}"
        guard = lease_guard(self._port)
        script = home / "start.sh"
        script.write_text(f'{before}{guard}{JAVA_WAIT}exit "$code"\n')
        return script

    @property
    def java_pid(self) -> int:
        """The broker's own process; only while it runs."""
        return next(pid for pid in _descendants(self.broker.process.pid) if _comm(pid) == "java")

    @property
    def stands_still(self) -> bool:
        """Whether the broker's process is stopped."""
        stat = Path(f"/proc/{self.java_pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] == "T"

    def signal_java(self, number: signal.Signals) -> None:
        """Send a signal to the broker's process."""
        os.kill(self.java_pid, number)

    async def wait_still(self, timeout_s: float) -> None:
        """Wait until the guard has stopped the broker.

        Raises:
            TimeoutError: it does not.
        """
        async with asyncio.timeout(timeout_s):
            while not self.stands_still:  # noqa: ASYNC110 - a process sends no notification
                await asyncio.sleep(_POLL_S)

    async def wait_running(self, timeout_s: float) -> None:
        """Wait until the broker is not stopped.

        Raises:
            TimeoutError: it is.
        """
        async with asyncio.timeout(timeout_s):
            while self.stands_still:  # noqa: ASYNC110 - a process sends no notification
                await asyncio.sleep(_POLL_S)

    async def wait_held(self, timeout_s: float = 60.0) -> None:
        """Wait until the companion holds a lease for the broker, which is master.

        Raises:
            TimeoutError: it does not.
        """
        await self._companion.wait_status(lambda status: status.get("lease") == "held", timeout_s)

    async def lapses(self) -> int:
        """Return how often its lease has run out, as its companion counts.

        Raises:
            TimeoutError: the companion does not learn the broker's id, without which it shows no count.
        """
        return int(await self._companion.known_metric("lease_lapses_total", _COUNTED_WITHIN_S))

    async def events(self, kind: str) -> list[dict[str, Any]]:
        """Return its companion's events of one kind."""
        return await self._companion.events(kind)

    async def stop(self) -> None:
        """End the broker at once."""
        await self.broker.process.kill()


@contextlib.asynccontextmanager
async def watched_leases(sides: Sequence[GuardedBroker]) -> AsyncIterator[None]:
    """Run companions and witnesses; the witnesses are ended first."""
    try:
        for side in sides:
            await side.companion.start()
            await side.witness.process.start()
        yield
    finally:
        await asyncio.gather(*(side.witness.process.stop() for side in sides))
        await asyncio.gather(*(side.companion.stop() for side in sides))


def _descendants(pid: int) -> list[int]:
    """Return the processes below one, parents first."""
    found, left = list[int](), [pid]
    while left:
        parent = left.pop(0)
        with contextlib.suppress(FileNotFoundError):
            children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
            left += map(int, children)
            found += map(int, children)
    return found


def _comm(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except FileNotFoundError:
        return ""
