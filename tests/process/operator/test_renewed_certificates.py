"""RocketMQ serves the certificates that the operator gives it, and renewed ones without a restart."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ha_sidecar.address import host_port
from rocketmq_operator.plan.tls.clients import ClientsStage
from testkit.processes.certificates import Authority
from testkit.rocketmq.jars import jars
from testkit.rocketmq.java_tls import JAVA_OPTIONS, server_options
from testkit.rocketmq.processes import BrokerPlace, JavaBroker, NameServer

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

BOOT_S = 150.0
WITHIN_S = 60.0
MEMBER = "member"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture(params=[ClientsStage.PERMISSIVE, ClientsStage.ENFORCING])
async def addresses(
    request: pytest.FixtureRequest, tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[list[str]]:
    """The ports for clients of a broker and a name server with the operator's options."""
    directory = authority.member(MEMBER)
    monkeypatch.setenv(JAVA_OPTIONS, server_options(directory, request.param))
    jar_directory = await jars("5.5.0")
    name_server = NameServer(jar_directory, tmp_path / "ns")
    place = BrokerPlace("c", "g", "g-0", tmp_path / "broker")
    broker = JavaBroker(jar_directory, place, name_server.address)
    fast = f"127.0.0.1:{broker.port - 2}"
    try:
        await asyncio.gather(name_server.start(), broker.start(BOOT_S))
        yield [broker.address, fast, name_server.address]
    finally:
        await broker.kill()
        await name_server.stop()


async def certificate(address: str, authority: Authority) -> bytes:
    """Return the certificate that is shown at an address, verified with the authority."""
    host, port = host_port(address)
    async with asyncio.timeout(WITHIN_S):
        while True:
            with contextlib.suppress(ConnectionError):
                _, writer = await asyncio.open_connection(host, port, ssl=authority.client())
                shown: ssl.SSLObject = writer.get_extra_info("ssl_object")
                found = shown.getpeercert(binary_form=True)
                writer.transport.abort()
                assert found is not None
                return found


async def answers_plain(address: str) -> bool:
    """Send a request without a body in plain TCP; tell whether it is answered."""
    reader, writer = await asyncio.open_connection(*host_port(address))
    header = b'{"code":26,"flag":0,"language":"OTHER","opaque":1,"version":0}'
    try:
        writer.write((4 + len(header)).to_bytes(4) + len(header).to_bytes(4) + header)
        async with asyncio.timeout(WITHIN_S):
            return len(await reader.read(1)) == 1
    except ConnectionError:
        return False
    finally:
        writer.transport.abort()


async def test_renewed_certificates_are_served_and_plain_tcp_as_the_stage_says(
    addresses: list[str], authority: Authority, request: pytest.FixtureRequest
) -> None:
    first = {address: await certificate(address, authority) for address in addresses}
    assert len(set(first.values())) == 1
    is_plain = request.node.callspec.params["addresses"] is ClientsStage.PERMISSIVE
    for address in addresses:
        assert await answers_plain(address) is is_plain, address
    authority.member(MEMBER)
    for address in addresses:
        async with asyncio.timeout(WITHIN_S):
            while await certificate(address, authority) == first[address]:  # noqa: ASYNC110 - no notification
                await asyncio.sleep(0.1)
