"""Two witnesses of the master: a writer that knows one broker only, and a log of that broker's role.

A client that asks for routes writes to the routed broker; it cannot detect that two brokers took writes at
the same time. A `Witness` sends to one address, whatever that broker is, and asks the same broker again and
again whether it is master, and in which epoch. One beside every broker, on one clock, says which of them
acknowledged what when. Each is a process, which may run where this one reaches no broker.

    python -m testkit.rocketmq.witness ADDRESS GROUP TOPIC FIRST_SEQUENCE FILE

It writes one JSON line for each answer, until it is killed.
"""

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

from controller_core.channel import ChannelError, Connection, connect
from controller_core.channel.asking import Asker, AskError
from controller_core.remoting.codes import ResponseCode
from controller_core.remoting.errors import RemotingProtocolError
from ha_sidecar.address import host_port
from ha_sidecar.common.questions import ask_broker
from slo_pipeline.canary.requests import send_request
from testkit.processes.process import ManagedProcess
from testkit.rocketmq.load import ACKNOWLEDGED, Send, json_lines

_INTERVAL_S = 0.02
_CALL_TIMEOUT_S = 5.0
_AGAIN_S = 0.1
_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class RoleSeen:
    """What a broker said of itself at a time, UTC; the epoch is the newest of its log."""

    ts_ns: int
    is_master: bool
    epoch: int


@dataclass(frozen=True, slots=True)
class RefusedSend:
    """A send that the broker answered and did not take; the remark says why."""

    send: Send
    remark: str


class Witness:
    """The two witnesses of one broker."""

    def __init__(self, address: str, group: str, topic: str, first_sequence: int, directory: Path) -> None:
        """Describe the process; keys are `group-sequence`, counted from `first_sequence`."""
        self._path = directory / "seen.jsonl"
        words = (address, group, topic, str(first_sequence), str(self._path))
        tests = str(Path(__file__).parents[2])
        command = [sys.executable, "-m", "testkit.rocketmq.witness", *words]
        log = directory / "witness.log"
        self.process = ManagedProcess(f"witness of {address}", command, log, env={"PYTHONPATH": tests})

    def sends(self) -> list[Send]:
        """Return every send so far with its answer, in order."""
        return [Send(**line["send"]) for line in self._lines() if "send" in line]

    def acknowledged(self) -> list[Send]:
        """Return the sends that the broker promised to keep, in order."""
        return [send for send in self.sends() if send.acknowledged]

    def refusals(self) -> list[RefusedSend]:
        """Return the sends that were answered with anything else than a promise, in order."""
        return [
            RefusedSend(Send(**line["send"]), line["remark"]) for line in self._lines() if line.get("remark")
        ]

    def roles(self) -> list[RoleSeen]:
        """Return every answer about its role so far, in order."""
        return [RoleSeen(**line["role"]) for line in self._lines() if "role" in line]

    def epochs_as_master(self) -> set[int]:
        """Return the newest epochs of its log while it took itself for the master."""
        return {role.epoch for role in self.roles() if role.is_master}

    async def wait_acknowledged(self, count: int, timeout_s: float) -> None:
        """Wait for so many more promises.

        Raises:
            TimeoutError: they do not come.
        """
        wanted = len(self.acknowledged()) + count
        async with asyncio.timeout(timeout_s):
            while len(self.acknowledged()) < wanted:  # noqa: ASYNC110 - a file sends no notification
                await asyncio.sleep(_POLL_S)

    async def wait_refused(self, why: str, count: int, after_ns: int, timeout_s: float) -> None:
        """Wait until so many sends begun after `after_ns` (UTC) were refused; each remark holds `why`.

        Raises:
            TimeoutError: they are not.
        """
        async with asyncio.timeout(timeout_s):
            while (  # noqa: ASYNC110 - a file sends no notification
                sum(why in refusal.remark for refusal in self.refusals() if refusal.send.start_ns > after_ns)
                < count
            ):
                await asyncio.sleep(_POLL_S)

    async def wait_master_in_epoch(self, epoch: int, timeout_s: float) -> None:
        """Wait until the broker said that it is master and has this epoch.

        Raises:
            TimeoutError: it does not say so.
        """
        async with asyncio.timeout(timeout_s):
            while epoch not in self.epochs_as_master():  # noqa: ASYNC110 - a file sends no notification
                await asyncio.sleep(_POLL_S)

    def _lines(self) -> list[dict[str, Any]]:
        return list(json_lines(self._path)) if self._path.exists() else []


class _Writer:
    """Sends one message after another to one broker."""

    def __init__(
        self, address: str, group: str, topic: str, first_sequence: int, told: Callable[[Send, str], None]
    ) -> None:
        self._address = address
        self._group = group
        self._topic = topic
        self._sequence = first_sequence
        self._told = told

    async def run(self) -> None:
        """Send until cancelled; a broker that does not answer is dialled again."""
        while True:
            try:
                connection = await connect(*host_port(self._address), 1.0)
            except ChannelError:
                await asyncio.sleep(_AGAIN_S)
                continue
            try:
                with contextlib.suppress(ChannelError):
                    while True:
                        await self._send(connection)
                        await asyncio.sleep(_INTERVAL_S)
            finally:
                connection.close()

    async def _send(self, connection: Connection) -> None:
        self._sequence += 1
        start_ns = time.time_ns()
        request = send_request(self._topic, self._group, 0, self._sequence, b"direct", start_ns // 1_000_000)
        status, remark = "UNANSWERED", ""
        try:
            answer = await connection.call(request, _CALL_TIMEOUT_S)
            status = ACKNOWLEDGED if answer.code == ResponseCode.SUCCESS else str(answer.code)
            remark = "" if status == ACKNOWLEDGED else answer.remark or "no word why"
        finally:
            key = f"{self._group}-{self._sequence}"
            self._told(
                Send(self._sequence, key, start_ns, time.time_ns(), status, self._address, 0, None), remark
            )


async def _ask_roles(address: str, told: Callable[[RoleSeen], None]) -> None:
    asker = Asker(host_port(address))
    try:
        while True:
            with contextlib.suppress(AskError, RemotingProtocolError):
                facts = await ask_broker(asker, address)
                told(RoleSeen(time.time_ns(), facts.is_master, facts.last_epoch))
            await asyncio.sleep(_INTERVAL_S)
    finally:
        asker.close()


async def _watch(address: str, group: str, topic: str, first_sequence: int, file: TextIO) -> None:
    def write(line: dict[str, Any]) -> None:
        file.write(json.dumps(line) + "\n")

    def told(send: Send, remark: str) -> None:
        write({"send": asdict(send), **({"remark": remark} if remark else {})})

    writer = _Writer(address, group, topic, first_sequence, told)
    await asyncio.gather(writer.run(), _ask_roles(address, lambda role: write({"role": asdict(role)})))


def _main() -> None:
    address, group, topic, first_sequence, path = sys.argv[1:]
    with Path(path).open("a", encoding="ascii", buffering=1) as file:
        asyncio.run(_watch(address, group, topic, int(first_sequence), file))


if __name__ == "__main__":
    _main()
