"""The fence between answering brokers and a controller: what it sets, resets, and when it gives up."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from controller_core.broker_settings import FENCED_MS
from ha_sidecar.common.controllers import Controllers
from ha_sidecar.common.events import EventLog
from ha_sidecar.common.options import ConfigError
from ha_sidecar.companion.config import CompanionConfig, from_texts
from ha_sidecar.companion.stopping import fencing
from ha_sidecar.companion.stopping.fencing import Fencing
from ha_sidecar.decisions.fence import FenceState
from ha_sidecar.decisions.fenced_settings import CLOSED_BASE

WAIT_S = 30.0
FENCE = {"fence": True, "fence_after_ms": 300, "fence_stop_ms": 1_000}


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fencing, "ROUND_S", 0.02)
    monkeypatch.setattr(fencing, "ROUND_TIMEOUT_S", 0.2)
    # The loop's clock, on which a stall of the machine does not look like the others' silence.
    monkeypatch.setattr(fencing, "_now_ms", lambda: int(asyncio.get_running_loop().time() * 1_000))


@asynccontextmanager
async def running(config: CompanionConfig) -> AsyncIterator[tuple[Fencing, EventLog]]:
    controllers, events = Controllers(config.controllers), EventLog("c1", "b1")
    controllers.start()
    made = Fencing(config, controllers, events)
    task = asyncio.create_task(made.run())
    try:
        yield made, events
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await controllers.stop()


async def until(holds: Callable[[], bool]) -> None:
    """Wait until a condition holds; a state begins before its actions are complete."""
    async with asyncio.timeout(WAIT_S):
        while True:
            if holds():
                return
            await asyncio.sleep(0.01)


async def wait_state(made: Fencing, state: FenceState) -> None:
    await until(lambda: made.fence is not None and made.fence.state is state)


async def wait_setting(broker: Any, value: int) -> None:
    await until(lambda: bool(broker.min_in_sync_replicas == value))


async def wait_known(made: Fencing) -> None:
    """Wait until it knows who it is and who else is in the set."""
    await until(lambda: bool(made._own_id) and made._group is not None)


def told(events: EventLog) -> list[str]:
    """Return the states in the events, each once its actions are complete."""
    return [event["attrs"]["state"] for event in events.after(0) if event["kind"] == "FenceChanged"]


def cut_off(made: Fencing) -> None:
    """Let no majority be heard from now on; connections stay open, as behind a cut wire."""

    async def silence() -> bool:
        return False

    made._ask_majority = silence  # type: ignore[method-assign]  # the wire's work


async def test_a_master_without_a_majority_and_without_its_members_takes_no_writes(
    answering_group: Any,
) -> None:
    master, slave = await answering_group.add(), await answering_group.add()
    master.min_in_sync_replicas = 2
    async with running(answering_group.config(master, **FENCE)) as (made, events):
        await wait_state(made, FenceState.OPEN)
        await wait_known(made)
        cut_off(made)
        await asyncio.sleep(0.5)
        assert made.is_closed is False  # the other member answers and denies to be master
        await slave.die()
        await wait_state(made, FenceState.CLOSED)
        await wait_setting(master, CLOSED_BASE + 2)
        assert master.sends_from_ms == FENCED_MS
        assert told(events) == ["CLOSED"]


async def test_a_master_that_is_alone_in_its_set_cannot_be_replaced_and_writes_on(
    answering_group: Any,
) -> None:
    master = await answering_group.add()
    master.min_in_sync_replicas = 1
    async with running(answering_group.config(master, **FENCE)) as (made, _):
        await wait_state(made, FenceState.OPEN)
        await wait_known(made)
        cut_off(made)
        await asyncio.sleep(0.5)
        assert made.is_closed is False


async def test_a_broker_that_an_earlier_companion_closed_gets_back_what_it_had(answering_group: Any) -> None:
    master = await answering_group.add()
    master.min_in_sync_replicas, master.sends_from_ms = CLOSED_BASE + 3, FENCED_MS + 7
    async with running(answering_group.config(master, **FENCE)) as (made, _):
        await wait_state(made, FenceState.OPEN)
        await wait_setting(master, 3)
        assert master.sends_from_ms == 7


async def test_a_broker_that_takes_itself_for_the_master_is_closed_until_it_knows_better(
    answering_group: Any,
) -> None:
    await answering_group.add()
    believer = await answering_group.add()
    believer.min_in_sync_replicas = 1
    async with running(answering_group.config(believer, **FENCE)) as (made, _):
        await wait_state(made, FenceState.OPEN)
        believer.is_master = True
        await wait_state(made, FenceState.CLOSED)
        assert made.fence is not None
        assert made.fence.reason == "another is master"
        await wait_setting(believer, CLOSED_BASE + 1)
        believer.is_master = False
        await wait_state(made, FenceState.OPEN)
        await wait_setting(believer, 1)


async def test_a_broker_that_cannot_be_told_is_stopped_by_the_command(
    answering_group: Any, tmp_path: Path
) -> None:
    master, slave = await answering_group.add(), await answering_group.add()
    master.takes_settings, master.min_in_sync_replicas = False, 1
    stopped = tmp_path / "stopped"
    config = answering_group.config(master, **FENCE, fence_stop_command=f"touch {stopped}")
    async with running(config) as (made, events):
        await wait_state(made, FenceState.OPEN)
        await wait_known(made)
        cut_off(made)
        await slave.die()
        # Not only its file: a process that is waited for no more would be a leak of this test.
        await until(lambda: "STOPPED" in told(events))
        assert stopped.exists()


def test_the_fence_s_settings_are_checked() -> None:
    texts = {"cluster": "c", "group": "g", "broker": "b:1", "controllers": "c:1", "fence": "true"}
    assert from_texts(texts, serves=False).fence
    with pytest.raises(ConfigError, match="true or false"):
        from_texts({**texts, "fence": "yes"}, serves=False)
    with pytest.raises(ConfigError, match="below fence-stop-ms"):
        from_texts({**texts, "fence_after_ms": "9000"}, serves=False)
