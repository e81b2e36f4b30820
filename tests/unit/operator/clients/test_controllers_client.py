"""The controllers over HTTP: any answers a read, the leader takes a change.

The silence of one does not stop the others.
"""

import json
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web

from controller_core.channel import http_answers
from controller_core.channel.http_answers import NEWEST_EVENT_HEADER
from rocketmq_operator.clients.api import PeerUnavailableError, RequestRefusedError, RetryLaterError
from rocketmq_operator.clients.controllers import ControllersClient


class _Node:
    """A controller's HTTP interface with canned answers."""

    def __init__(self) -> None:
        self.host = ""
        self.asked: list[str] = []
        self.leader: str | None = None
        self.status = 200
        self.header_seen = ""
        self.events = ""
        self.role = "follower"
        self.answer: str | None = None
        self.redirects_to = ""
        self.location: str | None = None
        self.is_old = False
        self.newest: str | None = None
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.host = f"127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        self.asked.append(f"{request.method} {request.path_qs}")
        if request.method == "POST":
            self.header_seen = request.headers.get("Authorization", "")
            if self.location is not None:
                return web.Response(status=307, headers={"Location": self.location})
            if self.leader:
                return web.Response(
                    status=307, headers={"Location": f"http://{self.leader}{request.path_qs}"}
                )
            return web.json_response({"error": "no"}, status=self.status)
        if self.redirects_to:
            raise web.HTTPFound(f"http://{self.redirects_to}{request.path_qs}")
        if self.answer is not None:
            return web.Response(text=self.answer)
        if request.path == "/v1/events":
            return self._events(request)
        if request.path == "/v1/failovers":
            return web.json_response({"failovers": [{"new_epoch": 2}]})
        if request.path == "/v1/status":
            return web.json_response({"role": self.role, "term": 4})
        if request.path.endswith("/unknown"):
            return web.json_response({"error": "no such broker group"}, status=404)
        return web.json_response({"name": "orders"}, status=self.status)

    def _events(self, request: web.Request) -> web.Response:
        if request.query["after"] != "newest":
            return web.Response(text=self.events)
        if self.is_old:
            return web.json_response({"error": "must be a whole number"}, status=400)
        newest = self.newest
        if newest is None:
            newest = [json.loads(line)["sequence"] for line in self.events.splitlines()][-1]
        return web.Response(headers={NEWEST_EVENT_HEADER: str(newest)})


@pytest.fixture
async def nodes() -> AsyncIterator[tuple[_Node, _Node]]:
    pair = _Node(), _Node()
    for node in pair:
        await node.start()
    yield pair
    for node in pair:
        await node.stop()


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as opened:
        yield opened


async def test_reads_ask_for_what_is_committed_now(
    nodes: tuple[_Node, _Node], session: aiohttp.ClientSession
) -> None:
    client = ControllersClient(session, [nodes[0].host])
    assert await client.group("main", "orders") == {"name": "orders"}
    assert nodes[0].asked == ["GET /v1/groups/main/orders?consistent=true"]


async def test_a_group_that_is_not_known_is_none(
    nodes: tuple[_Node, _Node], session: aiohttp.ClientSession
) -> None:
    assert await ControllersClient(session, [nodes[0].host]).group("main", "unknown") is None


async def test_a_controller_that_is_gone_is_passed_over_and_asked_last_from_then_on(
    nodes: tuple[_Node, _Node], session: aiohttp.ClientSession
) -> None:
    await nodes[0].stop()
    client = ControllersClient(session, [nodes[0].host, nodes[1].host])
    await client.group("main", "orders")
    assert client._hosts == [nodes[1].host, nodes[0].host]


async def test_one_without_a_quorum_is_passed_over(
    nodes: tuple[_Node, _Node], session: aiohttp.ClientSession
) -> None:
    nodes[0].status = 503
    client = ControllersClient(session, [nodes[0].host, nodes[1].host])
    assert await client.group("main", "orders") == {"name": "orders"}


async def test_silence_of_all_is_said(nodes: tuple[_Node, _Node], session: aiohttp.ClientSession) -> None:
    await nodes[0].stop()
    with pytest.raises(PeerUnavailableError, match=nodes[0].host):
        await ControllersClient(session, [nodes[0].host]).group("main", "orders")


