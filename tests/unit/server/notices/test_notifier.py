"""Connections to brokers are there before they are needed: a notice must not wait for a dial."""

import asyncio
import math
from collections.abc import AsyncIterator

import pytest

from controller_core.channel import Connection, Server, serve
from controller_core.groups.keys import GroupKey
from controller_core.groups.replies import RoleNotice
from controller_core.remoting.command import RemotingCommand
from controller_core.server.notices import notifier as notifier_module
from controller_core.server.notices.notifier import Notifier
from testkit.processes.ports import free_port

WITHIN_S = 60.0


class CountingListener:
    """A port that counts its connections and the requests on them."""

    def __init__(self) -> None:
        self.connections: list[Connection] = []
        self.requests: list[RemotingCommand] = []
        self.changed = asyncio.Event()
        self.server: Server | None = None

    async def start(self, port: int = 0) -> None:
        """Listen, on any port unless one is named."""
        self.server = await serve("127.0.0.1", port, self._on_connection)

    @property
    def address(self) -> str:
        """Where it listens."""
        assert self.server is not None
        return f"127.0.0.1:{self.server.port}"

    async def wait_connections(self, count: int) -> None:
        """Wait until so many connections have come, in all."""
        async with asyncio.timeout(WITHIN_S):
            while len(self.connections) < count:
                await self.changed.wait()
                self.changed.clear()

    async def wait_requests(self, count: int = 1) -> None:
        """Wait until so many requests have come, in all."""
        async with asyncio.timeout(WITHIN_S):
            while len(self.requests) < count:
                await self.changed.wait()
                self.changed.clear()

    def _on_connection(self, connection: Connection) -> None:
        self.connections.append(connection)
        connection.on_request = self._on_request
        self.changed.set()

    def _on_request(self, _connection: Connection, request: RemotingCommand) -> None:
        self.requests.append(request)
        self.changed.set()


@pytest.fixture
async def listener() -> AsyncIterator[CountingListener]:
    made = CountingListener()
    await made.start()
    yield made
    assert made.server is not None
    await made.server.close()


@pytest.fixture
async def notifier() -> AsyncIterator[Notifier]:
    made = Notifier(lambda _notice: None)
    yield made
    await made.stop()


def _notice(address: str) -> RoleNotice:
    return RoleNotice(
        key=GroupKey("c", "g"),
        broker_id=1,
        address=address,
        master_id=1,
        master_address=address,
        master_epoch=2,
        set_epoch=3,
        sync_state_set=(1,),
    )


async def test_a_living_member_is_dialled_before_there_is_anything_to_tell(
    listener: CountingListener, notifier: Notifier
) -> None:
    notifier.prepare(listener.address)
    await listener.wait_connections(1)
    assert listener.requests == []


async def test_a_notice_goes_over_the_connection_that_is_there(
    listener: CountingListener, notifier: Notifier
) -> None:
    notifier.prepare(listener.address)
    await listener.wait_connections(1)
    async with asyncio.timeout(WITHIN_S):
        while not notifier._is_connected(listener.address):  # noqa: ASYNC110 - this end may learn of it later
            await asyncio.sleep(0)
    notifier.notify([_notice(listener.address)])
    await listener.wait_requests()
    assert len(listener.connections) == 1


async def test_a_connection_that_the_broker_closes_is_dialled_again(
    listener: CountingListener, notifier: Notifier
) -> None:
    notifier.prepare(listener.address)
    await listener.wait_connections(1)
    listener.connections[0].close()
    await listener.wait_connections(2)
    assert not listener.connections[1].is_closed


async def test_a_broker_that_does_not_listen_yet_is_dialled_until_it_does(
    notifier: Notifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifier_module, "AHEAD_PAUSE_S", 0.01)
    monkeypatch.setattr(notifier_module, "AHEAD_TRIES_MAX", 10_000)
    port = free_port()
    notifier.prepare(f"127.0.0.1:{port}")
    await asyncio.sleep(0)
    late = CountingListener()
    await late.start(port)
    await late.wait_connections(1)
    assert late.server is not None
    await late.server.close()


async def test_a_member_that_is_gone_is_given_up(
    listener: CountingListener, notifier: Notifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    dials = 0
    given_up = asyncio.Event()

    async def refused(*_: object, **__: object) -> Connection:
        nonlocal dials
        dials += 1
        if dials == notifier_module.AHEAD_TRIES_MAX:
            given_up.set()
        raise notifier_module.ChannelError("refused")

    monkeypatch.setattr(notifier_module, "AHEAD_PAUSE_S", 0)
    monkeypatch.setattr(notifier_module, "connect", refused)
    notifier.prepare(listener.address)
    await asyncio.wait_for(given_up.wait(), WITHIN_S)
    for _ in range(10):
        await asyncio.sleep(0)
    assert dials == notifier_module.AHEAD_TRIES_MAX


async def test_a_notice_that_is_sent_again_goes_over_a_fresh_connection(
    listener: CountingListener, notifier: Notifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first may have reached a process that is frozen, or another broker that holds the lent address.
    monkeypatch.setattr(notifier_module, "RESEND_S", 0.05)
    notifier.notify([_notice(listener.address)])
    await listener.wait_connections(2)
    await asyncio.wait_for(listener.connections[0].wait_closed(), WITHIN_S)
    await listener.wait_requests(2)


async def test_where_many_are_told_at_once_few_are_dialled_anew(
    notifier: Notifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifier_module, "RESEND_S", 0.05)
    monkeypatch.setattr(notifier_module, "REDIALS_PER_S", 2)
    notifier._redials_until_s = math.inf  # One second, however long it takes.
    listeners = [CountingListener() for _ in range(5)]
    try:
        for one in listeners:
            await one.start()
        notifier.notify([_notice(one.address) for one in listeners])
        async with asyncio.timeout(WITHIN_S):
            for one in listeners:
                await one.wait_requests(2)
        assert sum(len(one.connections) for one in listeners) == len(listeners) + 2
    finally:
        for one in listeners:
            if one.server is not None:
                await one.server.close()
