"""A real process changes its log level while it runs."""

from pathlib import Path

import pytest

from controller_core.command_line.log_level import FILE_VARIABLE
from testkit.products.route_front import RouteFrontProcess

SEEN_S = 20.0


async def test_a_running_process_takes_the_level_of_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    level = tmp_path / "log-level"
    monkeypatch.setenv(FILE_VARIABLE, str(level))
    front = RouteFrontProcess(["127.0.0.1:1"], tmp_path / "front", {})
    async with front.process as process:
        await process.wait_for_text("serving routes", SEEN_S)
        for word in ("debug", "error", "info"):
            level.write_text(word)
            await process.wait_for_text(f"the log level is now {word}", SEEN_S)
