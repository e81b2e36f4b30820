"""The clients of a killed master: which the companion holds, how long, and the free port afterwards."""

import asyncio
import contextlib
import socket
import threading

import pytest

from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import FLAG_ONEWAY, RemotingCommand
from controller_core.remoting.frame import encode
from ha_sidecar import limits
from ha_sidecar.companion.holding import client_hold, held_clients
from testkit.fakes.held_broker import (
    V5_2_0,
    V5_5_0,
    WITHIN_S,
    Place,
    answers,
    closed,
    is_held,
    request,
)


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


async def test_clients_of_the_own_address_go_before_guests_that_came_by_another_one(place: Place) -> None:
    await place.start_broker()
    place.kill_broker()
    pull = request(V5_5_0, code=RequestCode.PULL_MESSAGE)
    guest = await place.client(pull)
    direct = await place.client(pull, source="127.0.0.2")
    place.is_own_served = True
    (answer,) = await answers(direct, 1)
    assert answer.code == ResponseCode.GO_AWAY
    assert await is_held(guest)
    assert [kind for kind, _, _ in place.told()] == ["ClientsHeld"]
    place.is_settled = True
    (answer,) = await answers(guest, 1)
    assert answer.code == ResponseCode.GO_AWAY


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
    monkeypatch.setattr(client_hold, "QUESTION_WITHIN_S", 0.3)
    place.hangs = True
    await place.start_broker()
    place.kill_broker()
    client = await place.client()
    assert await is_held(client)
    place.hangs, place.is_settled = False, True
    await closed(client)
    assert place.questions_max == client_hold.QUESTIONS_MAX


@pytest.mark.usefixtures("few_late_clients")
async def test_they_are_let_go_when_nobody_is_elected_in_time() -> None:
    place = Place(hold_ms=int(client_hold.LATE_S_MIN * 1000) + 200)
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
