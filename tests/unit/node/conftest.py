"""Which event loop the node's tests run on."""

from collections.abc import Callable

from testkit.loop_time import PatientUvloop


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], PatientUvloop]]:
    """Run the tests on the loop that `serve` uses, on which a stall of the machine takes no time."""
    return {"uvloop": PatientUvloop}
