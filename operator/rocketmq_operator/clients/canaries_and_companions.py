"""Small services of a group's pods over HTTP, canaries and companions: asked now and then, never waited for.

Their answers are optional, so this client bounds the time and size of an answer tightly and rejects
redirects.
"""

from typing import Any, Final

import aiohttp

from controller_core.channel.http_answers import read_json
from rocketmq_operator.clients.api import Json, PeerUnavailableError

ANSWER_TIMEOUT: Final = aiohttp.ClientTimeout(total=0.6)
ANSWER_BYTES_MAX: Final = 2 << 20
"""Twice what a canary tells when it has seen as much as it remembers."""


class CanariesClient:
    """`CanaryApi` over HTTP."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        """Take what connects."""
        self._session: Final = session

    async def gaps(self, host: str) -> Json:
        """Return what the canary at host:port knows of gaps and losses; raise `PeerUnavailableError`."""
        return await _get_object(self._session, f"http://{host}/v1/gaps", f"the canary {host}")


class CompanionsClient:
    """`CompanionApi` over HTTP."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        """Take what connects."""
        self._session: Final = session

    async def status(self, host: str) -> Json:
        """Return what the companion at host:port knows of its broker; raise `PeerUnavailableError`."""
        return await _get_object(self._session, f"http://{host}/v1/status", f"the companion {host}")


async def _get_object(session: aiohttp.ClientSession, url: str, who: str) -> Json:
    try:
        async with session.get(url, timeout=ANSWER_TIMEOUT, allow_redirects=False) as response:
            if response.status != 200:
                raise PeerUnavailableError(f"{who} answers {response.status}")
            value: Any = await read_json(response, ANSWER_BYTES_MAX)
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        raise PeerUnavailableError(f"{who} does not answer: {error!r}") from error
    if not isinstance(value, dict):
        raise PeerUnavailableError(f"the answer of {who} is not a JSON object")
    return value
