"""JSON that another process answers, read within bounds.

A bad peer must not end a task or fill the memory.
"""

import json
from typing import Any, Final

import aiohttp

ANSWER_BYTES_MAX: Final = 64 << 20
"""Largest answer that is read: some 10,000 groups of a controller."""
_CHUNK_BYTES: Final = 1 << 16


async def read_json(response: aiohttp.ClientResponse, bytes_max: int = ANSWER_BYTES_MAX) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value of an answer's body.

    Raises:
        ValueError: the body is not JSON, nested too deeply, or longer than `bytes_max`.
    """
    body = bytearray()
    async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
        body += chunk
        if len(body) > bytes_max:
            raise ValueError(f"more than {bytes_max} bytes")
    return parse_json(body)


def parse_json(text: bytes | bytearray) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value of a JSON text.

    Raises:
        ValueError: it is not JSON, or nested too deeply.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("JSON that is nested too deeply") from error
