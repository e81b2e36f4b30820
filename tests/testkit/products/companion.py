"""A companion as a real process beside a Java broker, and what it says over HTTP."""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any, Final

import aiohttp

from ha_sidecar.address import host_port
from ha_sidecar.companion.debt_store import DEBT_FILE
from testkit.processes.ports import free_port
from testkit.processes.process import ManagedProcess
from testkit.products.controllers import command_path
from testkit.rocketmq.processes import JavaBroker

_POLL_S: Final = 0.05


class BrokerCompanion:
    """A broker's companion; the broker itself is somebody else's to start and stop.

    Attributes:
        http: host:port at which it serves.
    """

    def __init__(self, broker: JavaBroker, controllers: Sequence[str], **given: str) -> None:
        """Describe it; `given` are further settings."""
        self.http = f"{host_port(broker.address)[0]}:{free_port()}"
        self._directory: Final = broker.place.directory
        settings = {
            "cluster": broker.place.cluster,
            "group": broker.place.group,
            "broker": broker.address,
            "controllers": ";".join(controllers),
            "http": self.http,
            "state": str(broker.place.directory / "companion"),
            **given,
        }
        arguments = [part for key, value in settings.items() for part in (f"--{key}", value)]
        self._arguments: Final = arguments
        command = [command_path("ha-sidecar"), "companion", *arguments]
        name = f"companion of {broker.place.name}"
        self.process = ManagedProcess(name, command, broker.place.directory / "companion.log")

    async def metric(self, name: str) -> float | None:
        """Return the one sample of a metric `rmqha_ha_...`; None without one."""
        lines = (await self._text("metrics")).splitlines()
        found = [line for line in lines if line.startswith(f"rmqha_ha_{name}{{")]
        return float(found[0].rpartition(" ")[2]) if found else None

    async def known_metric(self, name: str, timeout_s: float) -> float:
        """Wait until the metric has a sample, and return it.

        Raises:
            TimeoutError: it never has.
        """
        async with asyncio.timeout(timeout_s):
            while (value := await self.metric(name)) is None:  # noqa: ASYNC110 - without a notification
                await asyncio.sleep(_POLL_S)
        return value

    async def wait_metric(self, name: str, value: float, timeout_s: float) -> None:
        """Wait until the metric's one sample is this.

        Raises:
            TimeoutError: it never is.
        """
        async with asyncio.timeout(timeout_s):
            while await self.metric(name) != value:  # noqa: ASYNC110 - without a notification
                await asyncio.sleep(_POLL_S)

    async def wait_status(self, holds: Callable[[dict[str, Any]], bool], timeout_s: float) -> dict[str, Any]:
        """Wait until `/v1/status` is as wanted; return it.

        Raises:
            TimeoutError: it never is.
        """
        async with asyncio.timeout(timeout_s):
            while True:
                text = await self._text("v1/status")
                found: dict[str, Any] = json.loads(text) if text else {}
                if found and holds(found):
                    return found
                await asyncio.sleep(_POLL_S)

    async def events(self, kind: str) -> list[dict[str, Any]]:
        """Return its events of one kind, in order."""
        events = [json.loads(line) for line in (await self._text("v1/events?follow=false")).splitlines()]
        return [event for event in events if event["kind"] == kind]

    async def wait_debt(self, refused: int, timeout_s: float) -> None:
        """Wait until its file holds a POP debt of so many refused messages.

        Raises:
            TimeoutError: it never does.
        """
        path = self._directory / "companion" / DEBT_FILE
        async with asyncio.timeout(timeout_s):
            while not path.exists() or json.loads(path.read_text())["refused"] != refused:  # noqa: ASYNC110 - without a notification
                await asyncio.sleep(_POLL_S)

    def handover_command(self) -> ManagedProcess:
        """Return the command `handover` with the companion's settings; its log holds its answer."""
        command = [command_path("ha-sidecar"), "handover", "--output=json", *self._arguments]
        return ManagedProcess("handover", command, self._directory / "handover.log")

    async def hand_over(self) -> dict[str, Any]:
        """Have its broker handed over; return the answer."""
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"http://{self.http}/v1/handover") as response,
        ):
            found: dict[str, Any] = await response.json()
            return found

    async def _text(self, path: str) -> str:
        """Return what it answers; nothing while it does not."""
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"http://{self.http}/{path}") as response,
            ):
                return await response.text()
        except (aiohttp.ClientError, TimeoutError):
            return ""
