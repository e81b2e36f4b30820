"""Fixtures of the server's unit tests."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from testkit.clocks.loop_time import PatientUvloop
from testkit.products.one_controller import OneNode, one_node


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], PatientUvloop]]:
    """Run the tests on `serve`'s loop, on which a stall of the machine does not advance the time."""
    return {"uvloop": PatientUvloop}


@pytest.fixture
def given() -> dict[str, str]:
    """Further settings of the node; a test overrides it by a parameter of this name."""
    return {}


@pytest.fixture
async def one(tmp_path: Path, given: dict[str, str]) -> AsyncIterator[OneNode]:
    """A node that leads."""
    async with one_node(tmp_path, given) as running:
        yield running
