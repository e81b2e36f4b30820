"""Our Java programs, compiled once for each release of RocketMQ.

The sources lie in `testkit/java`; the classes are kept in the cache. Starting from source would compile at
every start, which costs three seconds of a processor.
"""

import asyncio
import hashlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from testkit.processes.process import ProcessFailedError
from testkit.rocketmq.jars import cache_directory

_SOURCES = Path(__file__).parents[1] / "java"
_PROGRAMS = ("LoadClient", "ReadBack", "Access", "Consume", "Transactions")
_SHARED = "Options"
"""Compiled with each program."""
_COMPILE_TIMEOUT_S = 120.0


async def compile_java(jars: Path, programs: Sequence[str] = _PROGRAMS) -> Path:
    """Compile Java programs of `java/` against one release, once, and return the folder with their classes.

    Raises:
        ProcessFailedError: javac is missing or refuses the sources.
    """
    sources = [_SOURCES / f"{program}.java" for program in (*programs, _SHARED)]
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    target = cache_directory().parent / "classes" / f"{jars.name}-{digest}"
    if target.is_dir():
        return target
    javac = shutil.which("javac")
    if javac is None:
        raise ProcessFailedError("javac is not installed: 'apt-get install openjdk-17-jdk-headless'")
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=target.parent))
    process = await asyncio.create_subprocess_exec(
        *(javac, "-nowarn", "-d", str(scratch), "-cp", f"{jars}/*", *map(str, sources)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed, _ = await asyncio.wait_for(process.communicate(), _COMPILE_TIMEOUT_S)
    if process.returncode != 0:
        shutil.rmtree(scratch)
        raise ProcessFailedError(f"javac refuses {', '.join(programs)}:\n{printed.decode(errors='replace')}")
    _publish(scratch, target)
    return target


def _publish(scratch: Path, target: Path) -> None:
    try:
        scratch.rename(target)
    except OSError:
        # Another test process was first; its classes come from the same sources.
        shutil.rmtree(scratch)


def with_class_path(command: list[str], classes: Path) -> list[str]:
    """Return a `java_command` that finds these classes before those of its jars."""
    place = command.index("-cp") + 1
    return [*command[:place], f"{classes}{os.pathsep}{command[place]}", *command[place + 1 :]]
