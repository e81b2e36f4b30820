"""The sends of held clients: carried to the successor, once stored, answered to whom they belong."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from msgspec import structs

from controller_core.remoting import frame
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import FLAG_ONEWAY, RemotingCommand
from controller_core.remoting.frame import FrameDecoder
from ha_sidecar import limits
from ha_sidecar.companion.holding import client_hold, held_client, relaying
from ha_sidecar.companion.holding.relaying import REFUSED_UNWRITTEN
from testkit.fakes.held_broker import (
    V5_2_0,
    V5_5_0,
    WITHIN_S,
    Place,
    Successor,
    answers,
    closed,
    is_held,
    request,
)


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
        *((ResponseCode.SYSTEM_ERROR, refusal) for refusal in REFUSED_UNWRITTEN),
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
    monkeypatch.setattr(relaying, "AGAIN_S", 0.6)  # long enough for a busy machine
    successor.refusals = [(ResponseCode.SYSTEM_BUSY, "")]
    place.successor = successor
    await place.client(request(V5_5_0, 1, body=b"gone"))
    async with asyncio.timeout(WITHIN_S):
        await successor.came.wait()
    place.leave()
    assert outcomes(await answers(await place.client(request(V5_5_0, 2)), 1)) == [(2, ResponseCode.SUCCESS)]
    await asyncio.sleep(1.5 * relaying.AGAIN_S)
    assert successor.stored == [b"hello"]


async def test_who_comes_after_the_address_has_moved_is_served_too_until_each_node_knows(
    place: Place, successor: Successor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_hold, "LATE_S", 30.0)
    place.successor, place.is_settled = successor, True
    client = await place.client(request(V5_5_0, 1), request(V5_5_0, 2, code=RequestCode.HEART_BEAT))
    assert sorted(outcomes(await answers(client, 2))) == [
        (1, ResponseCode.SUCCESS),
        (2, ResponseCode.GO_AWAY),
    ]
    later = await place.client(request(V5_5_0, 3))
    assert outcomes(await answers(later, 1)) == [(3, ResponseCode.SUCCESS)]
    monkeypatch.setattr(client_hold, "LATE_S", 0.0)


# One-way sends.


async def stored(successor: Successor, count: int) -> list[bytes]:
    """Wait until the successor has stored so many messages; return their bodies, sorted."""
    async with asyncio.timeout(WITHIN_S):
        while len(successor.stored) < count:  # noqa: ASYNC110 - the successor sends no notification
            await asyncio.sleep(0.005)
    return sorted(successor.stored)


async def let_go(place: Place) -> tuple[int, int]:
    """Have the hold end; return how many one-way sends it counts, and how many of them as lost."""
    place.is_settled = True
    async with asyncio.timeout(WITHIN_S):
        while not place.hold.held:  # noqa: ASYNC110 - the count is made in a thread, without a bell
            await asyncio.sleep(0.005)
    return place.hold.oneways, place.hold.oneways_lost


async def test_a_one_way_send_is_carried_and_its_client_is_answered_nothing(
    place: Place, successor: Successor
) -> None:
    oneways = [request(V5_2_0, opaque, FLAG_ONEWAY, body=b"%d" % opaque) for opaque in (1, 2)]
    client = await place.client(*oneways)
    assert await is_held(client)
    place.successor = successor
    later = await place.client(request(V5_5_0, 3, FLAG_ONEWAY, body=b"3"), request(V5_5_0, 4, body=b"4"))
    assert outcomes(await answers(later, 1)) == [(4, ResponseCode.SUCCESS)]
    assert await stored(successor, 4) == [b"1", b"2", b"3", b"4"]
    assert await is_held(client)
    assert await let_go(place) == (3, 0)


async def test_a_one_way_send_that_the_successor_cannot_take_yet_is_asked_again(
    place: Place, successor: Successor
) -> None:
    successor.refusals = [(ResponseCode.SYSTEM_BUSY, "[REJECTREQUEST]system busy")] * 2
    place.successor = successor
    await place.client(request(V5_5_0, 1, FLAG_ONEWAY))
    assert await stored(successor, 1) == [b"hello"]
    assert successor.refused == 2


def end_of_transaction(opaque: int, how: str) -> bytes:
    """Return what a client says one-way of a transaction, with its number as the body."""
    ext = {"commitOrRollback": how, "commitLogOffset": "100"}
    body = b"%d" % opaque
    return request(V5_5_0, opaque, FLAG_ONEWAY, RequestCode.END_TRANSACTION, body, ext)


async def test_the_end_of_a_transaction_is_carried_and_an_unknown_one_is_not(
    place: Place, successor: Successor
) -> None:
    ends = [end_of_transaction(opaque, how) for opaque, how in enumerate(("8", "0", "12"), 1)]
    client = await place.client(*ends)
    assert await is_held(client)
    # So says a broker that is not master yet.
    successor.refusals = [(ResponseCode.SLAVE_NOT_AVAILABLE, "")] * 3
    place.successor = successor
    assert sorted(await stored(successor, 2)) == [b"1", b"3"]
    assert successor.refused == 3
    assert await let_go(place) == (2, 0)


async def test_a_one_way_send_is_carried_although_its_client_has_ended(
    place: Place, successor: Successor
) -> None:
    client = await place.client(request(V5_5_0, 1, FLAG_ONEWAY, body=b"last words"))
    assert await is_held(client)
    place.leave()
    await asyncio.sleep(0.05)
    place.successor = successor
    assert await stored(successor, 1) == [b"last words"]


@pytest.mark.parametrize("ends", ["nobody is elected", "the successor is lost", "no room"])
async def test_a_one_way_send_that_no_successor_answers_is_counted_as_lost(
    place: Place, successor: Successor, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    if ends == "no room":
        monkeypatch.setattr(limits, "HELD_CLIENTS_BYTES_MAX", 4)
    if ends == "the successor is lost":
        successor.is_mute = True
        place.successor = successor
    client = await place.client(request(V5_5_0, 1, FLAG_ONEWAY))
    if ends == "the successor is lost":
        async with asyncio.timeout(WITHIN_S):
            await successor.came.wait()
        place.successor = None
        successor.stop()
    assert await is_held(client)
    assert await let_go(place) == (1, 1)
    assert successor.stored == []


# What a client sends ends at most that client.


@pytest.fixture
def frame_bytes_max(monkeypatch: pytest.MonkeyPatch) -> int:
    """Return a bound for frames that are written, which is small for the test's sake."""
    monkeypatch.setattr(frame, "FRAME_BYTES_MAX", 100_000)
    return frame.FRAME_BYTES_MAX


