"""A process that is told to listen on every interface is reached in IPv4 and IPv6, as a Java process is."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import pytest
import uvloop
from aiohttp import web

from controller_core.channel import connect, serve
from controller_core.channel import sockets as module
from controller_core.channel.endpoints import PortBounds
from controller_core.channel.http_port import HttpPort
from controller_core.channel.sockets import listening_everywhere, listening_hosts
from controller_core.remoting.host_port import plain_host
from testkit.processes.ports import free_port

EVERY = "0.0.0.0"  # noqa: S104 - under test
HOSTS = ["127.0.0.1", "::1"]
WITHIN_S = 20.0
LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]


@pytest.fixture
def without_v6(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    made = socket.socket

    def refused(family: int = socket.AF_INET, *rest: int) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError("Address family not supported by protocol")
        return made(family, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(module.socket, "socket", refused)
        yield


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("host", ["", EVERY])
def test_a_remoting_port_of_every_interface_is_of_both_families(loop: object, host: str) -> None:
    async def peers() -> list[str]:
        port, seen = free_port(), list[str]()
        server = await serve(host, port, lambda connection: seen.append(connection.peer), PortBounds())
        try:
            for each in HOSTS:
                connection = await connect(each, port, WITHIN_S)
                async with asyncio.timeout(WITHIN_S):
                    while len(seen) <= HOSTS.index(each):  # noqa: ASYNC110 - without a notification
                        await asyncio.sleep(0)
                connection.close()
        finally:
            await server.close()
        return [peer.rpartition(":")[0] for peer in seen]

    with asyncio.Runner(loop_factory=loop) as runner:  # type: ignore[arg-type] # one of two loops
        assert runner.run(peers()) == ["127.0.0.1", "[::1]"]


async def test_an_http_port_of_every_interface_is_of_both_families() -> None:
    port, pages = free_port(), HttpPort(web.Application(), shutdown_s=0.1)
    await pages.start(EVERY, port)
    try:
        for host in HOSTS:
            _, writer = await asyncio.open_connection(host, port)
            writer.close()
    finally:
        await pages.stop()


def test_one_socket_of_every_interface_shows_peers_of_ipv4_as_such() -> None:
    with contextlib.closing(listening_everywhere(0, 1)) as listener:
        for host in HOSTS:
            with socket.create_connection((host, listener.getsockname()[1])):
                accepted, peer = listener.accept()
                accepted.close()
                assert plain_host(peer[0]) == host


@pytest.mark.parametrize("host", ["::1", "127.0.0.1", "a.example", "::"])
def test_a_port_of_one_address_is_of_that_alone(host: str) -> None:
    assert listening_hosts(host, 80) == [host]


def test_a_port_that_the_kernel_chooses_is_one_port() -> None:
    assert listening_hosts(EVERY, 0) == [EVERY]


@pytest.mark.usefixtures("without_v6")
def test_without_ipv6_in_the_kernel_every_interface_is_of_ipv4() -> None:
    assert listening_hosts(EVERY, 80) == [EVERY]
    with contextlib.closing(listening_everywhere(0, 1)) as listener:
        assert listener.family is socket.AF_INET
