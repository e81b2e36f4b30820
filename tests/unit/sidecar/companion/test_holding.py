"""The clients of a killed master: which the companion holds, how long, and the free port afterwards."""

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from controller_core.groups.keys import BrokerId
from controller_core.remoting.bodies import HAConnectionRuntimeInfo, HARuntimeInfo
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import FLAG_ONEWAY, RemotingCommand
from controller_core.remoting.frame import FrameDecoder, encode
from ha_sidecar import limits
from ha_sidecar.companion import held_clients, hold_port, holding
from ha_sidecar.companion.holding import is_settled
from ha_sidecar.decisions.broker_facts import GroupFacts
from testkit.fakes.held_broker import (
    BEFORE,
    V5_2_0,
    V5_5_0,
    WITHIN_S,
    Place,
    answers,
    closed,
    is_held,
    request,
)


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
        assert not await is_settled(
            replace(BEFORE, master_address=f"{host}:{port}"), controllers, named.append
        )
        assert asked.is_set() is is_asked
        assert named == ([("s", 2)] if now is not None and is_asked else [])


@contextlib.asynccontextmanager
async def _port_that(answer: str) -> AsyncIterator[str]:
    """Listen as a master with a copy (`serves`), as a slave, as a holding companion (`ends`), or mutely."""
    writers: list[asyncio.StreamWriter] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        (request,) = FrameDecoder().feed(await reader.read(1 << 16))
        status = HARuntimeInfo(
            ha_connection_info=(HAConnectionRuntimeInfo("a:1", in_sync=True),), master=answer == "serves"
        )
        if answer in {"serves", "slave"}:
            body = status.encode()
            writer.write(encode(RemotingCommand.response_to(request, ResponseCode.SUCCESS, body=body)))
        elif answer == "ends":
            writer.transport.abort()

    async with await asyncio.start_server(take, "127.0.0.1") as server:
        host, port = server.sockets[0].getsockname()
        yield f"{host}:{port}"
    for writer in writers:
        writer.transport.abort()
    await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)


@pytest.mark.parametrize(
    ("master", "other", "settled"),
    [
        ("serves", "serves", True),
        ("serves", "slave", True),
        ("serves", "mute", True),
        ("serves", "ends", False),
        ("ends", "serves", False),
        ("slave", "serves", False),
    ],
)
async def test_clients_are_held_until_no_broker_s_address_leads_to_the_companion(
    master: str, other: str, settled: bool
) -> None:
    async def controllers() -> GroupFacts | None:
        return replace(BEFORE, master_epoch=4, members=(2, 3), master_direct="s:2")

    async with _port_that(master) as first, _port_that(other) as second:
        others = ((BrokerId(1), first, False), (BrokerId(2), second, True))
        before = replace(BEFORE, master_address=first, others=others)
        assert await is_settled(before, controllers, lambda _: None) is settled


async def test_clients_of_a_killed_master_wait_and_are_let_go_when_the_successor_has_copies(
    place: Place,
) -> None:
    await place.start_broker()
    place.kill_broker()
    client = await place.client()
    assert await is_held(client)
    place.is_settled = True
    await closed(client)
    assert place.told() == [("ClientsHeld", 3, None), ("ClientsReleased", 3, "true")]


async def test_a_client_that_knows_the_answer_is_sent_away_and_one_that_does_not_is_disconnected(
    place: Place,
) -> None:
    await place.start_broker()
    place.kill_broker()
    newer = await place.client(request(V5_5_0, 1), request(V5_5_0, 2, FLAG_ONEWAY), request(V5_5_0, 3))
    older = await place.client(request(V5_2_0))
    place.is_settled = True
    await closed(older)
    found = await answers(newer)
    assert [(answer.opaque, answer.code, answer.is_response) for answer in found] == [
        (1, ResponseCode.GO_AWAY, True),
        (3, ResponseCode.GO_AWAY, True),
    ]


async def test_who_sends_rubbish_is_disconnected_at_once(place: Place) -> None:
    await place.start_broker()
    place.kill_broker()
    await closed(await place.client(b"\xff" * 100))
    assert await is_held(await place.client())


async def test_a_request_for_which_there_is_no_room_ends_its_connection(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "HELD_CLIENTS_BYTES_MAX", 1000)
    await place.start_broker()
    place.kill_broker()
    held = await place.client()
    await closed(await place.client((5000).to_bytes(4), bytes(2000)))
    assert await is_held(held)


async def test_a_silent_client_gives_way_and_one_that_waits_for_an_answer_stays(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "HELD_CLIENTS_MAX", 2)
    await place.start_broker()
    place.kill_broker()
    waiting = await place.client(request(V5_5_0))
    silent = await place.client(b"")
    assert await is_held(waiting)
    younger = await place.client(request(V5_5_0))
    await closed(silent)
    assert await is_held(younger)
    await closed(await place.client())
    assert await is_held(waiting)


