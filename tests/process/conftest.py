"""What tests of real processes begin with."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from testkit.rocketmq.class_archive import make_class_archive
from testkit.rocketmq.jars import jars
from testkit.rocketmq.processes import NameServer

_VERSIONS = ("5.5.0", "5.4.0", "5.2.0")


@pytest.fixture(scope="session", autouse=True)
def _class_archives() -> None:
    """Make what lets the JVMs of the tests start sooner; a machine makes it once."""
    for version in _VERSIONS:
        asyncio.run(make_class_archive(version))


@pytest_asyncio.fixture
async def name_server(tmp_path: Path) -> AsyncIterator[NameServer]:
    """Run a name server of the usual release."""
    server = NameServer(await jars(), tmp_path / "namesrv")
    try:
        await server.start()
        yield server
    finally:
        await server.stop()