async def test_a_change_goes_to_the_leader_with_the_token(
    nodes: tuple[_Node, _Node], session: aiohttp.ClientSession
) -> None:
    nodes[0].leader = nodes[1].host
    await ControllersClient(session, [nodes[0].host], "secret").designate("main", "orders", 2)
    assert nodes[1].asked == ["POST /v1/groups/main/orders/elect"]
    assert nodes[1].header_seen == "Bearer secret"


async def test_a_refusal_is_not_tried_elsewhere(
    nodes: tuple[_Node, _Node], session: aiohttp.ClientSession
) -> None:
    nodes[0].status = 409
    with pytest.raises(RequestRefusedError, match="409"):
        await ControllersClient(session, [nodes[0].host, nodes[1].host]).designate("main", "orders", 2)
    assert nodes[1].asked == []


async def test_two_that_send_a_change_to_each_other_are_left(
    nodes: tuple[_Node, _Node], session: aiohttp.ClientSession
) -> None:
    nodes[0].leader, nodes[1].leader = nodes[1].host, nodes[0].host
    with pytest.raises(PeerUnavailableError, match="circle"):
        await ControllersClient(session, [nodes[0].host]).designate("main", "orders", 2)


async def test_events_begin_after_the_newest(
    nodes: tuple[_Node, _Node], session: aiohttp.ClientSession
) -> None:
    nodes[0].events = '{"sequence": 7}\n{"sequence": 8}\n'
    found = [event async for event in ControllersClient(session, [nodes[0].host]).events()]
    assert nodes[0].asked == ["GET /v1/events?after=newest&follow=false", "GET /v1/events?after=8"]
    assert len(found) == 2


async def test_an_older_controller_is_asked_for_its_kept_events_to_find_the_newest(
    nodes: tuple[_Node, _Node], session: aiohttp.ClientSession
) -> None:
    nodes[0].is_old = True
    nodes[0].events = '{"sequence": 7}\n{"sequence": 8}\n'
    _ = [event async for event in ControllersClient(session, [nodes[0].host]).events()]
    assert nodes[0].asked[1:] == ["GET /v1/events?after=0&follow=false", "GET /v1/events?after=8"]


@pytest.mark.parametrize("number", ["", "-1", "x", "9" * 5_000, "\u0663"])
async def test_a_newest_event_that_is_no_number_is_the_peers_fault(
    nodes: tuple[_Node, _Node], session: aiohttp.ClientSession, number: str
) -> None:
    nodes[0].newest = number
    with pytest.raises(PeerUnavailableError):
        _ = [event async for event in ControllersClient(session, [nodes[0].host]).events()]


async def test_a_stream_goes_on_where_the_last_one_ended(
    nodes: tuple[_Node, _Node], session: aiohttp.ClientSession
) -> None:
    client = ControllersClient(session, [nodes[0].host])
    nodes[0].events = '{"sequence": 7}\n'
    _ = [event async for event in client.events()]
    nodes[0].events = '{"sequence": 9}\n'
    _ = [event async for event in client.events()]
    assert nodes[0].asked[-1] == "GET /v1/events?after=7"
    nodes[0].events = '{"sequence": 2}\n'
    _ = [event async for event in client.events()]
    assert nodes[0].asked[-1] == "GET /v1/events?after=2", "the controllers count from the beginning again"


async def test_an_answer_that_is_none_is_the_peers_fault(
    nodes: tuple[_Node, _Node], session: aiohttp.ClientSession
) -> None:
    nodes[0].events = "<html>\n"
    with pytest.raises(PeerUnavailableError):
        _ = [event async for event in ControllersClient(session, [nodes[0].host]).events()]


@pytest.mark.parametrize("location", ["/v1/secrets", "https://{}/v1/members", "", "http://[", "//{}"])
async def test_a_change_that_is_sent_to_another_path_goes_nowhere(
    nodes: tuple[_Node, _Node], session: aiohttp.ClientSession, location: str
) -> None:
    nodes[0].location = location.format(nodes[1].host)
    with pytest.raises(PeerUnavailableError, match="redirects"):
        await ControllersClient(session, [nodes[0].host], "t").designate("main", "orders", 2)
    assert nodes[1].asked == []


