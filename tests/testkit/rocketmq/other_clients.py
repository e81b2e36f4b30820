"""Loads of RocketMQ's clients that are not its remoting client for Java: gRPC for Java, and Go.

Each program writes the ledger of `LoadClient`, in which gaps, failed sends and lost messages are found.
"""

import asyncio
import hashlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from testkit.rocketmq.jars import cache_directory, client_jars
from testkit.rocketmq.java_programs import compile_java, with_class_path
from testkit.rocketmq.load import LoadClient, LoadSettings
from testkit.rocketmq.processes import java_command

_GRPC_PROGRAM: Final = "GrpcLoad"
_GO_SOURCES: Final = Path(__file__).parents[1] / "go_client"
_GO_FILES: Final = ("go.mod", "go.sum", "main.go")
_BUILD_TIMEOUT_S: Final = 300.0


class GoUnavailableError(Exception):
    """The Go client cannot be built on this machine; the text says why."""


async def go_program() -> Path:
    """Return the program of the Go client, built once for each version of its sources.

    Raises:
        GoUnavailableError: Go is not installed, or the modules cannot be fetched or built.
    """
    digest = hashlib.sha256(b"".join((_GO_SOURCES / name).read_bytes() for name in _GO_FILES)).hexdigest()
    target = cache_directory().parent / "programs" / f"go-client-{digest[:16]}"
    if target.exists():
        return target
    go = shutil.which("go")
    if go is None:
        raise GoUnavailableError("go is not installed: 'apt-get install golang-go'")
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = target.with_suffix(f".{os.getpid()}")
    process = await asyncio.create_subprocess_exec(
        *(go, "build", "-mod=readonly", "-o", str(scratch), "."),
        cwd=_GO_SOURCES,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed, _ = await asyncio.wait_for(process.communicate(), _BUILD_TIMEOUT_S)
    if process.returncode != 0:
        raise GoUnavailableError(f"go build failed:\n{printed.decode(errors='replace')[-2_000:]}")
    scratch.rename(target)
    return target


class GoLoad(LoadClient):
    """The producer of RocketMQ's Go client; a context manager as `LoadClient`."""

    def __init__(self, name_server: str, topic: str, directory: Path, settings: LoadSettings) -> None:
        """Describe it; of the settings, threads, rate, size and the interval for routes count."""
        super().__init__(Path(), name_server, topic, directory, settings)
        self._options: Final = [
            *("--name-server", name_server, "--topic", topic, "--ledger", str(self.ledger)),
            *settings.pace(),
            *("--poll-name-server-ms", str(settings.poll_name_server_ms)),
        ]

    async def command(self) -> list[str]:
        """Return the command of the Go program, which is built if needed."""
        return [str(await go_program()), *self._options]


class GrpcLoad(LoadClient):
    """The producer of RocketMQ's gRPC client for Java at a proxy; a context manager as `LoadClient`."""

    def __init__(
        self,
        endpoints: str,
        topic: str,
        directory: Path,
        settings: LoadSettings,
        *,
        entering: Sequence[str] = (),
    ) -> None:
        """Describe it; of the settings, threads, rate and size count. The topic must exist."""
        super().__init__(Path(), endpoints, topic, directory, settings, entering=entering)
        self._home: Final = directory / "home"
        self._options: Final = [
            *("--endpoints", endpoints, "--topic", topic, "--ledger", str(self.ledger)),
            *settings.pace(),
        ]

    async def command(self) -> list[str]:
        """Return the command of the Java program, which is compiled if needed."""
        jars = await client_jars()
        classes = await compile_java(jars, (_GRPC_PROGRAM,))
        return with_class_path(
            java_command(jars, _GRPC_PROGRAM, *self._options, home=self._home, log="OFF"), classes
        )
