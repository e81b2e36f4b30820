"""A listener that closes while connections begin: each owner learns that its connection is gone."""

import asyncio
import contextlib
import socket
from typing import cast

import pytest
import uvloop

from controller_core.channel.listener import Listener
from controller_core.channel.places import Places, PortPlace

WITHIN_S = 20.0


class _Protocol(asyncio.Protocol):
    def __init__(self, made: list["_Protocol"]) -> None:
        self.ended = asyncio.get_running_loop().create_future()
        self._all = made
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._all.append(self)
        self._transport = cast("asyncio.Transport", transport)

    def abort(self) -> None:
        assert self._transport is not None
        self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set_result(exc)


async def _close_while_connections_begin(turns: int) -> None:
    made: list[_Protocol] = []

    def protocol(_place: PortPlace) -> asyncio.Protocol:
        return _Protocol(made)

    listener = Listener(protocol, None, plain_allowed=True, places=Places(100, 100))
    await listener.listen("127.0.0.1", 0, 10)
    with contextlib.ExitStack() as clients:
        for _ in range(8):
            clients.enter_context(socket.create_connection(("127.0.0.1", listener.port)))
        for _ in range(turns):
            await asyncio.sleep(0)
        await listener.close()
        for each in made:
            each.abort()
        async with asyncio.timeout(WITHIN_S):
            await asyncio.gather(*(each.ended for each in made))


@pytest.mark.parametrize("turns", range(6))
def test_each_connection_that_was_begun_ends_with_the_listener(turns: int) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_close_while_connections_begin(turns))
