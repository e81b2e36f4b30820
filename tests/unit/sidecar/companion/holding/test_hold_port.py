"""New connections to a master that is about to be killed wait at the companion's own port.

The companion holds them once the broker is gone.
"""

import asyncio
import socket
import time
from collections.abc import Iterator

import pytest

from controller_core.remoting.codes import ResponseCode
from ha_sidecar.address import HostPort
from ha_sidecar.companion.holding import hold_port as hold_port
from ha_sidecar.companion.holding.hold_port import HoldPort
from testkit.fakes.held_broker import V5_5_0, WITHIN_S, Place, Successor, answers, closed, is_held, request
from testkit.processes.ports import free_port


@pytest.fixture
def room() -> Iterator[HoldPort]:
    """A room that is open."""
    made = HoldPort(free_port())
    made.open()
    yield made
    made.close()


def address_of(room: HoldPort) -> HostPort:
    """Return the address to which clients in an open room connected."""
    assert room.listener is not None
    return ("127.0.0.1", room.listener.getsockname()[1])


@pytest.fixture
def one_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other node has to learn where the address leads."""
    monkeypatch.setattr(hold_port, "ALL_NODES_S", 0.0)


async def refused(port: int) -> None:
    """Connect until the port refuses."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
            except ConnectionRefusedError:
                return
            except ConnectionResetError:
                continue  # closed while it was dialled


async def test_who_waits_while_the_broker_lives_is_held_when_it_is_gone(place: Place) -> None:
    await place.start_broker()
    waiting_client = await place.client(request(V5_5_0, 1), port=place.hold_port)
    assert await is_held(waiting_client)
    assert place.told() == []
    place.kill_broker()
    assert await is_held(await place.client())
    place.is_settled = True
    (found,) = await answers(waiting_client)
    assert (found.opaque, found.code) == (1, ResponseCode.GO_AWAY)


async def test_what_was_sent_while_the_broker_lived_is_carried_to_the_successor(place: Place) -> None:
    place.successor = successor = Successor()
    await successor.start()
    await place.start_broker()
    client = await place.client(request(V5_5_0, 1, body=b"sent before"), port=place.hold_port)
    place.kill_broker()
    (found,) = await answers(client, 1)
    assert (found.code, successor.stored) == (ResponseCode.SUCCESS, [b"sent before"])
    successor.stop()


async def test_who_waits_is_disconnected_when_the_room_is_closed(place: Place) -> None:
    await place.start_broker()
    client = await place.client(port=place.hold_port)
    place.room.close()
    await closed(client)


async def test_nobody_waits_any_more_when_clients_were_let_go(place: Place) -> None:
    await place.start_broker()
    place.kill_broker()
    client = await place.client()
    place.is_settled = True
    await closed(client)
    await refused(place.hold_port)


@pytest.mark.usefixtures("one_node")
async def test_an_address_that_leads_to_the_room_is_reached(room: HoldPort) -> None:
    assert await room.reached(address_of(room))


@pytest.mark.parametrize("answers_there", [True, False], ids=["the broker's", "nobody's"])
async def test_an_address_that_leads_elsewhere_is_not_reached_and_keeps_nobody_waiting(
    answers_there: bool, room: HoldPort, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hold_port, "REACHED_WITHIN_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as broker:
        port = broker.getsockname()[1] if answers_there else free_port()
        assert not await room.reached(("127.0.0.1", port))


async def test_a_broker_serves_on_until_the_address_leads_to_the_room_from_every_node(
    room: HoldPort, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hold_port, "ALL_NODES_S", 0.3)
    started_s = time.monotonic()
    assert await room.reached(address_of(room))
    assert time.monotonic() - started_s >= 0.3


@pytest.mark.usefixtures("one_node")
async def test_an_address_is_reached_as_soon_as_it_leads_to_the_room(room: HoldPort) -> None:
    asked = asyncio.ensure_future(room.reached(("127.0.0.1", free_port())))
    await asyncio.sleep(0)
    _, writer = await asyncio.open_connection(*address_of(room))
    assert await asked, "a client's own connection shows it as well"
    writer.close()


async def test_without_a_port_nobody_waits_and_nothing_is_waited_for() -> None:
    room = HoldPort(0)
    room.open()
    started_s = time.monotonic()
    assert not await room.reached(("127.0.0.1", free_port()))
    assert time.monotonic() - started_s < hold_port.REACHED_WITHIN_S


async def test_a_port_that_is_somebody_elses_is_done_without() -> None:
    with socket.create_server(("", 0)) as other:
        room = HoldPort(other.getsockname()[1])
        room.open()
        assert room.listener is None
