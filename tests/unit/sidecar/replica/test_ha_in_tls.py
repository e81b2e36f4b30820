"""An HA port in TLS and plain TCP. A dialler takes nothing but TLS from an end that promised TLS."""

import asyncio
import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from controller_core.channel.places import PortPlace
from controller_core.remoting.headers import ExchangeHAInfoResponseHeader
from controller_core.remoting.numbers import LogOffset
from ha_sidecar import limits
from ha_sidecar.commitlog.store import ReplicaStore
from ha_sidecar.common import ha_socket
from ha_sidecar.common.ha_link import TLS_FAILED
from ha_sidecar.common.ha_socket import HaEnd, HaTls, told_end
from ha_sidecar.replica import slave_server, slave_streams
from ha_sidecar.replica.slave_streams import HaPortTls
from ha_sidecar.transfer import codec, master
from testkit.ha.by_hand import HandMaster, HandSlave, PeerClosedError
from testkit.ha.following import following
from testkit.ha.peers import OurMaster, OurSlave, tearing_relay, wait_until
from testkit.processes.certificates import Authority

FILE_BYTES = 1 << 20
HELLO_BYTES = 40
"""A part of a client's hello."""


@dataclass
class CertifiedPort:
    """A log that is served with certificates, and those who signed them."""

    authority: Authority
    member: Path
    master: OurMaster

    def trust(self, name: str = "127.0.0.1") -> HaTls:
        """Return what a dialler of the cluster expects."""
        return HaTls(self.member, name)


@contextlib.contextmanager
def served(directory: Path, *, plain_allowed: bool = True) -> Iterator[CertifiedPort]:
    authority = Authority(directory)
    member = authority.member("member")
    tls = HaPortTls(member, plain_allowed=plain_allowed)
    with OurMaster(directory / "master", FILE_BYTES, tls=tls) as master:
        master.fill(600, 4_000)
        yield CertifiedPort(authority, member, master)


@pytest.fixture
def port(tmp_path: Path) -> Iterator[CertifiedPort]:
    with served(tmp_path) as made:
        yield made


def log_of(store: ReplicaStore) -> bytes:
    paths = sorted(store.log.layout.directory.iterdir())
    return b"".join(path.read_bytes() for path in paths)[: store.log.max_offset]


def hello(context: ssl.SSLContext) -> bytes:
    """Return the first bytes of a client in TLS."""
    coming, going = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(coming, going, server_hostname="127.0.0.1")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return going.read()


