"""The socket of a link in TLS: no byte is lost between its two threads, in any pieces and any buffers."""

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller_core.tls.dialling import trusting
from controller_core.tls.serving import member_certificates
from controller_core.tls.streams import TlsStream
from ha_sidecar.common import ha_socket
from ha_sidecar.common.ha_socket import TlsHaSocket
from testkit.processes.certificates import Authority

WAIT_S = 30.0
ACK = b"acknowledged"


@pytest.fixture(scope="module", autouse=True)
def patient() -> Iterator[None]:
    """Wait longer than a busy machine pauses."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ha_socket, "TICK_S", WAIT_S)
        yield


@pytest.fixture(scope="module")
def member(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Authority(tmp_path_factory.mktemp("certificates")).member("member")


@contextlib.contextmanager
def pair(member: Path) -> Iterator[tuple[TlsHaSocket, TlsHaSocket]]:
    """Give both ends of a connection in TLS, its handshake done."""
    here, there = socket.socketpair()
    client = TlsStream(
        here,
        trusting("tls", member / "ca.crt", check_hostname=True).context,
        server_side=False,
        name="localhost",
    )
    server = TlsStream(there, member_certificates(member).context, server_side=True)
    while not all([client.shake_hands(), server.shake_hands()]):
        pass
    ends = TlsHaSocket(client), TlsHaSocket(server)
    try:
        yield ends
    finally:
        for end in ends:
            end.close()


def received(end: TlsHaSocket, length: int, buffer_bytes: int) -> bytes:
    """Return so many bytes, by reads into a buffer of that length."""
    found, buffer = bytearray(), memoryview(bytearray(buffer_bytes))
    until_s = time.monotonic() + WAIT_S
    while len(found) < length:
        assert time.monotonic() < until_s, f"{len(found)} of {length} bytes"
        with contextlib.suppress(TimeoutError):
            taken = end.receive_into(buffer)
            assert taken, "the end came early"
            found += buffer[:taken]
    return bytes(found)


@settings(max_examples=25, deadline=None)
@given(
    pieces=st.lists(st.binary(min_size=1, max_size=40_000), min_size=1, max_size=6),
    buffer_bytes=st.sampled_from([1_000, 16_384, 16_385, 1 << 20]),
)
def test_pieces_of_any_length_come_whole_into_buffers_of_any_length(
    member: Path, pieces: list[bytes], buffer_bytes: int
) -> None:
    with pair(member) as (client, server):
        sender = threading.Thread(target=lambda: [server.send_all(piece) for piece in pieces])
        sender.start()
        whole = b"".join(pieces)
        assert received(client, len(whole), buffer_bytes) == whole
        sender.join(WAIT_S)
        server.shut_down()
        assert client.receive_into(memoryview(bytearray(10))) == 0


def test_a_thread_acknowledges_while_another_receives(member: Path) -> None:
    log = bytes(range(256)) * 16_384
    acks = 400
    with pair(member) as (client, server):
        threads = [
            threading.Thread(target=lambda: [client.send_all(ACK) for _ in range(acks)]),
            threading.Thread(
                target=lambda: [server.send_all(log[at : at + 8_192]) for at in range(0, len(log), 8_192)]
            ),
        ]
        taken: list[bytes] = []
        threads.append(
            threading.Thread(target=lambda: taken.append(received(server, acks * len(ACK), 1_000)))
        )
        for thread in threads:
            thread.start()
        assert received(client, len(log), 1 << 20) == log
        for thread in threads:
            thread.join(WAIT_S)
        assert taken == [ACK * acks]


def test_an_end_that_does_not_read_is_given_up_after_a_tick(
    member: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ha_socket, "TICK_S", 0.01)
    with pair(member) as (client, _), pytest.raises(TimeoutError, match="does not read"):
        client.send_all(bytes(16 << 20))


def test_damage_on_the_way_is_an_error_of_the_connection(member: Path) -> None:
    here, there = socket.socketpair()
    with there:
        context = trusting("tls", member / "ca.crt").context
        stream = TlsStream(here, context, server_side=False)
        there.sendall(b"\x15\x03\x03\x00\x02\x02\x28")  # a fatal alert
        with pytest.raises(ssl.SSLError):
            TlsHaSocket(stream).receive_into(memoryview(bytearray(10)))
    here.close()
