"""Which event loop the operator's tests run on, and the rules that every status of theirs follows."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from testkit.check.statuses import broken_status_rules
from testkit.clocks.patient_loop import loop_factories
from testkit.memory.kubernetes import MemoryKube


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run the tests on a loop on which a stall of the machine does not advance the time."""
    return loop_factories()


@pytest.fixture(autouse=True)
def _every_status_agrees_with_kstatus_and_argo_cd(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check each status that the operator writes in memory."""
    written = MemoryKube.apply_status

    async def apply_status(kube: MemoryKube, body: dict[str, Any]) -> dict[str, Any]:
        value = await written(kube, body)
        assert broken_status_rules(value) == []
        return value

    monkeypatch.setattr(MemoryKube, "apply_status", apply_status)
