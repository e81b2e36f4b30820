"""Which event loops the channel's tests run on."""

import asyncio
from collections.abc import Callable

import uvloop


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run each test on the loop of the controller and on that of all others."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
