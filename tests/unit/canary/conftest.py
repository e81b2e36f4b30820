"""Which event loop and clock the canary's tests run on."""

import asyncio
from collections.abc import Callable

import pytest

from slo_pipeline.shell.clock import AnchoredClock
from testkit.clocks.patient_loop import loop_factories, patient_clocks


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run the tests on a loop on which a stall of the machine does not advance the time."""
    return loop_factories()


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the canary's own clock go with its loop."""
    monkeypatch.setattr("slo_pipeline.canary.canary.AnchoredClock", lambda: AnchoredClock(*patient_clocks()))
