"""The broker learns of guests' consumers while it does not know them, and of no client twice for long."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from controller_core.channel.asking import Asker
from controller_core.channel.connection import Connection
from controller_core.channel.endpoints import Server, serve
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from ha_sidecar import limits
from ha_sidecar.companion.guests.heartbeat_filter import Consumers
from ha_sidecar.companion.guests.introductions import Introductions

WITHIN_S = 5.0
CLIENT, GROUP = "10.0.0.1@1", "c"


class ListingBroker:
    """Answers request 38, and does what guests insert: it names a client once more, or once less."""

    def __init__(self) -> None:
        self.named: list[str] = []
        self.refusal: int = ResponseCode.SYSTEM_ERROR
        self.asked = 0
        self._server: Server | None = None

    async def start(self) -> "ListingBroker":
        """Listen."""
        self._server = await serve("127.0.0.1", 0, self._adopt)
        return self

    def asker(self) -> Asker:
        """Return a way to ask."""
        assert self._server is not None
        return Asker(("127.0.0.1", self._server.port))

    async def stop(self) -> None:
        """End the port."""
        assert self._server is not None
        await self._server.close()

    def _adopt(self, connection: Connection) -> None:
        connection.on_request = self._answer

    def _answer(self, _connection: Connection, request: RemotingCommand) -> RemotingCommand:
        assert (request.code, request.ext) == (38, {"consumerGroup": GROUP})
        self.asked += 1
        if not self.named:
            return RemotingCommand.response_to(request, self.refusal, remark="no consumer for this group")
        body = json.dumps({"consumerIdList": self.named}).encode()
        return RemotingCommand.response_to(request, ResponseCode.SUCCESS, body=body)


class IntroducedGuest:
    """A guest's connection to that broker."""

    def __init__(self, broker: ListingBroker) -> None:
        self.is_between_requests = True
        self.inserted: list[RemotingCommand] = []
        self._broker = broker

    def insert(self, request: RemotingCommand) -> bool:
        """Take a request if it may be inserted, and do it."""
        if not self.is_between_requests:
            return False
        assert request.is_oneway
        self.inserted.append(request)
        if request.code == RequestCode.UNREGISTER_CLIENT:
            assert request.ext == {"clientID": CLIENT, "consumerGroup": GROUP}
            self._broker.named.remove(CLIENT)
        elif len(self.codes) == 1:
            self._broker.named.append(CLIENT)
        return True

    @property
    def codes(self) -> list[int]:
        """Return the codes of the inserted requests."""
        return [request.code for request in self.inserted]


@pytest.fixture
async def broker() -> AsyncIterator[ListingBroker]:
    made = await ListingBroker().start()
    yield made
    await made.stop()


@pytest.fixture
async def introductions(broker: ListingBroker) -> AsyncIterator[Introductions]:
    made = Introductions(broker.asker, None)
    yield made
    made.close()


def heartbeat(body: bytes = b"{}") -> Consumers:
    """Return the consumers of a heartbeat."""
    return Consumers(CLIENT, (GROUP,), RemotingCommand.request(RequestCode.HEART_BEAT, {}, body))


async def asked_again(broker: ListingBroker, times: int = 2) -> None:
    """Wait until the broker has answered some more questions."""
    until = broker.asked + times
    async with asyncio.timeout(WITHIN_S):
        while broker.asked < until:  # noqa: ASYNC110 - a counter
            await asyncio.sleep(0.01)


async def test_a_client_that_the_broker_does_not_name_is_introduced_by_its_own_heartbeat(
    broker: ListingBroker, introductions: Introductions
) -> None:
    guest = IntroducedGuest(broker)
    introductions.came(guest, heartbeat(b"as it came"))
    await asked_again(broker)
    assert [(one.code, one.body) for one in guest.inserted] == [(34, b"as it came")]


async def test_a_client_that_the_broker_names_is_left_alone_and_no_more_is_asked(
    broker: ListingBroker, introductions: Introductions
) -> None:
    guest = IntroducedGuest(broker)
    broker.named = [CLIENT]
    introductions.came(guest, heartbeat())
    await asked_again(broker, 1)
    await asyncio.sleep(0.3)  # two more looks would be over
    assert (guest.inserted, broker.asked) == ([], 1)


async def test_the_guest_is_taken_back_as_soon_as_the_client_has_its_own_connection(
    broker: ListingBroker, introductions: Introductions
) -> None:
    guest = IntroducedGuest(broker)
    introductions.came(guest, heartbeat())
    await asked_again(broker)
    broker.named.append(CLIENT)
    async with asyncio.timeout(WITHIN_S):
        while broker.named != [CLIENT]:  # noqa: ASYNC110 - a list
            await asyncio.sleep(0.01)
    assert guest.codes == [34, 35]


async def test_of_two_guests_of_one_client_one_stays(
    broker: ListingBroker, introductions: Introductions
) -> None:
    guests = [IntroducedGuest(broker), IntroducedGuest(broker)]
    for guest in guests:
        introductions.came(guest, heartbeat())
    async with asyncio.timeout(WITHIN_S):
        while sum(len(guest.inserted) for guest in guests) < 3:  # noqa: ASYNC110 - lists
            await asyncio.sleep(0.01)
    await asked_again(broker)
    assert broker.named == [CLIENT]


async def test_further_heartbeats_of_an_introduced_guest_renew_its_subscriptions_at_once(
    broker: ListingBroker, introductions: Introductions
) -> None:
    guest = IntroducedGuest(broker)
    introductions.came(guest, heartbeat(b"first"))
    await asked_again(broker)
    introductions.came(guest, heartbeat(b"second"))
    assert [one.body for one in guest.inserted] == [b"first", b"second"]


async def test_a_heartbeat_waits_for_the_end_of_a_request_that_is_under_way(
    broker: ListingBroker, introductions: Introductions
) -> None:
    guest = IntroducedGuest(broker)
    guest.is_between_requests = False
    introductions.came(guest, heartbeat())
    await asked_again(broker)
    assert guest.inserted == []
    guest.is_between_requests = True
    await asked_again(broker)
    assert guest.codes == [34]


async def test_a_broker_that_refuses_the_question_is_told_nothing(
    broker: ListingBroker, introductions: Introductions
) -> None:
    broker.refusal = ResponseCode.NO_PERMISSION
    guest = IntroducedGuest(broker)
    introductions.came(guest, heartbeat())
    await asked_again(broker, 1)
    await asyncio.sleep(0.3)  # two more looks would be over
    assert (guest.inserted, broker.asked) == ([], 1)


async def test_a_guest_that_has_gone_is_forgotten(
    broker: ListingBroker, introductions: Introductions
) -> None:
    guest = IntroducedGuest(broker)
    introductions.came(guest, heartbeat())
    introductions.left(guest)
    await asyncio.sleep(0.2)
    assert guest.inserted == []


async def test_heartbeats_beyond_the_bound_are_not_kept(
    broker: ListingBroker, introductions: Introductions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "GUEST_INTRODUCTIONS_BYTES_MAX", 1_000)
    small, large = IntroducedGuest(broker), IntroducedGuest(broker)
    introductions.came(small, heartbeat())
    introductions.came(large, heartbeat(b"x" * 1_000))
    await asked_again(broker)
    assert (small.codes, large.codes) == ([34], [])
