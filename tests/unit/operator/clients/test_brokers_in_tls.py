"""The operator asks brokers in TLS as soon as one of its clusters has it, and others in plain TCP."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from controller_core.channel import Connection, Server, serve
from controller_core.remoting.command import RemotingCommand
from controller_core.tls.certificates import Certificates
from controller_core.tls.dialling import ClientTls, dial_in_tls
from controller_core.tls.serving import ServerTls
from rocketmq_operator.clients.api import PeerUnavailableError
from rocketmq_operator.clients.brokers import BrokersClient
from rocketmq_operator.clients.controllers_trust import ControllersTrust
from testkit.processes.certificates import Authority

WHERE = ("shop", "main")


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def trust() -> Iterator[ControllersTrust]:
    yield ControllersTrust(dial_in_tls)
    dial_in_tls(None)


async def _serve(authority: Authority | None) -> Server:
    def take(connection: Connection) -> None:
        connection.on_request = lambda _, request: RemotingCommand.response_to(request, 0)

    tls = None
    if authority is not None:
        pair = authority.sign("broker")
        made = Certificates("tls", str(pair.cert), str(pair.key), "", True, 0)
        tls = ServerTls(made.context, plain_allowed=False)
    return await serve("127.0.0.1", 0, take, tls=tls)


@pytest.fixture
async def broker(authority: Authority) -> AsyncIterator[str]:
    server = await _serve(authority)
    yield f"127.0.0.1:{server.port}"
    await server.close()


@pytest.fixture
async def plain_broker() -> AsyncIterator[str]:
    server = await _serve(None)
    yield f"127.0.0.1:{server.port}"
    await server.close()


def _config_map(authority: Authority, stage: str) -> dict[str, dict[str, str]]:
    return {"data": {"ca.crt": authority.trust.read_text(), "clients-tls": stage}}


async def test_brokers_in_tls_are_asked_in_tls_and_others_in_plain_tcp(
    authority: Authority, trust: ControllersTrust, broker: str, plain_broker: str
) -> None:
    for stage, is_reached in (("disabled", False), ("permissive", True), ("enforcing", True)):
        trust.note(*WHERE, _config_map(authority, stage))
        await BrokersClient().delete_route(plain_broker, "main", "prices")
        if is_reached:
            await BrokersClient().delete_route(broker, "main", "prices")
        else:
            with pytest.raises(PeerUnavailableError):
                await BrokersClient().delete_route(broker, "main", "prices")
    trust.note(*WHERE, None)
    with pytest.raises(PeerUnavailableError):
        await BrokersClient().delete_route(broker, "main", "prices")


def test_the_same_authorities_are_told_once(authority: Authority) -> None:
    told: list[ClientTls | None] = []
    trust = ControllersTrust(told.append)
    for stage in ("permissive", "dialling", "enforcing"):
        trust.note(*WHERE, _config_map(authority, stage))
    assert len(told) == 1
    trust.note(*WHERE, _config_map(authority, "disabled"))
    assert told[1:] == [None]


def test_authorities_that_cannot_be_read_leave_the_others(authority: Authority) -> None:
    told: list[ClientTls | None] = []
    trust = ControllersTrust(told.append)
    trust.note("shop", "broken", {"data": {"ca.crt": "rubbish", "clients-tls": "permissive"}})
    trust.note(*WHERE, _config_map(authority, "permissive"))
    assert told[-1] is not None
    assert len(told[-1].context.get_ca_certs()) == 1
