"""Held clients that send more, or stranger, than clients do: each ends alone, and memory stays bounded."""

import contextlib
import socket
import struct
import time
from collections.abc import Callable, Iterator

import pytest

from controller_core.remoting.codes import RequestCode
from controller_core.remoting.command import FLAG_ONEWAY, RemotingCommand
from controller_core.remoting.frame import encode
from ha_sidecar import limits
from ha_sidecar.companion.holding.held_clients import HeldClients

WITHIN_S = 20.0


class HeldClientsOfPort:
    """HeldClientsOfPort clients of one port, and sockets that dial it."""

    def __init__(self) -> None:
        self.port = socket.create_server(("127.0.0.1", 0))
        self.port.setblocking(False)
        self.woken, self._waker = socket.socketpair()
        self.clients = HeldClients([self.port], self.woken)

    def dial(self) -> socket.socket:
        """Connect as a client."""
        return socket.create_connection(self.port.getsockname())

    def serve_until(self, condition: Callable[[], bool]) -> None:
        """Serve until a condition holds."""
        deadline_s = time.monotonic() + WITHIN_S
        while not condition():
            assert time.monotonic() < deadline_s
            self.clients.serve(time.monotonic() + 0.01)

    def close(self) -> None:
        """End all connections."""
        self.clients.close()
        for each in (self.port, self.woken, self._waker):
            each.close()


@pytest.fixture
def held() -> Iterator[HeldClientsOfPort]:
    made = HeldClientsOfPort()
    with contextlib.closing(made):
        yield made


def send(flag: int = 0, body: bytes = b"") -> bytes:
    return encode(RemotingCommand(RequestCode.SEND_MESSAGE_V2, 7, flag, body=body, version=475))


def test_empty_one_way_sends_count_the_memory_that_they_take(held: HeldClientsOfPort) -> None:
    with held.dial() as stranger:
        stranger.sendall(send(FLAG_ONEWAY) * 2_000)
        held.serve_until(lambda: held.clients.oneways == 2_000)
    assert held.clients._all_bytes >= 2_000 * 256


@pytest.mark.parametrize("header_bytes", [limits.HELD_HEADER_BYTES_MAX + 1, 15 << 20])
def test_a_send_with_a_header_that_no_client_writes_ends_its_connection(
    held: HeldClientsOfPort, header_bytes: int
) -> None:
    with held.dial() as stranger, held.dial() as client:
        client.sendall(send(body=bytes(200_000)))
        stranger.sendall(struct.pack(">II", header_bytes + 4, header_bytes) + b'{"code":310')
        held.serve_until(lambda: held.clients.taken == 2 and len(held.clients._connections) == 1)
        assert held.clients._held_bytes >= 1


def test_silent_clients_give_way_and_one_with_a_send_stays(
    held: HeldClientsOfPort, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "HELD_CLIENTS_MAX", 3)
    with contextlib.ExitStack() as dialled:
        waiting = dialled.enter_context(held.dial())
        waiting.sendall(send(body=b"x"))
        held.serve_until(lambda: bool(held.clients._held_bytes))
        for number in range(20):
            dialled.enter_context(held.dial())
            held.serve_until(lambda number=number: held.clients.taken == number + 2)
        assert len(held.clients._connections) == 3
        assert held.clients._held_bytes
