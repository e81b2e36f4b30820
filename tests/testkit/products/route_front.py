"""A route front as a real `controller-core route-front` process on loopback."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from testkit.processes.ports import LOOPBACK, free_ports
from testkit.processes.process import ManagedProcess
from testkit.products.controllers import command_path

BOOT_S_MAX: Final = 60.0


class RouteFrontProcess:
    """One route front.

    Attributes:
        address: host:port for clients.
        url: of its HTTP pages.
        process: the process.
    """

    def __init__(self, name_servers: Sequence[str], directory: Path, addresses: Mapping[str, str]) -> None:
        """Write the address file; nothing runs before `start`.

        Args:
            name_servers: host:port of each.
            directory: for the file and the log.
            addresses: where clients of the listener reach a broker, by the address that it announces.
        """
        port, http = free_ports(2)
        self.address = f"{LOOPBACK}:{port}"
        self.url = f"http://{LOOPBACK}:{http}"
        self._file = directory / "addresses.json"
        directory.mkdir(parents=True, exist_ok=True)
        self.write(addresses)
        command = [
            *(command_path("controller-core"), "route-front", "--name-servers", ";".join(name_servers)),
            *("--addresses", str(self._file), "--listen", self.address, "--http", f"{LOOPBACK}:{http}"),
        ]
        self.process = ManagedProcess("route front", command, directory / "route_front.log")

    def write(self, addresses: Mapping[str, str]) -> None:
        """Give the listener other addresses."""
        scratch = self._file.with_suffix(".new")
        scratch.write_text(json.dumps(dict(addresses)))
        scratch.replace(self._file)

    async def start(self) -> None:
        """Start it and wait until it serves."""
        await self.process.start()
        await self.process.wait_for_text("serving routes", BOOT_S_MAX)

    async def stop(self) -> None:
        """Stop it."""
        await self.process.stop()
