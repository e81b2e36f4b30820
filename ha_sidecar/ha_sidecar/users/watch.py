"""Gives a slave the users and rights of its master, before the slave counts as ready.

`comparison` decides which requests that takes. This module asks both brokers, and sends the requests to
the slave. A slave is not ready before it was equal to a master once since its broker answers: promoted, it
would refuse clients that its predecessor served. A later difference is mended at the next comparison, and
the slave stays ready. A master is not compared.

A refusal does not make the slave unready. A master that refuses has no access control yet, or other
credentials; and a request that the slave itself refuses would be refused again.

Events: UsersCopied, which names the changes.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from controller_core.access.request_signer import RequestSigner
from controller_core.access.user_table import UserRequest, UserTable
from controller_core.access.users import (
    AclInfo,
    ListAclsRequestHeader,
    ListUsersRequestHeader,
    UserInfo,
    decode_list,
)
from controller_core.channel.asking import Asker, AskError
from controller_core.channel.refusals import RefusalLog
from controller_core.remoting.codes import RequestCode
from controller_core.remoting.errors import RemotingProtocolError
from controller_core.remoting.host_port import join_host_port
from ha_sidecar.address import HostPort
from ha_sidecar.common.events import EventLog
from ha_sidecar.decisions.broker_facts import BrokerFacts, GroupFacts, other_master
from ha_sidecar.users.comparison import UserComparison

COMPARE_S: Final = 2.0
"""Between two comparisons."""
COMPARE_SOON_S: Final = 0.3
"""Before the first one that finds both equal, because the slave is not ready until then."""
NAMED_MAX: Final = 20
"""Changes that an event names."""

_ASKED: Final = "a broker, asked for its users,"

_log = logging.getLogger(__name__)


async def fetch(asker: Asker, signer_name: str) -> UserTable:
    """Ask a broker for all users but the one that signs our requests, and for all rights.

    Raises:
        AskError: it does not answer, or refuses.
        RemotingProtocolError: its answer cannot be read.
    """
    users = await asker.ask(RequestCode.AUTH_LIST_USER, ListUsersRequestHeader())
    rights = await asker.ask(RequestCode.AUTH_LIST_ACL, ListAclsRequestHeader())
    table = UserTable.of(decode_list(users.body, UserInfo), decode_list(rights.body, AclInfo))
    return table.without(signer_name)


class UserWatch:
    """Watches one broker's users; event loop's thread only.

    Attributes:
        in_sync: whether the slave has what its master has; None while that is unknown, or it is master.
    """

    def __init__(
        self,
        address: HostPort,
        signer: RequestSigner,
        events: EventLog,
        broker: Callable[[], BrokerFacts | None],
        group: Callable[[], GroupFacts | None],
    ) -> None:
        """Describe the watch.

        Args:
            address: of the broker, as it is reached from here.
            signer: signs the requests to both brokers.
            events: receives the events.
            broker: returns the last answer of the broker.
            group: returns the last answer of the controllers.
        """
        self.in_sync: bool | None = None
        self._signer: Final = signer
        self._events: Final = events
        self._broker: Final = broker
        self._group: Final = group
        self._comparison: Final = UserComparison()
        self._refusals: Final = RefusalLog(_log)
        self._own: Final = Asker(address, signer)
        self._master: Asker | None = None
        self._is_equal = False
        self._problem = ""

    def hindrance(self) -> str:
        """Return why the broker must not become master yet, empty if it may."""
        broker, group = self._broker(), self._group()
        if broker is None or group is None or other_master(broker, group) is None:
            return ""
        return "" if self._is_equal else f"the slave lacks users of its master{self._problem}"

    async def run(self) -> None:
        """Compare and copy until cancelled."""
        try:
            while True:
                try:
                    await self._look()
                except (AskError, RemotingProtocolError) as error:
                    self._note(error)
                await asyncio.sleep(COMPARE_SOON_S if self.hindrance() else COMPARE_S)
        finally:
            self._own.close()
            self._follow(None)

    async def _look(self) -> None:
        broker, group = self._broker(), self._group()
        if broker is None:
            # Its next process may have another disk.
            self.in_sync, self._is_equal = None, False
            return
        address = None if group is None else other_master(broker, group)
        if group is None or address is None:
            self.in_sync = None
            self._comparison.forget()
            self._follow(None)
            return
        if self._master is None or self._master.address != address:
            self._follow(Asker(address, self._signer))
        await self._copy((join_host_port(*address), group.master_epoch))

    async def _copy(self, master_key: tuple[str, int]) -> None:
        if self._master is None:
            return
        name = self._signer.username
        own, master = await fetch(self._own, name), await fetch(self._master, name)
        self._refusals.answered(_ASKED)
        requests = self._comparison.changes(master_key, own, master)
        self.in_sync = not requests
        done: list[str] = []
        try:
            for request in requests:
                await self._send(request, done)
        finally:
            if done:
                _log.info("the slave got what its master has: %s", "; ".join(done[:NAMED_MAX]))
                changes = {"count": str(len(done)), "changes": ";".join(done[:NAMED_MAX])}
                self._events.add("UsersCopied", master_key[1], changes)
        if not done:
            self._is_equal, self._problem = True, ""

    async def _send(self, request: UserRequest, done: list[str]) -> None:
        """Send one request to the slave; a refusal of one keeps no other from it."""
        try:
            await self._own.ask(request.code, request.header, request.body)
        except AskError as error:
            if not error.is_refusal:
                raise
            self._refusals.refused(f"the slave, asked to {request.what},", str(error))
        else:
            done.append(request.what)

    def _note(self, error: AskError | RemotingProtocolError) -> None:
        self.in_sync, self._problem = None, f": {error}"
        if isinstance(error, AskError) and error.is_refusal:
            self._is_equal = True
            self._refusals.refused(_ASKED, str(error))
        else:
            _log.debug("users: %s", error)

    def _follow(self, master: Asker | None) -> None:
        if self._master is not None:
            self._master.close()
        self._master = master
