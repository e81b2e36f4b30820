"""HTTP requests of strangers at a controller's port: the answer names the fault, the log has no traceback."""

import asyncio
import json
import logging
from typing import Any

import pytest

from testkit.products.one_controller import OneNode

TOKEN = "let-me-in"  # noqa: S105 - a made-up token
AUTHORIZED = f"Authorization: Bearer {TOKEN}\r\n".encode()
MEMBERS = b"/v1/members"

pytestmark = pytest.mark.parametrize("given", [{"httpToken": TOKEN}])


async def _answer(one: OneNode, request: bytes) -> tuple[int, bytes]:
    """Send bytes as they are; return the status and the body of the answer."""
    host, port = one.http.rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(request)
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        return int(head.split(b" ", 2)[1]), body
    finally:
        writer.close()


def _get(path: bytes) -> bytes:
    return b"GET " + path + b" HTTP/1.0\r\n\r\n"


def _post(body: bytes, headers: bytes = AUTHORIZED, path: bytes = MEMBERS) -> bytes:
    return b"POST %b HTTP/1.0\r\n%bContent-Length: %d\r\n\r\n%b" % (path, headers, len(body), body)


async def _refused(
    one: OneNode, caplog: pytest.LogCaptureFixture, request: bytes, status: int, field: str | None
) -> Any:
    with caplog.at_level(logging.DEBUG):
        got, body = await _answer(one, request)
    assert got == status
    assert not [record.getMessage() for record in caplog.records if record.exc_info]
    value = json.loads(body)
    assert value["field"] == field
    return value


@pytest.mark.parametrize("given_token", [b"\xff\xfe", b"\xed\xa0\x80", "é".encode(), b"", b"x" * 4_000])
async def test_a_token_of_any_bytes_is_a_wrong_token(
    one: OneNode, caplog: pytest.LogCaptureFixture, given_token: bytes
) -> None:
    headers = b"Authorization: Bearer " + given_token + b"\r\n"
    await _refused(one, caplog, _post(b"", headers, b"/v1/snapshot"), 401, "Authorization")


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 16_000,
        b'{"add":' * 2_000,
        b"\xff\xfe\x00",
        b'{"add": "\xff"}',
        b'{"add": ' + b"9" * 5_000 + b"}",
        b"",
    ],
)
async def test_a_body_that_cannot_be_read_is_not_json(
    one: OneNode, caplog: pytest.LogCaptureFixture, body: bytes
) -> None:
    value = await _refused(one, caplog, _post(body), 400, "body")
    assert value["error"].startswith("the body is not JSON: ")


@pytest.mark.parametrize(
    "content_type", [b"text/plain; charset=nothing", b"text/plain; charset=utf-7", b"x" * 99]
)
async def test_a_body_is_utf_8_whatever_its_type_says(
    one: OneNode, caplog: pytest.LogCaptureFixture, content_type: bytes
) -> None:
    headers = AUTHORIZED + b"Content-Type: " + content_type + b"\r\n"
    await _refused(one, caplog, _post(b'{"add": 7}', headers), 400, "add")


@pytest.mark.parametrize("coding", [b"deflate", b"gzip"])
async def test_a_body_that_is_not_compressed_as_it_says_is_refused(
    one: OneNode, caplog: pytest.LogCaptureFixture, coding: bytes
) -> None:
    headers = AUTHORIZED + b"Content-Encoding: " + coding + b"\r\n"
    await _refused(one, caplog, _post(b"neither of them", headers), 400, "body")


@pytest.mark.parametrize(
    ("path", "field"), [(b"/v1/failovers?limit=", "limit"), (b"/v1/events?follow=false&after=", "after")]
)
@pytest.mark.parametrize("number", ["9" * 4_500, str(2**63), "-1", "", "1_000", "%C2%B2"])
async def test_a_number_outside_its_range_is_named_and_cut(
    one: OneNode, caplog: pytest.LogCaptureFixture, path: bytes, field: str, number: str
) -> None:
    value = await _refused(one, caplog, _get(path + number.encode()), 400, field)
    assert value["error"] == f"must be a whole number from 0 to {2**63 - 1}"
    assert len(value["value"]) < 200


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /livez HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: a\r\n" + b"x" * 20_000 + b": y\r\n\r\n",
        b"GET /livez HTTP/9.9\r\n\r\n",
        b"GET /" + b"x" * 20_000 + b" HTTP/1.0\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: a\r\nHost\x00: b\r\n\r\n",
        b"\x16\x03\x01 a client of TLS\r\n\r\n",
    ],
)
async def test_bytes_that_are_not_http_leave_no_traceback(
    one: OneNode, caplog: pytest.LogCaptureFixture, request_bytes: bytes
) -> None:
    with caplog.at_level(logging.INFO):
        status, _ = await _answer(one, request_bytes)
    assert status in range(400, 500)
    assert not caplog.records


async def test_a_flood_of_requests_for_large_pages_leaves_the_loop_to_others(
    one: OneNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = one.controller._http._controller
    pages_of_this_turn, most = 0, 0

    def new_turn() -> None:
        nonlocal pages_of_this_turn
        pages_of_this_turn = 0
        loop.call_soon(new_turn)

    def groups() -> list[Any]:
        nonlocal pages_of_this_turn, most
        pages_of_this_turn += 1
        most = max(most, pages_of_this_turn)
        return []

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(type(view), "groups_json", lambda _view: groups())
    loop.call_soon(new_turn)
    answers = await asyncio.gather(*(_answer(one, _get(b"/v1/groups")) for _ in range(60)))
    assert {status for status, _ in answers} == {200}
    assert most == 1
