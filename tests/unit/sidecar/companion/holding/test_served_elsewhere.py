"""When clients of a dead master are served: whom the companion asks for it, and how often."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import pytest

from controller_core.groups.keys import BrokerId
from controller_core.remoting.bodies import HAConnectionRuntimeInfo, HARuntimeInfo
from controller_core.remoting.codes import ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.frame import FrameDecoder, encode
from ha_sidecar.companion.holding import served_elsewhere
from ha_sidecar.companion.holding.served_elsewhere import ServedClients, ServedElsewhere
from ha_sidecar.decisions.broker_facts import GroupFacts
from testkit.fakes.held_broker import BEFORE


@pytest.mark.parametrize(
    ("now", "is_asked"),
    [
        (BEFORE, False),
        (replace(BEFORE, master_epoch=4, members=(2, 3), master_address="s:2"), True),
        (replace(BEFORE, master_epoch=4, members=(2, 3), master_address="here:1", master_direct="s:2"), True),
        (None, True),
    ],
    ids=["no successor", "a successor", "one whose address leads here", "no controller answers"],
)
async def test_a_successor_is_left_alone_until_the_controllers_name_it(
    now: GroupFacts | None, is_asked: bool
) -> None:
    asked = asyncio.Event()

    async def take(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        writer.transport.abort()

    async def controllers() -> GroupFacts | None:
        return now

    server = await asyncio.start_server(take, "127.0.0.1")
    async with server:
        host, port = server.sockets[0].getsockname()
        named: list[tuple[str, int]] = []
        elsewhere = ServedElsewhere(controllers)
        assert ServedClients.NONE is await elsewhere.look(
            replace(BEFORE, master_address=f"{host}:{port}"), named.append
        )
        assert asked.is_set() is is_asked
        assert named == ([("s", 2)] if now is not None and is_asked else [])


@dataclass
class Port:
    """An address of the group: its answer, and the number of questions."""

    answer: str
    address: str = ""
    questions: int = 0


@contextlib.asynccontextmanager
async def _port_that(answer: str) -> AsyncIterator[Port]:
    """Listen as a master with a copy (`serves`), as a slave, as a holding companion (`ends`), or mutely."""
    port = Port(answer)
    writers: list[asyncio.StreamWriter] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        port.questions += 1
        (request,) = FrameDecoder().feed(await reader.read(1 << 16))
        status = HARuntimeInfo(
            ha_connection_info=(HAConnectionRuntimeInfo("a:1", in_sync=True),), master=port.answer == "serves"
        )
        if port.answer in {"serves", "slave"}:
            body = status.encode()
            writer.write(encode(RemotingCommand.response_to(request, ResponseCode.SUCCESS, body=body)))
        elif port.answer == "ends":
            writer.transport.abort()

    async with await asyncio.start_server(take, "127.0.0.1") as server:
        port.address = "{}:{}".format(*server.sockets[0].getsockname())
        yield port
    for writer in writers:
        writer.transport.abort()
    await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)


@pytest.mark.parametrize(
    ("master", "other", "served"),
    [
        ("serves", "serves", ServedClients.ALL),
        ("serves", "slave", ServedClients.ALL),
        ("serves", "mute", ServedClients.ALL),
        ("serves", "ends", ServedClients.OWN),
        ("ends", "serves", ServedClients.NONE),
        ("slave", "serves", ServedClients.NONE),
    ],
)
async def test_clients_are_held_until_no_broker_s_address_leads_to_the_companion(
    master: str, other: str, served: ServedClients
) -> None:
    async def controllers() -> GroupFacts | None:
        return replace(BEFORE, master_epoch=4, members=(2, 3), master_direct="s:2")

    async with _port_that(master) as first, _port_that(other) as second:
        before = _before(first, second)
        assert await ServedElsewhere(controllers).look(before, lambda _: None) is served


async def test_a_successor_that_serves_gets_no_more_questions_while_another_address_leads_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(served_elsewhere, "LENT_AGAIN_S", 0.01)
    async with _port_that("serves") as master, _port_that("ends") as lent:
        elsewhere = ServedElsewhere(_succeeded)
        before = _before(master, lent)
        for _ in range(3):
            assert await elsewhere.look(before, lambda _: None) is ServedClients.OWN
        lent.answer = "serves"
        assert await elsewhere.look(before, lambda _: None) is ServedClients.ALL
        assert (master.questions, lent.questions) == (1, 4)


async def test_questions_for_a_lent_address_follow_each_other() -> None:
    async with _port_that("serves") as master, _port_that("ends") as lent:
        elsewhere = ServedElsewhere(_succeeded)
        before = _before(master, lent)
        await elsewhere.look(before, lambda _: None)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2.5 * served_elsewhere.LENT_AGAIN_S):
                await asyncio.gather(*(elsewhere.look(before, lambda _: None) for _ in range(8)))
        assert lent.questions <= 3


async def test_the_next_death_begins_with_the_first_question() -> None:
    async with _port_that("serves") as master, _port_that("serves") as other:
        elsewhere = ServedElsewhere(_succeeded)
        assert await elsewhere.look(_before(master, other), lambda _: None) is ServedClients.ALL
        master.answer = "slave"
        later = replace(_before(master, other), master_epoch=BEFORE.master_epoch + 1)
        assert await elsewhere.look(later, lambda _: None) is ServedClients.NONE


def _before(master: Port, other: Port) -> GroupFacts:
    """Return the group before the death of a master, of whom another broker's address is lent."""
    others = ((BrokerId(1), master.address, False), (BrokerId(2), other.address, True))
    return replace(BEFORE, master_address=master.address, others=others)


async def _succeeded() -> GroupFacts | None:
    return replace(BEFORE, master_epoch=9, members=(2, 3), master_direct="s:2")
