"""Tell the broker of consumers that come as guests, for as long as it does not know them otherwise.

`request_filter` takes the consumers out of guests' heartbeats, because the broker knows them by their own
connection to it. A broker that has just started does not: its clients dial it again with their next
heartbeats, up to 30 s later. Until then it refuses their pulls ("the consumer's group info not exist"), and
they receive nothing. So the companion asks the broker for the consumers of the group, and

| it names the client | and the guest's heartbeat | then |
|---|---|---|
| not at all | has just come | the heartbeat is sent on as it was, as a oneway request |
| once | | nothing |
| once | is not the first that is sent on | it is sent on too: it renews the subscriptions |
| twice or more | was sent on | the guest's consumers are unregistered: the client has its own connection |

A client pulls as soon as it is connected, and tries a refused pull again 1 s later. So a guest's first pulls
wait until the broker names a consumer of their group.

While the broker names a client twice, the client leaves half of its queues alone. So the companion asks each
`LOOK_S` while a heartbeat that it sent on counts, and more often while a guest waits, but at most
`QUESTIONS_A_SECOND`.

Never: keeps what a guest sent for longer than the first question, or waits for a broker that does not answer.

Source: ConsumerManageProcessor.getConsumerListByGroup, ClientManageProcessor.unregisterClient,
PullMessageProcessor 5.5.0.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Final, Protocol

from msgspec import structs

from controller_core.access.signing import Sign
from controller_core.channel.asking import Asker, AskError
from controller_core.remoting import lenient_json
from controller_core.remoting.client_headers import (
    GetConsumerListByGroupRequestHeader,
    UnregisterClientRequestHeader,
)
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import FLAG_ONEWAY, RemotingCommand
from controller_core.remoting.errors import RemotingProtocolError
from ha_sidecar import limits
from ha_sidecar.companion.guests.request_filter import Consumers

LOOK_S: Final = 0.1
QUESTIONS_A_SECOND: Final = 200
"""Each is for one group."""


class GuestWay(Protocol):
    """A guest's connection to the broker."""

    def insert(self, request: RemotingCommand) -> bool:
        """Send a oneway request between two of the client's; False if none ends here now."""
        ...

    def hand_on(self) -> None:
        """Send the pulls that wait; the guest says `waits_no_more`."""
        ...


