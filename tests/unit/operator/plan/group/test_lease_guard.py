"""The guard in a broker's start script, run by bash between a companion and a broker of the test's own."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rocketmq_operator.plan.group.scripts.lease_guard import OWN_GROUP, lease_guard
from testkit.processes.ports import free_port

LOOP = "while :; do sleep 0.02; done"
ENDED, RUNS, STOPPED = "ended", "runs", "stopped"


def uptime_cs(after_s: float = 0.0) -> int:
    return int((time.clock_gettime(time.CLOCK_BOOTTIME) + after_s) * 100)


class GuardedLoop:
    """A guard with a broker, a shell that does nothing, and the companion that it reads."""

    def __init__(self, script: Path, port: int) -> None:
        self.port = port
        self.asked: asyncio.Queue[str] = asyncio.Queue()
        self.times: list[int] = []
        self.answer = "wait"
        self.unanswered = 0
        self._script = script
        self._writers: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None
        self._guard: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start the guard and its broker."""
        body = f"stop() {{ kill -TERM -- -$!; }}\n{OWN_GROUP}bash -c '{LOOP}' &\necho $!\n"
        self._script.write_text(f"set -eu\n{body}{lease_guard(self.port)}")
        self._guard = await asyncio.create_subprocess_exec(
            "bash", str(self._script), stdout=asyncio.subprocess.PIPE, start_new_session=True
        )
        assert self._guard.stdout is not None
        self.broker = int(await self._guard.stdout.readline())

    async def serve(self) -> str:
        """Be the companion; return the mark that the guard tells with its first question."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        return await self.asked.get()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        is_first = True
        while question := await reader.readline():
            time_cs, _, mark = question.decode().rstrip("\n").partition(" ")
            self.times.append(int(time_cs))
            if is_first:
                self.asked.put_nowait(mark)
                is_first = False
            if self.unanswered:
                self.unanswered -= 1
                continue
            writer.write(self.answer.encode() + b"\n")

    def say(self, line: str) -> None:
        """Answer so from now on."""
        self.answer = line

    async def go_away(self) -> None:
        """End as a companion does: close the connection and the port."""
        if self._server is not None:
            self._server.close()
        for writer in self._writers:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    @property
    def state(self) -> str:
        """What the broker does."""
        try:
            stat = Path(f"/proc/{self.broker}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return ENDED
        return {"T": STOPPED, "Z": ENDED}.get(stat, RUNS)

    async def wait(self, state: str) -> None:
        """Wait until the broker does this."""
        async with asyncio.timeout(10):
            while self.state != state:  # noqa: ASYNC110 - a process sends no notification
                await asyncio.sleep(0.01)

    def end_pod(self) -> None:
        """Ask process 1 to end, as Kubernetes does."""
        assert self._guard is not None
        self._guard.send_signal(signal.SIGTERM)

    async def end(self) -> int:
        """Wait for the guard's end."""
        assert self._guard is not None
        return await asyncio.wait_for(self._guard.wait(), 10)

    async def kill(self) -> None:
        """End everything."""
        assert self._guard is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.broker, signal.SIGKILL)
        if self._guard.returncode is None:
            self._guard.kill()
        await self._guard.wait()
        await self.go_away()


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[GuardedLoop]:
    made = GuardedLoop(tmp_path / "start.sh", free_port())
    await made.start()
    yield made
    await made.kill()


async def test_a_broker_runs_while_its_companion_is_not_there_yet_and_while_it_is_free(
    guarded: GuardedLoop,
) -> None:
    assert guarded.state == RUNS
    assert await guarded.serve() == ""
    guarded.say("free")
    await asyncio.sleep(0.2)
    assert guarded.state == RUNS


async def test_a_broker_stands_still_when_its_lease_has_run_out_and_goes_on_with_the_next(
    guarded: GuardedLoop,
) -> None:
    await guarded.serve()
    end_s = time.monotonic() + 0.3
    guarded.say(f"until {uptime_cs(0.3)} 1.2")
    await guarded.wait(STOPPED)
    assert time.monotonic() > end_s - 0.02
    guarded.say(f"until {uptime_cs(5)} 1.2")
    await guarded.wait(RUNS)


async def test_a_broker_that_somebody_else_continues_is_stopped_again(guarded: GuardedLoop) -> None:
    await guarded.serve()
    guarded.say(f"until {uptime_cs(-1)} 1.2")
    await guarded.wait(STOPPED)
    os.killpg(guarded.broker, signal.SIGCONT)
    await asyncio.sleep(0.2)
    await guarded.wait(STOPPED)


async def test_a_lease_runs_out_when_the_companion_has_ended_and_the_next_one_learns_of_the_master(
    guarded: GuardedLoop,
) -> None:
    await guarded.serve()
    guarded.say(f"until {uptime_cs(0.4)} 7.21")
    await asyncio.sleep(0.1)
    await guarded.go_away()
    await guarded.wait(STOPPED)
    assert await guarded.serve() == "7.21"
    guarded.say(f"until {uptime_cs(5)} 7.21")
    await guarded.wait(RUNS)


async def test_a_broker_that_was_replaced_ends_only_if_it_stands_still(guarded: GuardedLoop) -> None:
    await guarded.serve()
    guarded.say("replaced 1.2")
    await asyncio.sleep(0.3)
    assert guarded.state == RUNS, "it learns from the controllers that it is replaced"
    guarded.say(f"until {uptime_cs(-1)} 1.2")
    await guarded.wait(STOPPED)
    guarded.say("replaced 1.2")
    await guarded.wait(ENDED)
    assert await guarded.end() == 0


async def test_an_answer_that_is_lost_is_asked_for_again(guarded: GuardedLoop) -> None:
    await guarded.serve()
    guarded.say(f"until {uptime_cs(-1)} 1.2")
    await guarded.wait(STOPPED)
    guarded.unanswered = 1
    guarded.say("replaced 1.2")
    await guarded.wait(ENDED)
    assert guarded.unanswered == 0
    assert await guarded.end() == 0


async def test_a_broker_that_stands_still_ends_with_its_pod(guarded: GuardedLoop) -> None:
    await guarded.serve()
    guarded.say(f"until {uptime_cs(-1)} 1.2")
    await guarded.wait(STOPPED)
    guarded.end_pod()
    await guarded.wait(ENDED)
    assert await guarded.end() == 0


async def test_a_broker_that_runs_is_asked_to_stop_with_its_pod(guarded: GuardedLoop) -> None:
    await guarded.serve()
    guarded.end_pod()
    await guarded.wait(ENDED)
    assert await guarded.end() == 0


async def test_lines_that_are_no_lease_change_nothing(guarded: GuardedLoop) -> None:
    await guarded.serve()
    for line in ("", "until", "until soon 1.2", "nonsense 1 2", "replaced 1.2"):
        guarded.say(line)
        await asyncio.sleep(0.15)
        assert guarded.state == RUNS


async def test_a_guard_asks_with_its_own_clock(guarded: GuardedLoop) -> None:
    before = uptime_cs()
    await guarded.serve()
    await asyncio.sleep(0.3)
    assert len(guarded.times) > 1
    assert before - 1 <= min(guarded.times) <= max(guarded.times) <= uptime_cs()
