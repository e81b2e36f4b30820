"""RocketMQ's own jars, by version, and those of its gRPC client.

Maven fetches them once; the user's cache keeps them.

A version's folder appears under its final name only when it is whole, so an interrupted fetch is done again.
"""

import asyncio
import hashlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

DEFAULT_VERSION = "5.5.0"
CLIENT_VERSION = "5.2.0"
"""Of the gRPC client, which is released on its own."""
_ARTIFACTS = ("namesrv", "broker", "controller", "proxy", "tools")
_FETCH_TIMEOUT_S = 600.0


class JarsUnavailableError(Exception):
    """The jars of a version could not be obtained; the text lists the attempts."""


def cache_directory() -> Path:
    """Return the folder that holds one folder of jars a version."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "rocketmq-ha" / "rocketmq"


def class_archive(jars: Path) -> Path:
    """Return the file for the archive of a release's classes, for the installed Java; it may not exist."""
    java = Path(shutil.which("java") or "java").resolve()
    digest = hashlib.sha256(f"{java} {java.stat().st_mtime_ns if java.exists() else 0}".encode()).hexdigest()
    return cache_directory().parent / "archives" / f"{jars.name}-{digest[:16]}.jsa"


async def jars(version: str = DEFAULT_VERSION) -> Path:
    """Return the folder with the jars of `version`, fetching them if they are not there.

    Raises:
        JarsUnavailableError: Maven is missing, or the version cannot be fetched.
    """
    return await _fetched(version, version, _ARTIFACTS)


async def name_server_jars(version: str) -> Path:
    """Return the folder with the jars of a name server, of RocketMQ 4 as well.

    Raises:
        JarsUnavailableError: as of `jars`.
    """
    return await _fetched(f"name-server-{version}", version, ("namesrv",))


async def tools_jars(version: str) -> Path:
    """Return the folder with the jars of clients and mqadmin, of RocketMQ 4 as well.

    Raises:
        JarsUnavailableError: as of `jars`.
    """
    return await _fetched(f"tools-{version}", version, ("tools",))


async def client_jars(version: str = CLIENT_VERSION) -> Path:
    """Return the folder with the jar of RocketMQ's gRPC client for Java, which has all that it needs inside.

    Raises:
        JarsUnavailableError: as of `jars`.
    """
    return await _fetched(f"grpc-client-{version}", version, ("client-java",))


async def _fetched(folder: str, version: str, artifacts: Sequence[str]) -> Path:
    target = cache_directory() / folder
    if target.is_dir():
        return target
    maven = shutil.which("mvn")
    if maven is None:
        raise JarsUnavailableError(
            "mvn is not installed: 'apt-get install maven' (make setup does it as root)"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        pom = Path(scratch) / "pom.xml"
        pom.write_text(_pom(version, artifacts))
        output = Path(scratch) / "jars"
        process = await asyncio.create_subprocess_exec(
            *(
                maven,
                "-q",
                "-B",
                "-f",
                str(pom),
                "dependency:copy-dependencies",
                f"-DoutputDirectory={output}",
            ),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        printed, _ = await asyncio.wait_for(process.communicate(), _FETCH_TIMEOUT_S)
        if process.returncode != 0:
            text = printed.decode(errors="replace")[-2_000:]
            raise JarsUnavailableError(f"{folder} could not be fetched by Maven:\n{text}")
        if not target.is_dir():
            output.rename(target)
    return target


def _pom(version: str, artifacts: Sequence[str]) -> str:
    dependencies = "".join(
        f"<dependency><groupId>org.apache.rocketmq</groupId><artifactId>rocketmq-{artifact}</artifactId>"
        f"<version>{version}</version></dependency>"
        for artifact in artifacts
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>local</groupId><artifactId>jars</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )
