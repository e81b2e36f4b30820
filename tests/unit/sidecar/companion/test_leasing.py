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
from ha_sidecar.companion.config import CompanionConfig, from_texts
from ha_sidecar.companion.stopping import leasing
from ha_sidecar.companion.stopping.leasing import Leasing
from ha_sidecar.decisions.broker_facts import GroupFacts
from ha_sidecar.decisions.write_lease import MasterMark
from testkit.processes.ports import free_port

WAIT_S = 30.0


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leasing, "ROUND_S", 0.02)
    monkeypatch.setattr(leasing, "GROUP_S", 0.05)


def uptime_cs() -> int:
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * 100)


class Guard:
    """Asks as a guard does, and keeps the answers."""

    def __init__(self, made: Leasing, port: int) -> None:
        self.made = made
        self.port = port
        self.lines: list[str] = []
        self._task: asyncio.Task[None] | None = None

    async def connect(self, was: str = "") -> None:
        """Begin to ask, instead of over an earlier connection."""
        await self.close()
        self.lines.clear()
        self._task = asyncio.create_task(self._ask(was))

    async def _ask(self, was: str) -> None:
        reader = writer = None
        while reader is None or writer is None:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            except ConnectionError:
                await asyncio.sleep(0.01)
        try:
            while True:
                writer.write(f"{uptime_cs()} {was}\n".encode())
                self.lines.append((await reader.readline()).decode().strip())
                await asyncio.sleep(0.02)
        finally:
            writer.close()

    async def close(self) -> None:
        """Ask no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

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
    guard = Guard(made, config.lease_port)
    await guard.connect()
    try:
        yield guard, events
    finally:
        await guard.close()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await controllers.stop()


def is_lease(line: str) -> bool:
    """Whether the lease has not run out."""
    word, _, rest = line.partition(" ")
    return word == "until" and int(rest.split()[0]) > uptime_cs()


def is_replaced(line: str) -> bool:
    return line.startswith("replaced ")


def silent(made: Leasing) -> None:
    """Let no controller answer, as behind a cut wire."""

    async def nothing(address: str, mark: MasterMark) -> None:
        await asyncio.sleep(0)

    made._ask_lease = nothing  # type: ignore[method-assign]  # the wire's work


async def test_a_master_has_a_lease_that_its_controller_prolongs(answering_group: Any) -> None:
    master = await answering_group.add()
    async with guarded(answering_group.config(master, lease_port=free_port())) as (guard, events):
        first = await guard.wait(is_lease)
        mark = f"{master.broker_id}.{master.epoch}"
        assert first.split()[2] == mark
        await guard.wait(lambda line: is_lease(line) and line > first)
        assert guard.made.lapses == 0
        assert list(events.after(0)) == []


async def test_a_slave_is_free(answering_group: Any) -> None:
    await answering_group.add()
    slave = await answering_group.add()
    async with guarded(answering_group.config(slave, lease_port=free_port())) as (guard, _):
        for _ in range(3):
            assert await guard.wait(bool) == "free"


async def test_a_broker_is_free_until_the_controllers_give_it_a_role(answering_group: Any) -> None:
    starting = await answering_group.add()
    starting.has_role = False
    async with guarded(answering_group.config(starting, lease_port=free_port())) as (guard, _):
        for _ in range(3):
            assert await guard.wait(bool) == "free"
        starting.has_role = True
        await guard.wait(is_lease)


async def test_the_group_is_asked_often_while_a_masters_id_is_unknown(answering_group: Any) -> None:
    master = await answering_group.add()
    config = answering_group.config(master, lease_port=free_port())
    asked = Leasing(config, Controllers(config.controllers), EventLog("c1", "b1"))
    asked._group = GroupFacts(None, None, 0, (), ())
    assert not asked._is_urgent()
    asked._set_mark(MasterMark(0, 1))
    assert asked._is_urgent()
    asked._mark = MasterMark(master.broker_id, 1)
    assert not asked._is_urgent()


async def test_a_new_master_has_a_lease_although_the_group_was_asked_before_its_registration(
    answering_group: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leasing, "GROUP_S", WAIT_S)
    master = await answering_group.add()
    master.has_role = False
    async with guarded(answering_group.config(master, lease_port=free_port())) as (guard, _):
        async with asyncio.timeout(WAIT_S):
            while guard.made._group is None:  # noqa: ASYNC110 - without a notification
                await asyncio.sleep(0.01)
        guard.made._group = GroupFacts(None, None, 0, (), ())
        master.has_role = True
        await guard.wait(is_lease)
        assert guard.made._mark is not None
        async with asyncio.timeout(WAIT_S / 2):
            while not guard.made._mark.broker_id:  # noqa: ASYNC110 - without a notification
                await asyncio.sleep(0.01)
        assert guard.made.lapses == 0


async def test_a_lease_runs_out_in_silence_and_comes_back_with_the_controllers(
    answering_group: Any,
) -> None:
    master = await answering_group.add()
    async with guarded(answering_group.config(master, lease_port=free_port())) as (guard, events):
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
    async with guarded(answering_group.config(believer, lease_port=free_port())) as (guard, _):
        await guard.wait(lambda line: line == "free")
        believer.is_master, believer.epoch = True, 0
        await guard.wait(is_replaced)
        believer.is_master = False
        await guard.wait(lambda line: line == "free")


async def test_a_new_companion_of_a_broker_that_stands_still_waits_for_the_controllers_word(
    answering_group: Any,
) -> None:
    master, slave = await answering_group.add(), await answering_group.add()
    async with guarded(answering_group.config(slave, lease_port=free_port())) as (guard, _):
        guard.made._broker.address = ("127.0.0.1", 1)  # type: ignore[misc]  # a stopped broker does not answer
        guard.made._broker.close()
        await guard.connect(was=f"{master.broker_id}.{master.epoch}")
        await guard.wait(is_lease)
        await guard.connect(was=f"{slave.broker_id}.0")
        await guard.wait(is_replaced)


async def test_a_broker_that_the_controllers_take_for_dead_is_given_up(answering_group: Any) -> None:
    master = await answering_group.add()
    async with guarded(answering_group.config(master, lease_port=free_port())) as (guard, _):
        await guard.wait(is_lease)
        await master.fall_silent()
        answering_group.node.heartbeats.table.remove(ReplicaKey("c1", "b1", master.broker_id))
        await guard.wait(is_replaced)


async def test_the_clock_of_a_guard_need_not_be_ours(answering_group: Any) -> None:
    master = await answering_group.add()
    port = free_port()
    async with guarded(answering_group.config(master, lease_port=port)) as (guard, _):
        await guard.wait(is_lease)
        await guard.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        line = ""
        async with asyncio.timeout(WAIT_S):
            while not line.startswith("until "):
                writer.write(b"777\n")
                line = (await reader.readline()).decode()
        assert 777 <= int(line.split()[1]) <= 777 + 6_000
        writer.write(b"rubbish\n")
        assert await reader.readline() == b""
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize(
    ("given", "problem"), [({"lease_ms": "0"}, "above 0"), ({"lease_port": "65536"}, "0 to 65535")]
)
def test_settings_that_are_refused(given: dict[str, str], problem: str) -> None:
    least = {"cluster": "c", "group": "g", "broker": "h:1", "controllers": "h:2", "http": "h:3"}
    with pytest.raises(ConfigError, match=problem):
        from_texts(least | given, serves=True)
