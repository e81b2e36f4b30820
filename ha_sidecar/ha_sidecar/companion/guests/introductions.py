"""Tell the broker of consumers that come as guests, for as long as it does not know them otherwise.

`heartbeat_filter` takes the consumers out of guests' heartbeats, because the broker knows them by their own
connection to it. A broker that has just started does not: its clients dial it again with their next
heartbeats, up to 30 s later. Until then it refuses their pulls ("the consumer's group info not exist"), and
they receive nothing. So the companion asks the broker for the consumers of the group, and

| it names the client | and the guest's heartbeat | then |
|---|---|---|
| not at all | has just come | the heartbeat is sent on as it was, as a oneway request |
| once | | nothing |
| once | is not the first that is sent on | it is sent on too: it renews the subscriptions |
| twice or more | was sent on | the guest's consumers are unregistered: the client has its own connection |

While the broker names a client twice, the client leaves half of its queues alone. So the companion asks each
`LOOK_S` while a heartbeat that it sent on counts, or less often: asking takes at most `ASKING_SHARE` of the
time.

Never: keeps what a guest sent for longer than the first question, or waits for a broker that does not answer.

Source: ConsumerManageProcessor.getConsumerListByGroup, ClientManageProcessor.unregisterClient,
PullMessageProcessor 5.5.0.
"""

import asyncio
from collections.abc import Callable, Iterable
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
from ha_sidecar.companion.guests.heartbeat_filter import Consumers

LOOK_S: Final = 0.1
ASKING_SHARE: Final = 0.05


class GuestWay(Protocol):
    """A guest's connection to the broker."""

    def insert(self, request: RemotingCommand) -> bool:
        """Send a oneway request between two of the client's; False if none ends here now."""
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
        self._looking: asyncio.Task[None] | None = None

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
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._look())

    def left(self, guest: GuestWay) -> None:
        """Learn that a guest has gone; the broker forgets its consumers by itself."""
        self._drop(guest)
        self._introduced.pop(guest, None)

    def close(self) -> None:
        """Ask no more."""
        if self._looking is not None:
            self._looking.cancel()

    async def _look(self) -> None:
        asker, loop = self._asker(), asyncio.get_running_loop()
        try:
            while self._new or self._introduced:
                began_s = loop.time()
                new = dict(self._new)
                named = await self._named(asker, new.values())
                for guest, consumers in new.items():
                    if self._new.get(guest) is consumers:
                        self._introduce(guest, consumers, named)
                for guest in list(self._introduced):
                    self._take_back(guest, named)
                await asyncio.sleep(max(LOOK_S, (loop.time() - began_s) / ASKING_SHARE))
        finally:
            asker.close()

    async def _named(self, asker: Asker, new: Iterable[Consumers]) -> dict[str, list[str]]:
        """Return the clients that the broker names as consumers, by group; groups without an answer lack."""
        groups = {group for one in new for group in one.groups}
        groups |= {group for _, introduced in self._introduced.values() for group in introduced}
        found = {}
        for group in sorted(groups):
            try:
                answer = await asker.ask(
                    RequestCode.GET_CONSUMER_LIST_BY_GROUP, GetConsumerListByGroupRequestHeader(group)
                )
                found[group] = _client_ids(answer.body)
            except AskError as error:
                if error.code == ResponseCode.SYSTEM_ERROR:  # "no consumer for this group"
                    found[group] = []
            except RemotingProtocolError:
                continue
        return found

    def _introduce(self, guest: GuestWay, consumers: Consumers, named: dict[str, list[str]]) -> None:
        lists = [named[group] for group in consumers.groups if group in named]
        is_known = all(consumers.client_id in names for names in lists)
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

    def _take_back(self, guest: GuestWay, named: dict[str, list[str]]) -> None:
        client_id, groups = self._introduced[guest]
        left = []
        for group in groups:
            names = named.get(group, [])
            if names.count(client_id) < 2 or not guest.insert(self._unregistration(client_id, group)):
                left.append(group)
            else:
                names.remove(client_id)
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
