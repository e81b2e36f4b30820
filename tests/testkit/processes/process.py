"""One real process of a test: started, awaited by what it prints, signalled, and always ended.

Output goes to a file and not to a pipe, so that a process may outlive the one that started it, and so that
the file can be shown when something fails. Every process leads a session of its own: a Ctrl-C reaches only
the runner, which then stops its processes in its own order.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

_POLL_S = 0.02
_STOP_TIMEOUT_S = 20.0
_TAIL_BYTES = 4_000


class ProcessFailedError(Exception):
    """A process ended, or did not print the expected line; the text shows the end of its log."""


class ManagedProcess:
    """A child process with a log file; use as an async context manager, or `start` and `stop` it by hand."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log_path: Path,
        *,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Describe the process; nothing runs before `start`.

        Args:
            name: what messages call it.
            command: program and arguments; no shell is involved.
            log_path: file that receives stdout and stderr, appended to over restarts.
            env: variables added to this process's own.
        """
        self.name = name
        self.command = list(command)
        self.log_path = log_path
        self._env = {**os.environ, **(env or {})}
        self._process: asyncio.subprocess.Process | None = None
        self._log_start = 0

    @property
    def pid(self) -> int:
        """The process id; only while started."""
        if self._process is None:
            raise ProcessFailedError(f"{self.name} was not started")
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.returncode is None

    @property
    def returncode(self) -> int | None:
        """The exit status (negative: the signal), or None while it runs or before it was started."""
        return self._process.returncode if self._process else None

    async def start(self) -> None:
        """Start it now; its earlier output stays in the log but no longer counts for `wait_for_text`."""
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as log:
            self._log_start = log.tell()
            self._process = await asyncio.create_subprocess_exec(
                *self.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._env,
                start_new_session=True,
            )

    def output(self) -> str:
        """Return what it printed since its last start."""
        with self.log_path.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    async def wait_for_text(self, text: str, timeout_s: float) -> None:
        """Wait until its output holds `text`.

        Raises:
            ProcessFailedError: it ended first, or the time is over.
        """
        deadline = asyncio.get_running_loop().time() + timeout_s
        while True:
            ended = not self.running  # before the look, so that its last words count
            if text in self.output():
                return
            if ended:
                raise ProcessFailedError(
                    f"{self.name} ended ({self.returncode}) before {text!r}:\n{self.tail()}"
                )
            if asyncio.get_running_loop().time() > deadline:
                raise ProcessFailedError(
                    f"{self.name} did not print {text!r} in {timeout_s} s:\n{self.tail()}"
                )
            await asyncio.sleep(_POLL_S)

    async def wait(self, timeout_s: float) -> int:
        """Wait for its end and return the exit status.

        Raises:
            ProcessFailedError: it still runs after `timeout_s`.
        """
        if self._process is None:
            raise ProcessFailedError(f"{self.name} was not started")
        try:
            return await asyncio.wait_for(self._process.wait(), timeout_s)
        except TimeoutError:
            raise ProcessFailedError(f"{self.name} still runs after {timeout_s} s:\n{self.tail()}") from None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to it; it must be running."""
        os.kill(self.pid, number)

    async def kill(self) -> None:
        """End it at once (SIGKILL) and reap it; a process that has ended is left alone."""
        if self.running:
            # It may have ended and been reaped, by a thread that has not told the loop yet.
            with contextlib.suppress(ProcessLookupError):
                self.signal(signal.SIGKILL)
            await self.wait(_STOP_TIMEOUT_S)

    async def stop(self, timeout_s: float = _STOP_TIMEOUT_S) -> int | None:
        """Ask it to end (SIGTERM), then insist (SIGKILL); return the exit status."""
        if not self.running:
            return self.returncode
        with contextlib.suppress(ProcessLookupError):
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGTERM)
        try:
            return await self.wait(timeout_s)
        except ProcessFailedError:
            await self.kill()
            return self.returncode

    def tail(self, bytes_max: int = _TAIL_BYTES) -> str:
        """Return the end of its log, for messages."""
        return self.output()[-bytes_max:]

    async def __aenter__(self) -> Self:
        """Start it."""
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it, whatever happened."""
        await self.stop()
