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
from ha_sidecar.companion.guests import introductions as introductions_module
from ha_sidecar.companion.guests.introductions import Introductions
from ha_sidecar.companion.guests.request_filter import Consumers

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

    def __init__(self, broker: ListingBroker, introductions: Introductions | None = None) -> None:
        self.is_between_requests = True
        self.inserted: list[RemotingCommand] = []
        self.known_when_handed_on: list[bool] = []
        self._introductions = introductions
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

    def hand_on(self) -> None:
        """Note whether the broker knows a consumer."""
        assert self._introductions is not None
        self.known_when_handed_on.append(bool(self._broker.named))
        self._introductions.waits_no_more(self)

    async def handed_on(self) -> None:
        """Wait until its pulls are sent."""
        async with asyncio.timeout(WITHIN_S):
            while not self.known_when_handed_on:  # noqa: ASYNC110 - a list
                await asyncio.sleep(0.01)

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


async def test_pulls_wait_until_the_broker_knows_a_consumer_of_their_group(
    broker: ListingBroker, introductions: Introductions
) -> None:
    guest = IntroducedGuest(broker, introductions)
    introductions.waits(guest, {GROUP})
    await asked_again(broker)
    assert guest.known_when_handed_on == []
    introductions.came(guest, heartbeat())
    await guest.handed_on()
    assert guest.known_when_handed_on == [True]


async def test_pulls_of_a_known_group_wait_for_one_answer_only(
    broker: ListingBroker, introductions: Introductions
) -> None:
    guest = IntroducedGuest(broker, introductions)
    broker.named = ["another client"]
    introductions.waits(guest, {GROUP})
    await guest.handed_on()
    assert (guest.known_when_handed_on, broker.asked) == ([True], 1)


async def test_pulls_do_not_wait_for_a_broker_that_refuses_the_question(
    broker: ListingBroker, introductions: Introductions
) -> None:
    guest = IntroducedGuest(broker, introductions)
    broker.refusal = ResponseCode.NO_PERMISSION
    introductions.waits(guest, {GROUP})
    await guest.handed_on()
    assert (guest.known_when_handed_on, broker.asked) == ([False], 1)


async def test_pulls_that_come_between_two_looks_do_not_wait_for_the_next(
    broker: ListingBroker, introductions: Introductions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(introductions_module, "LOOK_S", 10 * WITHIN_S)
    introductions.came(IntroducedGuest(broker), heartbeat())
    await asked_again(broker, 1)
    await asyncio.sleep(0.1)  # the next look is far away
    guest = IntroducedGuest(broker, introductions)
    introductions.waits(guest, {GROUP})
    await guest.handed_on()


async def test_a_guest_that_sent_its_pulls_or_has_gone_is_asked_for_no_more(
    broker: ListingBroker, introductions: Introductions
) -> None:
    guests = [IntroducedGuest(broker, introductions), IntroducedGuest(broker, introductions)]
    for guest in guests:
        introductions.waits(guest, {GROUP})
    await asked_again(broker)
    introductions.waits_no_more(guests[0])
    introductions.left(guests[1])
    await asyncio.sleep(0.05)  # a question may be under way
    asked = broker.asked
    await asyncio.sleep(0.1)  # more would have come
    assert broker.asked == asked


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


async def test_a_further_heartbeat_that_comes_during_a_request_renews_them_after_it(
    broker: ListingBroker, introductions: Introductions
) -> None:
    guest = IntroducedGuest(broker)
    introductions.came(guest, heartbeat(b"first"))
    await asked_again(broker)
    guest.is_between_requests = False
    introductions.came(guest, heartbeat(b"second"))
    await asked_again(broker)
    guest.is_between_requests = True
    await asked_again(broker)
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
