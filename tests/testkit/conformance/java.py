"""Starts RocketMQ's own controller (DLedger, one node) and records the conversation with it."""

import tempfile
from pathlib import Path

from testkit.conformance.player import play, wait_until_serving
from testkit.conformance.script import conversation
from testkit.conformance.transcript import Line
from testkit.rocketmq.jars import jars
from testkit.rocketmq.processes import JavaController


async def java_lines(version: str) -> list[Line]:
    """Hold the conversation with a fresh Java controller of `version`.

    Raises:
        JarsUnavailableError: its jars cannot be had.
        ProcessFailedError: it does not start.
    """
    folder = await jars(version)
    with tempfile.TemporaryDirectory(prefix="conformance-") as directory:
        controller = JavaController(folder, Path(directory))
        await controller.start()
        try:
            await wait_until_serving("127.0.0.1", controller.port)
            return await play("127.0.0.1", controller.port, conversation())
        finally:
            await controller.stop()


def write(path: Path, version: str, lines: list[Line]) -> None:
    """Write a transcript with a head that says where it comes from."""
    head = (
        f"# Answers of Apache RocketMQ {version}'s own controller (DLedger, one node), recorded by\n"
        f"# `python -m testkit.conformance --record --version {version}`.\n"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(head + "".join(f"{line}\n" for line in lines))