async def test_each_controller_is_asked_what_it_is_and_the_leader_takes_the_change(
    nodes: tuple[_Node, _Node], session: aiohttp.ClientSession
) -> None:
    nodes[1].role = "leader"
    gone = "127.0.0.1:1"
    client = ControllersClient(session, [nodes[0].host, gone, nodes[1].host], "secret")
    told = await client.nodes()
    assert [one and one["role"] for one in told] == ["follower", None, "leader"]
    await client.change_members("promote", "n3")
    assert nodes[1].asked == ["GET /v1/status", "POST /v1/members"]
    assert nodes[1].header_seen == "Bearer secret"


async def test_what_may_pass_by_itself_is_told_from_a_refusal(
    nodes: tuple[_Node, _Node], session: aiohttp.ClientSession
) -> None:
    client = ControllersClient(session, [nodes[0].host])
    nodes[0].status = 503
    with pytest.raises(RetryLaterError):
        await client.change_members("promote", "n3")
    nodes[0].status = 409
    with pytest.raises(RequestRefusedError):
        await client.change_members("promote", "n3")


@pytest.mark.parametrize(
    "line",
    [
        '{"sequence": 1}\n' + "[" * 60_000,
        '{"sequence": 1}\n' + "9" * 5_000,
        '{"sequence": [1]}',
        '{"sequence": null}',
        "[]",
        "null",
        "\ud7ff",
    ],
)
async def test_a_line_that_is_not_an_event_only_ends_the_stream(
    nodes: tuple[_Node, _Node], session: aiohttp.ClientSession, line: str
) -> None:
    nodes[0].events = line + "\n"
    with pytest.raises(PeerUnavailableError):
        _ = [event async for event in ControllersClient(session, [nodes[0].host]).events()]


async def test_a_long_event_does_not_end_the_stream(
    nodes: tuple[_Node, _Node], session: aiohttp.ClientSession
) -> None:
    nodes[0].events = f'{{"sequence": 1, "address": "{"z" * 900_000}"}}\n'
    found = [event async for event in ControllersClient(session, [nodes[0].host]).events()]
    assert [event["sequence"] for event in found] == [1]


@pytest.mark.parametrize("answer", ["[" * 60_000, "9" * 5_000, "<html>", '"x"', ""])
async def test_an_answer_that_is_not_an_object_is_passed_over(
    nodes: tuple[_Node, _Node], session: aiohttp.ClientSession, answer: str
) -> None:
    nodes[0].answer = answer
    client = ControllersClient(session, [nodes[0].host])
    with pytest.raises(PeerUnavailableError):
        await client.group("c", "orders")
    with pytest.raises(PeerUnavailableError):
        await client.failovers("c", "orders")
    with pytest.raises(PeerUnavailableError):
        await client.members(0)
    assert await client.nodes() == [None]


async def test_an_answer_without_end_is_given_up(
    nodes: tuple[_Node, _Node], session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_answers.read_json, "__defaults__", (1_000,))
    nodes[0].answer = f'{{"name": "{"x" * 2_000}"}}'
    with pytest.raises(PeerUnavailableError, match="more than 1000 bytes"):
        await ControllersClient(session, [nodes[0].host]).group("c", "orders")


async def test_a_read_follows_no_redirect(nodes: tuple[_Node, _Node], session: aiohttp.ClientSession) -> None:
    nodes[0].redirects_to = nodes[1].host
    client = ControllersClient(session, [nodes[0].host])
    with pytest.raises(PeerUnavailableError, match="status 302"):
        await client.group("c", "orders")
    with pytest.raises(PeerUnavailableError, match="status 302"):
        _ = [event async for event in client.events()]
    assert nodes[1].asked == []


async def test_a_leader_without_a_term_is_not_preferred(
    nodes: tuple[_Node, _Node], session: aiohttp.ClientSession
) -> None:
    nodes[0].answer = '{"role": "leader", "term": "x"}'
    nodes[1].role = "leader"
    client = ControllersClient(session, [node.host for node in nodes])
    await client.nodes()
    await client.group("c", "orders")
    assert nodes[1].asked[-1].startswith("GET /v1/groups/c/orders")
