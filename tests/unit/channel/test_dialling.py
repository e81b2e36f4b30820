"""Who dials in TLS reaches peers in TLS, and peers in plain TCP only where that is allowed."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from controller_core.channel import ChannelError, Connection, Server, connect, serve
from controller_core.channel.asking import Asker
from controller_core.remoting.command import RemotingCommand
from controller_core.tls.certificates import Certificates, UnusableCertificatesError
from controller_core.tls.dialling import ClientTls, dial_in_tls, trusting
from controller_core.tls.serving import ServerTls
from testkit.processes.certificates import Authority

WITHIN_S = 20.0
CODE = 7


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def client(authority: Authority) -> ClientTls:
    return ClientTls(trusting("tls", authority.trust).context, plain_allowed=True)


@contextlib.asynccontextmanager
async def served(tls: ServerTls | None) -> AsyncIterator[Server]:
    """A port that answers each request."""

    def take(connection: Connection) -> None:
        connection.on_request = lambda _, request: RemotingCommand.response_to(request, 0)

    server = await serve("127.0.0.1", 0, take, tls=tls)
    try:
        yield server
    finally:
        await server.close()


def server_tls(authority: Authority, *, plain_allowed: bool = True) -> ServerTls:
    pair = authority.sign("server")
    made = Certificates("tls", str(pair.cert), str(pair.key), "", True, 0)
    return ServerTls(made.context, plain_allowed=plain_allowed)


async def is_in_tls(server: Server, client: ClientTls | None) -> bool:
    connection = await connect("127.0.0.1", server.port, WITHIN_S, client_tls=client)
    try:
        await connection.call(RemotingCommand.request(CODE), WITHIN_S)
        return connection.certificate is not None
    finally:
        connection.close()


async def test_a_peer_in_tls_is_dialled_in_tls_whatever_its_name(
    authority: Authority, client: ClientTls
) -> None:
    async with served(server_tls(authority, plain_allowed=False)) as server:
        assert await is_in_tls(server, client)


async def test_a_peer_without_tls_is_dialled_in_plain_tcp_if_that_is_allowed(client: ClientTls) -> None:
    async with served(None) as server:
        assert not await is_in_tls(server, client)
        with pytest.raises(ChannelError):
            await is_in_tls(server, ClientTls(client.context))


async def test_a_peer_of_another_authority_counts_as_one_without_tls(
    tmp_path: Path, client: ClientTls
) -> None:
    async with served(server_tls(Authority(tmp_path, "other"))) as server:
        assert not await is_in_tls(server, client)
        with pytest.raises(ChannelError):
            await is_in_tls(server, ClientTls(client.context))


@pytest.fixture
def process_in_tls(client: ClientTls) -> Iterator[None]:
    dial_in_tls(client)
    yield
    dial_in_tls(None)


async def test_a_process_dials_as_it_was_told_once(authority: Authority, process_in_tls: None) -> None:
    async with served(server_tls(authority, plain_allowed=False)) as server:
        asker = Asker(("127.0.0.1", server.port))
        async with asyncio.timeout(WITHIN_S):
            await asker.ask(CODE)
        asker.close()


def test_authorities_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(UnusableCertificatesError, match="missing"):
        trusting("tls", tmp_path / "missing")
