"""The sends of held clients: carried to the successor, once stored, answered to whom they belong."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from ha_sidecar.roles import holding, relaying
from ha_sidecar.roles.relaying import NOT_ENOUGH_COPIES
from testkit.held import V5_2_0, V5_5_0, WITHIN_S, Place, Successor, answers, closed, is_held, request


@pytest.fixture
async def successor(place: Place) -> AsyncIterator[Successor]:
    """A successor that the controllers name, while the address that clients come to leads nowhere yet."""
    made = Successor()
    await made.start()
    await place.start_broker()
    place.kill_broker()
    yield made
    made.stop()


def outcomes(found: list[RemotingCommand]) -> list[tuple[int, int]]:
    """Return opaque and code of each answer."""
    return [(answer.opaque, answer.code) for answer in found]


async def test_sends_are_carried_to_the_successor_before_the_address_leads_there(
    place: Place, successor: Successor
) -> None:
    one = await place.client(request(V5_5_0, 7, body=b"one"), request(V5_5_0, 8, body=b"two"))
    other = await place.client(request(V5_2_0, 7, body=b"three"))
    assert await is_held(one)
    place.successor = successor
    assert sorted(outcomes(await answers(one, 2))) == [(7, ResponseCode.SUCCESS), (8, ResponseCode.SUCCESS)]
    (answer,) = await answers(other, 1)
    assert answer.ext == {"msgId": "1"}
    assert sorted(successor.stored) == [b"one", b"three", b"two"]


async def test_a_send_that_comes_while_others_are_carried_is_carried_too(
    place: Place, successor: Successor
) -> None:
    place.successor = successor
    assert outcomes(await answers(await place.client(request(V5_5_0, 1)), 1)) == [(1, ResponseCode.SUCCESS)]
    assert outcomes(await answers(await place.client(request(V5_5_0, 2)), 1)) == [(2, ResponseCode.SUCCESS)]


async def test_what_is_not_a_send_is_sent_away_in_the_end(place: Place, successor: Successor) -> None:
    place.successor = successor
    client = await place.client(request(V5_5_0, 1, code=RequestCode.HEART_BEAT), request(V5_5_0, 2))
    assert outcomes(await answers(client, 1)) == [(2, ResponseCode.SUCCESS)]
    place.is_settled = True
    assert outcomes(await answers(client, 1)) == [(1, ResponseCode.GO_AWAY)]
    assert successor.others == 0


@pytest.mark.parametrize(
    ("code", "remark"),
    [
        (ResponseCode.SYSTEM_BUSY, "[REJECTREQUEST]system busy"),
        (ResponseCode.SERVICE_NOT_AVAILABLE, "service not available now"),
        (ResponseCode.SYSTEM_ERROR, NOT_ENOUGH_COPIES),
    ],
)
async def test_a_send_that_the_successor_cannot_take_yet_is_asked_again_and_the_client_does_not_know(
    place: Place, successor: Successor, code: int, remark: str
) -> None:
    successor.refusals = [(code, remark)] * 3
    place.successor = successor
    client = await place.client(request(V5_5_0, 1))
    assert outcomes(await answers(client, 1)) == [(1, ResponseCode.SUCCESS)]
    assert (successor.refused, successor.stored) == (3, [b"hello"])


@pytest.mark.parametrize("code", [ResponseCode.SYSTEM_ERROR, ResponseCode.FLUSH_SLAVE_TIMEOUT])
async def test_any_other_answer_of_the_successor_is_the_client_s(
    place: Place, successor: Successor, code: int
) -> None:
    successor.refusals = [(code, "as it is")]
    place.successor = successor
    (answer,) = await answers(await place.client(request(V5_5_0, 1)), 1)
    assert (answer.opaque, answer.code, answer.remark) == (1, code, "as it is")


async def test_an_older_client_is_disconnected_when_its_sends_are_answered(
    place: Place, successor: Successor
) -> None:
    successor.is_mute = True
    place.successor = successor
    client = await place.client(request(V5_2_0, 1))
    async with asyncio.timeout(WITHIN_S):
        await successor.came.wait()
    place.is_settled = True
    assert await is_held(client)
    successor.speak()
    assert outcomes(await answers(client)) == [(1, ResponseCode.SUCCESS)]


async def test_who_had_a_send_on_its_way_is_disconnected_when_the_successor_is_lost(
    place: Place, successor: Successor
) -> None:
    successor.is_mute = True
    place.successor = successor
    client = await place.client(request(V5_5_0, 1))
    idle = await place.client(request(V5_5_0, 2, code=RequestCode.HEART_BEAT))
    async with asyncio.timeout(WITHIN_S):
        await successor.came.wait()
    successor.stop()
    await closed(client)
    assert await is_held(idle)


async def test_a_refused_send_of_a_client_that_has_gone_is_not_asked_again(
    place: Place, successor: Successor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relaying, "AGAIN_S", 0.2)
    successor.refusals = [(ResponseCode.SYSTEM_BUSY, "")]
    place.successor = successor
    await place.client(request(V5_5_0, 1, body=b"gone"))
    async with asyncio.timeout(WITHIN_S):
        await successor.came.wait()
    place.leave()
    assert outcomes(await answers(await place.client(request(V5_5_0, 2)), 1)) == [(2, ResponseCode.SUCCESS)]
    await asyncio.sleep(2 * relaying.AGAIN_S)
    assert successor.stored == [b"hello"]


async def test_who_comes_after_the_address_has_moved_is_served_too_until_each_node_knows(
    place: Place, successor: Successor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holding, "LATE_S", 30.0)
    place.successor, place.is_settled = successor, True
    client = await place.client(request(V5_5_0, 1), request(V5_5_0, 2, code=RequestCode.HEART_BEAT))
    assert sorted(outcomes(await answers(client, 2))) == [
        (1, ResponseCode.SUCCESS),
        (2, ResponseCode.GO_AWAY),
    ]
    later = await place.client(request(V5_5_0, 3))
    assert outcomes(await answers(later, 1)) == [(3, ResponseCode.SUCCESS)]
    monkeypatch.setattr(holding, "LATE_S", 0.0)
