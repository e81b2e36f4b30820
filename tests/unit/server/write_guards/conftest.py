"""Guards of these tests wait for late requests for less time."""

import pytest

from controller_core.server.write_guards import write_guard


@pytest.fixture(autouse=True)
def _late_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_guard, "LATE_WITHIN_S", 0.05)
