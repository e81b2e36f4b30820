"""Which event loops the channel's tests run on."""

import asyncio
from collections.abc import Callable

from testkit.clocks.loop_time import PatientUvloop
from testkit.clocks.patient_loop import PatientLoop


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run each test on the controller's loop and on that of all others.

    On both a stall of the machine does not advance the time.
    """
    return {"asyncio": PatientLoop, "uvloop": PatientUvloop}
