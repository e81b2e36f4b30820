"""Names resolve once at a time, and a name server that hangs does not hide an address that was known."""

import asyncio
import socket

import pytest

from controller_core.server.peers import name_resolver
from controller_core.server.peers.name_resolver import Resolver


class SteeredResolver:
    """Stands in for the system's resolver."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        self.answer: list[object] = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.1", 0))]
        self.open = asyncio.Event()
        self.open.set()
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", self.look_up)

    async def look_up(self, host: str, port: object, **_: object) -> list[object]:
        """Answer when it may."""
        self.asked.append(host)
        await self.open.wait()
        if not self.answer:
            raise socket.gaierror("no such name")
        return self.answer


async def test_an_address_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    server = SteeredResolver(monkeypatch)
    assert await Resolver().resolve("127.0.0.1", 5) == ("127.0.0.1", 5)
    assert await Resolver().resolve("::1", 5) == ("::1", 5)
    assert server.asked == []


async def test_those_who_ask_together_share_one_question(monkeypatch: pytest.MonkeyPatch) -> None:
    server, resolver = SteeredResolver(monkeypatch), Resolver()
    server.open.clear()
    asking = [asyncio.ensure_future(resolver.resolve("n0.controllers", 9)) for _ in range(5)]
    await asyncio.sleep(0)
    asking[0].cancel()
    await asyncio.sleep(0)
    server.open.set()
    assert [await one for one in asking[1:]] == [("10.0.0.1", 9)] * 4
    assert server.asked == ["n0.controllers"]


async def test_a_name_server_that_hangs_does_not_hide_a_known_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, resolver = SteeredResolver(monkeypatch), Resolver()
    await resolver.resolve("n0.controllers", 9)
    server.open.clear()
    monkeypatch.setattr(name_resolver, "ANSWER_WITHIN_S", 0.01)
    assert await resolver.resolve("n0.controllers", 9) == ("10.0.0.1", 9)
    assert await resolver.resolve("n0.controllers", 9) == ("10.0.0.1", 9)
    assert server.asked == ["n0.controllers"] * 2
    server.open.set()


async def test_a_new_address_is_taken_and_a_lost_name_keeps_the_last_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, resolver = SteeredResolver(monkeypatch), Resolver()
    server.answer, kept = [], server.answer
    with pytest.raises(OSError, match="no such name"):
        await resolver.resolve("n0.controllers", 9)
    server.answer = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.2", 0))]
    assert await resolver.resolve("n0.controllers", 9) == ("10.0.0.2", 9)
    server.answer = kept
    assert await resolver.resolve("n0.controllers", 9) == ("10.0.0.1", 9)
    server.answer = []
    assert await resolver.resolve("n0.controllers", 9) == ("10.0.0.1", 9)
