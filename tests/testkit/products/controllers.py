"""Our controllers as real `controller-core serve` processes on loopback, for process tests and demo.

`ControllerCluster` gives each node a run of three free ports (remoting, Raft, HTTP), a folder below
the directory it was given, and a log file. It ends every process it started, and shows the end of
the logs when something it waits for does not happen. Nodes are known by their index from 0: node i
is `n<i>` with Raft id i + 1.
"""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import aiohttp

from testkit.processes.ports import LOOPBACK, free_ports
from testkit.processes.process import ManagedProcess, ProcessFailedError
from testkit.rocketmq.processes import write_properties

_POLL_S = 0.02
_LEADER_TIMEOUT_S = 60.0
_HTTP_TIMEOUT = aiohttp.ClientTimeout(total=20.0)
_PROBE_TIMEOUT = aiohttp.ClientTimeout(total=0.5)
_PORTS_PER_NODE = 3
_LOG_TAIL_BYTES = 3_000

T = TypeVar("T")


def command_path(name: str) -> str:
    """Return the path of one of the workspace's commands, beside the interpreter that runs now."""
    return str(Path(sys.executable).parent / name)


class ControllerCluster:
    """Some controllers of one group; an async context manager, or `start` and `stop` by hand."""

    def __init__(
        self,
        directory: Path,
        nodes: int = 3,
        *,
        group: str = "controllers",
        settings: Mapping[str, str] | None = None,
        host: str = LOOPBACK,
    ) -> None:
        """Choose ports and describe the nodes; nothing runs before `start`.

        Args:
            directory: everything is written below it.
            nodes: how many controllers.
            group: controllerDLegerGroup.
            settings: further keys for every node's file.
            host: the address at which they listen.
        """
        self.group = group
        self._host = host
        ports = [free_ports(_PORTS_PER_NODE) for _ in range(nodes)]
        self.remoting_addresses = [f"{host}:{run[0]}" for run in ports]
        self.http_addresses = [f"{host}:{run[2]}" for run in ports]
        self.peers = ";".join(f"n{index}-{address}" for index, address in enumerate(self.remoting_addresses))
        self.config_paths: list[Path] = []
        self.processes: list[ManagedProcess] = []
        self._directory = directory
        self._settings = dict(settings or {})
        for index in range(nodes):
            self._describe(index)

    def describe_further(self) -> int:
        """Describe one more node, whose file names all; return its index. The others do not name it."""
        run, index = free_ports(_PORTS_PER_NODE), len(self)
        self.remoting_addresses.append(f"{self._host}:{run[0]}")
        self.http_addresses.append(f"{self._host}:{run[2]}")
        self.peers += f";n{index}-{self._host}:{run[0]}"
        self._describe(index)
        return index

    def store_path(self, index: int) -> Path:
        """Return the directory of a node's log."""
        return self._directory / f"n{index}" / "store" / f"raft-n{index}"

    def _describe(self, index: int) -> None:
        directory = self._directory / f"n{index}"
        values = {
            "controllerDLegerGroup": self.group,
            "controllerDLegerPeers": self.peers,
            "controllerDLegerSelfId": f"n{index}",
            "controllerStorePath": str(directory / "store"),
            "bindAddress": self._host,
            **self._settings,
        }
        path = write_properties(directory / "controller.conf", values)
        command = [command_path("controller-core"), "serve", "-c", str(path)]
        self.config_paths.append(path)
        self.processes.append(ManagedProcess(f"controller n{index}", command, directory / "controller.log"))

    def __len__(self) -> int:
        return len(self.processes)

    async def start(self) -> None:
        """Start all nodes and wait until one leads and all serve; ends them again if that fails."""
        try:
            for process in self.processes:
                await process.start()
            await self.wait_leader()
            await self.wait_all_ready()
        except BaseException:
            await self.stop()
            raise

    async def wait_all_ready(self) -> None:
        """Wait until every node serves.

        Raises:
            ProcessFailedError: the time is over, or no node runs any more.
        """
        await self._wait(self._all_ready, "every node to be ready", _LEADER_TIMEOUT_S)

    async def start_node(self, index: int) -> None:
        """Start one node that does not run; does not wait for it to serve."""
        await self.processes[index].start()

    async def stop_node(self, index: int) -> int | None:
        """End one node in good order (SIGTERM) and return its exit status."""
        return await self.processes[index].stop()

    async def kill_node(self, index: int) -> None:
        """Kill -9 one node."""
        await self.processes[index].kill()

    def freeze_node(self, index: int) -> None:
        """Stop one node's clock and CPU (SIGSTOP); its sockets stay open."""
        self.processes[index].signal(signal.SIGSTOP)

    def thaw_node(self, index: int) -> None:
        """Let a frozen node go on (SIGCONT)."""
        self.processes[index].signal(signal.SIGCONT)

    async def stop(self) -> None:
        """End every process that was started; never raises for one that has ended."""
        await asyncio.gather(*(process.stop() for process in self.processes))

    async def status(self, index: int) -> dict[str, Any] | None:
        """Return a node's `/v1/status`, or None when it does not answer at once."""
        return await self._get_json(f"http://{self.http_addresses[index]}/v1/status", _PROBE_TIMEOUT)

    async def leader(self) -> int | None:
        """Return the index of the node that leads and serves now; None without a leader."""
        for index in range(len(self)):
            status = await self.status(index) if self.processes[index].running else None
            if status is not None and status["role"] == "leader" and status["ready"]:
                return index
        return None

    async def _all_ready(self) -> bool | None:
        statuses = [await self.status(index) for index in range(len(self))]
        return True if all(status is not None and status["ready"] for status in statuses) else None

    async def wait_leader(
        self, timeout_s: float = _LEADER_TIMEOUT_S, *, other_than: int | None = None
    ) -> int:
        """Wait until a node leads and serves; return its index.

        Args:
            timeout_s: how long to wait.
            other_than: a node whose word does not count (it was just killed or frozen).

        Raises:
            ProcessFailedError: the time is over, or no node runs any more.
        """

        async def found() -> int | None:
            index = await self.leader()
            return None if index == other_than else index

        return await self._wait(found, "a leader", timeout_s)

    async def members(self, action: str, member: str = "") -> dict[str, Any]:
        """Change the membership (`add`, `promote`, `remove`) or `list` it; return the leader's answer.

        Raises:
            ProcessFailedError: it was refused; the text says why. Or no controller
                answered, and the outcome is unknown.
        """
        url = f"http://{self.http_addresses[await self.wait_leader()]}/v1/members"
        method, body = ("GET", None) if action == "list" else ("POST", {action: member})
        try:
            async with (
                aiohttp.ClientSession(timeout=_HTTP_TIMEOUT) as session,
                session.request(method, url, json=body) as response,
            ):
                value = dict(await response.json())
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ProcessFailedError(f"{url} does not answer: {error!r}") from error
        if not response.ok:
            raise ProcessFailedError(f"{value['error']} ({value['field']}: {value['value']})")
        return value

    async def group_info(self, cluster: str, name: str, index: int | None = None) -> dict[str, Any] | None:
        """Return a broker group as the node (default: the leader) serves it over HTTP; None while unknown."""
        node = await self.wait_leader() if index is None else index
        url = f"http://{self.http_addresses[node]}/v1/groups/{cluster}/{name}"
        return await self._get_json(url, _HTTP_TIMEOUT)

    async def wait_group(
        self,
        cluster: str,
        name: str,
        holds: Callable[[dict[str, Any]], bool],
        timeout_s: float = _LEADER_TIMEOUT_S,
    ) -> dict[str, Any]:
        """Wait until the group as the leader serves it satisfies `holds`; return it."""

        async def found() -> dict[str, Any] | None:
            info = await self.group_info(cluster, name)
            return info if info is not None and holds(info) else None

        return await self._wait(found, f"group {cluster}/{name} to change", timeout_s)

    def logs(self) -> str:
        """Return the end of every node's log, for messages."""
        return "\n".join(
            f"--- {process.name} ({process.returncode})\n{process.tail(_LOG_TAIL_BYTES)}"
            for process in self.processes
            if process.log_path.exists()
        )

    async def _wait(self, found: Callable[[], Awaitable[T | None]], what: str, timeout_s: float) -> T:
        deadline = asyncio.get_running_loop().time() + timeout_s
        while (value := await found()) is None:
            if asyncio.get_running_loop().time() > deadline:
                raise ProcessFailedError(f"waited {timeout_s} s for {what}\n{self.logs()}")
            if not any(process.running for process in self.processes):
                raise ProcessFailedError(f"every controller ended while waiting for {what}\n{self.logs()}")
            await asyncio.sleep(_POLL_S)
        return value

    async def _get_json(self, url: str, limits: aiohttp.ClientTimeout) -> dict[str, Any] | None:
        try:
            async with aiohttp.ClientSession(timeout=limits) as session, session.get(url) as response:
                return dict(await response.json()) if response.ok else None
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return None

    async def __aenter__(self) -> Self:
        """Start all nodes and wait for a leader."""
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop all nodes; on an error their logs are printed, where pytest shows them."""
        await self.stop()
        if error is not None:
            sys.stderr.write(self.logs() + "\n")
