"""The operator asks controllers over HTTPS, verified by the cluster's own authority."""

import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from rocketmq_operator.clients.api import PeerUnavailableError
from rocketmq_operator.clients.certificates import CertifiedKey, issue, new_authority
from rocketmq_operator.clients.controllers import REDIRECTS_MAX, ControllersClient
from rocketmq_operator.clients.controllers_trust import ControllersTrust

NOW = datetime.now(UTC)
DAY = timedelta(days=1)
WHERE = ("shop", "main")


@dataclass
class Served:
    """A controller's port, and what it saw."""

    host: str = ""
    tokens: list[str] = field(default_factory=list)
    leader: str = ""


@contextlib.asynccontextmanager
async def serving(context: ssl.SSLContext | None) -> AsyncIterator[Served]:
    served = Served()

    async def answer(request: web.Request) -> web.Response:
        if request.method == "POST":
            served.tokens.append(request.headers["Authorization"])
            if served.leader:
                location = f"http://{served.leader}{request.path_qs}"
                return web.Response(status=307, headers={"Location": location})
        return web.json_response({"role": "leader", "term": 1})

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    served.host = f"127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield served
    finally:
        await runner.cleanup()


def server_context(directory: Path, authority: CertifiedKey, host: str = "127.0.0.1") -> ssl.SSLContext:
    pair = issue(authority, "n0", [host], DAY, NOW)
    (directory / "pair.pem").write_text(pair.certificate + pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "pair.pem")
    return context


def noted(authority: CertifiedKey, need: str) -> ControllersTrust:
    trust = ControllersTrust()
    trust.note(*WHERE, {"data": {"ca.crt": authority.certificate, "controllers-https": need}})
    return trust


@contextlib.asynccontextmanager
async def asking(host: str, trust: ControllersTrust) -> AsyncIterator[ControllersClient]:
    async with aiohttp.ClientSession() as session:
        yield ControllersClient(session, [host], "token", lambda: trust.ways(*WHERE))


@pytest.fixture
def authority() -> CertifiedKey:
    return new_authority("main", DAY, NOW)


async def test_a_controller_is_asked_and_changed_over_https(tmp_path: Path, authority: CertifiedKey) -> None:
    async with serving(server_context(tmp_path, authority)) as served:
        served.leader = served.host
        async with asking(served.host, noted(authority, "required")) as client:
            assert (await client.nodes())[0] == {"role": "leader", "term": 1}
            with pytest.raises(PeerUnavailableError, match="in a circle"):
                await client.designate("main", "orders", 1)
        # A redirect to HTTP is followed over HTTPS: each request reached the server, which speaks TLS only.
        assert len(served.tokens) == REDIRECTS_MAX


@pytest.mark.parametrize("fault", ["wrong authority", "wrong host"])
async def test_a_controller_with_another_certificate_gets_no_token(
    tmp_path: Path, authority: CertifiedKey, fault: str
) -> None:
    signer = new_authority("other", DAY, NOW) if fault == "wrong authority" else authority
    host = "127.0.0.9" if fault == "wrong host" else "127.0.0.1"
    async with serving(server_context(tmp_path, signer, host)) as served:
        async with asking(served.host, noted(authority, "required")) as client:
            assert await client.nodes() == [None]
            with pytest.raises(PeerUnavailableError):
                await client.designate("main", "orders", 1)
        assert not served.tokens


@pytest.mark.parametrize(("need", "is_reached"), [("required", False), ("offered", True)])
async def test_plain_http_is_used_only_while_a_cluster_moves(
    authority: CertifiedKey, need: str, is_reached: bool
) -> None:
    async with serving(None) as served:
        async with asking(served.host, noted(authority, need)) as client:
            assert (await client.nodes() != [None]) is is_reached
            with contextlib.suppress(PeerUnavailableError):
                await client.designate("main", "orders", 1)
        assert bool(served.tokens) is is_reached


async def test_a_cluster_without_authorities_is_asked_over_http_and_new_ones_count_at_once(
    tmp_path: Path, authority: CertifiedKey
) -> None:
    trust = ControllersTrust()
    assert [way.scheme for way in trust.ways(*WHERE)] == ["http"]
    trust = noted(new_authority("former", DAY, NOW), "required")
    context = server_context(tmp_path, authority)
    async with serving(context) as served, asking(served.host, trust) as client:
        assert await client.nodes() == [None]
        trust.note(*WHERE, {"data": {"ca.crt": authority.certificate, "controllers-https": "required"}})
        assert await client.nodes() != [None]


def test_unreadable_authorities_never_lead_to_plain_http() -> None:
    trust = ControllersTrust()
    trust.note(*WHERE, {"data": {"ca.crt": "rubbish", "controllers-https": "required"}})
    assert [way.scheme for way in trust.ways(*WHERE)] == ["https"]
    trust.note(*WHERE, None)
    assert [way.scheme for way in trust.ways(*WHERE)] == ["http"]
