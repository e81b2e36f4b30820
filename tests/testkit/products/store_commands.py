"""The commands of `ha-sidecar` that work on a store and end: `seed` and `verify`, run as by a person."""

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from testkit.products.controllers import command_path


def seed_command(
    store: Path, place: tuple[str, str], controllers: Sequence[str], file_bytes: str, **given: str
) -> list[str]:
    """Return the command that fills a store; `place` is cluster and group, `given` are further settings."""
    settings = {
        "cluster": place[0],
        "group": place[1],
        "store": str(store),
        "controllers": ";".join(controllers),
        "mapped-file-bytes": file_bytes,
        **given,
    }
    return [
        command_path("ha-sidecar"),
        "seed",
        "--output=json",
        *(f"--{key}={value}" for key, value in settings.items()),
    ]


def verify_command(store: Path) -> list[str]:
    """Return the command that checks every record of a store that no process has open."""
    return [command_path("ha-sidecar"), "verify", str(store), "--output=json"]


async def printed_by(command: Sequence[str], statuses: Sequence[int] = (0,)) -> dict[str, Any]:
    """Run a command that must end with one of the statuses; return the JSON object of its output."""
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    printed, _ = await process.communicate()
    assert process.returncode in statuses, printed
    found: dict[str, Any] = json.loads(printed)
    return found


async def status_in_thread(main: Callable[[Sequence[str]], int], *words: str) -> int:
    """Run a program's main in a thread; return its exit status."""
    return await asyncio.to_thread(main, words)
