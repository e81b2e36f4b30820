"""One guest between two transports: its bytes reach the broker in order, and its first pulls later."""

import asyncio
from typing import cast

import pytest

from controller_core.channel.asking import Asker
from controller_core.remoting.codes import RequestCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.frame import encode
from ha_sidecar import limits
from ha_sidecar.companion.guests import guest
from ha_sidecar.companion.guests.admission import Admission
from ha_sidecar.companion.guests.guest import GuestRoom, GuestSide
from ha_sidecar.companion.guests.introductions import Introductions
from testkit.processes.ports import free_port

WITHIN_S = 20.0


def _frame(body: bytes) -> bytes:
    return encode(RemotingCommand.request(RequestCode.SEND_MESSAGE_V2, {}, body))


def _pull() -> bytes:
    return encode(RemotingCommand.request(RequestCode.PULL_MESSAGE, {"consumerGroup": "g", "sysFlag": "2"}))


async def test_what_a_guest_sends_before_the_broker_is_connected_reaches_it() -> None:
    """Whether or not asyncio reads on after a pause in `connection_made`, which depends on its release."""
    made = GuestBetweenTransports()
    for part in (_frame(b"one"), _frame(b"two")):
        made.send(part)
    paused = made.client.is_paused
    assert paused
    made.guest.broker.connection_made(made.broker)
    assert made.broker.written == _frame(b"one") + _frame(b"two")
    assert not made.client.is_paused
    made.guest.client.connection_lost(None)
    assert not made.room.guests


@pytest.mark.parametrize("is_early", [True, False])
async def test_pulls_of_a_new_guest_wait_and_its_other_requests_do_not(is_early: bool) -> None:
    made = GuestBetweenTransports()
    stream = _pull() + _frame(b"one")
    if is_early:
        made.send(stream)
    made.guest.broker.connection_made(made.broker)
    if not is_early:
        made.send(stream)
    assert made.broker.written == _frame(b"one")
    made.guest.hand_on()
    assert made.broker.written == _frame(b"one") + _pull()
    made.send(_pull())
    assert made.broker.written == _frame(b"one") + _pull() * 2
    made.leave()


async def test_pulls_that_waited_follow_the_request_that_is_under_way() -> None:
    made = GuestBetweenTransports()
    made.guest.broker.connection_made(made.broker)
    send = _frame(bytes(1_000))
    made.send(_pull() + send[:500])
    made.guest.hand_on()
    assert made.broker.written == send[:500]
    made.send(send[500:])
    assert made.broker.written == send + _pull()
    made.leave()


async def test_pulls_wait_for_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest, "PULLS_WAIT_S", 0.01)
    made = GuestBetweenTransports()
    made.guest.broker.connection_made(made.broker)
    made.send(_pull())
    async with asyncio.timeout(WITHIN_S):
        while made.broker.written != _pull():  # noqa: ASYNC110 - bytes
            await asyncio.sleep(0.01)
    made.leave()


async def test_pulls_beyond_the_bound_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GUEST_PULLS_BYTES_MAX", len(_pull()))
    made = GuestBetweenTransports()
    made.guest.broker.connection_made(made.broker)
    made.send(_pull())
    assert made.broker.written == b""
    made.send(_pull())
    assert made.broker.written == _pull() * 2
    assert made.room.may_keep_pulls(len(_pull()))
    made.leave()


class GuestBetweenTransports:
    """A guest whose client is connected, and the transport of its way to the broker."""

    def __init__(self) -> None:
        address = ("127.0.0.1", free_port())
        introductions = Introductions(lambda: Asker(address), None)
        self.room = GuestRoom(address, None, Admission(lambda: Asker(address), lambda: None), introductions)
        place = self.room.places.take("10.0.0.1")
        assert place is not None
        self._side = cast("GuestSide", self.room.enter(place))
        self.client, self.broker = RecordingTransport(), RecordingTransport()
        self._side.connection_made(self.client)
        (self.guest,) = self.room.guests

    def leave(self) -> None:
        """End it, and ask no more."""
        self.guest.end()
        self.guest.client.connection_lost(None)
        self.room.introductions.close()

    def send(self, data: bytes) -> None:
        """Have the client's bytes come."""
        self._side.get_buffer(-1)[: len(data)] = data
        self._side.buffer_updated(len(data))


class RecordingTransport(asyncio.Transport):
    """Keeps what is written, and whether reading is paused."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_paused = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Take any."""

    def write(self, data: bytes) -> None:  # type: ignore[override]  # bytes only
        """Keep."""
        self.written += data

    def pause_reading(self) -> None:
        """Note it."""
        self.is_paused = True

    def resume_reading(self) -> None:
        """Note it."""
        self.is_paused = False

    def is_closing(self) -> bool:
        """Never."""
        return False

    def close(self) -> None:
        """Nothing is open."""

    def abort(self) -> None:
        """Nothing is open."""
