"""Which event loop the operator's tests run on."""

import asyncio
from collections.abc import Callable

from testkit.clocks.patient_loop import loop_factories


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run the tests on a loop on which a stall of the machine does not advance the time."""
    return loop_factories()
