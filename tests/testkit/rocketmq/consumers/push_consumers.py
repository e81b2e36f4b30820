"""Unmodified Java push consumers of one topic as a process of this machine: `testkit/java/Consume.java`."""

import asyncio
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from testkit.processes.process import ManagedProcess, ProcessFailedError
from testkit.rocketmq.consumers.consumption import Received
from testkit.rocketmq.java_programs import compile_java, with_class_path
from testkit.rocketmq.load import json_lines
from testkit.rocketmq.processes import java_command

_START_TIMEOUT_S: Final = 150.0
_RECEIVES_WITHIN_S: Final = 90.0
_POLL_S: Final = 0.1


class PushConsumers:
    """One that takes messages as they come, and an ordered one; an async context manager."""

    def __init__(
        self,
        jars: Path,
        name_server: str,
        topic: str,
        directory: Path,
        *,
        poll_name_server_ms: int = 0,
        pull_delay_ms: int = 0,
    ) -> None:
        """Describe them; zero means the client's own default.

        Args:
            jars: folder of one release's jars; the consumers are of that release.
            name_server: host:port, or several with `;` between.
            topic: must have messages, or get some.
            directory: receives the messages that came, and the log.
            poll_name_server_ms: how often they ask for routes (their default is 30,000).
            pull_delay_ms: after which time they repeat a failed pull (their default is 1,000).
        """
        self._jars: Final = jars
        self._directory: Final = directory
        self._received: Final = directory / "received.jsonl"
        options = {"--poll-name-server-ms": poll_name_server_ms, "--pull-delay-ms": pull_delay_ms}
        self._arguments: Final = [
            *("--name-server", name_server, "--topic", topic, "--output", str(self._received)),
            *(word for name, value in options.items() if value for word in (name, str(value))),
        ]
        self.process: Final = ManagedProcess("push consumers", ["java"], directory / "consumers.log")

    def received(self) -> list[Received]:
        """Return the messages that came so far."""
        return [Received.of(line) for line in json_lines(self._received)] if self._received.exists() else []

    async def __aenter__(self) -> Self:
        """Start them, and wait until both receive."""
        classes = await compile_java(self._jars)
        home = self._directory / "home"
        command = java_command(self._jars, "Consume", *self._arguments, home=home, log="WARN")
        self.process.command = with_class_path(command, classes)
        await self.process.start()
        try:
            await self._until_both_receive()
        except BaseException:
            await self.process.stop()
            raise
        return self

    async def _until_both_receive(self) -> None:
        await self.process.wait_for_text('"started":true', _START_TIMEOUT_S)
        async with asyncio.timeout(_RECEIVES_WITHIN_S):
            while {one.ordered for one in self.received()} != {False, True}:
                if not self.process.running:
                    raise ProcessFailedError(f"the consumers ended:\n{self.process.tail()}")
                await asyncio.sleep(_POLL_S)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End them."""
        await self.process.stop()
