"""TLS on every port: the accepted clients and the refused clients.

New certificates come into use by themselves.
"""

import asyncio
import contextlib
import os
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from controller_core.channel.endpoints import connect, serve
from controller_core.channel.errors import ChannelError
from controller_core.raft.types import Message, MessageType, NodeId, Term
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.server.http_api import changes
from controller_core.server.notices.notifier import Notifier
from controller_core.server.peers.transport import PeerTransport
from controller_core.server.settings.certificates import Tls
from controller_core.server.settings.config import InvalidSettingError, load
from controller_core.tls.certificates import Certificates
from controller_core.tls.dialling import ClientTls
from controller_core.tls.serving import ServerTls
from testkit.fakes.peer_receiver import RecordingReceiver
from testkit.processes.certificates import Authority, CertificateFiles
from testkit.processes.ports import free_port
from testkit.products.one_controller import OneNode, one_node

WITHIN_S = 60.0
ALONE = {"controllerDLegerGroup": "g", "controllerDLegerPeers": "n0-127.0.0.1:9878"}
ASK = RemotingCommand.request(RequestCode.CONTROLLER_GET_METADATA_INFO)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def remoting_keys(authority: Authority, pair: CertificateFiles, **more: str) -> dict[str, str]:
    return {
        "tls.server.certPath": str(pair.cert),
        "tls.server.keyPath": str(pair.key),
        "tls.server.trustCertPath": str(authority.trust),
        **{f"tls.server.{key.replace('_', '.')}": value for key, value in more.items()},
    }


async def answer(one: OneNode, client_ssl: ssl.SSLContext | None) -> int:
    """Ask once over a new connection; return the code, or -1 when the connection ended instead."""
    host, _, port = one.remoting.rpartition(":")
    try:
        connection = await connect(
            host, int(port), WITHIN_S, client_tls=None if client_ssl is None else ClientTls(client_ssl)
        )
    except ChannelError:
        return -1
    try:
        return (await connection.call(ASK, WITHIN_S)).code
    except ChannelError:
        return -1
    finally:
        connection.abort()


async def test_one_port_serves_tls_and_plain_as_the_first_byte_says(
    tmp_path: Path, authority: Authority
) -> None:
    given = remoting_keys(authority, authority.sign("node"))
    async with one_node(tmp_path / "store", given) as one:
        assert await answer(one, authority.client()) == ResponseCode.SUCCESS
        assert await answer(one, None) == ResponseCode.SUCCESS
        assert await answer(one, Authority(tmp_path, "stranger").client()) == -1


async def test_enforcing_turns_plain_connections_away_and_counts_them(
    tmp_path: Path, authority: Authority
) -> None:
    given = remoting_keys(authority, authority.sign("node"), mode="enforcing")
    async with one_node(tmp_path / "store", given, authority.client()) as one:
        assert await answer(one, None) == -1
        assert await answer(one, authority.client()) == ResponseCode.SUCCESS
        assert one.controller._remoting.numbers().refused == 1


async def test_a_client_that_must_show_a_certificate_is_refused_without(
    tmp_path: Path, authority: Authority
) -> None:
    given = remoting_keys(authority, authority.sign("node"), mode="enforcing", need_client_auth="require")
    own = authority.client(authority.sign("broker"))
    async with one_node(tmp_path / "store", given, own) as one:
        assert await answer(one, own) == ResponseCode.SUCCESS
        assert await answer(one, authority.client()) == -1


async def test_new_certificates_come_into_use_and_broken_ones_do_not(
    tmp_path: Path, authority: Authority
) -> None:
    pair = authority.sign("node")
    files = str(pair.cert), str(pair.key), ""
    certificates = Certificates("tls.server.certPath", *files, True, ssl.CERT_NONE)
    first = await serial(certificates, authority)
    assert not certificates.refresh()
    authority.sign("node")
    assert certificates.refresh()
    second = await serial(certificates, authority)
    assert second != first
    pair.cert.write_text("half a certif")
    assert not certificates.refresh()
    assert await serial(certificates, authority) == second
    pair.cert.unlink()
    assert not certificates.refresh()
    authority.sign("node")
    assert certificates.refresh()
    assert await serial(certificates, authority) not in {first, second}


async def test_files_behind_a_link_that_is_replaced_come_into_use(
    tmp_path: Path, authority: Authority
) -> None:
    """Kubernetes changes the files of a Secret by replacing one link to their directory."""
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    first = authority.sign("node")
    for directory in ("old", "new"):
        second = authority.sign("node") if directory == "new" else first
        (tmp_path / directory / "tls.crt").write_bytes(second.cert.read_bytes())
        (tmp_path / directory / "tls.key").write_bytes(second.key.read_bytes())
    data = tmp_path / "..data"
    data.symlink_to("old")
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    files = str(tmp_path / "tls.crt"), str(tmp_path / "tls.key"), ""
    certificates = Certificates("tls.server.certPath", *files, True, ssl.CERT_NONE)
    before = await serial(certificates, authority)
    (tmp_path / "next").symlink_to("new")
    (tmp_path / "next").replace(data)
    assert certificates.refresh()
    assert await serial(certificates, authority) != before


