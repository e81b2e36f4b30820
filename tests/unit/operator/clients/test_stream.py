"""Lists and watches over HTTP, against a server that answers as the API server does."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from kubernetes import client

from rocketmq_operator.clients.api import BusyError, PeerUnavailableError
from rocketmq_operator.clients.stream import EVENT_BYTES_MAX, HttpStream, VersionGoneError

Json = dict[str, Any]
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]
LABEL = "rocketmq-ha.dev/cluster"


@asynccontextmanager
async def _asked(answer: Answer) -> AsyncIterator[HttpStream]:
    """Yield a stream whose API server answers so; it refuses a request without a valid token."""

    async def guarded(request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") != "Bearer secret":
            return web.Response(status=403, text="system:anonymous")
        return await answer(request)

    application = web.Application()
    application.router.add_get("/api/v1/namespaces/shop/pods", guarded)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    settings = client.Configuration()
    settings.host = f"http://127.0.0.1:{runner.addresses[0][1]}"
    # As the package's readers of kubeconfigs and of pods' accounts leave it.
    settings.api_key["BearerToken"] = "Bearer secret"
    pods = SimpleNamespace(path=lambda namespace: f"/api/v1/namespaces/{namespace}/pods")
    dynamic: Any = SimpleNamespace(
        client=SimpleNamespace(configuration=settings), resources=SimpleNamespace(get=lambda **_: pods)
    )
    stream = HttpStream(dynamic)
    try:
        yield stream
    finally:
        await stream.close()
        await runner.cleanup()


def _pod(name: str, text: str = "") -> Json:
    return {"metadata": {"name": name, "resourceVersion": "5", "annotations": {"text": text}}}


def _lines(*events: Json) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        assert (request.query["watch"], request.query["allowWatchBookmarks"]) == ("true", "true")
        return web.Response(text="".join(f"{json.dumps(event)}\n" for event in events))

    return answer


async def _watched(stream: HttpStream) -> list[tuple[str, str]]:
    found = stream.watch("Pod", "shop", LABEL, "1")
    return [(type_, pod["metadata"]["name"]) async for type_, pod in found]


async def test_a_list_is_read_page_by_page_with_the_label_and_the_token() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.query["labelSelector"] == LABEL
        last = "continue" in request.query
        metadata = {"resourceVersion": "7"} | ({} if last else {"continue": "more"})
        return web.json_response({"metadata": metadata, "items": [_pod("b" if last else "a")]})

    async with _asked(answer) as stream:
        items, version = await stream.list("Pod", "shop", LABEL)
    assert ([one["metadata"]["name"] for one in items], version) == (["a", "b"], "7")


async def test_a_watch_yields_what_comes_until_it_is_ended_however_long_a_line_is() -> None:
    long = "x" * (1 << 20)
    events = [{"type": "ADDED", "object": _pod("a", long)}, {"type": "DELETED", "object": _pod("b")}]
    async with _asked(_lines(*events)) as stream:
        assert await _watched(stream) == [("ADDED", "a"), ("DELETED", "b")]


async def test_a_version_that_is_gone_is_told_as_such_by_status_and_by_event() -> None:
    async def gone(_: web.Request) -> web.StreamResponse:
        return web.Response(status=410, text="too old")

    for answer in (gone, _lines({"type": "ERROR", "object": {"code": 410, "message": "too old"}})):
        async with _asked(answer) as stream:
            with pytest.raises(VersionGoneError, match="410 too old"):
                await _watched(stream)


@pytest.mark.parametrize(
    ("status", "told", "least_s"), [(429, "7", 7.0), (503, "", 0.0), (429, "86400", 60.0)]
)
async def test_an_api_server_that_is_busy_says_for_how_long(status: int, told: str, least_s: float) -> None:
    async def busy(_: web.Request) -> web.StreamResponse:
        return web.Response(status=status, headers={"Retry-After": told} if told else {})

    async with _asked(busy) as stream:
        with pytest.raises(BusyError) as raised:
            await stream.list("Pod", "shop", LABEL)
    assert raised.value.retry_after_s == least_s


@pytest.mark.parametrize(
    "text",
    ["no JSON\n", '{"object": {}}\n', "x" * (EVENT_BYTES_MAX + 1), f"{'[' * 100_000}\n", "[]\n"],
    ids=["rubbish", "no type", "no end", "deep", "no object"],
)
async def test_what_is_no_event_is_an_answer_that_failed(text: str) -> None:
    async def rubbish(_: web.Request) -> web.StreamResponse:
        return web.Response(text=text)

    async with _asked(rubbish) as stream:
        with pytest.raises(PeerUnavailableError, match="the watch broke"):
            await _watched(stream)


@pytest.mark.parametrize("text", ["no JSON", "[" * 100_000, "[]"], ids=["rubbish", "deep", "no object"])
async def test_a_page_that_is_not_a_list_of_objects_is_an_answer_that_failed(text: str) -> None:
    async def rubbish(_: web.Request) -> web.StreamResponse:
        return web.Response(text=text)

    async with _asked(rubbish) as stream:
        with pytest.raises(PeerUnavailableError, match="Pod: no list"):
            await stream.list("Pod", "shop", LABEL)
