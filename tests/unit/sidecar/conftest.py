"""Fixtures of the sidecar's tests: a group of answering brokers under a controller, a held port."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest

from controller_core.remoting.codes import ResponseCode
from ha_sidecar.address import host_port
from ha_sidecar.companion.config import CompanionConfig
from ha_sidecar.companion.holding import client_hold
from testkit.clocks.patient_loop import loop_factories
from testkit.fakes.answering_broker import AnsweringBroker
from testkit.fakes.held_broker import Place
from testkit.products.one_controller import OneNode, one_node

B = TypeVar("B", bound=AnsweringBroker)


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run the tests on a loop on which a stall of the machine does not advance the time."""
    return loop_factories()


@dataclass
class AnsweringGroup:
    """Brokers of one group; the first one started is its master."""

    node: OneNode
    brokers: list[AnsweringBroker] = field(default_factory=list)

    async def add(self, *, is_log_replica: bool = False, in_sync: bool = True) -> AnsweringBroker:
        """Start one more broker."""
        return await self.add_kind(AnsweringBroker, is_log_replica=is_log_replica, in_sync=in_sync)

    async def add_kind(self, kind: type[B], *, is_log_replica: bool = False, in_sync: bool = True) -> B:
        """Start one more broker of a class."""
        made = kind([self.node.remoting], "b1", beat_interval_s=0.05, log_replica=is_log_replica)
        made.is_log_replica = is_log_replica
        await made.start()
        self.brokers.append(made)
        if len(self.brokers) == 1:
            await made.elect()
            made.become_master(1)
        elif in_sync:
            ids = [broker.broker_id for broker in self.brokers]
            answer = await self.brokers[0].alter(ids, set_epoch=len(ids) - 1)
            assert answer.code == ResponseCode.SUCCESS
        return made

    def config(self, of: AnsweringBroker, **values: object) -> CompanionConfig:
        """Return settings of a companion of that one."""
        given: dict[str, object] = {
            "cluster": "c1",
            "group": "b1",
            "broker": host_port(of.address),
            "controllers": (host_port(self.node.remoting),),
            "poll_interval_ms": 50,
            "deadline_s": 60,
            **values,
        }
        return CompanionConfig(**given)  # type: ignore[arg-type]  # names and types are those of the fields


@pytest.fixture
async def answering_group(tmp_path: Path) -> AsyncIterator[AnsweringGroup]:
    async with one_node(tmp_path / "controller", {}) as node:
        made = AnsweringGroup(node)
        yield made
        for broker in made.brokers:
            await broker.die()


@pytest.fixture
def few_late_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_hold, "LATE_S", 0.2)


@pytest.fixture
async def place(few_late_clients: None) -> AsyncIterator[Place]:
    """A broker's port whose clients are held; late ones for a moment only."""
    made = Place()
    running = asyncio.create_task(made.hold.run())
    yield made
    await made.stop(running)