@pytest.fixture
def first_bytes(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Collect the first bytes of each connection that the HA port gets."""
    found: list[bytes] = []
    begin = slave_server._Session._begin

    def noted(session: slave_server._Session) -> object:
        begun = begin(session)
        found.append(session._socket.recv(1, socket.MSG_PEEK))
        return begun

    monkeypatch.setattr(slave_server._Session, "_begin", noted)
    return found


def test_one_port_serves_slaves_in_tls_and_in_plain_tcp(
    port: CertifiedPort, tmp_path: Path, first_bytes: list[bytes]
) -> None:
    with OurSlave(tmp_path / "tls", FILE_BYTES) as one, OurSlave(tmp_path / "plain", FILE_BYTES) as other:
        one.follow(port.master.port, 2, port.trust())
        other.follow(port.master.port, 3)
        for slave in (one, other):
            slave.wait(port.master.max_offset)
        port.master.fill(50)
        for slave in (one, other):
            slave.wait(port.master.max_offset)
            assert log_of(slave.store) == log_of(port.master.store)
        port.master.wait_acked(port.master.max_offset)
    assert sorted(first_bytes) == [b"\x00", b"\x16"]


def test_a_port_in_tls_only_refuses_plain_tcp(tmp_path: Path) -> None:
    with served(tmp_path, plain_allowed=False) as port, OurSlave(tmp_path / "slave", FILE_BYTES) as slave:
        with HandSlave(port.master.port) as plain, pytest.raises(PeerClosedError):
            plain.shake_hands(codec.Handshake(3))
        slave.follow(port.master.port, tls=port.trust())
        slave.wait(port.master.max_offset)


def another_authority(port: CertifiedPort, tmp_path: Path) -> HaTls:
    return HaTls(Authority(tmp_path, "stranger").member("other"), "127.0.0.1")


def past_its_end(port: CertifiedPort, tmp_path: Path) -> HaTls:
    pair = port.authority.sign("ended", ended=True)
    (port.member / "tls.crt").write_bytes(pair.cert.read_bytes())
    (port.member / "tls.key").write_bytes(pair.key.read_bytes())
    return port.trust()


def another_name(port: CertifiedPort, tmp_path: Path) -> HaTls:
    return port.trust("g-log-0.g.ns.svc")


def no_authorities(port: CertifiedPort, tmp_path: Path) -> HaTls:
    return HaTls(tmp_path / "nowhere", "127.0.0.1")


@pytest.mark.parametrize(
    ("break_it", "problem"),
    [
        (another_authority, "unable to get local issuer certificate"),
        (past_its_end, "certificate has expired"),
        (another_name, "IP address mismatch|Hostname mismatch"),
        (no_authorities, "cannot be used"),
    ],
)
def test_a_certificate_that_does_not_fit_ends_the_link_without_a_byte_in_plain(
    port: CertifiedPort,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    first_bytes: list[bytes],
    break_it: Callable[[CertifiedPort, Path], HaTls],
    problem: str,
) -> None:
    monkeypatch.setattr(slave_streams, "CHECK_S", -1.0)
    with OurSlave(tmp_path / "slave", FILE_BYTES) as slave:
        tls = break_it(port, tmp_path)
        # What the port loaded at its start is looked at again for the next connection.
        port.master.server.tls._look_s = 0.0  # type: ignore[union-attr]  # it has TLS
        end = slave.follow(port.master.port, tls=tls).end()
        assert (end.reason, end.connected) == (TLS_FAILED, True)
        assert slave.store.log.is_empty
        assert any(part in end.detail for part in problem.split("|")), end.detail
    assert set(first_bytes) <= {b"\x16"}
    assert port.master.slave() is None


def test_renewed_certificates_are_used_without_a_restart(
    port: CertifiedPort, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slave_streams, "CHECK_S", 0.0)
    port.master.server.tls._look_s = 0.0  # type: ignore[union-attr]  # it has TLS
    new = Authority(tmp_path, "renewed")
    renewed = new.member("renewed-member")
    for file in ("tls.key", "tls.crt"):
        (port.member / file).write_bytes((renewed / file).read_bytes())
    with OurSlave(tmp_path / "slave", FILE_BYTES) as slave:
        assert slave.follow(port.master.port, tls=port.trust()).end().reason == TLS_FAILED
        # The dialler reads its authorities for each link: both are trusted in a change of the authority.
        trust = port.member / "ca.crt"
        trust.write_bytes(trust.read_bytes() + new.trust.read_bytes())
        slave.follow(port.master.port, tls=port.trust())
        slave.wait(port.master.max_offset)


def test_a_master_that_promised_tls_and_speaks_plain_learns_nothing(tmp_path: Path) -> None:
    trust = HaTls(Authority(tmp_path).member("member"), "127.0.0.1")
    with HandMaster(FILE_BYTES) as master, OurSlave(tmp_path / "slave", FILE_BYTES) as slave:
        notes = slave.follow(master.port, tls=trust)
        assert master.accept_bytes()[:1] == b"\x16"
        master.reply(100, (1, 0))
        assert notes.end().reason == TLS_FAILED
        assert slave.store.log.is_empty


def test_a_master_that_never_ends_its_handshake_costs_the_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ha_socket, "HANDSHAKE_S_MAX", 0.1)
    trust = HaTls(Authority(tmp_path).member("member"), "127.0.0.1")
    with HandMaster(FILE_BYTES) as master, OurSlave(tmp_path / "slave", FILE_BYTES) as slave:
        end = slave.follow(master.port, tls=trust).end()
        assert (end.reason, end.detail) == (TLS_FAILED, "127.0.0.1: the TLS handshake took too long")


def test_torn_bytes_are_put_together(port: CertifiedPort, tmp_path: Path) -> None:
    with (
        tearing_relay(port.master.port, (1, 2, 3, 5, 20_000, 7, 60_000)) as torn,
        OurSlave(tmp_path / "slave", FILE_BYTES) as slave,
    ):
        slave.follow(torn, tls=port.trust())
        slave.wait(port.master.max_offset)
        assert log_of(slave.store) == log_of(port.master.store)


@pytest.mark.parametrize("length", [0, 1, HELLO_BYTES])
def test_a_handshake_that_stops_ends_after_its_time(
    port: CertifiedPort, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    monkeypatch.setattr(master, "HANDSHAKE_TIMEOUT_MS", 200)
    with HandSlave(port.master.port) as stranger:
        stranger.send(hello(port.authority.client())[:length])
        assert stranger.wait_closed() == b""
    wait_until(lambda: not port.master.server._sessions, "end of the session")


def test_rubbish_after_the_first_byte_ends_its_own_session(port: CertifiedPort) -> None:
    with HandSlave(port.master.port) as stranger:
        stranger.send(b"\x16" + bytes(500))
        stranger.wait_closed()
    wait_until(lambda: not port.master.server._sessions, "end of the session")


def test_strangers_in_a_handshake_give_way_and_a_slave_in_tls_keeps_its_place(
    port: CertifiedPort, tmp_path: Path
) -> None:
    start = hello(port.authority.client())[:HELLO_BYTES]
    with OurSlave(tmp_path / "slave", FILE_BYTES) as slave, contextlib.ExitStack() as stack:
        notes = slave.follow(port.master.port, tls=port.trust())
        slave.wait(port.master.max_offset)
        strangers = [
            stack.enter_context(HandSlave(port.master.port)) for _ in range(2 * limits.SLAVES_SOURCE_MAX)
        ]
        for stranger in strangers[limits.SLAVES_SOURCE_MAX :]:
            stranger.send(start)
        assert strangers[0].wait_closed() == b"", "the oldest gave way"
        port.master.fill(10)
        slave.wait(port.master.max_offset)
        assert notes.ends.empty()


def test_a_slave_in_tls_that_does_not_read_holds_no_cut_off(port: CertifiedPort, tmp_path: Path) -> None:
    context = port.authority.client()
    with socket.socket() as plain:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        plain.connect(("127.0.0.1", port.master.port))
        with context.wrap_socket(plain, server_hostname="127.0.0.1") as stalled:
            stalled.sendall(codec.encode_handshake(codec.Handshake(7)) + codec.encode_ack(LogOffset(0)))
            port.master.fill(1_000, 8_000)
            wait_until(lambda: port.master.slave() is not None, "slave")
            cutter = threading.Thread(target=port.master.store.log.truncate, args=(0,), daemon=True)
            cutter.start()
            cutter.join(30.0)
            assert not cutter.is_alive()
            wait_until(lambda: port.master.slave() is None, "end of the session")


def test_a_slow_slave_in_tls_gets_the_end_of_the_log_without_a_beat(
    port: CertifiedPort, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(master, "HEARTBEAT_MS", 1 << 40)
    port.master.fill(1_200, 8_000)
    with HandSlave(port.master.port, receive_buffer_bytes=4_096) as slow:
        context = port.authority.client()
        in_tls = context.wrap_socket(slow.peer, server_hostname="127.0.0.1")
        slow.peer = in_tls  # type: ignore[misc]  # by hand, but in TLS
        slow.shake_hands(codec.Handshake(7))
        slow.ack(0)
        before = -1
        while (found := port.master.slave()) is None or found.position != before or before <= 0:
            before = -1 if found is None else found.position
            time.sleep(0.1)
        assert found.position < port.master.max_offset, "it waits for its slave"
        assert sum(header.body_bytes for header in slow.frames_to(port.master.max_offset)) > 0


def test_encrypted_bytes_that_wait_leave_before_a_session_rests(port: CertifiedPort) -> None:
    class FullStream:
        def flush(self) -> None:
            raise BlockingIOError

    here, there = socket.socketpair()
    session = slave_server._Session(port.master.server, here, "slave", PortPlace("slave"))
    session._stream = FullStream()  # type: ignore[assignment]  # it answers the one question
    assert session._write() is slave_server._Progress.FULL
    session._release()
    there.close()


@pytest.mark.parametrize(
    ("told", "has_trust", "in_tls"),
    [(None, True, False), (False, True, False), (True, True, True), (True, False, False)],
)
def test_only_an_end_that_says_so_is_dialled_in_tls(
    tmp_path: Path, *, told: bool | None, has_trust: bool, in_tls: bool
) -> None:
    """A Java broker says nothing of TLS, and is not disturbed by it."""
    answer = ExchangeHAInfoResponseHeader("10.0.0.7:10912", 0, None, told)
    trust = HaTls(tmp_path, "log-0.svc")
    found = told_end(answer, "log-0.svc:10911", tmp_path if has_trust else None)
    assert found == HaEnd(("10.0.0.7", 10912), trust if in_tls else None)
    assert told_end(ExchangeHAInfoResponseHeader(), "log-0.svc:10911", tmp_path) is None


@pytest.mark.parametrize("is_in_tls", [True, None])
async def test_a_follower_dials_as_its_master_tells(
    port: CertifiedPort, tmp_path: Path, first_bytes: list[bytes], *, is_in_tls: bool | None
) -> None:
    async with following(tmp_path / "own", FILE_BYTES, tls=port.member) as ours:
        await ours.led_by(port.master.port, epoch=1, is_in_tls=is_in_tls)
        await ours.reach(port.master.max_offset)
    assert first_bytes == [b"\x16" if is_in_tls else b"\x00"]


async def test_a_follower_tells_in_an_event_that_a_promise_was_not_kept(tmp_path: Path) -> None:
    member = Authority(tmp_path).member("member")
    with HandMaster(FILE_BYTES) as plain:
        async with following(tmp_path / "own", FILE_BYTES, tls=member) as ours:
            await ours.led_by(plain.port, epoch=1, is_in_tls=True)
            assert (await asyncio.to_thread(plain.accept_bytes))[:1] == b"\x16"
            plain.peer.close()
            assert (await ours.event("Disconnected"))["reason"] == TLS_FAILED
