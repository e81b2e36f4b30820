"""The controllers over HTTP: any of them answers reads, the leader takes changes.

Reads request the committed state (`consistent=true`): a decision to restart a broker must not rest on what a
lagging controller remembers. The next call tries the controller that answered last first. A follower answers
a change with the leader's address and sent again there by us, because the token must not travel otherwise.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import quote

import aiohttp
from yarl import URL

from controller_core import bounded_json
from controller_core.channel.http_answers import (
    EVENT_LINE_BYTES_MAX,
    newest_event,
    read_json,
    read_problem,
    sequence_of,
)
from rocketmq_operator.clients.api import Json, PeerUnavailableError, RequestRefusedError, RetryLaterError
from rocketmq_operator.clients.controllers_trust import PLAIN, Way

READ_TIMEOUT: Final = aiohttp.ClientTimeout(total=3.0, connect=1.0)
CHANGE_TIMEOUT: Final = aiohttp.ClientTimeout(total=10.0, connect=1.0)
STREAM_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, connect=1.0)
FAILOVERS_MAX: Final = 60
REDIRECTS_MAX: Final = 3


class _NotFoundError(ValueError):
    """A controller knows nothing under this path."""


class ControllersClient:
    """`ControllerApi` over HTTP."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        hosts: Sequence[str],
        token: str = "",
        ways: Callable[[], Sequence[Way]] = lambda: PLAIN,
    ) -> None:
        """Describe the controllers.

        Args:
            session: what connects.
            hosts: the controllers' HTTP addresses, host:port each.
            token: what changes need.
            ways: says how to reach them now, best first.
        """
        self._ways: Final = ways
        self._session: Final = session
        self._all: Final = tuple(hosts)
        self._hosts: Final = list(hosts)
        self._token: Final = token
        self._last_sequence: int | None = None

    async def nodes(self) -> list[Json | None]:
        """Return the status of each controller, queried at the same time.

        Later calls try the leader first.
        """
        statuses = await asyncio.gather(*(self._status(host) for host in self._all))
        leaders = [
            (value["term"], host)
            for host, value in zip(self._all, statuses, strict=True)
            if value and value.get("role") == "leader" and isinstance(value.get("term"), int)
        ]
        if leaders:
            self._prefer(max(leaders)[1])
        return statuses

    async def _status(self, host: str) -> Json | None:
        for way in self._ways():
            with contextlib.suppress(aiohttp.ClientError, TimeoutError, ValueError, PeerUnavailableError):
                return _object(await self._get(way, host, "/v1/status"))
        return None

    async def members(self, node: int) -> Json:
        """Return the membership as one of the controllers knows it."""
        host, problem = self._all[node], ""
        for way in self._ways():
            try:
                return _object(await self._get(way, host, "/v1/members"))
            except (aiohttp.ClientError, TimeoutError, ValueError) as error:
                problem = repr(error)
        raise PeerUnavailableError(f"{host} does not tell the members: {problem}")

    async def change_members(self, action: str, member: str) -> None:
        """Add, promote or remove a controller.

        Raises:
            RequestRefusedError: it makes no sense.
            RetryLaterError: the obstacle may pass by itself.
            PeerUnavailableError: no controller accepts it.
        """
        await self._change_anywhere("/v1/members", {action: member})

    async def group(self, cluster: str, name: str) -> Json | None:
        """Return a broker group as committed now, None if it is not known."""
        value = await self._read(f"/v1/groups/{quote(cluster)}/{quote(name)}?consistent=true")
        return None if value is None else _object(value)

    async def failovers(self, cluster: str, name: str) -> list[Json]:
        """Return a group's changes of master, newest first."""
        query = f"cluster={quote(cluster)}&group={quote(name)}&limit={FAILOVERS_MAX}&consistent=true"
        found = _object(await self._read(f"/v1/failovers?{query}")).get("failovers")
        if not isinstance(found, list):
            raise PeerUnavailableError("a controller's answer lacks the list of failovers")
        return found

    async def designate(self, cluster: str, name: str, broker_id: int) -> None:
        """Make a member master; raise `RequestRefusedError` if the controllers would not."""
        await self._change_anywhere(
            f"/v1/groups/{quote(cluster)}/{quote(name)}/elect", {"brokerId": broker_id}
        )

    async def _change_anywhere(self, path: str, body: Json) -> None:
        """Hand a change to the first controller that can be connected to: it knows the leader."""
        problem = "no controller address is known"
        for host, way in self._places():
            try:
                return await self._change(way, host, path, body)
            except (aiohttp.ClientError, TimeoutError) as error:
                problem = f"{host}: {error!r}"
        raise PeerUnavailableError(f"no controller takes a change: {problem}")

    async def events(self) -> AsyncIterator[Json]:
        """Yield events until the stream ends.

        The first call starts from now on, a later one from where the last stream ended.
        """
        host, way, newest = await self._last_event()
        # Why the smaller: controllers that lost their state count from the beginning again.
        last = newest if self._last_sequence is None else min(newest, self._last_sequence)
        self._last_sequence = last
        try:
            async with self._answer(way, host, f"/v1/events?after={last}", STREAM_TIMEOUT) as response:
                async for line in response.content:
                    if line.strip():
                        event, sequence = _event(line)
                        yield event
                        self._last_sequence = sequence
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise PeerUnavailableError(f"the event stream of {host} broke: {error!r}") from error

    @asynccontextmanager
    async def _answer(
        self, way: Way, host: str, path: str, limits: aiohttp.ClientTimeout
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Get a path without following redirects.

        Raises:
            _NotFoundError: the status is 404.
            ValueError: the status is another one than 200.
        """
        async with self._session.get(
            f"{way.scheme}://{host}{path}",
            timeout=limits,
            allow_redirects=False,
            read_bufsize=EVENT_LINE_BYTES_MAX,
            ssl=way.verify,
        ) as response:
            if response.status == 404:
                raise _NotFoundError("status 404")
            if response.status != 200:
                raise ValueError(f"status {response.status}")
            yield response

    def _places(self) -> list[tuple[str, Way]]:
        ways = self._ways()
        return [(host, way) for host in self._hosts for way in ways]

    async def _last_event(self) -> tuple[str, Way, int]:
        """Return a controller that answers, how it was reached, and the sequence of its newest event."""
        problem = "no controller address is known"
        for host, way in self._places():
            try:
                base = f"{way.scheme}://{host}"
                last = await newest_event(self._session, base, READ_TIMEOUT, way.verify)
            except (aiohttp.ClientError, TimeoutError, ValueError) as error:
                problem = f"{host}: {error!r}"
                continue
            self._prefer(host)
            return host, way, last
        raise PeerUnavailableError(f"no controller serves events: {problem}")

    async def _read(self, path: str) -> Any:  # noqa: ANN401 - any JSON value
        problem = "no controller address is known"
        for host, way in self._places():
            try:
                value = await self._get(way, host, path)
            except (aiohttp.ClientError, TimeoutError, ValueError) as error:
                problem = f"{host}: {error!r}"
                continue
            self._prefer(host)
            return value
        raise PeerUnavailableError(f"no controller answers: {problem}")

    async def _get(self, way: Way, host: str, path: str) -> Any:  # noqa: ANN401 - any JSON value
        """Return one controller's answer, None for what it knows nothing of."""
        try:
            async with self._answer(way, host, path, READ_TIMEOUT) as response:
                return await read_json(response)
        except _NotFoundError:
            return None

    async def _change(self, way: Way, host: str, path: str, body: Json) -> None:
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        url = f"{way.scheme}://{host}{path}"
        for _ in range(REDIRECTS_MAX):
            async with self._session.post(
                url, json=body, headers=headers, timeout=CHANGE_TIMEOUT, allow_redirects=False, ssl=way.verify
            ) as response:
                if response.status == 307:
                    url = _redirected(url, response.headers.get("Location", ""))
                    continue
                text = await read_problem(response)
                if response.status in {503, 504}:
                    raise RetryLaterError(f"the controllers cannot change anything now: {text}")
                if response.status >= 400:
                    raise RequestRefusedError(f"the controllers refused: {response.status} {text}")
                return
        raise PeerUnavailableError("the controllers send changes in a circle")

    def _prefer(self, host: str) -> None:
        if self._hosts[0] != host:
            self._hosts.remove(host)
            self._hosts.insert(0, host)


def _redirected(url: str, location: str) -> str:
    """Return the leader's URL for a change: another host, but the same path by the same protocol.

    Raises:
        PeerUnavailableError: it is another URL, to which neither the change nor the token must go.
    """
    try:
        before, after = URL(url), URL(location)
    except ValueError as error:
        raise PeerUnavailableError(f"a controller redirects to {location[:200]!r}") from error
    if not after.raw_host or after.raw_path_qs != before.raw_path_qs:
        raise PeerUnavailableError(f"a controller redirects {before.raw_path_qs} to {location[:200]!r}")
    return str(after.with_scheme(before.scheme))


def _event(line: bytes) -> tuple[Json, int]:
    """Return an event and its sequence; raise `ValueError` for anything else."""
    event = bounded_json.decode_object(line)
    return event, sequence_of(event)


def _object(value: object) -> Json:
    if not isinstance(value, dict):
        raise PeerUnavailableError("a controller's answer is not a JSON object")
    return value