class Introductions:
    """The guests whose consumers the broker may not know; for the guests' thread."""

    def __init__(self, asker: Callable[[], Asker], sign: Sign | None) -> None:
        """Take a new way to ask the broker, and what signs requests of ours; None without access control."""
        self._asker: Final = asker
        self._sign: Final = sign
        self._new: Final[dict[GuestWay, Consumers]] = {}
        self._new_bytes = 0
        self._introduced: Final[dict[GuestWay, tuple[str, tuple[str, ...]]]] = {}
        self._waiting: Final[dict[GuestWay, AbstractSet[str]]] = {}
        self._looking: asyncio.Task[None] | None = None
        self._has_news: Final = asyncio.Event()

    def came(self, guest: GuestWay, consumers: Consumers) -> None:
        """Learn that a guest's heartbeat lost its consumers."""
        if guest in self._introduced and self._send_on(guest, consumers):
            return
        self._drop(guest)
        heartbeat_bytes = consumers.heartbeat.size_bytes()
        if self._new_bytes + heartbeat_bytes > limits.GUEST_INTRODUCTIONS_BYTES_MAX:
            return  # its next heartbeat is another occasion
        self._new[guest] = consumers
        self._new_bytes += heartbeat_bytes
        self._look_soon()

    def waits(self, guest: GuestWay, groups: AbstractSet[str]) -> None:
        """Learn that a guest has pulls of some groups wait."""
        self._waiting[guest] = self._waiting.get(guest, frozenset()) | groups
        self._look_soon()

    def waits_no_more(self, guest: GuestWay) -> None:
        """Learn that a guest has sent its pulls."""
        self._waiting.pop(guest, None)

    def left(self, guest: GuestWay) -> None:
        """Learn that a guest has gone; the broker forgets its consumers by itself."""
        self._drop(guest)
        self._introduced.pop(guest, None)
        self._waiting.pop(guest, None)

    def close(self) -> None:
        """Ask no more."""
        if self._looking is not None:
            self._looking.cancel()

    def _look_soon(self) -> None:
        self._has_news.set()
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        asker = self._asker()
        try:
            while self._new or self._introduced or self._waiting:
                self._has_news.clear()
                new, groups = dict(self._new), self._groups()
                named = await self._named(asker, groups)
                for guest, consumers in new.items():
                    if self._new.get(guest) is consumers:
                        self._introduce(guest, consumers, named)
                for guest in list(self._introduced):
                    self._take_back(guest, named)
                for guest, waited in list(self._waiting.items()):
                    # Nor do they wait for a group without an answer: the broker itself will refuse them.
                    if waited <= groups and all(named.get(group, True) for group in waited):
                        guest.hand_on()
                await asyncio.sleep(len(groups) / QUESTIONS_A_SECOND)
                await self._until_next_look()
        finally:
            asker.close()

    async def _until_next_look(self) -> None:
        if not self._waiting:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._has_news.wait()

    def _groups(self) -> AbstractSet[str]:
        """Return the groups that the broker may not know, or may name a client of twice."""
        introduced = (groups for _, groups in self._introduced.values())
        new = (consumers.groups for consumers in self._new.values())
        return {group for groups in chain(introduced, new, self._waiting.values()) for group in groups}

    async def _named(self, asker: Asker, groups: AbstractSet[str]) -> dict[str, Counter[str]]:
        """Return how often the broker names each client, by group; groups without an answer lack."""
        found = {}
        for group in sorted(groups):
            try:
                answer = await asker.ask(
                    RequestCode.GET_CONSUMER_LIST_BY_GROUP, GetConsumerListByGroupRequestHeader(group)
                )
                found[group] = Counter(_client_ids(answer.body))
            except AskError as error:
                if error.code == ResponseCode.SYSTEM_ERROR:  # "no consumer for this group"
                    found[group] = Counter()
            except RemotingProtocolError:
                continue
        return found

    def _introduce(self, guest: GuestWay, consumers: Consumers, named: dict[str, Counter[str]]) -> None:
        lists = [named[group] for group in consumers.groups if group in named]
        # A former heartbeat made the broker name an introduced guest; this one may change subscriptions.
        is_known = guest not in self._introduced and all(consumers.client_id in names for names in lists)
        if is_known or self._send_on(guest, consumers):
            self._drop(guest)

    def _drop(self, guest: GuestWay) -> None:
        """Keep a guest's heartbeat no longer, if there is one."""
        consumers = self._new.pop(guest, None)
        if consumers is not None:
            self._new_bytes -= consumers.heartbeat.size_bytes()

    def _send_on(self, guest: GuestWay, consumers: Consumers) -> bool:
        """Send a heartbeat as it came; False while a request of the client is under way."""
        heartbeat = consumers.heartbeat
        if not guest.insert(structs.replace(heartbeat, flag=heartbeat.flag | FLAG_ONEWAY)):
            return False
        self._introduced[guest] = (consumers.client_id, consumers.groups)
        return True

    def _take_back(self, guest: GuestWay, named: dict[str, Counter[str]]) -> None:
        client_id, groups = self._introduced[guest]
        left = []
        for group in groups:
            names = named.get(group, Counter())
            if names[client_id] < 2 or not guest.insert(self._unregistration(client_id, group)):
                left.append(group)
            else:
                names[client_id] -= 1
        if left:
            self._introduced[guest] = (client_id, tuple(left))
        else:
            del self._introduced[guest]

    def _unregistration(self, client_id: str, group: str) -> RemotingCommand:
        header = UnregisterClientRequestHeader(client_id, consumer_group=group)
        request = RemotingCommand.request(RequestCode.UNREGISTER_CLIENT, header.to_ext(), oneway=True)
        return request if self._sign is None else self._sign(request)


def _client_ids(body: bytes) -> list[str]:
    """Return the clients of an answer to request 38.

    Raises:
        RemotingProtocolError: it cannot be read.
    """
    names = lenient_json.decode(body) if body else {}
    found = names.get("consumerIdList") if isinstance(names, dict) else None
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []
