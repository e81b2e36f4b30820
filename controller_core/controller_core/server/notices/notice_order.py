"""The order of role notices while the old master still lives.

    its writes are stopped (`write_guard`)    the new master, then all others
    else                                      the old master, then, when it has stepped down, all others

Why the old master first: a master drops a slave from its own SyncStateSet as soon as the slave's connection
ends, before any controller agreed. If the new master and the other slaves leave first, writes that wait for
their acknowledgements wait for no slave any more. The old master then acknowledges them alone, and they are
gone when it follows the new master. (Seen with 5.5.0: 5 of 12 switchovers under load lost 1 to 4 acknowledged
messages with notices to all at once, 1 of 26 with the old master first.) No such write waits when the writes
were stopped and drained before the election.

Why then the new master first: the old master closes its slaves' connections when it steps down. A slave that
is not told yet may dial it again at once, if a `wakeup` of an earlier role change is left. Its thread then
waits 5 s for the answer to its handshake, and the change to master joins that thread. A slave that is told
first has ended the thread's loop, and the closed connection wakes it.

So a change is open from the moment its election is proposed until every notice is on its way and the old
master has stepped down. While it is open, requests 1004 of its group wait: an answer would reveal the new
master too early. A living old master that does not step down within `DEMOTED_WITHIN_S` delays its group no
longer: a frozen one never steps down. One that refuses to tell its role has that time too, because its role
is unknown.

Never here: the receivers and content of notices; the applied election decides them.

Source: AutoSwitchHAClient.handshakeWithMaster and closeMasterAndWait, ServiceThread.waitForRunning,
AutoSwitchHAService.changeToMaster and changeToSlave of 5.5.0.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from controller_core.channel.errors import ChannelError
from controller_core.channel.refusals import RefusalLog, refusal
from controller_core.groups.keys import GroupKey
from controller_core.groups.replies import RoleNotice
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.errors import RemotingProtocolError
from controller_core.remoting.headers import ExchangeHAInfoRequestHeader, ExchangeHAInfoResponseHeader
from controller_core.server.logs import bind
from controller_core.server.notices.notifier import Notifier

DEMOTED_WITHIN_S = 1.0
HEAD_START_S = 0.02
"""For the new master to stop its HA client: it says nothing about that until its role is taken."""
ASK_TIMEOUT_S = 0.25
ASK_PAUSE_S = 0.01

_log = logging.getLogger(__name__)


class RoleChanges:
    """Sends notices in their order, and knows which groups are in the middle of a change of master."""

    def __init__(self, notifier: Notifier) -> None:
        self._notifier = notifier
        self._refusals = RefusalLog(_log)
        self._open: dict[GroupKey, list[asyncio.Event]] = {}

    @contextmanager
    def open(self, key: GroupKey) -> Iterator[None]:
        """Keep the group's change open while the block runs."""
        done = asyncio.Event()
        self._open.setdefault(key, []).append(done)
        try:
            yield
        finally:
            done.set()
            self._open[key].remove(done)
            if not self._open[key]:
                del self._open[key]

    @property
    def any_open(self) -> bool:
        """Whether a change of any group is open."""
        return bool(self._open)

    def is_open(self, key: GroupKey) -> bool:
        """Whether a change of this group's master is being decided or its notices wait."""
        return key in self._open

    async def settled(self, key: GroupKey) -> None:
        """Wait until no change of this group is open."""
        while changes := self._open.get(key):
            await changes[0].wait()

    async def tell(
        self, notices: Sequence[RoleNotice], old_master_id: int | None, *, writes_stopped: bool
    ) -> None:
        """Send all notices; return when every notice is on its way and the old master has stepped down.

        Args:
            notices: one for each living member.
            old_master_id: the master that the election replaced; None if it replaced no master.
            writes_stopped: whether a write guard has stopped and drained the old master's writes.
        """
        old = next((notice for notice in notices if notice.broker_id == old_master_id), None)
        if old is None or old.broker_id == old.master_id:
            self._notifier.notify(notices)
        elif writes_stopped:
            await self._new_master_first(notices, old)
        else:
            await self._old_master_first(notices, old)

    async def _new_master_first(self, notices: Sequence[RoleNotice], old: RoleNotice) -> None:
        new = [notice for notice in notices if notice.broker_id == notice.master_id]
        self._notifier.notify(new)
        try:
            await asyncio.sleep(HEAD_START_S)
        finally:
            self._notifier.notify([notice for notice in notices if notice not in new])
        await self._stepped_down(old)

    async def _old_master_first(self, notices: Sequence[RoleNotice], old: RoleNotice) -> None:
        self._notifier.notify([old])
        try:
            await self._stepped_down(old)
        finally:
            self._notifier.notify([notice for notice in notices if notice is not old])

    async def _stepped_down(self, old: RoleNotice) -> None:
        """Wait until the old master is not master any more, for `DEMOTED_WITHIN_S` at most."""
        try:
            async with asyncio.timeout(DEMOTED_WITHIN_S):
                await self._demoted(old.address)
        except TimeoutError:
            _log.warning(
                "the old master does not step down; its group goes on without it",
                extra=bind(broker_group=old.key.broker_name, epoch=old.master_epoch, address=old.address),
            )

    async def _demoted(self, address: str) -> None:
        """Ask the broker until it says that it is not master: its answer to 906 then names no master address.

        Source: RocketMQ 5.5.0 AdminBrokerProcessor.exchangeHAInfo, ReplicasManager.changeToSlave.
        """
        request = RemotingCommand.request(
            RequestCode.EXCHANGE_BROKER_HA_INFO, ExchangeHAInfoRequestHeader().to_ext()
        )
        while True:
            try:
                answer = await self._notifier.ask(address, request, ASK_TIMEOUT_S)
                if answer.code != ResponseCode.SUCCESS:
                    self._refusals.refused(address, refusal("906", answer))
                elif not ExchangeHAInfoResponseHeader.from_ext(answer.ext).master_address:
                    self._refusals.answered(address)
                    return
            except (ChannelError, RemotingProtocolError, ValueError):
                pass  # it may be starting, stopping or stuck: ask again until the time is over
            await asyncio.sleep(ASK_PAUSE_S)
