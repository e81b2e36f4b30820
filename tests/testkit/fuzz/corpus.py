"""The stored inputs: one line of hexadecimal digits each, in one text file per target.

They are what coverage-guided runs found to reach code that no other line reaches, and every input that ever
was a finding. `tests/unit/fuzz` feeds all of them to their targets.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Final

FOLDER: Final = Path(__file__).parents[2] / "testdata" / "fuzz"
INPUT_BYTES_MAX: Final = 2_000
READERS: Final = ("controller_core", "ha_sidecar", "slo_pipeline")
"""The packages whose steps count."""


def path_of(target: str) -> Path:
    """Return the file of a target's inputs."""
    return FOLDER / f"{target}.hex"


def load(target: str) -> list[bytes]:
    """Return a target's inputs, an empty list without a file."""
    path = path_of(target)
    return [bytes.fromhex(line) for line in path.read_text().splitlines()] if path.exists() else []


def save(target: str, inputs: list[bytes]) -> None:
    """Write a target's inputs, shortest first."""
    path_of(target).write_text("".join(one.hex() + "\n" for one in sorted(inputs, key=_by_length)))


def reaching(function: Callable[[bytes], None], inputs: list[bytes]) -> list[bytes]:
    """Return the inputs that reach a step between two lines of a reader that no shorter one reaches."""
    seen: set[tuple[str, int, int]] = set()
    kept = []
    for one in sorted(set(inputs), key=_by_length):
        steps = _steps(function, one)
        if not steps <= seen:
            seen |= steps
            kept.append(one)
    return kept


def _steps(function: Callable[[bytes], None], data: bytes) -> set[tuple[str, int, int]]:
    steps: set[tuple[str, int, int]] = set()

    def trace(frame: FrameType, _event: str, _argument: Any) -> Any:
        name = frame.f_code.co_filename
        if not any(f"/{reader}/" in name for reader in READERS):
            return None
        before = frame.f_lineno

        def step(inner: FrameType, event: str, _argument: Any) -> Any:
            nonlocal before
            if event == "line":
                steps.add((name, before, inner.f_lineno))
                before = inner.f_lineno
            return step

        return step

    sys.settrace(trace)
    try:
        function(data)
    finally:
        sys.settrace(None)
    return steps


def _by_length(data: bytes) -> tuple[int, bytes]:
    return len(data), data