async def serial(certificates: Certificates, authority: Authority) -> Any:
    """Return the serial number that a new connection is shown."""

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(OSError):
            await reader.read()

    server = await asyncio.start_server(hold, "127.0.0.1", 0, ssl=certificates.context)
    port = server.sockets[0].getsockname()[1]
    _, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=authority.client(), server_hostname="127.0.0.1"
    )
    found = writer.get_extra_info("peercert")["serialNumber"]
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    server.close()
    await server.wait_closed()
    return found


@contextlib.asynccontextmanager
async def peers(first: Tls, second: Tls) -> AsyncIterator[tuple[PeerTransport, RecordingReceiver]]:
    addresses = {1: ("127.0.0.1", free_port()), 2: ("127.0.0.1", free_port())}
    made = []
    for node_id, tls in ((1, first), (2, second)):
        made.append(PeerTransport("main", node_id, addresses, bind_host="127.0.0.1", tls=tls.peers()))
    ears = [RecordingReceiver(), RecordingReceiver()]
    for transport, ear in zip(made, ears, strict=True):
        await transport.start(ear)
    try:
        yield made[0], ears[1]
    finally:
        for transport in made:
            await transport.stop()


def peer_tls(authority: Authority, pair: CertificateFiles, mode: str = "enforcing") -> Tls:
    given = {
        **ALONE,
        "peerTlsMode": mode,
        "peerTlsCertPath": str(pair.cert),
        "peerTlsKeyPath": str(pair.key),
        "peerTlsTrustCertPath": str(authority.trust),
    }
    return Tls(load(given)[0])


async def heard(transport: PeerTransport, ear: RecordingReceiver, within_s: float) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            while ear.messages.empty():
                transport.send([Message(MessageType.HEARTBEAT, NodeId(2), NodeId(1), Term(1))])
                await asyncio.sleep(0.02)
    return not ear.messages.empty()


async def test_controllers_hear_each_other_only_with_certificates_of_one_authority(
    tmp_path: Path, authority: Authority
) -> None:
    own = peer_tls(authority, authority.sign("n0"))
    async with peers(own, peer_tls(authority, authority.sign("n1"))) as (transport, ear):
        assert await heard(transport, ear, WITHIN_S)
    stranger = Authority(tmp_path, "stranger")
    async with peers(own, peer_tls(stranger, stranger.sign("n2"))) as (transport, ear):
        assert not await heard(transport, ear, 0.5)
    async with peers(Tls(load(ALONE)[0]), own) as (transport, ear):
        assert not await heard(transport, ear, 0.5)


@pytest.mark.parametrize(
    ("first", "second", "is_heard"),
    [
        ("permissive", "permissive", True),
        ("permissive", "enforcing", True),
        ("enforcing", "permissive", True),
        ("permissive", "plain", True),
        ("plain", "permissive", True),
        ("enforcing", "plain", False),
        ("plain", "enforcing", False),
    ],
)
async def test_a_permissive_controller_speaks_with_those_before_and_after_it(
    authority: Authority, first: str, second: str, is_heard: bool
) -> None:
    """Each step of a change to TLS joins two neighbours of this row: plain, permissive, enforcing."""
    pair = authority.sign("n0")
    settings = {mode: peer_tls(authority, pair, mode) for mode in ("permissive", "enforcing")}
    settings["plain"] = Tls(load(ALONE)[0])
    async with peers(settings[first], settings[second]) as (transport, ear):
        assert await heard(transport, ear, WITHIN_S if is_heard else 0.5) is is_heard


async def test_two_permissive_controllers_speak_tls(authority: Authority) -> None:
    both = peer_tls(authority, authority.sign("n0"), "permissive")
    async with peers(both, both) as (transport, ear):
        assert await heard(transport, ear, WITHIN_S)
        assert all(link.certificate for link in transport._incoming)


@pytest.mark.parametrize("plain", ["none", "reads", "all"])
async def test_plain_http_serves_only_what_it_may(
    tmp_path: Path, authority: Authority, plain: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "_is_loopback", lambda _host: False)
    pair = authority.sign("node")
    given = {
        "httpTlsCertPath": str(pair.cert),
        "httpTlsKeyPath": str(pair.key),
        "httpPlain": plain,
        "httpToken": "let-me-in",
    }
    async with one_node(tmp_path / "store", given) as one, aiohttp.ClientSession() as session:
        headers = {"Authorization": "Bearer let-me-in"}
        secure = authority.client()
        async with session.post(f"https://{one.http}/v1/snapshot", ssl=secure, headers=headers) as response:
            assert response.status == 200
        url = f"http://{one.http}/v1/"
        if plain == "none":
            with pytest.raises(aiohttp.ClientError):
                await session.get(f"{url}status")
            return
        async with session.get(f"{url}status") as response:
            assert response.status == 200
        async with session.post(f"{url}snapshot", headers=headers) as response:
            assert response.status == (200 if plain == "all" else 403)


