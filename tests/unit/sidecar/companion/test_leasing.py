"""The companion's side of a write lease, between an answering broker and a whole controller."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from controller_core.groups.keys import ReplicaKey
from ha_sidecar.common.controllers import Controllers
from ha_sidecar.common.events import EventLog
from ha_sidecar.common.options import ConfigError
from ha_sidecar.companion import leasing
from ha_sidecar.companion.config import CompanionConfig, from_texts
from ha_sidecar.companion.leasing import Leasing
from ha_sidecar.decisions.write_lease import MasterMark

WAIT_S = 30.0
LEASE = {"lease": True, "lease_ms": 600, "http": ("127.0.0.1", 1)}


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leasing, "ROUND_S", 0.02)
    monkeypatch.setattr(leasing, "GROUP_S", 0.05)


class Guard:
    """What a guard reads: the newest line, and all of them."""

    def __init__(self, made: Leasing) -> None:
        self.made = made
        self.lines: list[str] = []
        self._task: asyncio.Task[None] | None = None

    def connect(self, was: str = "") -> None:
        """Begin to read, instead of an earlier connection."""
        self.close()
        self.lines.clear()
        self._task = asyncio.create_task(self._read(was))

    async def _read(self, was: str) -> None:
        async for line in self.made.lines({"was": was}):
            self.lines.append(line)

    def close(self) -> None:
        """Read no more."""
        if self._task is not None:
            self._task.cancel()

    async def wait(self, holds: Callable[[str], bool]) -> str:
        """Wait for a new line that is as wanted."""
        seen = len(self.lines)
        async with asyncio.timeout(WAIT_S):
            while True:
                for line in self.lines[seen:]:
                    if holds(line):
                        return line
                await asyncio.sleep(0.01)


@asynccontextmanager
async def guarded(config: CompanionConfig) -> AsyncIterator[tuple[Guard, EventLog]]:
    controllers, events = Controllers(config.controllers), EventLog("c1", "b1")
    controllers.start()
    made = Leasing(config, controllers, events)
    task = asyncio.create_task(made.run())
    guard = Guard(made)
    guard.connect()
    try:
        yield guard, events
    finally:
        guard.close()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await controllers.stop()


def is_lease(line: str) -> bool:
    """Whether the lease has not run out."""
    word, _, rest = line.partition(" ")
    return word == "until" and int(rest.split()[0]) * 10 > time.clock_gettime(time.CLOCK_BOOTTIME) * 1_000


def is_replaced(line: str) -> bool:
    return line.startswith("replaced ")


def silent(made: Leasing) -> None:
    """Let no controller answer, as behind a cut wire."""

    async def nothing(_address: str, _mark: MasterMark) -> None:
        await asyncio.sleep(0)

    made._ask_lease = nothing  # type: ignore[method-assign]  # the wire's work


async def test_a_master_has_a_lease_that_its_controller_prolongs(answering_group: Any) -> None:
    master = await answering_group.add()
    async with guarded(answering_group.config(master, **LEASE)) as (guard, events):
        first = await guard.wait(is_lease)
        mark = f"{master.broker_id}.{master.epoch}"
        assert first.split()[2] == mark
        await guard.wait(lambda line: is_lease(line) and line > first)
        assert guard.made.lapses == 0
        assert list(events.after(0)) == []


async def test_a_slave_is_free(answering_group: Any) -> None:
    await answering_group.add()
    slave = await answering_group.add()
    async with guarded(answering_group.config(slave, **LEASE)) as (guard, _):
        for _ in range(3):
            assert await guard.wait(bool) == "free"


async def test_a_lease_runs_out_in_silence_and_comes_back_with_the_controllers(
    answering_group: Any,
) -> None:
    master = await answering_group.add()
    async with guarded(answering_group.config(master, **LEASE)) as (guard, events):
        await guard.wait(is_lease)
        ask = guard.made._ask_lease
        silent(guard.made)
        guard.made._end_ms = min(guard.made._end_ms, leasing._now_ms() + 200)
        guard.made._lease._parts.clear()
        async with asyncio.timeout(WAIT_S):
            while not guard.made.lapses:  # noqa: ASYNC110 - without a notification
                await asyncio.sleep(0.01)
        guard.made._ask_lease = ask  # type: ignore[method-assign]  # the wire is whole again
        await guard.wait(is_lease)
        assert [event["kind"] for event in events.after(0)] == ["LeaseLapsed", "LeaseRegained"]


async def test_a_broker_that_another_one_replaced_is_told_so_until_it_is_a_slave(
    answering_group: Any,
) -> None:
    await answering_group.add()
    believer = await answering_group.add()
    async with guarded(answering_group.config(believer, **LEASE)) as (guard, _):
        await guard.wait(lambda line: line == "free")
        believer.is_master, believer.epoch = True, 0
        await guard.wait(is_replaced)
        believer.is_master = False
        await guard.wait(lambda line: line == "free")


async def test_a_new_companion_of_a_broker_that_stands_still_waits_for_the_controllers_word(
    answering_group: Any,
) -> None:
    master, slave = await answering_group.add(), await answering_group.add()
    async with guarded(answering_group.config(slave, **LEASE)) as (guard, _):
        guard.made._broker.address = ("127.0.0.1", 1)  # type: ignore[misc]  # a stopped broker does not answer
        guard.made._broker.close()
        guard.connect(was=f"{master.broker_id}.{master.epoch}")
        await guard.wait(is_lease)
        guard.connect(was=f"{slave.broker_id}.0")
        await guard.wait(is_replaced)


async def test_a_broker_that_the_controllers_take_for_dead_is_given_up(answering_group: Any) -> None:
    master = await answering_group.add()
    async with guarded(answering_group.config(master, **LEASE)) as (guard, _):
        await guard.wait(is_lease)
        await master.fall_silent()
        answering_group.node.heartbeats.table.remove(ReplicaKey("c1", "b1", master.broker_id))
        await guard.wait(is_replaced)


@pytest.mark.parametrize(
    ("given", "problem"), [({"lease_ms": "0"}, "above 0"), ({"lease": "yes"}, "true or false")]
)
def test_settings_that_are_refused(given: dict[str, str], problem: str) -> None:
    least = {"cluster": "c", "group": "g", "broker": "h:1", "controllers": "h:2", "http": "h:3"}
    with pytest.raises(ConfigError, match=problem):
        from_texts(least | given, serves=True)
