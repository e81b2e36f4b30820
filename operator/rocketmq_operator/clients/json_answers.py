"""JSON that another process answers, read within bounds.

A bad peer must not end a task or fill the memory.
"""

from typing import Any, Final

import aiohttp

from rocketmq_operator.plan.common.json_text import parse_json

ANSWER_BYTES_MAX: Final = 64 << 20
"""Largest answer that is read: some 10,000 groups of a controller."""
_CHUNK_BYTES: Final = 1 << 16


async def read_json(response: aiohttp.ClientResponse, bytes_max: int = ANSWER_BYTES_MAX) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value of an answer's body.

    Raises:
        ValueError: the body is not JSON, nested too deeply, or longer than `bytes_max`.
    """
    return parse_json(await read_body(response, bytes_max))


async def read_body(response: aiohttp.ClientResponse, bytes_max: int = ANSWER_BYTES_MAX) -> bytearray:
    """Return an answer's body.

    Raises:
        ValueError: it is longer than `bytes_max`.
    """
    body = bytearray()
    async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
        body += chunk
        if len(body) > bytes_max:
            raise ValueError(f"more than {bytes_max} bytes")
    return body
