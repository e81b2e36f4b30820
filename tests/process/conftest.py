"""What tests of real processes begin with."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from testkit.rocketmq.jars import jars
from testkit.rocketmq.processes import NameServer


@pytest_asyncio.fixture
async def name_server(tmp_path: Path) -> AsyncIterator[NameServer]:
    """Run a name server of the usual release."""
    server = NameServer(await jars(), tmp_path / "namesrv")
    try:
        await server.start()
        yield server
    finally:
        await server.stop()
