"""Answers of other processes over HTTP, read within bounds: a bad peer must not end a task or fill memory.

`newest_event` tells where the event stream of a controller ends, without reading the stream.
"""

import ssl
from typing import Any, Final

import aiohttp

from controller_core import bounded_json, limits
from controller_core.bounded_json import JsonError
from controller_core.remoting.numbers import whole_number
from controller_core.remoting.text_bounds import one_line

NEWEST_EVENT_HEADER: Final = "Rmqha-Newest-Event"
"""Sequence number of the last event of a stream, in every answer of `/v1/events`."""
EVENT_LINE_BYTES_MAX: Final = 1 << 20
"""Longest event that is read: far beyond what a controller writes."""
PROBLEM_BYTES_MAX: Final = 500
_CHUNK_BYTES: Final = 1 << 16
_OK: Final = 200
_BAD_REQUEST: Final = 400


async def read_body(
    response: aiohttp.ClientResponse, bytes_max: int = limits.HTTP_ANSWER_BYTES_MAX
) -> bytearray:
    """Return an answer's body.

    Raises:
        JsonError: it is longer than `bytes_max`.
        aiohttp.ClientError: the connection ended.
    """
    body = bytearray()
    async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
        body += chunk
        if len(body) > bytes_max:
            raise JsonError(f"more than {bytes_max} bytes")
    return body


async def read_json(response: aiohttp.ClientResponse, bytes_max: int = limits.HTTP_ANSWER_BYTES_MAX) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value of an answer's body.

    Raises:
        JsonError: the body is not JSON within the bounds.
        aiohttp.ClientError: the connection ended.
    """
    return bounded_json.decode(await read_body(response, bytes_max))


async def read_problem(response: aiohttp.ClientResponse) -> str:
    """Return the beginning of a refusal's body, as one printable line."""
    return one_line((await response.content.read(PROBLEM_BYTES_MAX)).decode(errors="replace").strip())


async def newest_event(
    session: aiohttp.ClientSession,
    url: str,
    within: aiohttp.ClientTimeout,
    verify: ssl.SSLContext | bool = True,
) -> int:
    """Return the sequence number of the newest event of the controller at `url`, 0 without one.

    Controllers up to 0.1 do not know `after=newest`; their kept events are read instead.

    Raises:
        aiohttp.ClientError: the controller cannot be reached.
        TimeoutError: it does not answer in time.
        JsonError: it refuses, redirects, or answers something else than a controller.
    """
    async with session.get(
        f"{url}/v1/events?after=newest&follow=false", timeout=within, allow_redirects=False, ssl=verify
    ) as response:
        if response.status != _BAD_REQUEST:
            _check(response)
            return _number(response.headers.get(NEWEST_EVENT_HEADER, ""))
    newest = 0
    async with session.get(
        f"{url}/v1/events?after=0&follow=false",
        timeout=within,
        allow_redirects=False,
        read_bufsize=EVENT_LINE_BYTES_MAX,
        ssl=verify,
    ) as response:
        _check(response)
        async for line in response.content:
            newest = max(newest, sequence_of(bounded_json.decode(line)))
    return newest


def sequence_of(event: object) -> int:
    """Return the sequence number of an event.

    Raises:
        JsonError: it has none.
    """
    sequence = event.get("sequence") if isinstance(event, dict) else None
    if type(sequence) is not int or sequence < 0:
        raise JsonError(f"sequence {str(sequence)[:40]} of an event (expected a number from 0)")
    return sequence


def _check(response: aiohttp.ClientResponse) -> None:
    if response.status != _OK:
        raise JsonError(f"status {response.status}")


def _number(text: str) -> int:
    number = whole_number(text, limits.SEQUENCE_DIGITS_MAX)
    if number is None:
        raise JsonError(f"{NEWEST_EVENT_HEADER} {text[:40]!r} (expected a number from 0)")
    return number
