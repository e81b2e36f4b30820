"""Certificates that a port refuses: wrong authority, ended, wrong host, another's name.

Both ends of each port are tested.

Each test first shows that the right certificate is accepted.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from msgspec.structs import replace

from controller_core.channel.endpoints import connect, serve
from controller_core.channel.errors import ChannelError
from controller_core.channel.places import PortPlace
from controller_core.raft.types import Message, MessageType, NodeId, Term
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.server.cli.client import Access
from controller_core.server.cli.client import request as http_request
from controller_core.server.peers.transport import PeerTransport
from controller_core.server.requests import sender_rules
from controller_core.server.requests.forwarding import Forwarder
from controller_core.server.settings.certificates import Tls
from controller_core.server.settings.config import load
from controller_core.tls.dialling import ClientTls
from controller_core.tls.serving import ServerTls
from testkit.fakes.peer_receiver import RecordingReceiver
from testkit.processes.certificates import Authority, CertificateFiles
from testkit.processes.ports import free_port
from testkit.products.one_controller import OneNode, one_node

WITHIN_S = 60.0
NOTHING_WITHIN_S = 0.5
OWN, OTHER, MEMBER, STRANGE = "127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.9"
BASE = {"controllerDLegerGroup": "g", "controllerDLegerPeers": f"n0-{OWN}:9878"}
FAULTS = ["wrong authority", "ended", "wrong host", "name of another"]
ADMIN_REQUEST = RemotingCommand.request(
    RequestCode.UPDATE_CONTROLLER_CONFIG, {}, b"enableElectUncleanMaster=false\n"
)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def faulty(authority: Authority, fault: str, name: str, host: str, of_another: str) -> CertificateFiles:
    """Return a certificate for `name` at `host` that has one fault; it is right if `fault` is empty."""
    if fault == "wrong authority":
        directory = authority.trust.parent / "stranger"
        directory.mkdir()
        return Authority(directory).sign(name, [host])
    if fault == "name of another":
        return authority.sign(of_another, [of_another])
    return authority.sign(name, [STRANGE if fault == "wrong host" else host], ended=fault == "ended")


# Peers: node 1 has the right certificate, node 2 the faulty one; each dials the other.


def peer_settings(authority: Authority, pair: CertificateFiles) -> Tls:
    paths = {
        "peerTlsCertPath": str(pair.cert),
        "peerTlsKeyPath": str(pair.key),
        "peerTlsTrustCertPath": str(authority.trust),
    }
    return Tls(load(BASE | paths)[0])


@contextlib.asynccontextmanager
async def two_nodes(
    authority: Authority, second: CertificateFiles
) -> AsyncIterator[tuple[tuple[PeerTransport, RecordingReceiver], ...]]:
    hosts = {1: OWN, 2: OTHER, 3: MEMBER}
    addresses = {node: (host, free_port()) for node, host in hosts.items()}
    nodes = []
    for node, pair in ((1, authority.sign("n0", [OWN])), (2, second)):
        tls = peer_settings(authority, pair)
        transport = PeerTransport("main", node, addresses, bind_host=hosts[node], tls=tls.peers())
        nodes.append((transport, RecordingReceiver()))
    for transport, receiver in nodes:
        await transport.start(receiver)
    try:
        yield tuple(nodes)
    finally:
        for transport, _ in nodes:
            await transport.stop()


async def exchange(nodes: tuple[tuple[PeerTransport, RecordingReceiver], ...], within_s: float) -> list[bool]:
    """Let each node send to the other one; return which of them has heard anything."""
    (first, first_ear), (second, second_ear) = nodes
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            while first_ear.messages.empty() or second_ear.messages.empty():
                first.send([Message(MessageType.HEARTBEAT, NodeId(2), NodeId(1), Term(1))])
                second.send([Message(MessageType.HEARTBEAT, NodeId(1), NodeId(2), Term(1))])
                await asyncio.sleep(0.02)
    return [not first_ear.messages.empty(), not second_ear.messages.empty()]


async def test_controllers_with_the_right_certificates_hear_each_other(authority: Authority) -> None:
    async with two_nodes(authority, authority.sign("n1", [OTHER])) as nodes:
        assert await exchange(nodes, WITHIN_S) == [True, True]


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_controller_with_a_faulty_certificate_neither_speaks_nor_hears(
    authority: Authority, fault: str
) -> None:
    async with two_nodes(authority, faulty(authority, fault, "n1", OTHER, MEMBER)) as nodes:
        assert await exchange(nodes, NOTHING_WITHIN_S) == [False, False]


async def test_only_a_members_own_certificate_is_told_the_incarnation(authority: Authority) -> None:
    """A probe that shows another certificate of the authority learns no secret."""
    transport = PeerTransport("main", 1, {1: (OWN, 0), 2: (OTHER, 1)}, incarnation="secret")
    transport._receiver = RecordingReceiver()
    greeting = replace(transport._own.greeting(1, "", asks=True), from_id=2)
    for host, told in ((OTHER, "secret"), (STRANGE, ""), ("", "")):
        place = PortPlace(OTHER)
        link = transport._accept(place)
        link.certificate = {"subjectAltName": (("IP Address", host),)} if host else None
        assert transport._take_greeting(place, link, greeting).incarnation == told


# HTTP: what the command line refuses, and what the node refuses.


def http_keys(authority: Authority, pair: CertificateFiles) -> dict[str, str]:
    return {
        "httpTlsCertPath": str(pair.cert),
        "httpTlsKeyPath": str(pair.key),
        "httpTlsTrustCertPath": str(authority.trust),
        "adminCertificateNames": "admin",
    }


async def test_the_command_line_and_the_http_port_accept_the_right_certificates(
    tmp_path: Path, authority: Authority
) -> None:
    async with one_node(tmp_path / "store", http_keys(authority, authority.sign("node"))) as one:
        admin = authority.sign("admin")
        access = Access([one.http], str(authority.trust), str(admin.cert), str(admin.key))
        assert (await http_request("GET", one.http, "/v1/status", access))["name"] == "n0"
        assert await http_request("POST", one.http, "/v1/snapshot", access)


@pytest.mark.parametrize("fault", FAULTS)
async def test_the_command_line_refuses_a_node_with_a_faulty_certificate(
    tmp_path: Path, authority: Authority, fault: str
) -> None:
    pair = faulty(authority, fault, "node", OWN, MEMBER)
    async with one_node(tmp_path / "store", http_keys(authority, pair)) as one:
        access = Access([one.http], str(authority.trust))
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await http_request("GET", one.http, "/v1/status", access)


@pytest.mark.parametrize("fault", FAULTS)
async def test_the_http_port_takes_no_change_from_a_client_with_a_faulty_certificate(
    tmp_path: Path, authority: Authority, fault: str
) -> None:
    async with one_node(tmp_path / "store", http_keys(authority, authority.sign("node"))) as one:
        # An administrator's certificate is bound to its name and not to a host.
        name = "broker" if fault == "wrong host" else "admin"
        client = authority.client(faulty(authority, fault, name, OWN, MEMBER))
        url = f"https://{one.http}/v1/snapshot"
        async with aiohttp.ClientSession() as session:
            if fault in {"wrong authority", "ended"}:
                with pytest.raises(aiohttp.ClientError):
                    await session.post(url, ssl=client)
                return
            async with session.post(url, ssl=client) as response:
                assert response.status == 403
                assert "adminCertificateNames" in (await response.json())["error"]


# The remoting port: who may administer, and which leader a node believes.


def remoting_keys(authority: Authority, pair: CertificateFiles) -> dict[str, str]:
    return {
        "tls.server.certPath": str(pair.cert),
        "tls.server.keyPath": str(pair.key),
        "tls.server.trustCertPath": str(authority.trust),
        "tls.server.mode": "enforcing",
        "tls.server.need.client.auth": "require",
        "adminCertificateNames": "admin",
    }


async def administer(one: OneNode, client: ssl.SSLContext) -> int:
    """Change a setting over a new connection; return the code, or -1 if the connection ended instead."""
    host, _, port = one.remoting.rpartition(":")
    try:
        connection = await connect(
            host, int(port), WITHIN_S, client_tls=None if client is None else ClientTls(client)
        )
    except ChannelError:
        return -1
    try:
        return (await connection.call(ADMIN_REQUEST, WITHIN_S)).code
    except ChannelError:
        return -1
    finally:
        connection.abort()


@pytest.mark.parametrize("fault", ["", *FAULTS])
async def test_the_remoting_port_takes_administrators_with_the_right_certificate_only(
    tmp_path: Path, authority: Authority, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender_rules, "_is_loopback", lambda _host: False)
    own = authority.client(authority.sign("broker"))
    keys = remoting_keys(authority, authority.sign("node"))
    async with one_node(tmp_path / "store", keys, own) as one:
        name = "broker" if fault == "wrong host" else "admin"
        client = authority.client(faulty(authority, fault, name, OWN, MEMBER))
        expected = {"": ResponseCode.SUCCESS, "wrong authority": -1, "ended": -1}
        assert await administer(one, client) == expected.get(fault, ResponseCode.NO_PERMISSION)


@pytest.mark.parametrize("fault", ["", *FAULTS])
async def test_a_node_sends_requests_on_only_to_a_leader_with_the_right_certificate(
    authority: Authority, fault: str
) -> None:
    pair = faulty(authority, fault, "n1", OWN, MEMBER)
    context = pair.server()
    leader = await serve(OWN, 0, lambda _made: None, tls=ServerTls(context, plain_allowed=False))
    tls = Tls(load(BASE | remoting_keys(authority, authority.sign("n0")))[0])
    assert tls.remoting_client is not None
    forwarder = Forwarder("n0", lambda _node: f"{OWN}:{leader.port}", tls.leader_client())
    try:
        if fault:
            with pytest.raises(ChannelError):
                await forwarder.call(2, ADMIN_REQUEST, "")
        else:
            answer = await forwarder.call(2, ADMIN_REQUEST, "")
            assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    finally:
        forwarder.close()
        await leader.close()
