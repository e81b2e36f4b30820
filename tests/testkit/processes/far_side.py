"""A second machine, as far as the network goes: a network namespace behind a bridge, whose wire can be cut.

A process that is cut off must not know it: no connection is reset, no interface goes down, packets just come
no more. So the cut is made at the bridge, which neither side sees. The bridge has a hardware address of its
own. It would take that of its port otherwise, and what arrives at a port for its own address goes to this
machine, cut or not. Both sides share one clock, so what each wrote down can be put in order.

Needs root and `ip`; nothing of it outlives `remove`.
"""

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator
from typing import Final

from testkit.processes.process import ManagedProcess, ProcessFailedError

_BRIDGE_ADDRESS: Final = "02:00:00:00:00:01"
"""Locally administered; each bridge is a network of its own, so that all may have the same."""


class FarSide:
    """The namespace and its wire.

    Attributes:
        near_host: the address of this machine on the wire.
        far_host: that of the namespace.
    """

    def __init__(self) -> None:
        """Choose names and addresses that no other process of the tests has."""
        number = os.getpid() % 65_536
        net = f"10.{231 + number // 16_384}.{number // 64 % 256}.{number % 64 * 4}".rpartition(".")
        self.near_host: Final = f"{net[0]}.{int(net[2]) + 1}"
        self.far_host: Final = f"{net[0]}.{int(net[2]) + 2}"
        self._name: Final = f"far{number}"
        self._bridge, self._port, self._far = f"{self._name}-b", f"{self._name}-p", f"{self._name}-f"

    async def make(self) -> None:
        """Make the namespace and connect it."""
        await _ip(f"netns add {self._name}")
        await _ip(f"link add {self._bridge} address {_BRIDGE_ADDRESS} type bridge")
        await _ip(f"link add {self._port} type veth peer name {self._far} netns {self._name}")
        await _ip(f"addr add {self.near_host}/30 dev {self._bridge}")
        await _ip(f"-n {self._name} addr add {self.far_host}/30 dev {self._far}")
        await _ip(f"link set {self._port} master {self._bridge}")
        for link in (self._bridge, self._port):
            await _ip(f"link set {link} up")
        for link in ("lo", self._far):
            await _ip(f"-n {self._name} link set {link} up")

    async def remove(self) -> None:
        """Remove whatever of it was made."""
        for words in (f"link del {self._port}", f"link del {self._bridge}", f"netns del {self._name}"):
            with contextlib.suppress(ProcessFailedError):
                await _ip(words)

    async def cut(self) -> None:
        """Let no packet pass any more, either way."""
        await _ip(f"link set {self._port} nomaster")

    async def heal(self) -> None:
        """Let packets pass again."""
        await _ip(f"link set {self._port} master {self._bridge}")

    def take(self, process: ManagedProcess) -> ManagedProcess:
        """Have a process that was not started yet run on the far side."""
        process.command = ["ip", "netns", "exec", self._name, *process.command]
        return process


def lacking() -> str:
    """Say what this machine lacks for a far side, empty if nothing."""
    if os.geteuid() != 0:
        return "a network namespace needs root"
    return "" if shutil.which("ip") else "'ip' is not installed: 'apt-get install iproute2'"


@contextlib.asynccontextmanager
async def far_side() -> AsyncIterator[FarSide]:
    """Make a far side, and remove it afterwards."""
    side = FarSide()
    try:
        await side.make()
        yield side
    finally:
        await side.remove()


async def _ip(words: str) -> None:
    process = await asyncio.create_subprocess_exec(
        "ip", *words.split(), stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    _, problem = await process.communicate()
    if process.returncode:
        raise ProcessFailedError(f"ip {words}: {problem.decode().strip()}")
