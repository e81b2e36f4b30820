"""Classes of a release that a JVM maps instead of reading and verifying them at each start.

A broker of a test starts with a quarter less CPU that way. Only JVMs that live for seconds use an archive,
none whose times are measured. A JVM that cannot use one starts without it.

Source: JDK 17, `java`, "Application Class-Data Sharing"; `jcmd VM.cds dynamic_dump`.
"""

import asyncio
import fcntl
import tempfile
from pathlib import Path

from testkit.processes.process import ManagedProcess, ProcessFailedError
from testkit.rocketmq.jars import class_archive, jars
from testkit.rocketmq.processes import BrokerPlace, JavaBroker

_RECORD = "-XX:+RecordDynamicDumpInfo"
_DUMP_TIMEOUT_S = 120.0
_NO_NAME_SERVER = "127.0.0.1:9"


async def make_class_archive(version: str) -> None:
    """Make the archive of a release's classes if there is none yet, by a broker of it.

    Of several processes that call it, one makes the archive and the others wait.

    Raises:
        JarsUnavailableError: the release cannot be fetched.
        ProcessFailedError: the broker does not start, or jcmd is missing or fails.
    """
    jar_directory = await jars(version)
    archive = class_archive(jar_directory)
    archive.parent.mkdir(parents=True, exist_ok=True)
    with archive.with_suffix(".lock").open("w") as lock:
        await asyncio.to_thread(fcntl.flock, lock, fcntl.LOCK_EX)
        if not archive.exists():
            await _dump(version, jar_directory, archive)


async def _dump(version: str, jar_directory: Path, archive: Path) -> None:
    with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
        directory = Path(scratch)
        place = BrokerPlace("c", "g", "b", directory / "b")
        broker = JavaBroker(jar_directory, place, _NO_NAME_SERVER, jvm=[_RECORD])
        try:
            await broker.start()
            made = directory / "made.jsa"
            jcmd = ManagedProcess(
                "jcmd",
                ["jcmd", str(broker.process.pid), "VM.cds", "dynamic_dump", str(made)],
                directory / "log",
            )
            await jcmd.start()
            if await jcmd.wait(_DUMP_TIMEOUT_S) != 0:
                raise ProcessFailedError(f"jcmd makes no archive of {version}:\n{jcmd.tail()}")
            made.rename(archive)
        finally:
            await broker.stop()
