"""Greeting a slave's HA port: as a learner that counts nowhere, until it answers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from ha_sidecar.epoch import EpochList
from ha_sidecar.roles import warming
from ha_sidecar.roles.warming import warm
from ha_sidecar.transfer import codec
from testkit.ports import free_port


class HaPort:
    """An HA port that notes how it is greeted, and answers unless told otherwise."""

    def __init__(self) -> None:
        self.greetings: list[object] = []
        self.answers = True
        self.left = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        with contextlib.closing(writer):
            self.greetings.append(codec.decode_handshake(await reader.readexactly(codec.HANDSHAKE_BYTES)))
            if self.answers:
                writer.write(codec.encode_reply(codec.HandshakeReply(10, EpochList.of((1, 0)))))
                await reader.read()
                self.left.set()


@pytest.fixture
async def port() -> AsyncIterator[tuple[HaPort, tuple[str, int]]]:
    made = HaPort()
    server = await asyncio.start_server(made.serve, "127.0.0.1")
    async with server:
        yield made, server.sockets[0].getsockname()


async def test_it_greets_as_a_learner_without_an_id_and_leaves(port: tuple[HaPort, tuple[str, int]]) -> None:
    made, address = port
    assert await warm(address)
    await asyncio.wait_for(made.left.wait(), 30)
    [(handshake, _)] = made.greetings  # type: ignore[misc]
    assert handshake == codec.Handshake(-1, sync_from_last_file=False, async_learner=True)


async def test_a_port_that_closes_instead_is_no_answer(port: tuple[HaPort, tuple[str, int]]) -> None:
    made, address = port
    made.answers = False
    assert not await warm(address)


async def test_nobody_there_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warming, "WITHIN_S", 1.0)
    assert not await warm(("127.0.0.1", free_port()))
