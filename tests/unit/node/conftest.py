"""Which event loops the node's tests run on."""

from collections.abc import Callable

import uvloop


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], uvloop.Loop]]:
    """Run the tests on the loop that `serve` uses."""
    return {"uvloop": uvloop.new_event_loop}