def growing(frame_bytes: int, flag: int = 0) -> bytes:
    """Return a send of that size, which grows once its header is written as Java writes it."""
    fields = ",".join(f'"k{number}":1e15' for number in range(1000))
    header = f'{{"code":310,"flag":{flag},"opaque":1,"version":{V5_5_0},"extFields":{{{fields}}}}}'.encode()
    body = bytes(frame_bytes - 8 - len(header))
    return (frame_bytes - 4).to_bytes(4) + len(header).to_bytes(4) + header + body


async def test_a_send_that_grows_over_the_bound_when_it_is_written_anew_is_refused_and_the_others_are_carried(
    place: Place, successor: Successor, frame_bytes_max: int
) -> None:
    grows = await place.client(growing(frame_bytes_max))
    other = await place.client(request(V5_5_0, 2, body=b"other"))
    assert await is_held(grows)
    place.successor = successor
    (refusal,) = await answers(grows, 1)
    assert (refusal.opaque, refusal.code) == (1, ResponseCode.MESSAGE_ILLEGAL)
    assert "longer than the bound" in (refusal.remark or "")
    assert outcomes(await answers(other, 1)) == [(2, ResponseCode.SUCCESS)]
    assert successor.stored == [b"other"]


async def test_a_one_way_send_that_grows_over_the_bound_is_counted_as_lost(
    place: Place, successor: Successor, frame_bytes_max: int
) -> None:
    place.successor = successor
    other = request(V5_5_0, 2, FLAG_ONEWAY, body=b"other")
    await place.client(growing(frame_bytes_max, FLAG_ONEWAY), other)
    assert await stored(successor, 1) == [b"other"]
    assert await let_go(place) == (2, 1)


async def test_an_answer_that_cannot_be_written_anew_ends_its_client_only(
    place: Place, successor: Successor, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.successor = successor
    told = held_client.encode

    def encode(command: RemotingCommand) -> bytes:
        return told(command if command.opaque != 1 else structs.replace(command, opaque=1 << 40))

    monkeypatch.setattr(held_client, "encode", encode)
    await closed(await place.client(request(V5_5_0, 1)))
    assert outcomes(await answers(await place.client(request(V5_5_0, 2)), 1)) == [(2, ResponseCode.SUCCESS)]


async def test_an_error_that_nobody_expects_ends_its_client_only(
    place: Place, successor: Successor, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = FrameDecoder.feed

    def feed(decoder: FrameDecoder, data: bytes) -> list[RemotingCommand]:
        if b"poison" in data:
            raise RecursionError("too deep")
        return take(decoder, data)

    monkeypatch.setattr(FrameDecoder, "feed", feed)
    place.successor = successor
    await closed(await place.client(b"poison"))
    assert outcomes(await answers(await place.client(request(V5_5_0, 2)), 1)) == [(2, ResponseCode.SUCCESS)]


async def test_sends_that_a_silent_successor_does_not_answer_count_for_what_may_be_held(
    place: Place, successor: Successor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "HELD_CLIENTS_BYTES_MAX", 2000)
    successor.is_mute = True
    place.successor = successor
    held = await place.client(request(V5_5_0, 1, body=bytes(1200)))
    async with asyncio.timeout(WITHIN_S):
        await successor.came.wait()
    await closed(await place.client(request(V5_5_0, 2, body=bytes(1200))))
    successor.speak()
    assert outcomes(await answers(held, 1)) == [(1, ResponseCode.SUCCESS)]