@pytest.mark.parametrize("code", [RequestCode.GET_BROKER_HA_STATUS, RequestCode.EXCHANGE_BROKER_HA_INFO])
async def test_who_asks_for_the_master_by_the_old_route_is_disconnected_at_once(
    place: Place, code: RequestCode
) -> None:
    await place.start_broker()
    place.kill_broker()
    await closed(await place.client(encode(RemotingCommand.request(code))))


async def test_a_question_that_is_never_answered_ends_and_few_are_asked_at_a_time(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holding, "QUESTION_WITHIN_S", 0.3)
    place.hangs = True
    await place.start_broker()
    place.kill_broker()
    client = await place.client()
    assert await is_held(client)
    place.hangs, place.is_settled = False, True
    await closed(client)
    assert place.questions_max == holding.QUESTIONS_MAX


@pytest.mark.usefixtures("few_late_clients")
async def test_they_are_let_go_when_nobody_is_elected_in_time() -> None:
    place = Place(hold_ms=int(holding.LATE_S_MIN * 1000) + 200)
    running = asyncio.create_task(place.hold.run())
    await place.start_broker()
    place.kill_broker()
    await closed(await place.client())
    async with asyncio.timeout(WITHIN_S):
        while len(place.told()) < 2:
            await place.events.wait_change()
    assert place.told() == [("ClientsHeld", 3, None), ("ClientsReleased", 3, "false")]
    await place.stop(running)


async def test_the_port_is_the_broker_s_again_afterwards(place: Place) -> None:
    await place.start_broker()
    place.kill_broker()
    await place.client()
    place.is_settled = True
    async with asyncio.timeout(WITHIN_S):
        while True:
            with contextlib.suppress(OSError):
                await place.start_broker()  # and it is watched as before
                break
            await asyncio.sleep(0.01)
    place.is_settled = False
    place.kill_broker()
    assert await is_held(await place.client())


async def test_the_clients_of_a_slave_are_refused(place: Place) -> None:
    place.mastered = None
    await place.start_broker()
    place.kill_broker()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", place.port)


async def test_an_idle_connection_that_a_living_broker_closed_is_dialled_anew(place: Place) -> None:
    await place.start_broker()
    place.drop_connections()
    await place.wait_connected()
    assert place.hold.held == 0


DYING_S = 0.3


def _tries(monkeypatch: pytest.MonkeyPatch, in_use_s: float = 0.0) -> list[float]:
    """Count the tries to take the port, which is in use for so long after the first; return their times."""
    tried: list[float] = []

    def listening(port: int) -> socket.socket:
        tried.append(time.monotonic())
        if tried[-1] < tried[0] + in_use_s:
            raise OSError("in use")
        return hold_port.listening(port)

    monkeypatch.setattr(holding, "listening", listening)
    return tried


async def test_the_port_of_a_dying_process_is_taken_in_the_moment_in_which_it_is_free(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = _tries(monkeypatch)
    with hold_port.listening(place.port) as dying:
        watched = await _accepted(dying)
        watched.close()
        await asyncio.sleep(DYING_S)
    assert await is_held(await place.client())
    assert len(tried) < 10, "it is tried when the connection ends, and not all the time"


async def _accepted(listener: socket.socket) -> socket.socket:
    """Return the first connection that comes."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(WITHIN_S):
        return (await loop.sock_accept(listener))[0]


async def test_a_port_that_refuses_and_is_not_free_yet_is_tried_until_it_is(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    _tries(monkeypatch, in_use_s=DYING_S)
    await place.start_broker()
    place.kill_broker()
    assert await is_held(await place.client())


@pytest.mark.usefixtures("few_late_clients")
async def test_a_companion_that_is_stopped_holds_to_the_end_what_it_holds() -> None:
    place = Place()
    running = asyncio.create_task(place.hold.run())
    await place.start_broker()
    place.kill_broker()
    client = await place.client()
    assert await is_held(client)
    running.cancel()
    assert await is_held(client)
    place.is_settled = True
    await closed(client)
    await place.stop(running)
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", place.port)):
        pass


async def test_the_thread_goes_on_after_an_error_that_nobody_expects(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = threading.Event()

    def fail(*_: object) -> None:
        failed.set()
        raise RecursionError("too deep")

    with monkeypatch.context() as failing:
        failing.setattr(held_clients.HeldClients, "serve", fail)
        await place.start_broker()
        place.kill_broker()
        assert await asyncio.to_thread(failed.wait, WITHIN_S)
    place.is_settled = False
    async with asyncio.timeout(WITHIN_S):
        while True:
            with contextlib.suppress(OSError):
                place.drop_connections()
                await place.start_broker()
                break
            await asyncio.sleep(0.01)
    place.kill_broker()
    assert await is_held(await place.client())
