"""Our log replica as a real `ha-sidecar replica` process on loopback, and what tests ask of it."""

import asyncio
import contextlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp

from testkit.processes.ports import LOOPBACK, free_ports
from testkit.processes.process import ManagedProcess, ProcessFailedError
from testkit.products.controllers import command_path

_STILL_S = 1.0
_POLL_S = 0.02
_HTTP_TIMEOUT = aiohttp.ClientTimeout(total=5.0)


class LogReplicaProcess:
    """One replica with its own ports and store.

    Attributes:
        store: the directory that holds its log.
        http_address: host:port of metrics, probes and events.
    """

    def __init__(
        self,
        directory: Path,
        cluster: str,
        group: str,
        controllers: Sequence[str],
        settings: Mapping[str, str] | None = None,
        *,
        name: str = "replica",
        host: str = LOOPBACK,
    ) -> None:
        """Describe a replica that listens at `host`; nothing runs before `start`."""
        port, http_port = free_ports(2)
        self.address = f"{host}:{port}"
        self.http_address = f"{host}:{http_port}"
        self.store = directory / "store"
        keys = {
            "cluster": cluster,
            "group": group,
            "controllers": ";".join(controllers),
            "listen": self.address,
            "store": str(self.store),
            "http": self.http_address,
            "mapped-file-bytes": str(64 * 1024 * 1024),
            **(settings or {}),
        }
        command = [command_path("ha-sidecar"), "replica"]
        for key, value in keys.items():
            command += [f"--{key}", value]
        self.process = ManagedProcess(name, command, directory / "replica.log")

    async def start(self) -> None:
        """Start it; does not wait for anything."""
        await self.process.start()

    async def wait_in_sync(self, timeout_s: float = 90.0) -> None:
        """Wait until it says that it is in the SyncStateSet.

        Raises:
            ProcessFailedError: it ended, or the time is over.
        """
        deadline = asyncio.get_running_loop().time() + timeout_s
        async with aiohttp.ClientSession(timeout=_HTTP_TIMEOUT) as session:
            while await _status(session, f"http://{self.http_address}/readyz") != 200:
                if not self.process.running or asyncio.get_running_loop().time() > deadline:
                    raise ProcessFailedError(f"{self.process.name} is not in sync:\n{self.process.tail()}")
                await asyncio.sleep(_POLL_S)

    async def wait_max_offset(self, at_least: int = 0, timeout_s: float = 60.0) -> int:
        """Wait until it holds so many bytes and, with no writer at work, stands still; return its max offset.

        Raises:
            TimeoutError: it did not get there, or somebody writes.
        """
        async with asyncio.timeout(timeout_s):
            before = -1
            while True:
                with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                    now = int((await self.metrics())["rmqha_ha_max_offset_bytes"])
                    if now >= at_least and now == before:
                        return now
                    before = now
                await asyncio.sleep(_STILL_S)

    async def events(self, after: int = 0) -> list[dict[str, Any]]:
        """Return its events with a greater sequence number."""
        async with (
            aiohttp.ClientSession(timeout=_HTTP_TIMEOUT) as session,
            session.get(f"http://{self.http_address}/v1/events?after={after}&follow=false") as response,
        ):
            return [json.loads(line) for line in (await response.text()).splitlines()]

    async def metrics(self) -> dict[str, float]:
        """Return its metrics by name, labels left out; of samples with the same name the sum."""
        async with (
            aiohttp.ClientSession(timeout=_HTTP_TIMEOUT) as session,
            session.get(f"http://{self.http_address}/metrics") as response,
        ):
            lines = (await response.text()).splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
        found: dict[str, float] = {}
        for name, value in pairs:
            name = name.partition("{")[0]
            found[name] = found.get(name, 0.0) + float(value)
        return found


async def _status(session: aiohttp.ClientSession, url: str) -> int:
    try:
        async with session.get(url) as response:
            return response.status
    except (aiohttp.ClientError, TimeoutError):
        return 0


def log_prefix_equal(one: Path, other: Path, max_offset: int) -> bool:
    """Say whether two commitlog directories hold the same bytes below `max_offset`, file by file."""
    done = 0
    for path in sorted(one.iterdir()):
        if done >= max_offset:
            break
        if not (other / path.name).exists():
            return False
        with path.open("rb") as left, (other / path.name).open("rb") as right:
            while done < max_offset:
                length = min(1 << 20, max_offset - done)
                ours, theirs = left.read(length), right.read(length)
                if ours != theirs:
                    return False
                if not ours:
                    break
                done += len(ours)
    return done >= max_offset
