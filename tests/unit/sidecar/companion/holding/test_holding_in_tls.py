"""Clients in TLS of a killed master wait, and their sends are carried, as those of other clients."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from controller_core.remoting.bodies import HAConnectionRuntimeInfo, HARuntimeInfo
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.frame import FrameDecoder, encode
from controller_core.tls.dialling import ClientTls, dial_in_tls
from controller_core.tls.files import ENFORCING, PERMISSIVE
from controller_core.tls.serving import MemberTls
from ha_sidecar.companion.holding import relaying, served_elsewhere
from ha_sidecar.decisions.broker_facts import GroupFacts
from testkit.fakes.held_broker import (
    BEFORE,
    V5_5_0,
    WITHIN_S,
    Place,
    Successor,
    answers,
    closed,
    is_held,
    request,
    shake_hands_late,
)
from testkit.processes.certificates import Authority

LARGE = bytes(300_000)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def mode() -> str:
    return PERMISSIVE


@pytest.fixture
async def living_place(few_late_clients: None, authority: Authority, mode: str) -> AsyncIterator[Place]:
    """A port of a broker in TLS."""
    made = Place(tls=MemberTls(authority.member("broker"), mode))
    running = asyncio.create_task(made.hold.run())
    await made.start_broker()
    yield made
    await made.stop(running)


@pytest.fixture
def place(living_place: Place) -> Place:
    """That port, whose clients are held."""
    living_place.kill_broker()
    return living_place


@pytest.fixture(params=["in TLS", "in plain TCP"])
async def successor(request: pytest.FixtureRequest, authority: Authority) -> AsyncIterator[Successor]:
    made = Successor(authority.sign("successor").server() if request.param == "in TLS" else None)
    await made.start()
    yield made
    made.stop()


async def test_sends_of_a_client_in_tls_are_carried_to_a_successor_in_tls_or_not(
    place: Place, authority: Authority, successor: Successor
) -> None:
    sends = [request(V5_5_0, number, body=LARGE) for number in range(4)]
    client = await place.client(*sends, tls=authority.client())
    plain = await place.client(request(V5_5_0, 9, body=b"plain"))
    assert await is_held(client)
    place.successor = successor
    found = await answers(client, 4)
    assert sorted((answer.opaque, answer.code) for answer in found) == [
        (number, ResponseCode.SUCCESS) for number in range(4)
    ]
    assert [answer.code for answer in await answers(plain, 1)] == [ResponseCode.SUCCESS]
    assert sorted(map(len, successor.stored)) == [5, *[len(LARGE)] * 4]


@pytest.mark.parametrize("successor", ["in TLS"], indirect=True)
async def test_a_slow_handshake_with_the_successor_keeps_nobody_waiting_and_its_sends_are_carried(
    place: Place, authority: Authority, successor: Successor
) -> None:
    client = await place.client(request(V5_5_0, 1), tls=authority.client())
    assert await is_held(client)
    successor.silences_s = [0.6]
    place.successor = successor
    begun_s = time.monotonic()
    await closed(await place.client(request(V5_5_0, code=RequestCode.CONTROLLER_GET_METADATA_INFO)))
    served_s = time.monotonic() - begun_s
    (answer,) = await answers(client, 1)
    assert answer.code == ResponseCode.SUCCESS
    assert served_s < 0.3 < time.monotonic() - begun_s
    assert len(successor.stored) == 1


@pytest.mark.parametrize("successor", ["in TLS"], indirect=True)
async def test_a_handshake_with_the_successor_that_never_ends_is_begun_anew(
    place: Place, authority: Authority, successor: Successor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relaying, "HANDSHAKE_WITHIN_S", 0.2)
    client = await place.client(request(V5_5_0, 1), tls=authority.client())
    assert await is_held(client)
    successor.silences_s = [60.0]
    place.successor = successor
    (answer,) = await answers(client, 1)
    assert answer.code == ResponseCode.SUCCESS


async def test_a_successor_whose_handshake_is_slow_is_found_at_the_address(authority: Authority) -> None:
    async def answer_late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await shake_hands_late(
            writer, authority.sign("successor").server(), 2 * served_elsewhere.ANSWER_WITHIN_S
        )
        (asked,) = FrameDecoder().feed(await reader.read(1 << 16))
        copies = (HAConnectionRuntimeInfo("a:1", in_sync=True),)
        status = HARuntimeInfo(ha_connection_info=copies, master=True)
        writer.write(encode(RemotingCommand.response_to(asked, ResponseCode.SUCCESS, body=status.encode())))

    async def controllers() -> GroupFacts | None:
        return replace(BEFORE, master_epoch=4, members=(2, 3), master_direct="s:2")

    dial_in_tls(ClientTls(authority.client()))
    try:
        async with await asyncio.start_server(answer_late, "127.0.0.1") as server:
            host, port = server.sockets[0].getsockname()
            before = replace(BEFORE, master_address=f"{host}:{port}")
            elsewhere = served_elsewhere.ServedElsewhere(controllers)
            assert await elsewhere.look(before, lambda _: None) is served_elsewhere.ServedClients.ALL
    finally:
        dial_in_tls(None)


async def test_a_client_in_tls_is_sent_away_in_the_end(place: Place, authority: Authority) -> None:
    client = await place.client(request(V5_5_0, 1, code=RequestCode.HEART_BEAT), tls=authority.client())
    assert await is_held(client)
    place.is_settled = True
    (answer,) = await answers(client, 1)
    assert (answer.opaque, answer.code) == (1, ResponseCode.GO_AWAY)


async def test_clients_get_the_certificate_of_now(living_place: Place, authority: Authority) -> None:
    authority.member("broker", ["another.host"])
    living_place.kill_broker()
    with pytest.raises(ssl.SSLCertVerificationError, match=r"not valid for"):
        await asyncio.open_connection("127.0.0.1", living_place.hold_port, ssl=authority.client())


async def test_a_handshake_that_never_ends_costs_its_own_connection_only(
    place: Place, authority: Authority
) -> None:
    silent = await place.client(b"\x16\x03\x01\x02\x00")
    rubbish = await place.client(b"\x16\x03\x01\x00\x05hello")
    async with asyncio.timeout(WITHIN_S):
        await rubbish.read()  # an alert, and the end
    assert await is_held(silent)
    place.is_settled = True
    (answer,) = await answers(await place.client(request(V5_5_0, 1), tls=authority.client()), 1)
    assert answer.code == ResponseCode.GO_AWAY


@pytest.mark.parametrize("mode", [ENFORCING])
async def test_enforcing_refuses_clients_in_plain_tcp(place: Place, authority: Authority) -> None:
    await closed(await place.client(request(V5_5_0)))
    assert await is_held(await place.client(request(V5_5_0), tls=authority.client()))


@pytest.mark.parametrize("mode", [ENFORCING])
@pytest.mark.parametrize("successor", ["in plain TCP"], indirect=True)
async def test_enforcing_carries_nothing_in_plain_tcp(
    place: Place, authority: Authority, successor: Successor
) -> None:
    client = await place.client(request(V5_5_0), tls=authority.client())
    place.successor = successor
    assert await is_held(client)
    assert successor.stored == []