async def test_a_change_over_http_needs_a_certificate_where_one_is_asked_for(
    tmp_path: Path, authority: Authority
) -> None:
    pair = authority.sign("node")
    given = {
        "httpTlsCertPath": str(pair.cert),
        "httpTlsKeyPath": str(pair.key),
        "httpTlsTrustCertPath": str(authority.trust),
    }
    async with one_node(tmp_path / "store", given) as one:
        url = f"https://{one.http}/v1/snapshot"
        async with aiohttp.ClientSession() as session:
            async with session.post(url, ssl=authority.client()) as response:
                assert response.status == 401
            async with session.post(url, ssl=authority.client(authority.sign("admin"))) as response:
                assert response.status == 200
            async with session.get(f"https://{one.http}/v1/status", ssl=authority.client()) as response:
                assert response.status == 200
            stranger = Authority(tmp_path, "stranger")
            untrusted = authority.client(stranger.sign("stranger-admin"))
            with pytest.raises(aiohttp.ClientError):
                await session.post(url, ssl=untrusted)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"tls.server.mode": "perhaps"}, "tls.server.mode='perhaps': must be one of"),
        ({"tls.server.mode": "enforcing"}, "needs tls.server.certPath"),
        ({"tls.server.need.client.auth": "require"}, "needs tls.server.mode=enforcing: permissive serves"),
        ({"peerTlsMode": "off"}, "peerTlsMode='off': must be one of permissive, enforcing"),
        ({"httpPlain": "some"}, "httpPlain='some': must be one of none, reads, all"),
        ({"tls.server.certPath": "missing.pem"}, "needs tls.server.keyPath beside it"),
        (
            {"tls.server.certPath": "missing.pem", "tls.server.keyPath": "missing.key"},
            "tls.server.certPath='missing.pem': cannot be used",
        ),
        ({"peerTlsCertPath": "missing.pem"}, "needs peerTlsKeyPath and peerTlsTrustCertPath beside it"),
        ({"httpTlsCertPath": "missing.pem"}, "needs httpTlsKeyPath beside it"),
    ],
)
def test_settings_that_cannot_be_used_are_refused_by_name(given: dict[str, str], text: str) -> None:
    with pytest.raises(InvalidSettingError) as caught:
        Tls(load({**ALONE, **given})[0])
    assert text in str(caught.value)


def test_a_client_that_must_be_verified_needs_somebody_to_verify_it(
    tmp_path: Path, authority: Authority
) -> None:
    given = remoting_keys(authority, authority.sign("node"), mode="enforcing", need_client_auth="require")
    given["tls.server.trustCertPath"] = ""
    with pytest.raises(InvalidSettingError, match="trustCertPath"):
        Tls(load({**ALONE, **given})[0])
    assert os.listdir(tmp_path)


async def test_brokers_are_dialled_in_tls_and_only_those_of_the_trusted_authority(
    tmp_path: Path, authority: Authority
) -> None:
    (tmp_path / "other").mkdir()
    stranger = Authority(tmp_path / "other")
    keys = {"tls.enable": "true", "tls.client.trustCertPath": str(authority.trust)}
    client = Tls(load(ALONE | keys)[0]).broker_client
    assert client is not None
    for signer, reached in ((authority, True), (stranger, False)):
        # A name that no client uses: brokers' names are not looked at.
        pair = signer.sign("elsewhere")
        context = pair.server()
        broker = await serve("127.0.0.1", 0, lambda _made: None, tls=ServerTls(context, plain_allowed=False))
        notifier = Notifier(lambda _notice: None, broker_tls=ClientTls(client.context))
        try:
            address = f"127.0.0.1:{broker.port}"
            if reached:
                assert (
                    await notifier.ask(address, ASK, WITHIN_S)
                ).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            else:
                with pytest.raises(ChannelError):
                    await notifier.ask(address, ASK, WITHIN_S)
        finally:
            await notifier.stop()
            await broker.close()


async def test_brokers_without_tls_are_dialled_in_plain_tcp_in_permissive_mode_only(
    authority: Authority,
) -> None:
    keys = {"tls.enable": "true", "tls.client.trustCertPath": str(authority.trust)}
    broker = await serve("127.0.0.1", 0, lambda _made: None)
    for mode, reached in (("permissive", True), ("enforcing", False)):
        client = Tls(load(ALONE | keys | {"tls.client.mode": mode})[0]).brokers_client()
        notifier = Notifier(lambda _notice: None, broker_tls=client)
        try:
            answer = notifier.ask(f"127.0.0.1:{broker.port}", ASK, WITHIN_S)
            if reached:
                assert (await answer).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            else:
                with pytest.raises(ChannelError):
                    await answer
        finally:
            await notifier.stop()
    await broker.close()


def test_brokers_are_dialled_plain_unless_told_otherwise_and_half_a_pair_is_refused(
    authority: Authority,
) -> None:
    pair = authority.sign("controller")
    assert Tls(load(ALONE | {"tls.client.trustCertPath": str(authority.trust)})[0]).broker_client is None
    with pytest.raises(InvalidSettingError, match=r"tls\.client\.keyPath"):
        Tls(load(ALONE | {"tls.enable": "true", "tls.client.certPath": str(pair.cert)})[0])
